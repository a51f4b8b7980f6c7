"""PEFT's LoRA folders ⇄ ours. What an option of PEFT's would change and we do not compute is refused by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from jaxeval.checkpoint import (
    ADAPTER_FILE,
    PARAMS,
    AdapterConfig,
    abstract_model,
    check_base,
    check_tree,
    read_adapter_config,
    read_array,
    read_checkpoint_info,
    trained_variables,
    tree_shapes,
    write_adapter,
)
from jaxeval.checksums import check_checksums
from jaxeval.errors import InputError
from jaxeval.files import read_json, whole_folder, write_json
from jaxeval.models.config import read_config
from jaxeval.models.lora import DECODER_LINEARS, LoraConfig
from tools.convert_weights.keys import NO_EFFECT, Place, from_peft, is_stacked, peft_targets, places, to_peft
from tools.convert_weights.safetensors_files import DTYPES, Planned, Tensor, read_header, write_file

PEFT_CONFIG, PEFT_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

TRANSLATED = {"peft_type", "r", "lora_alpha", "lora_dropout", "use_rslora", "target_modules"}
HARMLESS = {
    "auto_mapping",
    "base_model_name_or_path",
    "exclude_modules",
    "inference_mode",
    "layers_pattern",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "task_type",
}
"""Options of `adapter_config.json` that describe the file or its training, not what the adapter computes."""
NEUTRAL = {"bias": ("none",), "init_lora_weights": (True, False, "gaussian", "orthogonal", "eva")}
"""Values of the others that change nothing, apart from null, false and empty ones. PiSSA, OLoRA, CorDA and LoftQ
are not among them: they change the base weights."""


def convert_adapter(source: Path, target: Path, *, base: Path | None = None) -> str:
    """Convert an adapter in the direction that `source` asks for.

    Args:
        source: a PEFT folder or one of ours.
        target: folder to make; it must not exist, or be empty.
        base: the converted checkpoint it belongs to: shapes or hashes are checked, and the hash is noted.

    Returns:
        What was done, in one line.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target}: is there already; remove it or choose another folder")
    if (source / PEFT_CONFIG).exists():
        return _from_peft(source, target, base)
    if (source / ADAPTER_FILE).exists():
        return _to_peft(source, target, base)
    raise InputError(f"{source}: no adapter: neither {PEFT_CONFIG} (PEFT) nor {ADAPTER_FILE} (ours) is there")


def _from_peft(source: Path, target: Path, base: Path | None) -> str:
    config = read_json(source / PEFT_CONFIG)
    _refuse_options(config, source / PEFT_CONFIG)
    if not (source / PEFT_WEIGHTS).exists():
        raise InputError(f"{source}: {PEFT_WEIGHTS} is missing")
    values = _stack(
        _place(read_header(source / PEFT_WEIGHTS), source / PEFT_WEIGHTS), config["r"], source / PEFT_WEIGHTS
    )
    modules = sorted({name.rpartition(".lora.")[0] for name in values})
    lora = LoraConfig(
        rank=config["r"],
        alpha=float(config["lora_alpha"]),
        dropout=float(config.get("lora_dropout", 0.0)),
        targets=_our_targets(modules),
        rslora=bool(config.get("use_rslora")),
    )
    adapter = AdapterConfig(lora=lora, base=None if base is None else read_checkpoint_info(base).hash)
    if base is not None:
        model = abstract_model(read_config(base), lora)
        expected = {name: variable.shape for name, variable in trained_variables(model, adapter.trained).items()}
        wrong = [
            f"{name}: shape {list(values[name].shape) if name in values else None}, the base needs {list(shape)}"
            for name, shape in expected.items()
            if name not in values or values[name].shape != tuple(shape)
        ]
        if wrong:
            raise InputError(f"{source}: does not fit {base}:", wrong)
    write_adapter(target, values, adapter)
    return f"{target}: rank {lora.rank} on {len(modules)} maps ({', '.join(modules)})"


def _to_peft(source: Path, target: Path, base: Path | None) -> str:
    config = read_adapter_config(source)
    lora = config.lora
    check_checksums(source, PARAMS)
    shapes = tree_shapes(source / PARAMS)
    if lora is None or any(".lora.lora_" not in name for name in shapes):
        raise InputError(
            f"{source / ADAPTER_FILE}: base weights were trained, which PEFT's LoRA cannot hold; "
            "merge it instead: python -m tools.convert_weights export CKPT HF_DIR --adapter DIR"
        )
    ranks = {leaf.shape[-2 if name.endswith("lora_a") else -1] for name, leaf in shapes.items()}
    if ranks != {lora.rank}:
        raise InputError(f"{source / ADAPTER_FILE}: lora: rank is {lora.rank}, the tensors have {sorted(ranks)}")
    if base is not None:
        check_base(source, config, read_checkpoint_info(base).hash)
        check_tree(source / PARAMS, trained_variables(abstract_model(read_config(base), lora), config.trained))
    float32 = np.dtype(np.float32)
    planned = [
        Planned(to_peft(place), float32, shape)
        for name, leaf in shapes.items()
        for place, shape in places(name, leaf.shape)
    ]
    arrays = (
        layer
        for name in shapes
        for value in [read_array(source / PARAMS, name).astype(float32)]
        for layer in (value if is_stacked(name) else [value])
    )
    modules = sorted({name.rpartition(".lora.")[0] for name in shapes})
    with whole_folder(target) as folder:
        write_file(folder / PEFT_WEIGHTS, planned, arrays)
        write_json(
            folder / PEFT_CONFIG,
            {
                "peft_type": "LORA",
                "base_model_name_or_path": None,
                "inference_mode": True,
                "r": lora.rank,
                "lora_alpha": lora.alpha,
                "lora_dropout": lora.dropout,
                "use_rslora": lora.rslora,
                "target_modules": peft_targets(modules),
                "bias": "none",
            },
        )
    return f"{target}: PEFT adapter of rank {lora.rank} on {len(modules)} maps"


def _refuse_options(config: dict[str, Any], file: Path) -> None:
    if config.get("peft_type") != "LORA":
        raise InputError(f"{file}: peft_type is {config.get('peft_type')!r}; only 'LORA' is supported")
    for key, kind in {"r": int, "lora_alpha": int | float}.items():
        value = config.get(key)
        if isinstance(value, bool) or not isinstance(value, kind) or value <= 0:
            raise InputError(f"{file}: {key} is {value!r}, expected a positive {'integer' if key == 'r' else 'number'}")
    unsupported = [
        f"{key} = {value!r}"
        for key, value in config.items()
        if key not in TRANSLATED | HARMLESS and value and value not in NEUTRAL.get(key, ())
    ]
    if unsupported:
        raise InputError(f"{file}: not supported: {', '.join(unsupported)}")


def _place(tensors: list[Tensor], file: Path) -> dict[Place, Tensor]:
    """Tensors by place, or every problem with them in one error."""
    found: dict[Place, Tensor] = {}
    problems = []
    for tensor in tensors:
        place = from_peft(tensor.name)
        if tensor.name.startswith(NO_EFFECT):
            problems.append(
                f"no effect: {tensor.name}: PEFT itself ignores adapters under {NO_EFFECT}*, so what this one does is "
                "not what was evaluated with it; name the tensors base_model.model.language_model.model.layers.*"
            )
        elif place is None:
            problems.append(f"unexpected: {tensor.name} is no LoRA tensor of a known linear map")
        elif place in found:
            problems.append(f"twice: {found[place].name} and {tensor.name} are the same tensor")
        elif tensor.dtype not in DTYPES:
            problems.append(f"dtype: {tensor.name} is {tensor.dtype}, expected one of {', '.join(DTYPES)}")
        else:
            found[place] = tensor
    if problems:
        raise InputError(f"{file}: cannot be imported, {len(problems)} problems:", sorted(problems))
    if not found:
        raise InputError(f"{file}: holds no tensors")
    return found


def _stack(found: dict[Place, Tensor], rank: int, file: Path) -> dict[str, np.ndarray]:
    """float32 arrays by dotted path, the layers stacked; every layer must have every pair."""
    towers: dict[str, int] = {}
    for path, layer in found:
        tower = path.partition(".layers.")[0]
        towers[tower] = max(towers.get(tower, 0), (layer or 0) + 1)
    values, problems = {}, []
    for path in sorted({partner for place in found for partner in _pair(place.path)}):
        tower = path.partition(".layers.")[0]
        layers = range(towers[tower]) if is_stacked(path) else [None]
        parts = [found.get(Place(path, layer)) for layer in layers]
        problems += [
            f"missing: {to_peft(Place(path, n))}" for n, part in zip(layers, parts, strict=True) if part is None
        ]
        present = [part for part in parts if part is not None]
        axis = 0 if path.endswith("lora_a") else -1
        problems += [
            f"shape: {part.name} is {list(part.shape)}, expected rank {rank} and the shape of its other layers"
            for part in present
            if len(part.shape) != 2 or part.shape != present[0].shape or part.shape[axis] != rank
        ]
        if not problems:
            arrays = [_read(part) for part in present]
            values[path] = np.stack(arrays) if is_stacked(path) else arrays[0]
    if problems:
        raise InputError(f"{file}: cannot be imported, {len(problems)} problems:", sorted(problems))
    return values


def _pair(path: str) -> tuple[str, str]:
    return path[:-1] + "a", path[:-1] + "b"


def _read(tensor: Tensor) -> np.ndarray:
    array = np.empty(tensor.shape, DTYPES[tensor.dtype])
    tensor.read(array)
    return array.astype(np.float32)


def _our_targets(modules: list[str]) -> str:
    """The usual expression if it means exactly these modules of the decoder, else one that lists them."""
    usual = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    if {module.rpartition(".")[2] for module in modules} == usual and all(
        re.fullmatch(DECODER_LINEARS, module) for module in modules
    ):
        return DECODER_LINEARS
    return "|".join(map(re.escape, modules))

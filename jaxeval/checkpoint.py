"""Checkpoint and adapter folders: from disk onto the mesh, and back.

A checkpoint folder holds `config.json` (Hugging Face's, verbatim), the tokenizer's files, the weights as an Orbax tree
in `params/`, and `checkpoint.json` with their hash. `tools.convert_weights` makes it and `load_model` reads it. An
adapter is what training changed on top of such a base, low-rank or full weights alike: `adapter.json` and an Orbax
tree of the trained variables. The keys of a tree are the module paths of `jaxeval.models`; plain Orbax reads it.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from flax import nnx
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.typing import DTypeLike

from jaxeval.checksums import check_checksums, write_checksums
from jaxeval.errors import InputError
from jaxeval.files import read_json, whole_folder, write_json
from jaxeval.models.config import Qwen2AudioConfig, read_config
from jaxeval.models.lora import LoraConfig, add_lora
from jaxeval.models.qwen2_audio import Qwen2Audio
from jaxeval.processor import Processor
from jaxeval.sharding import make_mesh, mesh_of, state_shardings
from jaxeval.typed import from_object

PARAMS = "params"
CHECKPOINT_FILE = "checkpoint.json"
ADAPTER_FILE = "adapter.json"
LORA_VARIABLES = r".*\.lora\.lora_[ab]"
"""The variables that LoRA training changes."""


@dataclasses.dataclass(frozen=True)
class CheckpointInfo:
    """Content of `checkpoint.json`.

    Attributes:
        hash: identifies the weights, whatever the layout they came in.
        dtype: the one dtype of all of them.
    """

    hash: str
    dtype: Literal["float32", "bfloat16", "float16"]


@dataclasses.dataclass(frozen=True)
class AdapterConfig:
    """Content of `adapter.json`.

    Attributes:
        lora: how the low-rank adapters are built; None if base weights themselves were trained.
        trained: regular expression that the dotted path of every trained variable matches from beginning to end.
        base: hash of the checkpoint it was trained on; None where that is not known (imported from PEFT).
    """

    lora: LoraConfig | None
    trained: str = LORA_VARIABLES
    base: str | None = None


def load_model(
    path: str | os.PathLike[str],
    *,
    adapter: str | os.PathLike[str] | None = None,
    mesh: Mesh | None = None,
    dtype: DTypeLike | None = None,
    attention: Literal["xla", "cudnn"] = "xla",
    remat: bool = False,
) -> tuple[Qwen2Audio, Processor]:
    """Read a converted checkpoint, each weight straight into its place on the mesh.

    Args:
        path: folder made by `python -m tools.convert_weights import`.
        adapter: folder of an adapter trained on this checkpoint.
        mesh: where the weights go; default the first device alone.
        dtype: dtype of weights and activations; default that of the stored weights. Adapters stay float32.
        attention: see `Qwen2AudioConfig`; so for `remat`.

    Raises:
        InputError: a folder is no checkpoint, is damaged, lacks a file or a weight, has one too many or of another
            shape, the adapter belongs to another checkpoint, or the devices cannot do what `attention` asks for.
    """
    folder = Path(path)
    info = read_checkpoint_info(folder)
    kept = info.dtype if dtype is None else dtype
    mesh = make_mesh({}, jax.devices()[:1]) if mesh is None else mesh
    if attention == "cudnn" and (mesh.devices.flat[0].platform != "gpu" or jnp.dtype(kept).itemsize != 2):
        where = f"{mesh.devices.flat[0].platform} and {jnp.dtype(kept).name}"
        raise InputError(f"attention: cudnn needs a GPU and bfloat16 or float16, this is {where}; use xla")
    check_checksums(folder, PARAMS)
    processor = Processor.from_folder(folder)
    config = read_config(
        folder,
        param_dtype=kept,
        dtype=kept,
        attention=attention,
        remat=remat,
        eos_token_ids=processor.eos_ids,
        pad_token_id=processor.pad_id,
    )
    model = abstract_model(config)
    check_tree(folder / PARAMS, variables(model), info.dtype)
    values = restore_tree(folder / PARAMS, placed_shapes(model, mesh))
    for name, variable in variables(model).items():
        variable.set_value(values[name])
    if adapter is not None:
        load_adapter(adapter, model, base=info.hash)
    return model, processor


def read_checkpoint_info(path: str | os.PathLike[str]) -> CheckpointInfo:
    """Read `checkpoint.json`; `InputError` says what else the folder seems to be, if it is not a checkpoint."""
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    if not (folder / CHECKPOINT_FILE).exists():
        if next(folder.glob("*.safetensors"), None):
            hint = "a Hugging Face folder? convert it first: python -m tools.convert_weights import HF_DIR OUT_DIR"
        else:
            hint = "not a converted checkpoint, or half of one"
        raise InputError(f"{folder}: {CHECKPOINT_FILE} is missing ({hint})")
    file = folder / CHECKPOINT_FILE
    return from_object(CheckpointInfo, read_json(file), str(file))


def abstract_model(config: Qwen2AudioConfig, lora: LoraConfig | None = None) -> Qwen2Audio:
    """The model with shapes in place of its weights, with low-rank adapters if asked for."""

    def make() -> Qwen2Audio:
        model = Qwen2Audio(config, rngs=nnx.Rngs(0))
        if lora is not None:
            add_lora(model, lora, rngs=nnx.Rngs(0))
        return model

    return nnx.eval_shape(make)


def variables(model: nnx.Module) -> dict[str, nnx.Variable[Any]]:
    """The variables of a model by dotted path, such as `language_model.layers.mlp.up_proj.weight`."""
    leaves = nnx.iter_graph(model)
    return {_name(path): leaf for path, leaf in leaves if isinstance(leaf, nnx.Variable)}


def variable_shardings(model: nnx.Module, mesh: Mesh) -> dict[str, NamedSharding]:
    """The place of each variable on a mesh, by dotted path."""
    shardings = nnx.to_flat_state(state_shardings(nnx.state(model), mesh))
    return {_name(path): leaf.get_value() for path, leaf in shardings}


def placed_shapes(model: nnx.Module, mesh: Mesh) -> dict[str, jax.ShapeDtypeStruct]:
    """Shape, dtype and place on a mesh of each variable, by dotted path."""
    shardings = variable_shardings(model, mesh)
    return {
        name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=shardings[name])
        for name, leaf in variables(model).items()
    }


def trained_variables(model: nnx.Module, trained: str) -> dict[str, nnx.Variable[Any]]:
    """The variables whose whole path matches the expression `trained`.

    Raises:
        InputError: the expression is malformed or matches nothing.
    """
    try:
        pattern = re.compile(trained)
    except re.error as error:
        raise InputError(f"trained: {trained!r} is no regular expression ({error})") from None
    found = {name: variable for name, variable in variables(model).items() if pattern.fullmatch(name)}
    if not found:
        raise InputError(f"trained: {trained!r} matches no variable of the model")
    return found


def save_adapter(path: str | os.PathLike[str], model: nnx.Module, config: AdapterConfig) -> None:
    """Write the trained variables of a model; a folder that is there already is replaced. All processes take part."""
    values = {name: variable.get_value() for name, variable in trained_variables(model, config.trained).items()}
    write_adapter(path, values, config)


def write_adapter(path: str | os.PathLike[str], values: Mapping[str, Any], config: AdapterConfig) -> None:
    """Write an adapter folder of arrays by dotted path; see `save_adapter`."""
    leader = jax.process_index() == 0
    with whole_folder(path, leader=leader, barrier=lambda: multihost_utils.sync_global_devices("adapter")) as folder:
        save_tree(folder / PARAMS, values)
        if leader:
            write_checksums(folder, PARAMS)
            write_json(folder / ADAPTER_FILE, dataclasses.asdict(config))


def load_adapter(path: str | os.PathLike[str], model: Qwen2Audio, *, base: str | None = None) -> AdapterConfig:
    """Put a saved adapter onto a model, in place.

    Args:
        path: the adapter's folder.
        model: the base it was trained on, without adapters.
        base: hash of that base, to be checked; None leaves the check out.

    Raises:
        InputError: the folder is no adapter, or does not fit this model.
    """
    folder = Path(path)
    config = read_adapter_config(folder)
    check_base(folder, config, base)
    check_checksums(folder, PARAMS)
    if config.lora is not None:
        add_lora(model, config.lora, rngs=nnx.Rngs(0))
    trained = trained_variables(model, config.trained)
    placed = placed_shapes(model, mesh_of(model))
    for name, value in restore_tree(folder / PARAMS, {name: placed[name] for name in trained}).items():
        trained[name].set_value(value)
    return config


def read_adapter_config(path: str | os.PathLike[str]) -> AdapterConfig:
    """Read `adapter.json` of an adapter folder."""
    file = Path(path) / ADAPTER_FILE
    config = from_object(AdapterConfig, read_json(file), str(file))
    if config.lora is not None and config.lora.rank < 1:
        raise InputError(f"{file}: lora: rank is {config.lora.rank}, expected at least 1")
    for name, pattern in (("trained", config.trained), ("lora: targets", config.lora.targets if config.lora else "")):
        try:
            re.compile(pattern)
        except re.error as error:
            raise InputError(f"{file}: {name}: {pattern!r} is no regular expression ({error})") from None
    return config


def check_base(folder: Path, config: AdapterConfig, base: str | None) -> None:
    """Raise `InputError` if an adapter is known to belong to another base than the one of hash `base`."""
    if None not in (base, config.base) and base != config.base:
        raise InputError(f"{folder / ADAPTER_FILE}: base is {config.base}, but this checkpoint's hash is {base}")


def save_tree(path: Path, values: Mapping[str, Any]) -> None:
    """Write arrays by dotted path as one Orbax tree; all processes take part."""
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(path.absolute(), nest(values))


def tree_shapes(path: Path) -> dict[str, jax.ShapeDtypeStruct]:
    """What an Orbax tree holds: shape and dtype by dotted path.

    Raises:
        InputError: there is no complete Orbax tree.
    """
    if not path.is_dir():
        raise InputError(f"{path}: no such folder; the checkpoint is incomplete")
    try:
        with ocp.PyTreeCheckpointer() as checkpointer:
            tree = checkpointer.metadata(path.absolute()).item_metadata.tree
        leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
        return {_key_name(keys): jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for keys, leaf in leaves}
    except Exception as error:  # Orbax and TensorStore raise many kinds on damaged files
        raise InputError(f"{path}: not a readable Orbax tree ({_first_line(error)})") from error


def check_tree(path: Path, shapes: Mapping[str, Any], dtype: DTypeLike | None = None) -> None:
    """Raise `InputError` unless an Orbax tree holds exactly these arrays.

    Args:
        path: the folder of the tree.
        shapes: anything with a `shape`, by dotted path.
        dtype: what all of them are stored in; None does not look.
    """
    stored = tree_shapes(path)
    problems = [f"{name} is missing" for name in shapes.keys() - stored.keys()]
    problems += [f"{name} is unexpected" for name in stored.keys() - shapes.keys()]
    problems += [
        f"{name} has shape {stored[name].shape}, expected {shapes[name].shape}"
        for name in shapes.keys() & stored.keys()
        if stored[name].shape != tuple(shapes[name].shape)
    ]
    problems += [
        f"{name} is {leaf.dtype}, expected {jnp.dtype(dtype).name}"
        for name, leaf in stored.items()
        if dtype is not None and leaf.dtype != dtype
    ]
    if problems:
        more = f" and {len(problems) - 3} more problems" if len(problems) > 3 else ""
        raise InputError(f"{path}: {'; '.join(sorted(problems)[:3])}{more}")


def restore_tree(path: Path, shapes: Mapping[str, jax.ShapeDtypeStruct]) -> dict[str, jax.Array]:
    """Read an Orbax tree onto the devices, casting to the dtypes asked for.

    Args:
        path: the folder of the tree.
        shapes: every array by dotted path, with its sharding.

    Raises:
        InputError: the tree is damaged, or holds other arrays or shapes than these.
    """
    check_tree(path, shapes)
    try:
        with ocp.StandardCheckpointer() as checkpointer:
            restored = checkpointer.restore(path.absolute(), nest(shapes))
    except Exception as error:  # as above
        raise InputError(f"{path}: the Orbax tree is damaged ({_first_line(error)})") from error
    leaves = jax.tree_util.tree_flatten_with_path(restored)[0]
    return {_key_name(keys): leaf for keys, leaf in leaves}


def read_array(path: Path, name: str) -> np.ndarray:
    """One array of an Orbax tree by its dotted path; nothing else is read."""
    target = nest({name: ocp.RestoreArgs(restore_type=np.ndarray)})
    request = ocp.args.PyTreeRestore(item=nest({name: 0}), restore_args=target, partial_restore=True)
    with ocp.PyTreeCheckpointer() as checkpointer:
        return jax.tree.leaves(checkpointer.restore(path.absolute(), args=request))[0]


def nest(values: Mapping[str, Any]) -> dict[str, Any]:
    """`{"a.b": x}` -> `{"a": {"b": x}}`."""
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *parents, last = name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return tree


def _name(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


def _key_name(path: tuple[Any, ...]) -> str:
    return _name(tuple(entry.key for entry in path))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__

"""Flax checkpoint -> Hugging Face folder, with an adapter folded in if one is given.

One variable at a time is read, merged in float32 and written as the tensors of its layers, under the hub's names.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from jaxeval.checkpoint import (
    PARAMS,
    AdapterConfig,
    CheckpointInfo,
    abstract_model,
    check_base,
    check_tree,
    read_adapter_config,
    read_array,
    read_checkpoint_info,
    trained_variables,
    variables,
)
from jaxeval.checksums import check_checksums
from jaxeval.errors import InputError
from jaxeval.files import folder_to_make, read_json, whole_folder, write_json
from jaxeval.models.config import checkpoint_dtype, read_config
from jaxeval.processor import check_tokenizer_files, copy_files
from tools.convert_weights.keys import is_stacked, places, to_hf
from tools.convert_weights.safetensors_files import INDEX, SINGLE, Planned, write_file

SHARD_BYTES = 5_000_000_000


def export_checkpoint(
    source: Path, target: Path, *, adapter: Path | None = None, shard_bytes: int = SHARD_BYTES
) -> str:
    """Write a checkpoint as Hugging Face does.

    Args:
        source: a converted checkpoint.
        target: folder to make; it must not exist, or be empty.
        adapter: what was trained on the checkpoint, to be merged.
        shard_bytes: largest size of one safetensors file; more are written with an index.

    Returns:
        What was done, in one line.

    Raises:
        InputError: a folder is not what it should be, the adapter is another checkpoint's, or the target is taken.
    """
    folder_to_make(target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target}: is there already; remove it or choose another folder")
    info = read_checkpoint_info(source)
    check_tokenizer_files(source)
    weights = Weights(source, adapter, info)
    tensors = [
        Planned(to_hf(place), weights.dtype, shape)
        for name, stacked_shape in weights.shapes.items()
        for place, shape in places(name, stacked_shape)
    ]
    files = _split(tensors, shard_bytes)
    total = sum(tensor.size for tensor in tensors)
    with (
        whole_folder(target) as folder,
        tqdm(weights.layers(), total=len(tensors), unit="tensor", desc="export", disable=None) as progress,
    ):
        arrays = iter(progress)
        for file, shard in files.items():
            write_file(folder / file, shard, islice(arrays, len(shard)))
        if len(files) > 1:
            weight_map = {tensor.name: file for file, shard in files.items() for tensor in shard}
            write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": weight_map})
        copy_files(source, folder)
        _write_config(source, folder, info.dtype)
    return f"{target}: {tqdm.format_sizeof(total, 'B')} of {info.dtype} in {', '.join(files)}"


class Weights:
    """The weights of a checkpoint as training left them, read one variable at a time.

    Attributes:
        shapes: of every variable of the base, by dotted path.
        dtype: of all of them, whatever the dtype they were trained in.
    """

    def __init__(self, source: Path, adapter: Path | None, info: CheckpointInfo):
        config = read_config(source)
        stored = variables(abstract_model(config))
        self.shapes = {name: tuple(leaf.shape) for name, leaf in stored.items()}
        self.dtype = np.dtype(jnp.dtype(info.dtype))
        check_checksums(source, PARAMS)
        self._base = source / PARAMS
        check_tree(self._base, stored, info.dtype)
        self._adapter, self._trained = AdapterConfig(lora=None), frozenset[str]()
        if adapter is not None:
            self._adapter, self._changes = read_adapter_config(adapter), adapter / PARAMS
            check_base(adapter, self._adapter, info.hash)
            check_checksums(adapter, PARAMS)
            trained = trained_variables(abstract_model(config, self._adapter.lora), self._adapter.trained)
            check_tree(self._changes, trained)
            self._trained = frozenset(trained)

    def layers(self) -> Iterator[np.ndarray]:
        """All tensors in the order of `shapes`, those of a stacked variable one layer after the other."""
        for name in self.shapes:
            value = self.read(name)
            yield from value if is_stacked(name) else [value]

    def read(self, name: str) -> np.ndarray:
        """One variable as training left it, with its low-rank adapter added."""
        value = read_array(self._changes if name in self._trained else self._base, name)
        module, _, attribute = name.rpartition(".")
        a, b = f"{module}.lora.lora_a", f"{module}.lora.lora_b"
        if self._adapter.lora is None or attribute != "weight" or a not in self._trained:
            return value.astype(self.dtype, copy=False)
        down, up = read_array(self._changes, a), read_array(self._changes, b)
        scale = np.float32(self._adapter.lora.scale)
        if not is_stacked(name):
            return (value + scale * (up @ down)).astype(self.dtype)
        for layer in range(len(value)):  # not all at once: float32 copies of a whole stack would be twice its size
            value[layer] = value[layer] + scale * (up[layer] @ down[layer])
        return value.astype(self.dtype, copy=False)


def _split(tensors: list[Planned], shard_bytes: int) -> dict[str, list[Planned]]:
    """Deal tensors out to files of at most `shard_bytes` each, in order; a larger tensor has a file to itself."""
    shards: list[list[Planned]] = [[]]
    for tensor in tensors:
        if shards[-1] and sum(other.size for other in shards[-1]) + tensor.size > shard_bytes:
            shards.append([])
        shards[-1].append(tensor)
    if len(shards) == 1:
        return {SINGLE: shards[0]}
    return {f"model-{number:05}-of-{len(shards):05}.safetensors": shard for number, shard in enumerate(shards, 1)}


def _write_config(source: Path, folder: Path, dtype: str) -> None:
    """The config as it came, but for the dtype if the import has cast: transformers loads what the config says."""
    hf = read_json(source / "config.json")
    if checkpoint_dtype(hf) in (None, dtype):
        (folder / "config.json").write_bytes((source / "config.json").read_bytes())
    else:
        key = "dtype" if "dtype" in hf else "torch_dtype"
        write_json(folder / "config.json", hf | {key: dtype})

"""Hugging Face folder -> Flax checkpoint, a few rows of a tensor at a time.

Everything that can be wrong is found from the headers before a byte is written. Orbax then describes a tree of arrays
without content, and the arrays are filled from the files: none is ever whole in memory, and a conversion costs little
more than a copy. The result is an ordinary Orbax tree in a folder that appears under its name once all of it is on the
disk.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh
from tqdm import tqdm

from jaxeval.checkpoint import (
    CHECKPOINT_FILE,
    PARAMS,
    CheckpointInfo,
    abstract_model,
    nest,
    read_checkpoint_info,
    variable_shardings,
    variables,
)
from jaxeval.checksums import check_checksums, write_checksums
from jaxeval.errors import InputError, RunError
from jaxeval.files import folder_to_make, whole_folder, write_json
from jaxeval.models.config import read_config
from jaxeval.processor import FILES, check_tokenizer_files, copy_files
from tools.convert_weights.keys import Place, from_hf, is_stacked, places, to_hf
from tools.convert_weights.safetensors_files import DTYPES, Tensor, read_folder
from tools.convert_weights.zarr_chunks import Slab, chunk_shape, create_array

THREADS = 2
"""More do not make one disk faster."""


def import_checkpoint(source: Path, target: Path, *, mesh: Mesh | None = None, dtype: str | None = None) -> str:
    """Convert a Hugging Face folder.

    Args:
        source: folder with `config.json`, tokenizer and safetensors in any of the three layouts.
        target: folder to make. If it holds this very conversion already, nothing is done; anything else in it is
            refused.
        mesh: store the arrays in the shards they have on this mesh.
        dtype: what to cast to; default the dtype the tensors have, which must be one.

    Returns:
        What was done, in one line.

    Raises:
        InputError: the source is incomplete or does not fit its config (every problem is listed), or the target is
            taken.
        RunError: the disk is full.
    """
    folder_to_make(target)
    check_tokenizer_files(source)
    stacks = plan(source, dtype, mesh)
    kept = stacks[0].dtype
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        return _check_same(source, stacks, target, kept)
    with whole_folder(target) as folder:
        _describe(folder / PARAMS, stacks)
        content_hash = _convert(stacks, kept, folder / PARAMS)
        write_checksums(folder, PARAMS)
        copy_files(source, folder)
        (folder / "config.json").write_bytes((source / "config.json").read_bytes())
        write_json(folder / CHECKPOINT_FILE, asdict(CheckpointInfo(hash=content_hash, dtype=kept.name)))  # type: ignore[arg-type]
    size = sum(stack.nbytes for stack in stacks)
    return f"{target}: {tqdm.format_sizeof(size, 'B')} of {kept.name}, {content_hash}"


@dataclass(frozen=True)
class Stack:
    """One variable of the model, in the files as one tensor or as one a layer.

    Attributes:
        name: dotted path.
        tensors: in the order of the layers.
        shape: of the variable; dtype: what it is to have.
        stacked: whether its first axis counts the layers.
        chunks: shape of the pieces it is to be stored in.
    """

    name: str
    tensors: tuple[Tensor, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    stacked: bool
    chunks: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def parts(self) -> Iterator[Part]:
        """The variable cut into what is converted in one go."""
        step = self.chunks[0] if self.stacked else 1
        for first in range(0, len(self.tensors), step):
            yield Part(self, first, self.tensors[first : first + step])


@dataclass(frozen=True)
class Part:
    """Consecutive layers of a variable that share chunks, or all of a variable without layers."""

    stack: Stack
    first: int
    tensors: tuple[Tensor, ...]

    def convert(self, params: Path | None) -> list[tuple[str, str]]:
        """Read the layers and write them below `params`, or nowhere; returns the name and a digest of each tensor.

        The digest, a CRC of the bytes as they came, is to notice mix-ups, and takes a quarter of the time.
        """
        if params is None:
            return [self._digest(offset, tensor, None) for offset, tensor in enumerate(self.tensors)]
        with self._slab(params) as slab:
            return [self._digest(offset, tensor, slab) for offset, tensor in enumerate(self.tensors)]

    def _slab(self, params: Path) -> Slab:
        stack = self.stack
        inner, number = (stack.chunks[1:], self.first // stack.chunks[0]) if stack.stacked else (stack.chunks, None)
        size = math.prod(stack.chunks) * stack.dtype.itemsize
        return Slab(params / stack.name, number, self.tensors[0].shape, inner, size)

    def _digest(self, offset: int, tensor: Tensor, slab: Slab | None) -> tuple[str, str]:
        checksum = 0
        dtype, rows_of_a_chunk = DTYPES[tensor.dtype], self.stack.chunks[1 if self.stack.stacked else 0]
        written = slab is None or (dtype == self.stack.dtype and slab.copy(tensor))
        for start, rows in tensor.blocks(dtype, rows_of_a_chunk):
            checksum = zlib.crc32(rows.reshape(-1).view(np.uint8).data, checksum)
            if slab is not None and not written:
                slab.append(start, _cast(rows, self.stack.dtype, tensor))
        name = to_hf(Place(self.stack.name, self.first + offset if self.stack.stacked else None))
        return name, f"{tensor.dtype} {list(tensor.shape)} {checksum:08x}"


def plan(source: Path, dtype: str | None, mesh: Mesh | None) -> list[Stack]:
    """Match the tensors of a folder with the variables of the model its config describes.

    Raises:
        InputError: with every tensor that is missing, unexpected, there twice, or of a wrong shape or dtype.
    """
    config = read_config(source)
    model = abstract_model(config)
    shapes = {name: tuple(variable.shape) for name, variable in variables(model).items()}
    shardings = {} if mesh is None else variable_shardings(model, mesh)
    expected = {place: shape for name, shape in shapes.items() for place, shape in places(name, shape)}
    found, problems = _match(read_folder(source), expected)
    problems += [f"missing: {to_hf(place)} {list(expected[place])}" for place in expected if place not in found]
    problems += _dtype_problems(list(found.values()), dtype)
    if problems:
        raise InputError(f"{source}: the weights do not fit config.json, {len(problems)} problems:", sorted(problems))
    kept = DTYPES[next(iter(found.values())).dtype] if dtype is None else np.dtype(dtype)
    return [
        Stack(
            name=name,
            tensors=tuple(found[place] for place, _ in places(name, shape)),
            shape=shape,
            dtype=kept,
            stacked=is_stacked(name),
            chunks=chunk_shape(
                shardings[name].shard_shape(shape) if shardings else shape, kept.itemsize, stacked=is_stacked(name)
            ),
        )
        for name, shape in shapes.items()
    ]


def _match(tensors: Sequence[Tensor], expected: dict[Place, tuple[int, ...]]) -> tuple[dict[Place, Tensor], list[str]]:
    found: dict[Place, Tensor] = {}
    problems = []
    for tensor in tensors:
        place = from_hf(tensor.name)
        if place is None or place not in expected:
            problems.append(f"unexpected: {tensor.name} in {tensor.file.name}")
        elif place in found:
            first = found[place]
            problems.append(
                f"twice: {first.name} in {first.file.name} and {tensor.name} in {tensor.file.name} are the same weight"
            )
        else:
            found[place] = tensor
            if tensor.shape != expected[place]:
                problems.append(f"shape: {tensor.name} is {list(tensor.shape)}, expected {list(expected[place])}")
    return found, problems


def _dtype_problems(tensors: Sequence[Tensor], dtype: str | None) -> list[str]:
    """Tensors of a dtype that is no weight's, or, unless all are to be cast, of another dtype than most."""
    wrong = [tensor for tensor in tensors if tensor.dtype not in DTYPES]
    problems = [f"dtype: {tensor.name} is {tensor.dtype}, expected one of {', '.join(DTYPES)}" for tensor in wrong]
    usual = Counter(tensor.dtype for tensor in tensors if tensor.dtype in DTYPES).most_common(1)
    if dtype is None and usual:
        others = [tensor for tensor in tensors if tensor.dtype in DTYPES and tensor.dtype != usual[0][0]]
        problems += [
            f"dtype: {tensor.name} is {tensor.dtype}, most are {usual[0][0]}; --dtype casts them all"
            for tensor in others
        ]
    return problems


def _cast(values: np.ndarray, dtype: np.dtype, tensor: Tensor) -> np.ndarray:
    if values.dtype == dtype:
        return values
    with np.errstate(over="ignore"):
        cast = values.astype(dtype)
    if np.isinf(cast.astype(np.float32)).sum() > np.isinf(values.astype(np.float32)).sum():
        raise InputError(f"{tensor.file}: {tensor.name} has values too large for {dtype.name}")
    return cast


def _check_same(source: Path, stacks: Sequence[Stack], target: Path, dtype: np.dtype) -> str:
    """Say that the target holds this very conversion, whole; raise `InputError` if it does not."""
    info = None
    if (target / CHECKPOINT_FILE).exists():
        info = read_checkpoint_info(target)
        if _convert(stacks, dtype, None) == info.hash:
            check_checksums(target, PARAMS)
            for name in ("config.json", *FILES):
                if _content(source / name) != _content(target / name):
                    raise InputError(f"{target / name}: differs from {source / name}; remove {target} to convert again")
            return f"{target}: holds this conversion already, {info.hash}"
    held = "something else" if info is None else f"other weights ({info.dtype}, {info.hash})"
    raise InputError(f"{target}: holds {held}; remove it or choose another folder")


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def _convert(stacks: Sequence[Stack], dtype: np.dtype, params: Path | None) -> str:
    """Read every tensor, and write it below `params` unless that is None.

    Returns:
        One hash of all tensors, whatever layout, order and sharding they came in, and of the dtype they became.
    """
    parts = [part for stack in stacks for part in stack.parts()]
    total = sum(tensor.size for part in parts for tensor in part.tensors)
    lines = []
    with (
        tqdm(total=total, unit="B", unit_scale=True, desc="import", disable=None) as progress,
        ThreadPoolExecutor(THREADS) as pool,
    ):
        try:
            for part, digests in zip(parts, pool.map(lambda part: part.convert(params), parts), strict=True):
                lines += [f"{name} {digest}\n" for name, digest in digests]
                progress.update(sum(tensor.size for tensor in part.tensors))
        finally:
            pool.shutdown(cancel_futures=True)  # an interruption waits for what has begun alone
    return "sha256:" + hashlib.sha256("".join([f"{dtype.name}\n", *sorted(lines)]).encode()).hexdigest()


def _describe(path: Path, stacks: Sequence[Stack]) -> None:
    """Have Orbax write a tree of the variables, whose chunks are still to come."""
    arrays = (jax.Array, ocp.type_handlers.ArrayHandler())  # never used; Orbax warns where nothing handles jax.Array
    registry = ocp.type_handlers.create_type_handler_registry(arrays, (Stack, _Described()))
    trees = ocp.PyTreeCheckpointHandler(type_handler_registry=registry, use_ocdbt=False)
    try:
        with ocp.Checkpointer(trees) as checkpointer:
            checkpointer.save(path.absolute(), args=ocp.args.PyTreeSave(nest({stack.name: stack for stack in stacks})))
    except ValueError as error:
        # TensorStore reports the system's write errors as ValueError.
        raise RunError(f"{path}: could not be written ({str(error).strip().splitlines()[0][:300]})") from error


class _Described(ocp.type_handlers.NumpyHandler):
    """Makes Orbax take a `Stack` for an array, of which it writes all but the chunks."""

    async def serialize(self, values: Sequence[Any], infos: Sequence[Any], args: Any = None) -> list[Any]:
        for stack, info in zip(values, infos, strict=True):
            await info.await_path_creation()
            create_array(Path(info.path), stack.shape, stack.chunks, stack.dtype)
        return []

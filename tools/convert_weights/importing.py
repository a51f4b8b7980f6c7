"""Hugging Face folder -> Flax checkpoint, one stacked tensor at a time.

Everything that can be wrong is found from the headers before a byte is written. Orbax then walks over a tree of
`Stack`s and reads each one when its turn comes, so that the largest of them bounds the memory. The result is an
ordinary Orbax tree in a folder that appears under its name once all of it is on the disk.
"""

from __future__ import annotations

import hashlib
import math
import threading
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeGuard

import jax
import numpy as np
import orbax.checkpoint as ocp
import tensorstore
from jax.sharding import Mesh, NamedSharding
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
from jaxeval.errors import InputError, RunError
from jaxeval.files import whole_folder, write_json
from jaxeval.models.config import read_config
from jaxeval.processor import check_tokenizer_files, copy_files
from tools.convert_weights.keys import Place, from_hf, is_stacked, places, to_hf
from tools.convert_weights.safetensors_files import DTYPES, Tensor, read_folder

CHUNK_BYTES = 1 << 26
"""Size of the pieces an array is stored in, which is what a mesh of another shape has to read at least."""
BLOCK_BYTES = 1 << 20
"""Size of the pieces a tensor is hashed in."""
UNSYNCED = {"file_io_sync": False}


def import_checkpoint(source: Path, target: Path, *, mesh: Mesh | None = None, dtype: str | None = None) -> str:
    """Convert a Hugging Face folder.

    Args:
        source: folder with `config.json`, tokenizer and safetensors in any of the three layouts.
        target: folder to make. If it holds this very conversion already, nothing is done; anything else in it is
            refused.
        mesh: make the arrays on this mesh and store them in its shards.
        dtype: what to cast to; default the dtype the tensors have, which must be one.

    Returns:
        What was done, in one line.

    Raises:
        InputError: the source is incomplete or does not fit its config (every problem is listed), or the target is
            taken.
        RunError: the disk is full.
    """
    check_tokenizer_files(source)
    stacks = plan(source, dtype, mesh)
    kept = next(iter(stacks.values())).dtype
    total = sum(tensor.size for stack in stacks.values() for tensor in stack.tensors)
    with (
        tqdm(total=total, unit="B", unit_scale=True, desc="import", disable=None) as progress,
        ThreadPoolExecutor(1) as pool,
    ):
        digests = Digests(pool, progress)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            return _check_same(stacks, target, digests)
        with whole_folder(target) as folder:
            _save(folder / PARAMS, stacks, digests)
            copy_files(source, folder)
            (folder / "config.json").write_bytes((source / "config.json").read_bytes())
            info = CheckpointInfo(hash=digests.content_hash(kept), dtype=kept.name)  # type: ignore[arg-type]
            write_json(folder / CHECKPOINT_FILE, asdict(info))
    size = sum(stack.nbytes for stack in stacks.values())
    return f"{target}: {tqdm.format_sizeof(size, 'B')} of {info.dtype}, {info.hash}"


@dataclass(frozen=True)
class Stack:
    """One variable of the model, on disk as one tensor or as one a layer.

    Attributes:
        tensors: in the order of the layers.
        shape: of the variable; dtype: what it is to have.
        stacked: whether its first axis counts the layers.
        sharding: its place on the mesh; None makes a NumPy array.
    """

    tensors: tuple[Tensor, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    stacked: bool
    sharding: NamedSharding | None

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def is_verbatim(self, array: np.ndarray | jax.Array) -> TypeGuard[np.ndarray]:
        """Whether what was read holds the files' very bytes."""
        return isinstance(array, np.ndarray) and all(DTYPES[tensor.dtype] == self.dtype for tensor in self.tensors)

    @property
    def save_args(self) -> ocp.SaveArgs:
        """How Orbax is to cut it: large stacks by layers, so that a chunk is one piece of memory."""
        by_layer = self.stacked and self.nbytes > CHUNK_BYTES
        return ocp.SaveArgs(chunk_byte_size=CHUNK_BYTES, shard_axes=(0,) if by_layer else ())

    def read(self) -> np.ndarray | jax.Array:
        """The whole variable, on the mesh if there is one."""
        if self.sharding is None:
            return self.part(None)
        return jax.make_array_from_callback(self.shape, self.sharding, self.part)

    def part(self, index: tuple[slice, ...] | None) -> np.ndarray:
        """The elements at `index`, None for all of them; of the files only the rows they lie in are read."""
        index = (slice(None),) * len(self.shape) if index is None else index
        layers, inner = (index[0], index[1:]) if self.stacked else (slice(None), index)
        tensors = self.tensors[layers]
        sizes = [len(range(*part.indices(size))) for part, size in zip(inner, tensors[0].shape, strict=True)]
        out = np.empty((len(tensors), *sizes), self.dtype)
        start, stop, _ = inner[0].indices(tensors[0].shape[0])
        for target, tensor in zip(out, tensors, strict=True):
            rows = tensor.rows(start, stop)
            if rows.shape == target.shape and DTYPES[tensor.dtype] == self.dtype:
                rows.read(target)
                continue
            raw = np.empty(rows.shape, DTYPES[tensor.dtype])
            rows.read(raw)
            target[...] = _cast(raw[(slice(None), *inner[1:])], self.dtype, tensor)
        return out if self.stacked else out[0]


class Digests:
    """Hashes tensors beside the conversion: from the arrays that were read, or from the files where those differ.

    A CRC of each tensor and a SHA-256 of those: it is to notice mix-ups, and takes a quarter of the time.
    """

    def __init__(self, pool: ThreadPoolExecutor, progress: tqdm[Any]):
        self._pool, self._progress = pool, progress
        self._buffer = np.empty(BLOCK_BYTES, np.uint8)  # of the pool's one thread
        self._digests: dict[str, Future[str]] = {}

    def add(self, stack: Stack, name: str, array: np.ndarray | None = None) -> None:
        """Hash the tensors of the variable called `name`; `array` holds their very bytes, or is None."""
        for layer, tensor in enumerate(stack.tensors):
            key = to_hf(Place(name, layer if stack.stacked else None))
            values = array[layer] if array is not None and stack.stacked else array
            self._digests[key] = self._pool.submit(self._digest, tensor, values)

    def content_hash(self, dtype: np.dtype) -> str:
        """One hash of all tensors, whatever layout, order and sharding they came in, and of the dtype they became."""
        lines = [f"{key} {digest.result()}\n" for key, digest in sorted(self._digests.items())]
        return "sha256:" + hashlib.sha256("".join([f"{dtype.name}\n", *lines]).encode()).hexdigest()

    def _digest(self, tensor: Tensor, values: np.ndarray | None) -> str:
        checksum = 0
        for block in tensor.blocks(self._buffer) if values is None else [values.reshape(-1).view(np.uint8)]:
            checksum = zlib.crc32(block.data, checksum)
            self._progress.update(len(block))
        return f"{tensor.dtype} {list(tensor.shape)} {checksum:08x}"


def plan(source: Path, dtype: str | None, mesh: Mesh | None) -> dict[str, Stack]:
    """Match the tensors of a folder with the variables of the model its config describes, by dotted path.

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
    return {
        name: Stack(
            tensors=tuple(found[place] for place, _ in places(name, shape)),
            shape=shape,
            dtype=kept,
            stacked=is_stacked(name),
            sharding=shardings.get(name),
        )
        for name, shape in shapes.items()
    }


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
    try:
        with np.errstate(over="raise"):
            return values.astype(dtype)
    except FloatingPointError:
        raise InputError(f"{tensor.file}: {tensor.name} has values too large for {dtype.name}") from None


def _check_same(stacks: dict[str, Stack], target: Path, digests: Digests) -> str:
    info = None
    if (target / CHECKPOINT_FILE).exists():
        info = read_checkpoint_info(target)
        for name, stack in stacks.items():
            digests.add(stack, name)
        if digests.content_hash(next(iter(stacks.values())).dtype) == info.hash:
            return f"{target}: holds this conversion already, {info.hash}"
    held = "something else" if info is None else f"other weights ({info.dtype}, {info.hash})"
    raise InputError(f"{target}: holds {held}; remove it or choose another folder")


def _save(path: Path, stacks: dict[str, Stack], digests: Digests) -> None:
    """Write the stacks as one Orbax tree, reading each when its turn comes.

    Orbax works in a thread of its own, which an interruption does not break off in the middle of a write: it is stopped
    before the next array, when nothing is left that would write beside the removal of the folder.
    """
    stop = threading.Event()
    tree = nest({name: _Pending(name, stack, digests, stop) for name, stack in stacks.items()})
    sharded = next(iter(stacks.values())).sharding is not None
    handler: Any = _ArrayByArray() if sharded else _NumpyByNumpy(deepcopy_host_arrays=False)
    arrays = (jax.Array, ocp.type_handlers.ArrayHandler())  # never used; Orbax warns where nothing handles jax.Array
    registry = ocp.type_handlers.create_type_handler_registry(arrays, (_Pending, handler))
    save_args = jax.tree.map(lambda pending: pending.stack.save_args, tree)
    # Compression finds nothing in trained weights.
    trees = ocp.PyTreeCheckpointHandler(type_handler_registry=registry, use_compression=False)
    with ocp.Checkpointer(trees) as checkpointer, ThreadPoolExecutor(1) as pool:
        saving = pool.submit(checkpointer.save, path.absolute(), args=ocp.args.PyTreeSave(tree, save_args=save_args))
        try:
            saving.result()
        except ValueError as error:
            # TensorStore reports the system's write errors as ValueError.
            raise RunError(f"{path}: could not be written ({str(error).strip().splitlines()[0][:300]})") from error
        finally:
            stop.set()


@dataclass(frozen=True)
class _Pending:
    """A leaf of the tree handed to Orbax: the promise of an array."""

    name: str
    stack: Stack
    digests: Digests
    stop: threading.Event

    def read(self) -> np.ndarray | jax.Array:
        if self.stop.is_set():
            raise RunError("interrupted")
        array = self.stack.read()
        self.digests.add(self.stack, self.name, array if self.stack.is_verbatim(array) else None)
        return array


class _OneByOne:
    """Makes an Orbax type handler take promises, and hold one array, or a group of small ones, at a time."""

    async def serialize(self, values: Any, infos: Any, args: Any = None) -> list[Any]:
        args = [ocp.SaveArgs()] * len(values) if args is None else args
        for group in _groups(list(zip(values, infos, args, strict=True))):
            await self._write(*zip(*group, strict=True))
        return []

    async def _write(self, pending: Any, infos: Any, args: Any) -> None:
        """Write a group; a method of its own, so that its arrays are gone before the next are read."""
        # TensorStore would wait for the disk after each small file; `whole_folder` syncs them all at the end.
        context = tensorstore.Context(tensorstore.Context.Spec(UNSYNCED), parent=infos[0].ts_context)
        infos = [info.replace(ts_context=context) for info in infos]
        arrays = [one.read() for one in pending]
        writing = []
        for array, info, arg in zip(arrays, infos, args, strict=True):
            writing += await super().serialize([array], [info], [arg])  # type: ignore[misc]
        errors = [error for future in writing if (error := _error_of(future)) is not None]  # of all, so that all end
        if errors:
            raise errors[0]


def _error_of(future: Any) -> Exception | None:
    """Wait for a write to end."""
    try:
        future.result()
    except Exception as error:
        return error
    return None


def _groups(requests: list[tuple[_Pending, Any, Any]]) -> Iterator[list[tuple[_Pending, Any, Any]]]:
    """Biases and norms together, up to the size of a chunk; each large array alone."""
    group: list[tuple[_Pending, Any, Any]] = []
    size = 0
    for request in requests:
        nbytes = request[0].stack.nbytes
        if group and size + nbytes > CHUNK_BYTES:
            yield group
            group, size = [], 0
        group.append(request)
        size += nbytes
    yield group


class _NumpyByNumpy(_OneByOne, ocp.type_handlers.NumpyHandler):
    pass


class _ArrayByArray(_OneByOne, ocp.type_handlers.ArrayHandler):
    pass

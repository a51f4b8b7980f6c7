"""Arrays on disk as uncompressed Zarr chunks, which are plain bytes and can be filled a few rows at a time.

TensorStore, and Orbax on top of it, read them like their own. Written by those, every byte would be copied three times
in memory first.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import os
from pathlib import Path
from types import TracebackType
from typing import IO

import numpy as np
import tensorstore

from jaxeval.errors import InputError, RunError
from tools.convert_weights.safetensors_files import Tensor

CHUNK_BYTES = 1 << 26
"""Largest piece an array is stored in, which is what a mesh of another shape has to read at least."""

WRITE_BYTES = 1 << 15
"""Linux gives a larger write larger pages, which a virtual machine often has to get from its host first: that took five
times as long."""
NOT_COPIED = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""What a system answers that cannot copy from file to file, or not between these two."""


def chunk_shape(shape: tuple[int, ...], itemsize: int, *, stacked: bool) -> tuple[int, ...]:
    """How to cut an array, or its shard on a mesh: into whole layers, and a layer that is too large by its rows."""
    layer = shape[1:] if stacked else shape
    size = math.prod(layer) * itemsize
    if size > CHUNK_BYTES:
        rows = math.ceil(layer[0] / math.ceil(size / CHUNK_BYTES))
        return (*((1,) if stacked else ()), rows, *layer[1:])
    return (max(1, min(shape[0], CHUNK_BYTES // max(1, size))), *layer) if stacked else layer


def create_array(folder: Path, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: np.dtype) -> None:
    """Make an array without chunks; whoever fills it sees to it that all of it reaches the disk."""
    spec = {
        "driver": "zarr",
        "kvstore": {"driver": "file", "path": f"{folder}/"},
        "metadata": {"shape": list(shape), "chunks": list(chunks), "compressor": None, "order": "C"},
        "context": {"file_io_sync": False},
    }
    tensorstore.open(spec, create=True, dtype=tensorstore.dtype(dtype)).result()


class Slab:
    """The chunks that hold some layers of an array (or all of one without layers), filled from the first row on.

    Args:
        folder: of the array.
        number: index of the chunks on the axis of layers; None for an array without.
        shape: of one layer.
        chunks: shape of a chunk, without the axis of layers.
        chunk_bytes: size of a chunk.
    """

    def __init__(
        self, folder: Path, number: int | None, shape: tuple[int, ...], chunks: tuple[int, ...], chunk_bytes: int
    ):
        self._folder, self._chunks, self._chunk_bytes = folder, chunks, chunk_bytes
        self._prefix = () if number is None else (number,)
        counts = [math.ceil(size / chunk) for size, chunk in zip(shape[1:], chunks[1:], strict=True)]
        self._cells = list(itertools.product(*map(range, counts)))
        self._files: dict[tuple[int, ...], IO[bytes]] = {}
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> Slab:
        return self

    def copy(self, tensor: Tensor) -> bool:
        """Copy a layer as its bytes lie in a file, which the system does without taking them to this process.

        Returns:
            Whether it was done; not where chunks are cut by columns, or the system cannot.
        """
        if len(self._cells) > 1 or not hasattr(os, "copy_file_range"):
            return False
        with open(tensor.file, "rb", buffering=0) as source:
            for start in range(0, tensor.shape[0], self._chunks[0]):
                rows = tensor.rows(start, min(start + self._chunks[0], tensor.shape[0]))
                file = self._file((*self._prefix, start // self._chunks[0], *self._cells[0]))
                done = 0
                while done < rows.size:
                    try:
                        count = os.copy_file_range(source.fileno(), file.fileno(), rows.size - done, rows.offset + done)
                    except OSError as error:
                        if error.errno in NOT_COPIED and start == done == 0:
                            return False
                        raise _not_written(file, error) from error
                    if not count:
                        raise InputError(f"{tensor.file}: ends inside of {tensor.name}")
                    done += count
        return True

    def append(self, start: int, rows: np.ndarray) -> None:
        """Add rows of one layer, of which the first has the index `start`; they lie in one row of chunks."""
        for cell in self._cells:
            part = tuple(slice(i * size, (i + 1) * size) for i, size in zip(cell, self._chunks[1:], strict=True))
            values = np.ascontiguousarray(rows[(slice(None), *part)])
            file = self._file((*self._prefix, start // self._chunks[0], *cell))
            rest = values.reshape(-1).view(np.uint8).data
            try:
                while rest:
                    rest = rest[file.write(rest[:WRITE_BYTES]) :]
            except OSError as error:
                raise _not_written(file, error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._closing:
            if kind is None:
                for file in self._files.values():
                    file.truncate(self._chunk_bytes)  # a chunk at the edge is as large as any

    def _file(self, index: tuple[int, ...]) -> IO[bytes]:
        if index not in self._files:
            path = self._folder / ".".join(map(str, index))
            self._files[index] = self._closing.enter_context(path.open("wb", buffering=0))
        return self._files[index]


def _not_written(file: IO[bytes], error: OSError) -> RunError:
    return RunError(f"{file.name}: could not be written ({error.strerror})")

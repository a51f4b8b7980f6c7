"""Reading and writing safetensors a slice at a time.

The safetensors package maps whole files, which then count as memory of the process; a conversion reads every byte once,
so plain reads at an offset into the array they are meant for are both faster and smaller. The format is an 8-byte
length, a JSON header with the dtype, shape and byte range of each tensor, and the bytes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from jaxeval.errors import InputError
from jaxeval.files import read_json

DTYPES = {"F32": np.dtype(np.float32), "F16": np.dtype(np.float16), "BF16": np.dtype(ml_dtypes.bfloat16)}
"""The dtypes weights may have, by their safetensors names."""
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
BLOCK_BYTES = 1 << 18
"""Size of the pieces a tensor is read in."""
MAX_HEADER = 100_000_000  # bytes, the limit of the reference implementation


class Tensor(NamedTuple):
    """One tensor in a file: what the header says about it."""

    file: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int

    def read(self, out: np.ndarray) -> None:
        """Fill `out`, a C-contiguous array of the tensor's size, with its bytes.

        Raises:
            InputError: the file has become shorter since its header was read.
        """
        view = out.reshape(-1).view(np.uint8).data
        with open(self.file, "rb", buffering=0) as file:
            file.seek(self.offset)
            while view:
                count = file.readinto(view)
                if not count:
                    raise InputError(f"{self.file}: ends inside of {self.name}")
                view = view[count:]

    def rows(self, start: int, stop: int) -> Tensor:
        """The part of the tensor between two indices of its first dimension."""
        row = self.size // self.shape[0]
        shape = (stop - start, *self.shape[1:])
        return self._replace(shape=shape, offset=self.offset + start * row, size=(stop - start) * row)

    def blocks(self, dtype: np.dtype, multiple: int) -> Iterator[tuple[int, np.ndarray]]:
        """The tensor a few rows at a time: the index of the first, and the values, which are gone with the next ones.

        Args:
            dtype: of the values, as NumPy has it.
            multiple: no piece reaches over a multiple of this many rows.
        """
        count = self.shape[0]
        buffer = np.empty((max(1, min(multiple, count * BLOCK_BYTES // max(1, self.size))), *self.shape[1:]), dtype)
        start = 0
        while start < count:
            stop = min(start + len(buffer), count, (start // multiple + 1) * multiple)
            rows = buffer[: stop - start]
            self.rows(start, stop).read(rows)
            yield start, rows
            start = stop


def read_folder(folder: Path) -> list[Tensor]:
    """Every tensor of a Hugging Face checkpoint folder, in one file or sharded; a name may come up twice.

    Raises:
        InputError: there are no safetensors, a shard of the index is missing, or a file is damaged or cut short.
    """
    single, index = folder / SINGLE, folder / INDEX
    if single.exists() and index.exists():
        raise InputError(f"{folder}: holds both {SINGLE} and {INDEX}; remove the one that is not meant")
    if single.exists():
        return read_header(single)
    if not index.exists():
        old = next(folder.glob("pytorch_model*.bin"), None)
        hint = f" ({old.name} is not read; save the model with safe_serialization=True)" if old else ""
        raise InputError(f"{folder}: neither {SINGLE} nor {INDEX} is there{hint}")
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise InputError(f"{index}: weight_map is missing")
    if not all(isinstance(file, str) and Path(file).name == file for file in weight_map.values()):
        raise InputError(f"{index}: weight_map must name a file of the folder for each tensor")
    tensors = [tensor for name in sorted(set(weight_map.values())) for tensor in read_header(folder / name)]
    found = {tensor.name for tensor in tensors}
    for name, file in weight_map.items():
        if name not in found:
            raise InputError(f"{index}: {name} is said to be in {file}, but no shard holds it")
    return tensors


def read_header(file: Path) -> list[Tensor]:
    """The tensors of one safetensors file.

    Raises:
        InputError: the file is missing, malformed, or not as long as its header says.
    """
    try:
        length = os.path.getsize(file)
        with open(file, "rb") as source:
            size = int.from_bytes(source.read(8), "little")
            if length < 8 or size > min(MAX_HEADER, length - 8):
                raise InputError(f"{file}: not a safetensors file, or cut short inside of its header")
            header = json.loads(source.read(size), object_pairs_hook=_without_twins)
        header.pop("__metadata__", None)
        tensors = [_tensor(file, name, entry, 8 + size) for name, entry in header.items()]
    except FileNotFoundError:
        raise InputError(f"{file}: no such file") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{file}: the safetensors header is damaged ({error})") from None
    end = 8 + size
    for tensor in sorted(tensors, key=lambda tensor: (tensor.offset, tensor.size)):
        if tensor.offset != end:
            raise InputError(
                f"{file}: the safetensors header is damaged ({tensor.name} does not follow what is before it)"
            )
        end += tensor.size
    expected = max((tensor.offset + tensor.size for tensor in tensors), default=8 + size)
    if length != expected:
        state = "cut short" if length < expected else "too long"
        raise InputError(f"{file}: {state}: {length} bytes, where its header says {expected}")
    return tensors


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; `ValueError` if a key comes twice."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name comes twice")
    return dict(pairs)


def _tensor(file: Path, name: str, entry: Mapping[str, Any], base: int) -> Tensor:
    start, stop = entry["data_offsets"]
    if not all(type(number) is int for number in (start, stop, *entry["shape"])):
        raise ValueError(f"{name}: sizes are whole numbers")
    tensor = Tensor(file, name, entry["dtype"], tuple(entry["shape"]), base + start, stop - start)
    dtype = DTYPES.get(tensor.dtype)
    if start < 0 or stop < start or (dtype and math.prod(tensor.shape) * dtype.itemsize != tensor.size):
        raise ValueError(f"{name}: bytes {start} to {stop} do not fit shape {list(tensor.shape)}")
    return tensor


class Planned(NamedTuple):
    """A tensor that is going to be written."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def write_file(file: Path, plan: list[Planned], arrays: Iterable[np.ndarray]) -> None:
    """Write one safetensors file.

    Args:
        file: the file to make.
        plan: the tensors in the order of the file.
        arrays: their values, each taken when its turn comes.
    """
    names = {dtype: name for name, dtype in DTYPES.items()}
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in plan:
        span = [offset, offset + tensor.size]
        header[tensor.name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": span}
        offset += tensor.size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # keeps the bytes aligned, as the reference does
    with open(file, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for tensor, array in zip(plan, arrays, strict=True):
            if array.dtype != tensor.dtype or array.shape != tensor.shape:
                raise ValueError(f"{tensor.name}: {array.dtype}{array.shape} does not fit the plan {tensor}")
            out.write(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)

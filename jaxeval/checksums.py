"""Checksums beside a tree of arrays, so that bytes the disk or a copy has lost are noticed before they are used.

A CRC-32 a file: it is read at several gigabytes a second, once more than the arrays need, from what the system then
still holds in memory.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax

from jaxeval.errors import InputError
from jaxeval.files import read_json, write_json

CHECKSUMS_FILE = "checksums.json"
BLOCK_BYTES = 1 << 18


def write_checksums(folder: Path, below: str) -> None:
    """Write `checksums.json` for all files of `folder` below its folder `below`."""
    write_json(folder / CHECKSUMS_FILE, dict(_checksums(folder, _files(folder, below))))


def check_checksums(folder: Path, below: str) -> None:
    """Compare a folder with its `checksums.json`; of several processes each takes a share of the files.

    Args:
        folder: what `write_checksums` was given, or a copy.
        below: likewise.

    Raises:
        InputError: a file is missing, unknown, or holds other bytes.
    """
    known = read_json(folder / CHECKSUMS_FILE)
    files = _files(folder, below)
    for name in (*sorted(known.keys() - set(files)), *sorted(set(files) - known.keys())):
        if name in known:
            raise InputError(
                f"{folder / CHECKSUMS_FILE}: names {name[:200]!r}, which is not there; the folder is incomplete"
            )
        raise InputError(f"{folder / CHECKSUMS_FILE}: does not know {name}; the folder is damaged")
    for name, checksum in _checksums(folder, files[jax.process_index() :: jax.process_count()]):
        if checksum != known[name]:
            raise InputError(f"{folder / name}: damaged: its bytes are not those that {CHECKSUMS_FILE} knows")


def _files(folder: Path, below: str) -> list[str]:
    found = (file for file in (folder / below).rglob("*") if file.is_file())
    return sorted(file.relative_to(folder).as_posix() for file in found)


def _checksums(folder: Path, names: list[str]) -> Iterable[tuple[str, str]]:
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        yield from zip(names, pool.map(lambda name: _checksum(folder / name), names), strict=True)


def _checksum(path: Path) -> str:
    checksum, block = 0, bytearray(BLOCK_BYTES)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(block):
            checksum = zlib.crc32(memoryview(block)[:count], checksum)
    return f"{checksum:08x}"

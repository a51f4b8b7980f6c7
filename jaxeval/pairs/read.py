"""Read a pairs table (design §3), whoever made it: what `describe` and `train` start from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from jaxeval.errors import InputError
from jaxeval.pairs.clips import SPLITS
from jaxeval.pairs.texts import OPERATIONS
from jaxeval.tables import Row, audio_path, read_table

TARGETS = ("difference", "commonality", "split")
_TEXTS = ("instruction", "original_caption", "edited_caption", "difference", "commonality")
_CHOICES = {"operation": OPERATIONS, "split": SPLITS}


@dataclass(frozen=True)
class Pair:
    """An original and an edited recording, and what is known about the edit; None where the table does not say."""

    id: str
    original_audio: Path
    edited_audio: Path
    operation: str | None = None
    instruction: str | None = None
    original_caption: str | None = None
    edited_caption: str | None = None
    difference: str | None = None
    commonality: str | None = None
    split: str | None = None
    system: str | None = None


def read_pairs(path: str | os.PathLike[str], *, need_targets: bool) -> list[Pair]:
    """Read a pairs table; audio paths come out relative to its folder, the files themselves are not looked at.

    Args:
        path: a `.jsonl`, `.csv` or `.parquet` table with at least `id, original_audio, edited_audio`.
        need_targets: require `difference, commonality, split` as training does.

    Raises:
        InputError: a column or value is missing or of the wrong kind, or `id` (with `system`) occurs twice.
    """
    required = ("id", "original_audio", "edited_audio", *(TARGETS if need_targets else ()))
    rows = read_table(path, required=required, unique=("id", "system"))
    return [_pair(path, number, row) for number, row in enumerate(rows, 1)]


def _pair(table: str | os.PathLike[str], number: int, row: Row) -> Pair:
    for column in ("original_audio", "edited_audio", *_TEXTS, *_CHOICES):
        value = row.get(column)
        if value is not None and not isinstance(value, str):
            raise InputError(f"{table}: row {number}: column {column!r} is not text: {value!r}")
        if value and value not in _CHOICES.get(column, (value,)):
            raise InputError(f"{table}: row {number}: {column} {value!r} is none of {', '.join(_CHOICES[column])}")
    texts = {column: row.get(column) or None for column in (*_TEXTS, *_CHOICES)}
    system = row.get("system")
    return Pair(
        id=str(row["id"]),
        original_audio=audio_path(table, row["original_audio"]),
        edited_audio=audio_path(table, row["edited_audio"]),
        system=None if system in (None, "") else str(system),
        **texts,
    )

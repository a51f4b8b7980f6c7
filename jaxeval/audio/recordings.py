"""The recordings a command line names: audio files, folders of them, and tables that point to them (design §3)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxeval.errors import InputError
from jaxeval.tables import Row, audio_path, read_table

AUDIO_ENDINGS = frozenset(
    (".aif", ".aifc", ".aiff", ".au", ".caf", ".flac", ".mp3", ".oga", ".ogg", ".opus", ".rf64", ".w64", ".wav")
)
"""What is taken for audio in a folder. A file named by itself may have any ending; its content counts."""
TABLE_ENDINGS = frozenset((".csv", ".jsonl", ".parquet"))
COLUMNS = ("audio", "path")
SIDES = {"original": "original_audio", "edited": "edited_audio"}


@dataclass(frozen=True)
class Recording:
    """A recording to work on.

    Attributes:
        id: what results are joined on.
        path: where the file is.
        columns: what else its table says of it.
    """

    id: str
    path: Path
    columns: dict[str, Any] = field(default_factory=dict)


def find_recordings(names: Sequence[str]) -> list[Recording]:
    """Collect recordings in the order they are named.

    | name | recordings, and their ids |
    |---|---|
    | an audio file | itself; its path from the folder that holds all files named |
    | a folder | every audio file below it; its path from the folder |
    | a table of cards or clips | one a row, from `audio` or `path`; `id`, or else the path as the table has it |
    | a table of pairs | two a row; the pair's `id`, its `system` if there is one, and `original` or `edited` |

    Args:
        names: paths.

    Raises:
        InputError: a folder holds no audio, a table points to none, two recordings have the same id.
    """
    alone = [Path(name) for name in names if not _is_collection(Path(name))]
    common = Path(os.path.commonpath([path.absolute().parent for path in alone])) if alone else Path()
    recordings: list[Recording] = []
    for path in map(Path, names):
        if path.is_dir():
            recordings += _in_folder(path)
        elif _is_collection(path):
            recordings += _in_table(path)
        else:
            recordings.append(Recording(path.absolute().relative_to(common).as_posix(), path))
    seen: dict[str, Recording] = {}
    for recording in recordings:
        other = seen.setdefault(recording.id, recording)
        if other is not recording:
            raise InputError(f"{recording.path}: has the id {recording.id!r}, as {other.path} has; ids must differ")
    return recordings


def _is_collection(path: Path) -> bool:
    return path.is_dir() or path.suffix.lower() in TABLE_ENDINGS


def _in_folder(folder: Path) -> list[Recording]:
    paths = sorted(path for path in _walk(folder) if path.suffix.lower() in AUDIO_ENDINGS)
    if not paths:
        raise InputError(f"{folder}: no audio file in this folder")
    return [Recording(path.relative_to(folder).as_posix(), path) for path in paths]


def _walk(folder: Path) -> Iterator[Path]:
    def stop(error: OSError) -> None:
        raise error

    for root, folders, names in os.walk(folder, onerror=stop):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(root, name) for name in names if not name.startswith("."))


def _in_table(table: Path) -> Iterator[Recording]:
    rows = read_table(table)
    column = next((name for name in COLUMNS if any(row.get(name) for row in rows)), None)
    if column is not None:
        for number, row in enumerate(rows, 1):
            name = _text(table, number, row, column)
            rest = {key: value for key, value in row.items() if key not in ("id", column)}
            identity = row.get("id")
            yield Recording(name if identity in (None, "") else str(identity), audio_path(table, name), rest)
        return
    if not all(any(row.get(name) for row in rows) for name in ("id", *SIDES.values())):
        found = ", ".join(dict.fromkeys(key for row in rows for key in row))
        wanted = f"{' or '.join(COLUMNS)}, or of pairs: id, {', '.join(SIDES.values())}"
        raise InputError(f"{table}: no column that names recordings ({wanted}); found {found}")
    for number, row in enumerate(rows, 1):
        parts = [str(row[name]) for name in ("id", "system") if row.get(name) not in (None, "")]
        for side, column in SIDES.items():
            yield Recording("_".join([*parts, side]), audio_path(table, _text(table, number, row, column)))


def _text(table: Path, number: int, row: Row, column: str) -> str:
    value = row.get(column)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{table}: row {number}: column {column!r} names no recording: {value!r}")
    return value

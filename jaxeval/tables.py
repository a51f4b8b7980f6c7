"""Tables people bring and get: JSON Lines, CSV or Parquet, chosen by the file's ending (design §3).

A table is a list of dictionaries. `read_table` checks what the caller needs of it and names the file, the row
and the column when something is wrong; `write_table` writes one whole.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jaxeval.errors import InputError
from jaxeval.files import atomic_write, parse_object

Row = dict[str, Any]
LARGEST_CELL = 2**31 - 1
"""Characters; the library's own limit is 131,072."""


def read_table(
    path: str | os.PathLike[str],
    *,
    required: Sequence[str] = (),
    unique: Sequence[str] = (),
    parse: Callable[[str, str], Row] = parse_object,
) -> list[Row]:
    """Read a table and check it.

    Args:
        path: a `.jsonl`, `.csv` or `.parquet` file.
        required: columns that every row must fill with something other than null or an empty string.
        unique: columns whose combination may not occur twice, e.g. `("id",)`; missing ones are left out.
        parse: reads a line of JSON Lines, given the line and its place.

    Raises:
        InputError: the file is missing or malformed, a column or value is missing, a key occurs twice.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path}: a folder, not a table")
    readers: dict[str, Callable[[Path], list[Row]]] = {
        ".jsonl": partial(_read_jsonl, parse=parse),
        ".csv": _read_csv,
        ".parquet": _read_parquet,
    }
    if path.suffix.lower() not in readers:
        raise InputError(f"{path}: unknown table format {path.suffix!r}; use .jsonl, .csv or .parquet")
    if not path.exists():
        raise InputError(f"{path}: no such file")
    try:
        rows = readers[path.suffix.lower()](path)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from None
    if not rows:
        raise InputError(f"{path}: the table has no rows")
    _check(path, rows, required, unique)
    return rows


def write_table(path: str | os.PathLike[str], rows: Sequence[Row], columns: Sequence[str] | None = None) -> None:
    """Write rows as JSON Lines, CSV or Parquet, whole or not at all.

    Args:
        path: where to; the ending decides the format.
        rows: the rows; a column that a row lacks is null.
        columns: names and order of the columns; default every key in order of first appearance.
    """
    path = Path(path)
    names = list(columns) if columns is not None else list(dict.fromkeys(key for row in rows for key in row))
    if path.suffix == ".jsonl":
        with atomic_write(path) as file:
            for row in rows:
                file.write(json.dumps({name: row.get(name) for name in names}, ensure_ascii=False) + "\n")
    elif path.suffix == ".csv":
        with atomic_write(path) as file:
            writer = csv.writer(file)
            writer.writerow(names)
            for row in rows:
                writer.writerow([_csv_cell(row.get(name)) for name in names])
    elif path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])
        with atomic_write(path, "wb") as file:
            pyarrow.parquet.write_table(table, file)
    else:
        raise InputError(f"{path}: unknown table format {path.suffix!r}; use .jsonl, .csv or .parquet")


def audio_path(table: str | os.PathLike[str], value: str) -> Path:
    """An audio path as a table names it: relative to the folder of the table."""
    if "\0" in value:
        raise InputError(f"{table}: {value!r} is no path")
    return Path(table).parent / value


def _read_jsonl(path: Path, parse: Callable[[str, str], Row]) -> list[Row]:
    rows = []
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            rows.append(parse(line, f"{path}:{number}"))
    return rows


def _read_csv(path: Path) -> list[Row]:
    csv.field_size_limit(LARGEST_CELL)
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            names = reader.fieldnames or ()
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise InputError(f"{path}:1: column {twice!r} comes twice")
            rows = []
            for row in reader:
                if None in row:
                    raise InputError(f"{path}:{reader.line_num}: more cells than the header has columns")
                rows.append(dict(row))
            return rows
        except csv.Error as error:
            raise InputError(f"{path}:{reader.line_num}: not CSV ({error})") from None


def _read_parquet(path: Path) -> list[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not Parquet ({error})") from None


def _check(path: Path, rows: list[Row], required: Iterable[str], unique: Sequence[str]) -> None:
    first_seen: dict[tuple[str | None, ...], int] = {}
    for number, row in enumerate(rows, 1):
        for column in required:
            if column not in row:
                raise InputError(
                    f"{path}: row {number}: column {column!r} is missing; found {', '.join(row) or 'none'}"
                )
            if row[column] is None or row[column] == "":
                raise InputError(f"{path}: row {number}: column {column!r} is empty")
        if unique:
            key = tuple(_as_key(row.get(column)) for column in unique)
            if key in first_seen:
                named = ", ".join(f"{column} {row[column]!r}" for column in unique if row.get(column) is not None)
                raise InputError(f"{path}: row {number}: duplicate {named}, first in row {first_seen[key]}")
            first_seen[key] = number


def _as_key(value: Any) -> str | None:
    """A value as tables join on it: 1 in one row is "1" in another, as in CSV, and an empty text is no value."""
    if value is None or value == "":
        return None
    return json.dumps(value, sort_keys=True) if isinstance(value, list | dict) else str(value)


def _csv_cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value

"""Cards from tables and from answers of language models, and back into rows.

`read_cards` reads references strictly, so that what is wrong with them is found before work starts, and predictions
leniently, so that no field can stop a run: each of the 15 fields ends with a `Status`, and `coverage` counts them for
every summary. `parse_card` does the same for one answer, `join_cards` brings predictions and references together, and
`card_row` and `write_cards` write what is read here.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxeval.cards.loose_json import LooseObject, find_object
from jaxeval.cards.schema import BANDS, FIELDS, LEVELS, AudioCard, Field, Kind, Status, Value
from jaxeval.cards.values import Absent, Malformed, clean_text, number, read_value, shown
from jaxeval.errors import InputError
from jaxeval.files import atomic_write, parse_object
from jaxeval.tables import Row, read_table, write_table

MAX_NOTES = 3
"""Liberties a note tells of, at most."""
_KEY = ("id", "system")


def read_cards(path: str | os.PathLike[str], *, strict: bool = False) -> list[AudioCard]:
    """The cards of a table, whose fields are its columns.

    In CSV a cell other than text holds JSON, and an empty cell is a field that is not there. A null is a value of
    `lufs` and `median_f0`; any other field that is null is not there.

    Args:
        path: a `.jsonl`, `.csv` or `.parquet` table with a column `id`, one card a row (and `system`).
        strict: refuse whatever is not as the schema wants it, except that fields may be missing.

    Raises:
        InputError: no such table, no id, a card that comes twice; if strict, a field that is not right.
    """
    parse = _parse_strictly if strict else _parse_leniently
    rows = read_table(path, required=("id",), unique=_KEY, parse=parse)
    if Path(path).suffix.lower() == ".csv":
        rows = [_decode_cells(row) for row in rows]
    cards = []
    for count, row in enumerate(rows, 1):
        key, place = _head(row, "id"), f"{path}: row {count}"
        if key is None:
            raise InputError(f"{place}: column 'id' is neither text nor a number")
        cards.append(_card(row, key, strict, place))
    return cards


def parse_card(
    source: str | Mapping[str, Any], *, id: str | None = None, strict: bool = False, place: str = "card"
) -> AudioCard:
    """One card from an answer or an object.

    Args:
        source: the text of an answer, which may hold more than the card, or its fields by name.
        id: the card's id; default the one in `source`, else "".
        strict: refuse what is not as the schema wants it.
        place: where it comes from, for the message.

    Raises:
        InputError: if strict, the text is no JSON object or a field is not right.
    """
    if isinstance(source, str):
        row = (
            _parse_strictly(source, place)
            if strict
            else find_object(source, lambda row: len(_keys_by_field(row))) or {}
        )
    else:
        row = dict(source)
    return _card(row, _head(row, "id") or "" if id is None else id, strict, place)


def coverage(cards: Sequence[AudioCard]) -> dict[str, dict[str, int]]:
    """How many cards have a field with each status, by field and status."""
    return {
        name: {status.value: sum(card.status[name] is status for card in cards) for status in Status} for name in FIELDS
    }


def join_cards(
    predictions: Sequence[AudioCard], references: Sequence[AudioCard]
) -> tuple[list[tuple[AudioCard, AudioCard]], list[AudioCard]]:
    """Predictions with their references: by id, and by system where both sides have it.

    Returns:
        The pairs in the order of the predictions, and the references without a prediction.

    Raises:
        InputError: a prediction without a reference, a card that comes twice on one side.
    """
    on_system = any(card.system for card in references) and any(card.system for card in predictions)
    by_key = {_key(card, on_system): card for card in references}
    for name, cards, keys in (
        ("references", references, Counter(_key(card, on_system) for card in references)),
        ("predictions", predictions, Counter(_key(card, True) for card in predictions)),
    ):
        if len(keys) < len(cards):
            raise InputError(f"{name}: {_named(keys.most_common(1)[0][0])} occurs twice")
    unknown = next((card for card in predictions if _key(card, on_system) not in by_key), None)
    if unknown is not None:
        raise InputError(f"predictions: {_named(_key(unknown, on_system))} is not in the references")
    predicted = {_key(card, on_system) for card in predictions}
    pairs = [(card, by_key[_key(card, on_system)]) for card in predictions]
    return pairs, [card for key, card in by_key.items() if key not in predicted]


def card_row(card: AudioCard) -> Row:
    """A card as a row of a table: the fields that have a value, in the notation of the schema."""
    head = {name: getattr(card, name) for name in ("id", "system", "audio", "duration")}
    fields = {name: _plain(field, card.values[name]) for name, field in FIELDS.items() if name in card.values}
    return {name: value for name, value in head.items() if value is not None} | fields


def write_cards(path: str | os.PathLike[str], cards: Sequence[AudioCard]) -> None:
    """Write cards as a table that `read_cards` reads back as they are, whole or not at all.

    Raises:
        InputError: for Parquet, which cannot tell a scalar that is null from one that is missing, where it has to.
    """
    rows = [card_row(card) for card in cards]
    columns = [name for name in (*_KEY, "audio", "duration", *FIELDS) if any(name in row for row in rows)]
    scalars = [name for name in columns if name in FIELDS and FIELDS[name].kind is Kind.SCALAR]
    suffix = Path(path).suffix.lower()
    if suffix == ".jsonl":  # where a table would make null of what a row lacks
        with atomic_write(path) as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        return
    for row, name in ((row, name) for row in rows for name in scalars):
        if suffix == ".parquet" and name not in row:
            raise InputError(f"{path}: card {row['id']!r} lacks {name!r}, which Parquet cannot express; write .jsonl")
        if suffix == ".csv" and name in row and row[name] is None:
            row[name] = "null"
    write_table(path, rows, columns)


def _card(row: Mapping[str, Any], id: str, strict: bool, place: str) -> AudioCard:
    keys = {} if strict else _keys_by_field(row)
    values: dict[str, Value] = {}
    status: dict[str, Status] = {}
    notes: dict[str, str] = {}
    for name, field in FIELDS.items():
        status[name], value, problems = _read_field(field, row, keys.get(name, name))
        if strict and problems:
            raise InputError(f"{place}: field {name!r}: {problems[0]}")
        if status[name] in (Status.OK, Status.REPAIRED):
            values[name] = value
        if problems:
            notes[name] = "; ".join(list(dict.fromkeys(problems))[:MAX_NOTES])
    return AudioCard(
        id=id,
        values=values,
        status=status,
        notes=notes,
        system=_head(row, "system"),
        audio=_head(row, "audio"),
        duration=_duration(row.get("duration"), strict, place),
    )


def _read_field(field: Field, row: Mapping[str, Any], key: str) -> tuple[Status, Value, list[str]]:
    """Status and value of the field under a key, and all that is wrong with it."""
    if key not in row:
        return Status.MISSING, None, []
    problems = [] if key == field.name else [f"named {key[:40]!r}"]
    if isinstance(row, LooseObject):
        if key in row.cut:
            return Status.MALFORMED, None, ["cut off"]
        problems += ["given more than once"] * (key in row.repeated) + ["in faulty JSON"] * row.faulty
    try:
        value, liberties = read_value(field, row[key])
    except Absent:
        return Status.MISSING, None, []
    except Malformed as error:
        return Status.MALFORMED, None, [str(error)]
    problems += liberties
    return Status.REPAIRED if problems else Status.OK, value, problems


def _stem(key: str) -> str:
    """What the spellings of a field's name share: "Active Events" and "active_event"."""
    return re.sub(r"[^a-z0-9]+", "_", key.lower()).strip("_").rstrip("s")


_BY_STEM = {_stem(name): name for name in FIELDS}


def _keys_by_field(row: Mapping[str, Any]) -> dict[str, str]:
    """Which key of a row means which field: its name, or else a spelling of it."""
    spelled = {_BY_STEM[_stem(key)]: key for key in row if isinstance(key, str) and _stem(key) in _BY_STEM}
    return spelled | {name: name for name in FIELDS if name in row}


def _parse_strictly(line: str, place: str) -> Row:
    parse_object(line, place)
    return json.loads(line, object_pairs_hook=LooseObject)


def _parse_leniently(line: str, place: str) -> Row:
    found = find_object(line, lambda row: len(_keys_by_field(row)) + (len(FIELDS) if "id" in row else 0))
    return parse_object(line, place) if found is None else found


def _decode_cells(row: Row) -> Row:
    """A row of CSV: empty cells are not there, and fields other than text hold JSON where it is JSON."""
    decoded: Row = {}
    for name, cell in row.items():
        if cell is None or cell == "":
            continue
        field = FIELDS.get(name)
        decoded[name] = cell
        if name == "duration" or (field and field.kind not in (Kind.DESCRIPTION, Kind.REASONING)):
            with contextlib.suppress(ValueError, RecursionError):
                decoded[name] = json.loads(cell, object_pairs_hook=LooseObject)
    return decoded


def _head(row: Mapping[str, Any], name: str) -> str | None:
    """A short text or number of a row as text; None for none."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return clean_text(value if isinstance(value, str) else shown(value))[0] or None


def _duration(raw: Any, strict: bool, place: str) -> float | None:
    notes: list[str] = []
    try:
        seconds = None if raw is None else number(raw, notes)
    except Malformed as error:
        seconds, notes = None, [str(error)]
    if seconds is not None and seconds <= 0:
        seconds, notes = None, [f"{seconds:g} s"]
    if strict and notes:
        raise InputError(f"{place}: field 'duration': {notes[0]}")
    return seconds


def _plain(field: Field, value: Value) -> Any:
    """A value in the notation of the schema, from what JSON knows."""
    if field.kind is Kind.SPECTRUM and isinstance(value, tuple):
        return {
            band: LEVELS[level]
            for band, level in zip(BANDS, value, strict=True)
            if isinstance(level, int) and level >= 0
        }
    if isinstance(value, tuple):
        return [list(each) if isinstance(each, tuple) else each for each in value]
    return value


def _key(card: AudioCard, on_system: bool) -> tuple[str, ...]:
    return (card.id, card.system or "") if on_system else (card.id,)


def _named(key: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in zip(_KEY, key, strict=False) if value)

"""Two tables of numbers joined item by item: scores of metrics, and what people or other measures say of the items.

Reads what `correlate` is given. A table is anything with `id`, perhaps `system`, and numeric columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxeval.errors import InputError
from jaxeval.tables import Row, read_table

KEYS = ("id", "system", "model", "rater")
"""Columns that say what a row is about; they are no numbers even where they look like some."""
_MISSING = {"", "na", "n/a", "nan", "null", "none"}

Key = tuple[str, ...]


@dataclass(frozen=True)
class Ratings:
    """A column as it was given, before averaging.

    Attributes:
        values: [rating], NaN where a rater gave none.
        items: [rating], the place of the item.
        raters: [rating].
    """

    values: np.ndarray
    items: np.ndarray
    raters: np.ndarray


@dataclass(frozen=True)
class Joined:
    """The items that both tables have.

    Attributes:
        keys: `(id,)` or `(id, system)` of each item.
        systems: of each item; None if no table has systems.
        metrics: columns of the scores by name, [item], NaN where a value is missing.
        targets: columns of the ratings by name, averaged over raters, [item].
        ratings: the same before averaging; None if no rater is named.
        notes: what was left out, in sentences.
    """

    keys: list[Key]
    systems: np.ndarray | None
    metrics: dict[str, np.ndarray]
    targets: dict[str, np.ndarray]
    ratings: dict[str, Ratings] | None
    notes: list[str]


def join_columns(
    scores_path: str,
    ratings_path: str,
    *,
    metrics: Sequence[str] | None = None,
    targets: Sequence[str] | None = None,
    model: str | None = None,
) -> Joined:
    """Read both tables and join them on `id`, and on `system` where both have it.

    Args:
        scores_path: a row an item, or an item and model.
        ratings_path: a row an item, or an item and rater.
        metrics: columns of the scores; default all that hold numbers.
        targets: columns of the ratings; default all that hold numbers.
        model: whose scores to take, of several.

    Raises:
        InputError: a key occurs twice, a column is missing or holds something else than numbers, or the tables share
            no item.
    """
    scores = _of_model(scores_path, read_table(scores_path, required=("id",), unique=("id", "system", "model")), model)
    ratings = read_table(ratings_path, required=("id",), unique=("id", "system", "rater"))
    score_rows, rating_rows = _rows_by_key(scores_path, scores), _rows_by_key(ratings_path, ratings)
    if twice := next((key for key, rows in score_rows.items() if len(rows) > 1), None):
        raise InputError(f"{scores_path}: id {twice[0]!r} comes with a model and without one")
    keys = _shared_keys(score_rows, rating_rows)
    if not keys:
        raise InputError(f"{ratings_path}: no id, or no id and system, that {scores_path} has too")
    score_of = [_rows_of(key, score_rows)[0] for key in keys]
    ratings_of = [_rows_of(key, rating_rows) for key in keys]
    flat = np.concatenate(ratings_of)

    notes: list[str] = []
    found = _numbers(scores_path, scores, metrics, notes)
    given = _numbers(ratings_path, ratings, targets, notes)
    for path, rows, used in ((scores_path, scores, score_of), (ratings_path, ratings, flat.tolist())):
        if unused := len(rows) - len(set(used)):
            notes.append(f"{path}: {unused} of {len(rows)} rows are of items that the other table lacks.")
    items = np.repeat(np.arange(len(keys)), [len(rows) for rows in ratings_of])
    raters = np.array([str(row.get("rater")) for row in ratings])[flat] if _has(ratings, "rater") else None
    return Joined(
        keys=keys,
        systems=np.array([key[1] for key in keys]) if len(keys[0]) > 1 else None,
        metrics={name: values[score_of] for name, values in found.items()},
        targets={name: _item_means(values[flat], items, len(keys)) for name, values in given.items()},
        ratings=None
        if raters is None
        else {name: Ratings(values[flat], items, raters) for name, values in given.items()},
        notes=notes,
    )


def _of_model(path: str, rows: list[Row], model: str | None) -> list[Row]:
    """The rows of the model asked for, or of the one there is."""
    models = list(dict.fromkeys(str(row["model"]) for row in rows if row.get("model")))
    if model is None:
        if len(models) > 1:
            raise InputError(f"{path}: holds scores of several models ({', '.join(models)}); choose one with --model")
        return rows
    if model not in models:
        raise InputError(f"{path}: no model {model!r}; found {', '.join(models) or 'no column model'}")
    return [row for row in rows if str(row.get("model")) == model]


def _rows_by_key(path: str, rows: list[Row]) -> dict[Key, list[int]]:
    with_system = _has(rows, "system")
    by_key: dict[Key, list[int]] = {}
    for index, row in enumerate(rows):
        if with_system and row.get("system") in (None, ""):
            raise InputError(f"{path}: id {row['id']!r} has no system, though others have one")
        key = (str(row["id"]), str(row["system"])) if with_system else (str(row["id"]),)
        by_key.setdefault(key, []).append(index)
    return by_key


def _shared_keys(first: dict[Key, list[int]], second: dict[Key, list[int]]) -> list[Key]:
    """Keys in both. Where only one table has systems, the row of an item in the other goes with all of them."""
    longer = max(second, first, key=lambda keys: len(next(iter(keys))))
    return [key for key in longer if all(key in keys or key[:1] in keys for keys in (first, second))]


def _rows_of(key: Key, rows: dict[Key, list[int]]) -> list[int]:
    return rows[key] if key in rows else rows[key[:1]]


def _has(rows: list[Row], column: str) -> bool:
    return any(row.get(column) not in (None, "") for row in rows)


def _numbers(path: str, rows: list[Row], wanted: Sequence[str] | None, notes: list[str]) -> dict[str, np.ndarray]:
    """Columns of numbers, [row]: those wanted, or all there are. What looks like one and is left out is noted."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if wanted is not None:
        for name in wanted:
            if name not in names:
                raise InputError(f"{path}: no column {name!r}; found {', '.join(names)}")
        return {name: np.array([_cell(path, name, row) for row in rows]) for name in wanted}
    found = {}
    for name in names:
        if name in KEYS:
            continue
        values = [_number(row.get(name)) for row in rows]
        numbers = sum(value is not None and not math.isnan(value) for value in values)
        others = values.count(None)
        if numbers and not others:
            found[name] = np.array(values, np.float64)
        elif numbers > others:
            row = rows[values.index(None)]
            notes.append(f"{path}: column {name!r} is left out: id {row['id']!r} has {str(row[name])[:40]!r}.")
        elif not others:
            notes.append(f"{path}: column {name!r} is left out: it is empty.")
    if not found:
        raise InputError(f"{path}: no column of numbers; found {', '.join(names)}")
    return found


def _cell(path: str, name: str, row: Row) -> float:
    value = _number(row.get(name))
    if value is None:
        raise InputError(f"{path}: id {row['id']!r}: column {name!r} holds {str(row[name])[:40]!r}, which is no number")
    return value


def _number(value: Any) -> float | None:
    """A cell as a number, NaN where it is empty or not finite; None if it is something else."""
    if isinstance(value, str):
        text = value.strip().lower()
        try:
            value = math.nan if text in _MISSING else float(text)
        except ValueError:
            return None
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def _item_means(values: np.ndarray, items: np.ndarray, count: int) -> np.ndarray:
    """Mean rating [item], NaN where there is none. Summed exactly, so that equal sets of ratings stay equal."""
    given: list[list[float]] = [[] for _ in range(count)]
    for item, value in zip(items, values, strict=True):
        if not math.isnan(value):
            given[item].append(float(value))
    return np.array([math.fsum(one) / len(one) if one else math.nan for one in given])

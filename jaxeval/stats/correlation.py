"""Correlation of two columns: linear (LCC), of ranks (SRCC), and of pairs (KTAU, Kendall's tau-b).

Where a coefficient does not exist its value is None with the reason beside it, never NaN: fewer than 3 items, or a
column that does not vary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from jaxeval.stats.weighted import COEFFICIENTS, Scratch, WeightedPair

MIN_ITEMS = 3

Column = ArrayLike | Sequence[float | None]
"""[item] of numbers; None, NaN and infinities are missing."""


@dataclass(frozen=True)
class Correlation:
    """A coefficient and what it rests on.

    Attributes:
        value: None where it is undefined.
        n: items with both values.
        dropped: the others.
        undefined: why there is no value; None where there is one.
    """

    value: float | None
    n: int
    dropped: int
    undefined: str | None = None


def lcc(x: Column, y: Column) -> float | None:
    """Linear (Pearson's) correlation of [item] and [item], or None; `correlation` says why."""
    return correlation(x, y, "lcc").value


def srcc(x: Column, y: Column) -> float | None:
    """Spearman's correlation of ranks, equal values sharing their mean rank, or None; `correlation` says why."""
    return correlation(x, y, "srcc").value


def ktau(x: Column, y: Column) -> float | None:
    """Kendall's tau-b, which allows for equal values, or None; `correlation` says why."""
    return correlation(x, y, "ktau").value


def correlation(x: Column, y: Column, coefficient: str = "lcc", *, names: tuple[str, str] = ("x", "y")) -> Correlation:
    """One coefficient of two columns.

    Args:
        x: [item]; an item that has None, NaN or an infinity on either side is dropped and counted.
        y: [item].
        coefficient: `lcc`, `srcc` or `ktau`.
        names: of the columns, for the reason.

    Raises:
        ValueError: the columns differ in length, or the coefficient is unknown.
    """
    if coefficient not in COEFFICIENTS:
        raise ValueError(f"unknown coefficient {coefficient!r}; there are {', '.join(COEFFICIENTS)}")
    (x, y), kept = as_columns(x, y)
    n, dropped = len(x), int((~kept).sum())
    reason = why_undefined(x, y, names)
    if reason is not None:
        return Correlation(None, n, dropped, reason)
    value = float(WeightedPair(x, y).correlate(coefficient, np.ones((n, 1)), Scratch())[0])
    if not np.isfinite(value):
        return Correlation(None, n, dropped, "the values differ by no more than rounding")
    return Correlation(value, n, dropped)


def why_undefined(x: np.ndarray, y: np.ndarray, names: tuple[str, str] = ("x", "y")) -> str | None:
    """Why two columns of finite values have no correlation; None where they have one."""
    if len(x) < MIN_ITEMS:
        return f"{len(x)} item{'' if len(x) == 1 else 's'}, at least {MIN_ITEMS} are needed"
    constant = [name for name, column in zip(names, (x, y), strict=True) if column.min() == column.max()]
    return f"{' and '.join(constant)} {'is' if len(constant) == 1 else 'are'} constant" if constant else None


def as_columns(*columns: Column) -> tuple[list[np.ndarray], np.ndarray]:
    """Columns [item] without the items that lack a finite value in one, and the mask of the items kept."""
    arrays = [np.asarray(column, np.float64) for column in columns]
    if any(array.shape != arrays[0].shape or array.ndim != 1 for array in arrays):
        raise ValueError(f"columns of one length are needed, got shapes {', '.join(str(one.shape) for one in arrays)}")
    kept = np.asarray(np.isfinite(np.stack(arrays)).all(axis=0))
    return [array[kept] for array in arrays], kept

"""How far two raters, judges or verdicts agree on labels: the table of counts, its diagonal, and Cohen's kappa."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Agreement:
    """A table of counts and what follows from it.

    Attributes:
        labels: of its rows and columns.
        counts: [label of the first, label of the second].
        agreement: share of items on the diagonal; None without items.
        kappa: how far that exceeds chance, as a share of what it could; None where it is undefined.
        undefined: why there is no kappa; None where there is one.
    """

    labels: tuple[Hashable, ...]
    counts: np.ndarray
    agreement: float | None
    kappa: float | None
    undefined: str | None = None


def agreement_table(
    first: Sequence[Hashable], second: Sequence[Hashable], labels: Sequence[Hashable] | None = None
) -> Agreement:
    """Count how often two label the same items how.

    Args:
        first: a label an item.
        second: of the same items.
        labels: all there are, in order; default those found, sorted where they can be.

    Raises:
        ValueError: the lengths differ, or a label is not among `labels`.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} labels and {len(second)} are not of the same items")
    found = set(first) | set(second)
    if labels is None:
        labels = sorted(found, key=lambda label: (str(type(label)), label))
    elif unknown := found - set(labels):
        raise ValueError(f"unknown label {min(unknown, key=str)!r}")
    place = {label: index for index, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), np.int64)
    np.add.at(counts, ([place[label] for label in first], [place[label] for label in second]), 1)
    return agreement_of(counts, labels)


def agreement_of(counts: ArrayLike, labels: Sequence[Hashable] | None = None) -> Agreement:
    """What follows from a square table of counts (Cohen, "A coefficient of agreement for nominal scales", 1960).

    Raises:
        ValueError: the table is not square, or a count is negative.
    """
    table = np.asarray(counts)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not (np.isfinite(table).all() and (table >= 0).all()):
        raise ValueError("a square table of counts is needed")
    named = tuple(range(len(table)) if labels is None else labels)
    total = float(table.sum())
    if not total:
        return Agreement(named, table, None, None, "no items")
    observed = float(np.trace(table)) / total
    expected = float(table.sum(axis=1) @ table.sum(axis=0)) / total**2
    if expected == 1:
        return Agreement(named, table, observed, None, "both use one label only")
    return Agreement(named, table, observed, (observed - expected) / (1 - expected))


def cohen_kappa(first: ArrayLike, second: Sequence[Hashable] | None = None) -> float | None:
    """Cohen's kappa of a square table of counts, or of two lists of labels; None where it is undefined.

    Args:
        first: counts [label, label], or a label an item.
        second: the labels of the other.
    """
    if second is None:
        return agreement_of(first).kappa
    return agreement_table(list(first), second).kappa  # type: ignore[arg-type]

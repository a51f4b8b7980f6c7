"""How sure a correlation is: bootstrap intervals by item, cluster or rater, and of the difference of two metrics.

The intervals are percentiles of the resamples, moved outwards for the small number of what is resampled as Student's t
is wider than the normal (Hesterberg, "What Teachers Should Know About the Bootstrap", 2015, section 3.3). Without that
they hold the truth too seldom where there are 15 items or 5 clusters, and with it about as often as they say. Resamples
are drawn from the seed alone: the same input gives the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from jaxeval.stats.correlation import Column, as_columns, correlation, why_undefined
from jaxeval.stats.weighted import COEFFICIENTS, Scratch, WeightedPair

CONFIDENCE = 0.95
RESAMPLES = 10_000
_AT_ONCE = 128
"""Resamples that are worked on together: few enough for a processor's cache, and for one thread of a matrix library."""
_WEIGHTS_AT_ONCE = 2**22
"""Bounds the memory of many items: 16 MiB an array."""
_LARGEST_EXACT = 2**22
"""Items up to which float32 counts resamples without rounding."""

Draw = Callable[[np.random.Generator, int, Scratch], np.ndarray]
"""Makes weights [item, resample] for a number of resamples."""


@dataclass(frozen=True)
class Interval:
    """Where a correlation, or a difference of two, lies.

    Attributes:
        low, high: its bounds; None where there are none.
        confidence: how often such intervals hold the truth.
        units: items, clusters or raters that were resampled.
        resamples: those in which the coefficient is defined, and which count.
        undefined: why there are no bounds; None where there are.
    """

    low: float | None
    high: float | None
    confidence: float
    units: int
    resamples: int
    undefined: str | None = None


@dataclass(frozen=True)
class Comparison:
    """Which of two metrics correlates better with the same column.

    Attributes:
        difference: coefficient of the first minus that of the second; None where one is undefined.
        interval: of the difference, from resamples that both share.
        n: items with all three values.
        dropped: the others.
        undefined: why there is no difference; None where there is one.
    """

    difference: float | None
    interval: Interval
    n: int
    dropped: int
    undefined: str | None = None


def bootstrap_interval(
    x: Column,
    y: Column,
    coefficient: str = "lcc",
    *,
    clusters: ArrayLike | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Interval of one coefficient; see `bootstrap_intervals`."""
    return bootstrap_intervals(
        x, y, (coefficient,), clusters=clusters, confidence=confidence, resamples=resamples, seed=seed
    )[coefficient]


def bootstrap_intervals(
    x: Column,
    y: Column,
    coefficients: Sequence[str] = COEFFICIENTS,
    *,
    clusters: ArrayLike | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Interval]:
    """Intervals of the correlation of two columns, from resamples that all coefficients share.

    Args:
        x: [item]; an item without a finite value on either side is left out.
        y: [item].
        coefficients: some of `lcc`, `srcc`, `ktau`.
        clusters: label [item] of what the items belong to, such as a system or a rater. Whole clusters are then
            resampled, since items of one are no independent witnesses.
        confidence: of the intervals.
        resamples: how many.
        seed: of the resampling.

    Raises:
        ValueError: the columns differ in length, or a coefficient is unknown.
    """
    (x, y), kept = as_columns(x, y)
    _check(coefficients, confidence, resamples)
    labels = None if clusters is None else _labels(clusters, len(kept))[kept]
    units = len(x) if labels is None else len(np.unique(labels))
    reason = why_undefined(x, y) or _too_few(units, "item" if labels is None else "cluster")
    if reason is not None:
        return {name: Interval(None, None, confidence, units, 0, reason) for name in coefficients}
    draw = item_draw(units) if labels is None else _cluster_draw(labels)
    found = replicates([WeightedPair(x, y)], coefficients, draw, resamples, seed)[0]
    return {name: _interval(found[index], confidence, units) for index, name in enumerate(coefficients)}


def rater_intervals(
    x: Column,
    ratings: Column,
    items: ArrayLike,
    raters: ArrayLike,
    coefficients: Sequence[str] = COEFFICIENTS,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Interval]:
    """Intervals of the correlation of a column with mean ratings, where raters are what is resampled.

    A resample takes each rater as often as drawn and averages anew. An item counts as much as the share of its ratings
    that were drawn: once where all raters rate all items, as often as its rater where each has items of their own.

    A resample has fewer different raters than there are. Their means are noisier, and its coefficients too low by that:
    the interval is moved by the mean difference between the resamples and the coefficient itself.

    Args:
        x: [item].
        ratings: [rating]; one that is not finite is left out.
        items: [rating], the place in `x` of what is rated.
        raters: label [rating].
        coefficients, confidence, resamples, seed: as in `bootstrap_intervals`.
    """
    _check(coefficients, confidence, resamples)
    column, given, of_item = np.asarray(x, np.float64), np.asarray(ratings, np.float64), np.asarray(items, np.int64)
    there = np.isfinite(given) & np.isfinite(column)[of_item]
    given, of_item = given[there], of_item[there]
    _, of_rater = np.unique(_labels(raters, len(there))[there], return_inverse=True)
    units = int(of_rater.max(initial=-1)) + 1
    counts = np.bincount(of_item, minlength=len(column))
    rated = counts > 0
    if (counts <= 1).all():
        labels = np.empty(len(column), np.int64)
        means = np.full(len(column), np.nan)
        labels[of_item], means[of_item] = of_rater, given
        return bootstrap_intervals(
            column,
            means,
            coefficients,
            clusters=labels,
            confidence=confidence,
            resamples=resamples,
            seed=seed,
        )
    means = np.bincount(of_item, given, len(column))[rated] / counts[rated]
    reason = why_undefined(column[rated], means) or _too_few(units, "rater")
    if reason is not None:
        return {name: Interval(None, None, confidence, units, 0, reason) for name in coefficients}
    drawn = np.random.default_rng(seed).multinomial(units, np.full(units, 1 / units), resamples)
    # A few raters can be drawn in a few ways only.
    ways, of_resample = np.unique(drawn, axis=0, return_inverse=True)
    found = np.empty((len(coefficients), len(ways)))

    scratch = Scratch()
    for way, drawn_raters in enumerate(ways):
        weights = drawn_raters[of_rater].astype(np.float64)
        total = np.bincount(of_item, weights, len(column))
        kept = total > 0
        anew = np.bincount(of_item, weights * given, len(column))[kept] / total[kept]
        pair, shares = WeightedPair(column[kept], anew), (total[kept] / counts[kept])[:, None]
        found[:, way] = [pair.correlate(name, shares, scratch)[0] for name in coefficients]
    intervals = {}
    for name, values in zip(coefficients, found[:, of_resample.ravel()], strict=True):
        value = correlation(column[rated], means, name).value
        moved = values if value is None else values + (value - values[np.isfinite(values)].mean())
        intervals[name] = _interval(moved.clip(-1, 1), confidence, units)
    return intervals


def compare(
    first: Column,
    second: Column,
    y: Column,
    coefficient: str = "lcc",
    *,
    clusters: ArrayLike | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
    names: tuple[str, str, str] = ("first", "second", "y"),
) -> Comparison:
    """How much better one metric correlates with a column than another, on the items that have all three values.

    Args:
        first: a metric, [item].
        second: another, of the same items.
        y: what both are to follow.
        coefficient: `lcc`, `srcc` or `ktau`.
        clusters, confidence, resamples, seed: as in `bootstrap_intervals`.
        names: of the columns, for the reason where there is no difference.
    """
    (*metrics, target), kept = as_columns(first, second, y)
    _check((coefficient,), confidence, resamples)
    n, dropped = len(target), int((~kept).sum())
    labels = None if clusters is None else _labels(clusters, len(kept))[kept]
    units = n if labels is None else len(np.unique(labels))
    both = [
        correlation(metric, target, coefficient, names=(name, names[2]))
        for metric, name in zip(metrics, names, strict=False)
    ]
    reason = next((one.undefined for one in both if one.undefined is not None), None)
    if reason is None:
        reason = _too_few(units, "item" if labels is None else "cluster")
    values = [one.value for one in both]
    difference = None if values[0] is None or values[1] is None else values[0] - values[1]
    if reason is not None:
        return Comparison(difference, Interval(None, None, confidence, units, 0, reason), n, dropped, reason)
    draw = item_draw(units) if labels is None else _cluster_draw(labels)
    found = replicates([WeightedPair(metric, target) for metric in metrics], (coefficient,), draw, resamples, seed)
    return Comparison(difference, _interval(found[0, 0] - found[1, 0], confidence, units), n, dropped)


def replicates(
    pairs: Sequence[WeightedPair], coefficients: Sequence[str], draw: Draw, resamples: int, seed: int
) -> np.ndarray:
    """Coefficients [pair, coefficient, resample] of columns of the same items, in the same resamples.

    Weights are float32, which holds counts and ranks exactly; what is summed from them is good to 1e-6.
    """
    items = pairs[0].items
    size = max(1, min(_AT_ONCE, _WEIGHTS_AT_ONCE // items))
    found = np.empty((len(pairs), len(coefficients), resamples))
    scratch = Scratch(np.float32 if items <= _LARGEST_EXACT else np.float64)
    rng = np.random.default_rng(seed)
    for start in range(0, resamples, size):
        count = min(size, resamples - start)
        weights = draw(rng, count, scratch)
        for row, pair in zip(found, pairs, strict=True):
            for line, name in zip(row, coefficients, strict=True):
                line[start : start + count] = pair.correlate(name, weights, scratch)
    return found


def item_draw(items: int) -> Draw:
    """Draws items with replacement: each resample is one `integers(items, size=items)` of the generator."""

    def draw(rng: np.random.Generator, resamples: int, scratch: Scratch) -> np.ndarray:
        drawn = scratch("drawn", resamples, items)
        for row in drawn:
            row[:] = np.bincount(rng.integers(items, size=items), minlength=items)
        weights = scratch("weights", items, resamples)
        np.copyto(weights, drawn.T)
        return weights

    return draw


def _cluster_draw(labels: np.ndarray) -> Draw:
    """Every item counts as often as its cluster was drawn."""
    names, of_item = np.unique(labels, return_inverse=True)
    draw_clusters = item_draw(len(names))

    def draw(rng: np.random.Generator, resamples: int, scratch: Scratch) -> np.ndarray:
        return scratch.take("drawn", draw_clusters(rng, resamples, scratch), of_item)

    return draw


def _interval(values: np.ndarray, confidence: float, units: int) -> Interval:
    defined = values[np.isfinite(values)]
    if not len(defined):
        return Interval(None, None, confidence, units, 0, "undefined in every resample")
    half = stats.t.ppf((1 + confidence) / 2, units - 1) * math.sqrt(units / (units - 1))
    low, high = np.quantile(defined, stats.norm.cdf([-half, half]))
    return Interval(float(low), float(high), confidence, units, len(defined))


def _too_few(units: int, name: str) -> str | None:
    return f"{units} {name}{'' if units == 1 else 's'}, at least 2 are needed" if units < 2 else None


def _labels(labels: ArrayLike, length: int) -> np.ndarray:
    found: Any = np.asarray(labels)
    if found.shape != (length,):
        raise ValueError(f"labels have shape {found.shape}, expected {(length,)}")
    return found.astype(str) if found.dtype == object else found


def _check(coefficients: Sequence[str], confidence: float, resamples: int) -> None:
    unknown = [name for name in coefficients if name not in COEFFICIENTS]
    if unknown:
        raise ValueError(f"unknown coefficient {unknown[0]!r}; there are {', '.join(COEFFICIENTS)}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    if resamples < 1:
        raise ValueError(f"at least one resample is needed, got {resamples}")

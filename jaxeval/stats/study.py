"""Every metric against every human or objective column: the numbers of `correlate`, as rows of a table.

Two levels. Of the utterance an item is an edit or a caption; of the system it is the mean over a system's items, which
says whether a metric ranks systems as people do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from jaxeval.stats.bootstrap import CONFIDENCE, RESAMPLES, Interval, bootstrap_intervals, compare, rater_intervals
from jaxeval.stats.columns import Joined
from jaxeval.stats.correlation import correlation
from jaxeval.stats.weighted import COEFFICIENTS
from jaxeval.tables import Row

UTTERANCE, SYSTEM = "utterance", "system"


@dataclass(frozen=True)
class StudyConfig:
    """How intervals are made.

    Attributes:
        cluster: what is resampled at the level of utterances: items if None. At that of systems it is always systems.
        confidence, resamples, seed: of the bootstrap.
    """

    cluster: Literal["rater", "system"] | None = None
    confidence: float = CONFIDENCE
    resamples: int = RESAMPLES
    seed: int = 0

    @property
    def _options(self) -> dict[str, Any]:
        return {"confidence": self.confidence, "resamples": self.resamples, "seed": self.seed}


def levels(joined: Joined) -> tuple[str, ...]:
    """The levels that the tables allow."""
    return (UTTERANCE,) if joined.systems is None else (UTTERANCE, SYSTEM)


def correlate(joined: Joined, level: str, metric: str, target: str, config: StudyConfig) -> Row:
    """One row: the coefficients of a metric and a column with their intervals.

    Returns:
        `level, metric, column, n, dropped`, by coefficient its value and `_low` and `_high`, what was `resampled` and
        how many `units` of it there were, and `undefined`, the reason where there is no value or no interval. `n`
        counts items, or systems; `dropped` the items that lack one of the two values.
    """
    x, y = joined.metrics[metric], joined.targets[target]
    there = np.isfinite(x) & np.isfinite(y)
    resampled = SYSTEM if level == SYSTEM else config.cluster or "item"
    if level == SYSTEM:
        x, y = _system_means(joined, there, x, y)
    found = {name: correlation(x, y, name, names=(metric, target)) for name in COEFFICIENTS}
    if resampled == "rater":
        assert joined.ratings is not None
        given = joined.ratings[target]
        intervals = rater_intervals(x, given.values, given.items, given.raters, **config._options)
    else:
        clusters = joined.systems if level == UTTERANCE and resampled == SYSTEM else None
        intervals = bootstrap_intervals(x, y, clusters=clusters, **config._options)
    row: Row = {"level": level, "metric": metric, "column": target}
    row |= {"n": found["lcc"].n, "dropped": int((~there).sum())}
    for name in COEFFICIENTS:
        row |= {name: found[name].value, f"{name}_low": intervals[name].low, f"{name}_high": intervals[name].high}
    reasons = [one.undefined for name in COEFFICIENTS for one in (found[name], intervals[name])]
    row |= {"resampled": resampled, "units": intervals["lcc"].units}
    return row | {"undefined": next((reason for reason in reasons if reason is not None), None)}


def differences(joined: Joined, level: str, metric: str, against: str, target: str, config: StudyConfig) -> list[Row]:
    """Rows that say by how much a metric correlates better with a column than another metric, a coefficient each.

    Their items are those that have all three values. `better` names the metric whose coefficient is higher by an
    interval that leaves 0 out; None where neither is shown to be.
    """
    columns = joined.metrics[metric], joined.metrics[against], joined.targets[target]
    there = np.isfinite(np.stack(columns)).all(axis=0)
    clusters = joined.systems if config.cluster == SYSTEM else None
    if level == SYSTEM:
        columns, clusters = _system_means(joined, there, *columns), None  # type: ignore[assignment]
    rows = []
    for name in COEFFICIENTS:
        found = compare(*columns, name, clusters=clusters, names=(metric, against, target), **config._options)
        row: Row = {"level": level, "metric": metric, "against": against, "column": target, "coefficient": name}
        row |= {"n": found.n, "dropped": int((~there).sum()), "difference": found.difference}
        row |= {"low": found.interval.low, "high": found.interval.high}
        row |= {"better": _better(metric, against, found.interval), "undefined": found.undefined}
        rows.append(row)
    return rows


def _better(metric: str, against: str, interval: Interval) -> str | None:
    if interval.low is None or interval.high is None:
        return None
    return metric if interval.low > 0 else against if interval.high < 0 else None


def _system_means(joined: Joined, there: np.ndarray, *columns: np.ndarray) -> tuple[np.ndarray, ...]:
    """Means [system] over the items that have all values."""
    assert joined.systems is not None
    names, of_item = np.unique(joined.systems[there], return_inverse=True)
    members = [np.flatnonzero(of_item == index) for index in range(len(names))]
    return tuple(np.array([math.fsum(column[there][one]) / len(one) for one in members]) for column in columns)

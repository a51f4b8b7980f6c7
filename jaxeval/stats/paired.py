"""How much scores of the same clips differ: mean, bootstrap interval and effect size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

RESAMPLES = 5000
ELEMENTS_AT_ONCE = 2**23
"""Bounds the memory of resampling: 64 MiB."""


@dataclass(frozen=True)
class PairedDifference:
    """Mean of first minus second score.

    Attributes:
        mean: None without clips.
        low, high: percentile bootstrap interval over clips at `confidence`; None with fewer than two.
        effect_size: mean over standard deviation of the differences (Cohen's d_z); None where they do not vary.
        clips: with both scores.
        dropped: the others.
    """

    mean: float | None
    low: float | None
    high: float | None
    effect_size: float | None
    clips: int
    dropped: int
    confidence: float


def paired_difference(
    first: np.ndarray, second: np.ndarray, *, confidence: float = 0.95, seed: int = 0
) -> PairedDifference:
    """Mean difference of [clip] and [clip] with its uncertainty; a clip with a NaN on either side is dropped.

    Args:
        first: scores of the clips.
        second: scores of the same clips.
        confidence: of the interval.
        seed: of the resampling: the same input gives the same interval.
    """
    differences, dropped = scored_differences(first, second)
    clips = len(differences)
    if clips < 2:
        mean = float(differences[0]) if clips else None
        return PairedDifference(mean, None, None, None, clips, dropped, confidence)
    spread = float(differences.std(ddof=1)) if np.ptp(differences) > 0 else 0.0
    interval = stats.bootstrap(
        (differences,),
        np.mean,
        n_resamples=RESAMPLES,
        batch=max(1, ELEMENTS_AT_ONCE // clips),
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    mean = float(differences.mean())
    effect = mean / spread if spread > 0 else None
    return PairedDifference(mean, float(interval.low), float(interval.high), effect, clips, dropped, confidence)


def scored_differences(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, int]:
    """First minus second where both are there, and how often one is not."""
    with np.errstate(invalid="ignore"):
        differences = np.asarray(first, np.float64) - np.asarray(second, np.float64)
    missing = ~np.isfinite(differences)
    return differences[~missing], int(missing.sum())

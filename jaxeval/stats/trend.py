"""Whether scores fall from one severity to the next: Page's L over all clips, and how many clips are monotone.

A clip is a block: only the order of its own scores counts, so clips need no common scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

MIN_CLIPS = 2
MIN_SEVERITIES = 3


@dataclass(frozen=True)
class Trend:
    """Page's test of falling scores.

    Attributes:
        statistic: Page's L.
        correlation: mean over clips of Spearman's correlation with the predicted order: 1 where all scores fall, 0 by
            chance, -1 where all rise.
        p_value: one-sided.
        clips: scored at every severity, which are the ones that count.
        dropped: clips with a missing score.
        undefined: why there is no test; None where there is one.
    """

    statistic: float | None
    correlation: float | None
    p_value: float | None
    clips: int
    dropped: int
    undefined: str | None = None


@dataclass(frozen=True)
class MonotoneRate:
    """Share of clips whose score falls at every step (`strict`), or rises at none (`weak`); None without clips."""

    strict: float | None
    weak: float | None
    clips: int
    dropped: int


def page_trend(scores: np.ndarray) -> Trend:
    """Page's L for scores that fall along the first axis (Page, "Ordered hypotheses for multiple treatments", 1963).

    scipy's test is for an increase, so the columns are reversed. Ties get mean ranks. The p-value is exact where scipy
    takes the exact one (up to 20 clips at 3 severities, 12 at more) and normal beyond; neither corrects for ties,
    which makes it too large rather than too small.

    Args:
        scores: [severity, clip], NaN where a score is missing.
    """
    complete, dropped = complete_clips(scores)
    severities, clips = complete.shape
    if severities < MIN_SEVERITIES:
        return Trend(None, None, None, clips, dropped, f"{severities} severities, at least {MIN_SEVERITIES} are needed")
    if clips < MIN_CLIPS:
        return Trend(None, None, None, clips, dropped, f"{clips} clips scored, at least {MIN_CLIPS} are needed")
    result = stats.page_trend_test(complete.T[:, ::-1])
    correlation = 12 * result.statistic / (clips * severities * (severities**2 - 1))
    correlation -= 3 * (severities + 1) / (severities - 1)
    return Trend(float(result.statistic), float(correlation), float(min(result.pvalue, 1.0)), clips, dropped)


def monotone_rate(scores: np.ndarray) -> MonotoneRate:
    """How many clips' scores fall along the first axis of [severity, clip]; clips with a NaN are dropped."""
    complete, dropped = complete_clips(scores)
    clips = complete.shape[1]
    if not clips:
        return MonotoneRate(None, None, 0, dropped)
    steps = np.diff(complete, axis=0)
    return MonotoneRate(float((steps < 0).all(axis=0).mean()), float((steps <= 0).all(axis=0).mean()), clips, dropped)


def complete_clips(scores: np.ndarray) -> tuple[np.ndarray, int]:
    """The clips of [severity, clip] whose scores are all finite, and the number of the others."""
    missing = ~np.isfinite(scores).all(axis=0)
    return np.asarray(scores, np.float64)[:, ~missing], int(missing.sum())

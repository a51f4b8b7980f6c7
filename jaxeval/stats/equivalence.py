"""Whether scores stay the same: two one-sided tests against a margin.

That a difference is not significant says little: too few clips suffice for it. Equivalence has to be shown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from jaxeval.stats.paired import scored_differences

MIN_CLIPS = 2


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests of a mean difference.

    Attributes:
        margin: the largest difference that is none.
        mean: of first minus second.
        low, high: the interval of confidence 1 - 2·level, which lies within the margin where the test rejects.
        p_value: of the larger of the two tests.
        equivalent: whether it is at most the level.
        clips: with both scores.
        dropped: the others.
        undefined: why there is no test; None where there is one.
    """

    margin: float
    mean: float | None
    low: float | None
    high: float | None
    p_value: float | None
    equivalent: bool
    clips: int
    dropped: int
    undefined: str | None = None


def equivalence(first: np.ndarray, second: np.ndarray, *, margin: float, level: float = 0.05) -> Equivalence:
    """Paired t-tests that the mean difference is over -margin and under margin (Schuirmann, 1987).

    Args:
        first: scores [clip], NaN where missing.
        second: scores of the same clips.
        margin: the largest difference that counts as none, in units of the score.
        level: of each of the two tests, and so of both.

    Returns:
        The tests. Differences that are all the same leave no doubt: the p-value is 0 within the margin, else 1.

    Raises:
        ValueError: the margin is not positive.
    """
    if not margin > 0:
        raise ValueError(f"margin must be positive, got {margin}")
    differences, dropped = scored_differences(first, second)
    clips = len(differences)
    if clips < MIN_CLIPS:
        reason = f"{clips} clips scored, at least {MIN_CLIPS} are needed"
        return Equivalence(margin, None, None, None, None, False, clips, dropped, reason)
    mean = float(differences.mean())
    error = float(differences.std(ddof=1) / np.sqrt(clips)) if np.ptp(differences) > 0 else 0.0
    if error > 0:
        p_value = float(stats.t.sf((margin - abs(mean)) / error, clips - 1))
        half = float(stats.t.ppf(1 - level, clips - 1) * error)
    else:
        p_value, half = float(abs(mean) >= margin), 0.0
    return Equivalence(margin, mean, mean - half, mean + half, p_value, p_value <= level, clips, dropped)

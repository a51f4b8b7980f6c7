"""What every caption metric gives, and how one says that it cannot."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Score(NamedTuple):
    """Values of one metric.

    Attributes:
        corpus: over the whole set.
        items: [items] float64.
    """

    corpus: float
    items: np.ndarray


class Unavailable(Exception):
    """A metric cannot be computed here; the message is the reason, in one line that says what to do about it."""


def mean_score(items: np.ndarray) -> Score:
    """Score of a metric whose corpus value is the mean of its items."""
    return Score(float(np.mean(items)), np.asarray(items, np.float64))

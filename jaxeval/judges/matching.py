"""Soft F1 of two sets of tags, from how similar each pair is (after BERTScore, Zhang et al., 2020)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

Matching = Literal["greedy", "optimal"]


def soft_f1(similarity: np.ndarray, matching: Matching = "greedy") -> float:
    """Harmonic mean of soft precision and soft recall.

    Args:
        similarity: of every predicted tag with every reference tag, `[predicted, reference]` in [0, 1], none empty.
        matching: `greedy` gives every tag its most similar one on the other side, so one may serve several; `optimal`
            is the one-to-one assignment of greatest total similarity, where tags left over count as 0.
    """
    if matching == "greedy":
        precision, recall = similarity.max(1).mean(), similarity.max(0).mean()
    else:
        total = similarity[linear_sum_assignment(similarity, maximize=True)].sum()
        precision, recall = total / similarity.shape[0], total / similarity.shape[1]
    return float(2 * precision * recall / (precision + recall)) if precision + recall > 0 else 0.0

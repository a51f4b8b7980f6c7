"""Edit_score and Faith_score: how well an edit was carried out, and how much of the rest it kept, from caption metrics.

Equations 2 and 3 of "Interpretable Audio Editing Evaluation via Chain-of-Thought Difference-Commonality Reasoning with
Multimodal LLMs". D stands for metrics of the difference caption, C for those of the commonality caption:

    Edit_score  =        σ(log(w · (D_FENSE, D_SPIDEr)  + ε · exp(-λ · v · (C_SPICE, C_METEOR))))
    Faith_score = sign · σ(log(u · (C_SPICE, C_ROUGE-L) + ε · exp(-λ · z · (D_METEOR, D_ROUGE-L))))

σ(log a) is a / (1 + a) and is computed so. Plain NumPy in float64: no model code is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

Part = ArrayLike | Sequence[float | None]
"""Of any shapes that broadcast; None or NaN where an item has none."""

EPSILON = 1e-6
DECAY = 0.5

EDIT_PARTS = ("difference_fense", "difference_spider", "commonality_spice", "commonality_meteor")
FAITH_PARTS = ("commonality_spice", "commonality_rouge_l", "difference_meteor", "difference_rouge_l")
"""What the scores are made of, in the order of their arguments, as columns of an item table are named."""


class EditScores(NamedTuple):
    """Scores of items.

    Attributes:
        values: float64 in the shape of the parts; NaN where a part is missing.
        clamped: of how many the weighted sum was below 0, as FENSE can be, and was taken as 0.
    """

    values: np.ndarray
    clamped: int


@dataclass(frozen=True)
class Weights:
    """Weights of one score, each pair in the order of the arguments.

    Attributes:
        gain: of the two metrics that the score rises with.
        decay: of the two metrics in the exponent.
    """

    gain: tuple[float, float]
    decay: tuple[float, float]


EDIT_WEIGHTS = Weights(gain=(0.48, 0.52), decay=(0.46, 0.54))
FAITH_WEIGHTS = Weights(gain=(0.48, 0.52), decay=(0.53, 0.47))
"""As published."""


def edit_score(
    d_fense: Part,
    d_spider: Part,
    c_spice: Part,
    c_meteor: Part,
    *,
    weights: Weights = EDIT_WEIGHTS,
) -> EditScores:
    """How well an edit was carried out: 0 is worst, 1 is never reached.

    Args:
        d_fense, d_spider: FENSE and SPIDEr of the difference captions.
        c_spice, c_meteor: SPICE and METEOR of the commonality captions.
        weights: see `fit_weights`.
    """
    return _score(d_fense, d_spider, c_spice, c_meteor, weights)


def faith_score(
    c_spice: Part,
    c_rouge_l: Part,
    d_meteor: Part,
    d_rouge_l: Part,
    *,
    sign: Literal[-1, 1] = -1,
    z_terms: Literal["printed", "labelled"] = "printed",
    weights: Weights | None = None,
) -> EditScores:
    """How much of the rest an edit kept. As printed it lies in (-1, 0] and *falls* as the captions get better.

    Args:
        c_spice, c_rouge_l: SPICE and ROUGE-L of the commonality captions.
        d_meteor, d_rouge_l: METEOR and ROUGE-L of the difference captions.
        sign: -1 as printed; 1 for a score that rises with what was kept.
        z_terms: the published weights z are labelled `sp` and `me` but printed before METEOR and ROUGE-L. "printed"
            goes by their place, "labelled" gives METEOR the one labelled so, and ROUGE-L the other. Behind ε it makes
            no difference that anyone could measure.
        weights: in place of the published ones; see `fit_weights`.

    Raises:
        ValueError: `sign` or `z_terms` is something else.
    """
    if sign not in (-1, 1):
        raise ValueError(f"sign must be -1 or 1, got {sign!r}")
    if z_terms not in ("printed", "labelled"):
        raise ValueError(f"z_terms must be 'printed' or 'labelled', got {z_terms!r}")
    if weights is None:
        decay = FAITH_WEIGHTS.decay if z_terms == "printed" else FAITH_WEIGHTS.decay[::-1]
        weights = Weights(FAITH_WEIGHTS.gain, decay)
    values, clamped = _score(c_spice, c_rouge_l, d_meteor, d_rouge_l, weights)
    return EditScores(sign * values, clamped)


def fit_weights(gain: Sequence[float], decay: Sequence[float]) -> Weights:
    """Weights in proportion to the linear correlations of the metrics with what the score is to follow.

    Args:
        gain: correlations of the two metrics that the score rises with.
        decay: of the two metrics in the exponent. They correlate the other way; only their size counts.

    Raises:
        ValueError: a correlation is missing or not within -1 and 1, the two of a pair differ in sign, or are both 0.
    """
    return Weights(_in_proportion("gain", gain), _in_proportion("decay", decay))


def missing_parts(row: Mapping[str, object], parts: Sequence[str]) -> str | None:
    """Why an item has no score: the parts that are null or NaN, by name; None where all are there."""
    missing = [name for name in parts if row.get(name) is None or row[name] != row[name]]
    return f"{' and '.join(missing)} missing" if missing else None


def _score(first: Part, second: Part, third: Part, fourth: Part, weights: Weights) -> EditScores:
    first, second, third, fourth = (np.asarray(part, np.float64) for part in (first, second, third, fourth))
    exponent = weights.decay[0] * third + weights.decay[1] * fourth
    total = weights.gain[0] * first + weights.gain[1] * second + EPSILON * np.exp(-DECAY * exponent)
    # Of an item without a score nothing is clamped; a comparison with NaN is false.
    below = total < 0
    total = np.where(below, 0.0, total)
    return EditScores(total / (1 + total), int(np.count_nonzero(below)))


def _in_proportion(name: str, correlations: Sequence[float]) -> tuple[float, float]:
    values = np.asarray(correlations, np.float64)
    if values.shape != (2,) or not (np.abs(values) <= 1).all():
        raise ValueError(f"{name}: two correlations within -1 and 1 are needed, got {list(correlations)}")
    if values.min() * values.max() < 0 or not values.any():
        raise ValueError(f"{name}: {list(correlations)} differ in sign or are both 0, and give no proportion")
    first, second = np.abs(values) / np.abs(values).sum()
    return float(first), float(second)

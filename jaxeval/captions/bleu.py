"""BLEU-1 to BLEU-4 of captions: clipped n-gram precision with a penalty for short candidates.

Papineni et al., "BLEU: a Method for Automatic Evaluation of Machine Translation", ACL 2002, with the choices of the
captioning field (pycocoevalcap): the closest reference length, the shorter one on a tie, and a small constant in
place of smoothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

ORDERS = 4
NAMES = tuple(f"bleu_{order}" for order in range(1, ORDERS + 1))

# pycocoevalcap keeps a precision of 0/0 or 0/n defined with these; they show from the tenth digit on.
_TINY, _SMALL = 1e-15, 1e-9


def bleu(
    candidates: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Corpus BLEU and sentence BLEU.

    Args:
        candidates: tokens of one caption an item.
        references: tokens of one or more captions an item.

    Returns:
        `(corpus, items)` under the names of `NAMES`. The corpus value adds up matches and lengths over the items before
        dividing; it is not the mean of the items. A candidate without tokens gets 0, against any reference.
    """
    counts = np.array([_counts(*item) for item in zip(candidates, references, strict=True)])
    items = [_score(row) for row in counts]
    return (
        dict(zip(NAMES, _score(counts.sum(axis=0)), strict=True)),
        {name: list(values) for name, values in zip(NAMES, zip(*items, strict=True), strict=True)},
    )


def _counts(candidate: Sequence[str], references: Sequence[Sequence[str]]) -> list[int]:
    """Matched n-grams for n = 1..4, then the candidate's length and the closest reference length."""
    limits: Counter[tuple[str, ...]] = Counter()
    for reference in references:
        limits |= _ngrams(reference)
    matched = [0] * ORDERS
    for ngram, count in _ngrams(candidate).items():
        matched[len(ngram) - 1] += min(count, limits[ngram])
    closest = min((len(reference) for reference in references), key=lambda n: (abs(n - len(candidate)), n))
    possible = [max(0, len(candidate) - n) for n in range(ORDERS)]
    return [*matched, *possible, len(candidate), closest]


def _ngrams(tokens: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + n]) for n in range(1, ORDERS + 1) for i in range(len(tokens) - n + 1))


def _score(counts: np.ndarray) -> list[float]:
    """BLEU-1..4 from counts of one item or of their sum."""
    matched, possible = counts[:ORDERS], counts[ORDERS : 2 * ORDERS]
    precisions = (matched + _TINY) / (possible + _SMALL)
    means = np.cumprod(precisions) ** (1 / np.arange(1, ORDERS + 1))
    ratio = (counts[-2] + _TINY) / (counts[-1] + _SMALL)
    penalty = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    return [float(value) for value in means * penalty]

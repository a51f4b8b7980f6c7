"""BLEU-1 to BLEU-4 of captions: clipped n-gram precision with a penalty for short candidates.

Papineni et al., "BLEU: a Method for Automatic Evaluation of Machine Translation", ACL 2002, with the choices of the
captioning field (pycocoevalcap): the closest reference length, the shorter one on a tie, and a small constant in
place of smoothing.
"""

from __future__ import annotations

import numpy as np

from jaxeval.captions.ngrams import ORDERS, Counts, NGrams
from jaxeval.captions.score import Score

NAMES = tuple(f"bleu_{order}" for order in range(1, ORDERS + 1))

# pycocoevalcap keeps a precision of 0/0 or 0/n defined with these; they show from the tenth digit on.
_TINY, _SMALL = 1e-15, 1e-9


def bleu(ngrams: NGrams) -> dict[str, Score]:
    """Corpus BLEU and sentence BLEU, under the names of `NAMES`.

    The corpus value adds up matches and lengths over the items before dividing; it is not the mean of the items. A
    candidate without tokens gets 0, against any reference.
    """
    length = ngrams.candidate_length
    orders = zip(ngrams.candidates, ngrams.references, strict=True)
    matched = np.stack([_matches(mine, theirs, ngrams) for mine, theirs in orders], axis=-1)
    possible = np.maximum(0, length[:, None] - np.arange(ORDERS))
    closest = _closest_length(ngrams)
    items = _score(matched, possible, length, closest)
    corpus = _score(matched.sum(0), possible.sum(0), length.sum(), closest.sum())
    return {name: Score(float(corpus[order]), items[:, order]) for order, name in enumerate(NAMES)}


def _matches(candidates: Counts, references: Counts, ngrams: NGrams) -> np.ndarray:
    """[items] n-grams of one order that are in the candidate, each at most as often as one of the references has it."""
    items = len(ngrams.candidate_length)
    in_item = ngrams.item[references.row] * references.distinct + references.gram
    order = np.argsort(in_item, kind="stable")
    keys, starts = np.unique(in_item[order], return_index=True)
    most = np.maximum.reduceat(references.count[order], starts) if starts.size else references.count
    limits = Counts(*np.divmod(keys, max(1, references.distinct)), most, references.distinct)
    limit = limits.look_up(candidates.row, candidates.gram, most)
    return np.bincount(candidates.row, np.minimum(candidates.count, limit), minlength=items)


def _closest_length(ngrams: NGrams) -> np.ndarray:
    """[items] length of the reference that is closest to the candidate's, the shorter one on a tie."""
    length, beyond = ngrams.reference_length, int(ngrams.reference_length.max()) + 1
    distance = np.abs(length - ngrams.candidate_length[ngrams.item])
    starts = np.flatnonzero(np.diff(ngrams.item, prepend=-1))
    return np.minimum.reduceat(distance * beyond + length, starts) % beyond


def _score(matched: np.ndarray, possible: np.ndarray, length: np.ndarray, closest: np.ndarray) -> np.ndarray:
    """BLEU-1..4 `[..., 4]` from counts `[..., 4]` and lengths `[...]`."""
    precisions = (matched + _TINY) / (possible + _SMALL)
    means = np.cumprod(precisions, axis=-1) ** (1 / np.arange(1, ORDERS + 1))
    ratio = (length + _TINY) / (closest + _SMALL)
    with np.errstate(over="ignore"):  # without tokens the penalty is exp(-huge), 0
        penalty = np.where(ratio < 1, np.exp(1 - 1 / np.minimum(ratio, 1)), 1.0)
    return means * penalty[..., None]

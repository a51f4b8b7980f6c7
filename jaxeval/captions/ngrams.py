"""The n-grams of candidates and references as arrays: counted once, read by BLEU and CIDEr-D.

A Python dictionary a caption is what makes these metrics slow. Here every n-gram of the whole set gets a number, by
sorting, and a count is one entry of an array; both metrics are then sums over such arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ORDERS = 4


@dataclass(frozen=True)
class Counts:
    """How often each n-gram of one order occurs in each row; rows without n-grams have no entries.

    Attributes:
        row: [entries] an item or a caption.
        gram: [entries] number of the n-gram.
        count: [entries] how often it occurs there, at least 1.
        distinct: number of n-grams; `gram` is below it.
    """

    row: np.ndarray
    gram: np.ndarray
    count: np.ndarray
    distinct: int

    @property
    def keys(self) -> np.ndarray:
        """[entries] one ascending number for row and n-gram."""
        return self.row * self.distinct + self.gram

    def look_up(self, row: np.ndarray, gram: np.ndarray, values: np.ndarray) -> np.ndarray:
        """`values` [entries] at the given rows and n-grams, 0 where there is no entry."""
        if not self.row.size:
            return np.zeros(row.shape, values.dtype)
        wanted, keys = row * self.distinct + gram, self.keys
        place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        return np.where(keys[place] == wanted, values[place], 0)


@dataclass(frozen=True)
class NGrams:
    """N-grams of a set of items.

    Attributes:
        candidates: for n = 1..4, the counts of each item's candidate; a row is an item.
        references: for n = 1..4, the counts of each reference; a row is a reference, item after item.
        candidate_length: [items] tokens.
        reference_length: [references] tokens.
        item: [references] the item a reference belongs to, ascending; every item has one at least.
    """

    candidates: list[Counts]
    references: list[Counts]
    candidate_length: np.ndarray
    reference_length: np.ndarray
    item: np.ndarray


def count_ngrams(candidates: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> NGrams:
    """Count the n-grams of tokens, of one candidate an item and of one or more references."""
    captions = [*candidates, *(reference for item in references for reference in item)]
    length = np.array([len(caption) for caption in captions])
    row = np.repeat(np.arange(len(captions)), length)
    left = np.repeat(np.cumsum(length), length) - np.arange(row.size)  # tokens from here to the end of the caption
    number: dict[str, int] = {}
    word = np.array([number.setdefault(token, len(number)) for caption in captions for token in caption], np.int64)
    gram, distinct = word, len(number)
    mine: list[Counts] = []
    theirs: list[Counts] = []
    for order in range(1, ORDERS + 1):
        if order > 1:  # an n-gram is the one a token shorter that begins there, and the last token
            starts = np.flatnonzero(left >= order)
            short = gram[starts] * max(1, len(number)) + word[starts + order - 1]
            gram = np.zeros(row.size, np.int64)
            found, gram[starts] = np.unique(short, return_inverse=True)
            distinct = found.size
        inside = left >= order
        keys, count = np.unique(row[inside] * distinct + gram[inside], return_counts=True)
        rows, grams = np.divmod(keys, max(1, distinct))
        border = np.searchsorted(rows, len(candidates))
        mine.append(Counts(rows[:border], grams[:border], count[:border], distinct))
        theirs.append(Counts(rows[border:] - len(candidates), grams[border:], count[border:], distinct))
    return NGrams(
        candidates=mine,
        references=theirs,
        candidate_length=length[: len(candidates)],
        reference_length=length[len(candidates) :],
        item=np.repeat(np.arange(len(references)), [len(item) for item in references]),
    )

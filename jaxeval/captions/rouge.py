"""ROUGE-L of captions: an F-measure of the longest common subsequence.

Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", ACL 2004, as the captioning field uses it
(pycocoevalcap): the best precision and the best recall over the references, possibly of two different ones, joined
with beta = 1.2.
"""

from __future__ import annotations

from collections.abc import Sequence

BETA = 1.2


def rouge_l(
    candidates: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """ROUGE-L of each item and its mean.

    Args:
        candidates: tokens of one caption an item.
        references: tokens of one or more captions an item.

    Returns:
        `(corpus, items)` under the name `rouge_l`. Empty against empty is 1, as in pycocoevalcap; a caption without
        tokens against one with tokens is 0.
    """
    items = [_f_measure(*item) for item in zip(candidates, references, strict=True)]
    return {"rouge_l": sum(items) / len(items)}, {"rouge_l": items}


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence.

    The columns of the usual table are kept as the bits of one integer (Hyyrö 2004), so that captions of thousands of
    words are no burden.
    """
    places: dict[str, int] = {}
    for index, token in enumerate(first):
        places[token] = places.get(token, 0) | 1 << index
    every = (1 << len(first)) - 1
    row = every
    for token in second:
        match = row & places.get(token, 0)
        row = (row + match | row - match) & every
    return len(first) - row.bit_count()


def _f_measure(candidate: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    if not candidate:
        return float(any(not reference for reference in references))
    common = [longest_common_subsequence(candidate, reference) for reference in references]
    precision = max(common) / len(candidate)
    recall = max(n / len(reference) if reference else 0.0 for n, reference in zip(common, references, strict=True))
    if precision == 0 or recall == 0:
        return 0.0
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)

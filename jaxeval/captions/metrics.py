"""From candidate and reference captions to scores: one function over a registry of metrics.

Stands between the tokenizer and the `metrics` command. A new metric is a function from `Captions` to corpus and item
values and one line of `_REGISTRY`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from jaxeval.captions.bleu import NAMES as BLEU_NAMES
from jaxeval.captions.bleu import bleu
from jaxeval.captions.ptb import ptb_tokenize
from jaxeval.captions.rouge import rouge_l

Scores = tuple[dict[str, float], dict[str, list[float]]]


@dataclass(frozen=True)
class Captions:
    """What a metric may look at: the texts, and their tokens made on first use and shared by all metrics."""

    candidates: Sequence[str]
    references: Sequence[Sequence[str]]

    @cached_property
    def candidate_tokens(self) -> list[list[str]]:
        """Tokens `[item][token]`."""
        return [ptb_tokenize(text) for text in self.candidates]

    @cached_property
    def reference_tokens(self) -> list[list[list[str]]]:
        """Tokens `[item][reference][token]`."""
        return [[ptb_tokenize(text) for text in texts] for texts in self.references]


_REGISTRY: tuple[tuple[tuple[str, ...], Callable[[Captions], Scores]], ...] = (
    (BLEU_NAMES, lambda captions: bleu(captions.candidate_tokens, captions.reference_tokens)),
    (("rouge_l",), lambda captions: rouge_l(captions.candidate_tokens, captions.reference_tokens)),
)

METRICS = tuple(name for names, _ in _REGISTRY for name in names)
"""Names of all metrics, in the order tables show them; every one is better when higher."""


def caption_metrics(
    candidates: Sequence[str], references: Sequence[Sequence[str]], metrics: Sequence[str] | None = None
) -> tuple[dict[str, float], list[dict[str, float]]]:
    """Score captions against references as pycocoevalcap does, tokenisation included.

    Args:
        candidates: one caption an item; may be empty.
        references: one or more captions an item.
        metrics: names out of `METRICS`; default all of them.

    Returns:
        `(corpus, items)`: the value of each metric over the whole set, and one dictionary of values an item. Corpus
        BLEU is not the mean of its items.

    Raises:
        ValueError: no items, lengths that differ, an item without references, an unknown metric.
    """
    wanted = METRICS if metrics is None else tuple(metrics)
    if unknown := [name for name in wanted if name not in METRICS]:
        raise ValueError(f"unknown caption metric {unknown[0]!r}; known are {', '.join(METRICS)}")
    if not candidates or len(candidates) != len(references):
        raise ValueError(
            f"{len(candidates)} candidates for {len(references)} items of references; need as many, and one at least"
        )
    for index, texts in enumerate(references):
        if isinstance(texts, str) or not texts:
            raise ValueError(f"item {index}: references must be a list of one or more captions")
    captions = Captions(candidates, references)
    corpus: dict[str, float] = {}
    columns: dict[str, list[float]] = {}
    for names, score in _REGISTRY:
        if any(name in wanted for name in names):
            whole, each = score(captions)
            corpus |= whole
            columns |= each
    items = [{name: columns[name][index] for name in wanted} for index in range(len(candidates))]
    return {name: corpus[name] for name in wanted}, items

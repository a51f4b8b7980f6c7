"""From candidate and reference captions to scores: one function over a registry of metrics.

Stands between the tokenizer and the `metrics` command. A new metric is one function and one line of `_REGISTRY`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from jaxeval.captions.bleu import NAMES as BLEU_NAMES
from jaxeval.captions.bleu import bleu
from jaxeval.captions.cider import cider_d
from jaxeval.captions.meteor import check_meteor, meteor
from jaxeval.captions.ngrams import NGrams, count_ngrams
from jaxeval.captions.ptb import ptb_tokenize
from jaxeval.captions.rouge import rouge_l
from jaxeval.captions.score import Score, Unavailable
from jaxeval.captions.similarity import check_fluency, fense, sbert_sim
from jaxeval.captions.spice import check_spice, spice
from jaxeval.captions.tools import Tools

Values = dict[str, float | None]


@dataclass(frozen=True)
class Captions:
    """What a metric may look at: the texts, and their tokens and n-grams, made on first use and shared by all."""

    candidates: Sequence[str]
    references: Sequence[Sequence[str]]

    @cached_property
    def tokens(self) -> tuple[list[list[str]], list[list[list[str]]]]:
        """Tokens of the candidates `[item][token]`, and of the references `[item][reference][token]`."""
        texts = {*self.candidates, *(text for texts in self.references for text in texts)}
        known = {text: ptb_tokenize(text) for text in texts}
        return [known[text] for text in self.candidates], [[known[text] for text in texts] for texts in self.references]

    @cached_property
    def ngrams(self) -> NGrams:
        """Counts of the n-grams of the tokens."""
        return count_ngrams(*self.tokens)


@dataclass(frozen=True)
class CaptionScores:
    """Values of the metrics asked for; None where one could not be computed.

    Attributes:
        corpus: over the whole set.
        items: of each item.
        reasons: why, for each that is None.
    """

    corpus: Values
    items: list[Values]
    reasons: dict[str, str]


def _nothing(tools: Tools) -> None:
    """The check of a metric that needs nothing from outside."""


@dataclass(frozen=True)
class _Metric:
    """One line of the registry.

    Attributes:
        names: the metrics it gives.
        score: from captions, tools, and the scores of `needs` by name.
        check: raises `Unavailable` if what it needs from outside is missing.
        needs: metrics it is made of.
    """

    names: tuple[str, ...]
    score: Callable[[Captions, Tools, Mapping[str, Score]], dict[str, Score]]
    check: Callable[[Tools], None] = _nothing
    needs: tuple[str, ...] = ()


def _spider(spice: Score, cider_d: Score) -> Score:
    """SPIDEr (Liu et al., 2017) as published for audio captions: the mean of SPICE and CIDEr-D, item by item."""
    return Score((spice.corpus + cider_d.corpus) / 2, (spice.items + cider_d.items) / 2)


_REGISTRY = (
    _Metric(BLEU_NAMES, lambda captions, tools, made: bleu(captions.ngrams)),
    _Metric(("meteor",), lambda captions, tools, made: {"meteor": meteor(*captions.tokens, tools)}, check_meteor),
    _Metric(("rouge_l",), lambda captions, tools, made: {"rouge_l": rouge_l(*captions.tokens)}),
    _Metric(("cider_d",), lambda captions, tools, made: {"cider_d": cider_d(captions.ngrams)}),
    _Metric(("spice",), lambda captions, tools, made: {"spice": spice(*captions.tokens, tools)}, check_spice),
    _Metric(
        ("spider",),
        lambda captions, tools, made: {"spider": _spider(made["spice"], made["cider_d"])},
        needs=("spice", "cider_d"),
    ),
    _Metric(
        ("sbert_sim",),
        lambda captions, tools, made: {"sbert_sim": sbert_sim(captions.candidates, captions.references, tools)},
    ),
    _Metric(
        ("fense",),
        lambda captions, tools, made: {"fense": fense(captions.candidates, made["sbert_sim"], tools)},
        check_fluency,
        needs=("sbert_sim",),
    ),
)
"""Every metric, after those that it needs."""

METRICS = tuple(name for metric in _REGISTRY for name in metric.names)
"""Names of all metrics, in the order tables show them; every one is better when higher."""


def caption_metrics(
    candidates: Sequence[str], references: Sequence[Sequence[str]], metrics: Sequence[str] | None = None
) -> tuple[Values, list[Values]]:
    """Score captions against references, tokenisation included; `score_captions` also tells why a value is None.

    Args:
        candidates: one caption an item; may be empty.
        references: one or more captions an item.
        metrics: names out of `METRICS`; default all of them.

    Returns:
        `(corpus, items)`: the value of each metric over the whole set, and one dictionary of values an item. Corpus
        BLEU and METEOR are not the mean of their items.

    Raises:
        ValueError: no items, lengths that differ, an item without references, an unknown metric.
    """
    scores = score_captions(candidates, references, metrics)
    return scores.corpus, scores.items


def score_captions(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] | None = None,
    tools: Tools | None = None,
) -> CaptionScores:
    """`caption_metrics`, with the reason for every value that is None.

    A metric whose tools are missing or fail is None, in the corpus and in every item, and so are those made of it.

    Args:
        candidates: one caption an item; may be empty.
        references: one or more captions an item.
        metrics: names out of `METRICS`; default all of them.
        tools: where optional tools are; default as the environment says.

    Raises:
        ValueError: no items, lengths that differ, an item without references, an unknown metric.
        InputError: the environment variables of the tools are wrong.
    """
    wanted = METRICS if metrics is None else tuple(metrics)
    _check(candidates, references, wanted)
    tools = tools or Tools.from_environment()
    captions = Captions(candidates, references)
    scores: dict[str, Score] = {}
    reasons: dict[str, str] = {}
    for metric in _chosen(wanted):
        try:
            _check_needs(metric, reasons)
            scores |= metric.score(captions, tools, scores)
        except Unavailable as reason:
            reasons |= dict.fromkeys(metric.names, str(reason))
    columns = {name: scores[name].items.tolist() if name in scores else [None] * len(candidates) for name in wanted}
    return CaptionScores(
        corpus={name: scores[name].corpus if name in scores else None for name in wanted},
        items=[{name: columns[name][index] for name in wanted} for index in range(len(candidates))],
        reasons={name: reasons[name] for name in wanted if name in reasons},
    )


def available(tools: Tools | None = None) -> dict[str, str | None]:
    """For each of `METRICS` why it cannot be computed here, or None if all that it needs is there.

    Looks at files and asks Java for its version; whether a model folder can be read shows when it is.
    """
    tools = tools or Tools.from_environment()
    reasons: dict[str, str] = {}
    for metric in _REGISTRY:
        try:
            _check_needs(metric, reasons)
            metric.check(tools)
        except Unavailable as reason:
            reasons |= dict.fromkeys(metric.names, str(reason))
    return {name: reasons.get(name) for name in METRICS}


def _check(candidates: Sequence[str], references: Sequence[Sequence[str]], wanted: Sequence[str]) -> None:
    if unknown := [name for name in wanted if name not in METRICS]:
        raise ValueError(f"unknown caption metric {unknown[0]!r}; known are {', '.join(METRICS)}")
    if not candidates or len(candidates) != len(references):
        raise ValueError(
            f"{len(candidates)} candidates for {len(references)} items of references; need as many, and one at least"
        )
    for index, texts in enumerate(references):
        if isinstance(texts, str) or not texts:
            raise ValueError(f"item {index}: references must be a list of one or more captions")


def _chosen(wanted: Sequence[str]) -> list[_Metric]:
    """The metrics that give a wanted name, and those they need, in the order of the registry."""
    names = set(wanted)
    for metric in _REGISTRY:
        if names.intersection(metric.names):
            names.update(metric.needs)
    return [metric for metric in _REGISTRY if names.intersection(metric.names)]


def _check_needs(metric: _Metric, reasons: Mapping[str, str]) -> None:
    for need in metric.needs:
        if need in reasons:
            raise Unavailable(f"needs {need}: {reasons[need]}")

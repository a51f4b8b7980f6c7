"""Scores of cards, field by field: text through a judge, what is measured through the scorers (design §5).

Between reading and reporting: `score` and `audit` both call a `CardMetric` with predictions and their references.
A field missing or malformed in a prediction scores 0 without anyone being asked; one missing in the reference has no
score; what a judge could not score has a reason instead of a value. `axis_means` and `total` sum a card up.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol, cast

import numpy as np

from jaxeval.cards.schema import ACOUSTIC_FIELDS, FIELDS, AudioCard, Axis
from jaxeval.judges.protocol import Item, Judge, Progress, Score, Text, no_progress
from jaxeval.scorers import SCORES, SIGMA, count_words, length_penalty, score_matrix

Wanted = Sequence[Collection[str]]
"""For each card the fields to score."""
Scores = dict[str, list[Score | None]]
"""For each column a score a card; None where it was not wanted, or the reference has nothing to compare with."""


class CardMetric(Protocol):
    """Anything that scores cards against references.

    Attributes:
        name: as tables show it.
        columns: what it scores: fields, parts of fields, or whole cards.
    """

    name: str
    columns: tuple[str, ...]

    def score(
        self,
        predictions: Sequence[AudioCard],
        references: Sequence[AudioCard],
        wanted: Wanted,
        *,
        progress: Progress = no_progress,
    ) -> Scores:
        """Score cards; `progress` hears of items that are done."""
        ...


class TextMetric:
    """The text fields, as a judge or a baseline sees them.

    Args:
        judge: what scores the texts.
        length: multiply the scores of captions of a wanted length by `length_penalty`: symmetric, with the shorter ones
            free where the field's name says "or less", or (for baselines) not at all.
    """

    def __init__(self, judge: Judge, *, length: Literal["symmetric", "upper_bound"] | None = "symmetric"):
        self.judge, self.name, self.length = judge, judge.name, length
        self.columns = tuple(name for name, field in FIELDS.items() if field.kind in judge.kinds)

    def score(
        self,
        predictions: Sequence[AudioCard],
        references: Sequence[AudioCard],
        wanted: Wanted,
        *,
        progress: Progress = no_progress,
    ) -> Scores:
        """See `CardMetric`; items that are equal are judged once."""
        scores: Scores = {name: [None] * len(predictions) for name in self.columns}
        asked: dict[Item, list[int]] = {}
        for index, (prediction, reference) in enumerate(zip(predictions, references, strict=True)):
            for name in self.columns:
                if name not in wanted[index] or name not in reference.values:
                    continue
                if name not in prediction.values:
                    scores[name][index] = Score(0.0)
                    continue
                item = Item(name, cast(Text, reference.values[name]), cast(Text, prediction.values[name]))
                asked.setdefault(item, []).append(index)
        judged = self.judge.score(list(asked), progress=progress)
        for (item, places), score in zip(asked.items(), judged, strict=True):
            for index in places:
                scores[item.field][index] = self._with_length(item, score)
        return scores

    def _with_length(self, item: Item, score: Score) -> Score:
        field = FIELDS[item.field]
        if self.length is None or field.words is None or score.value is None:
            return score
        words = count_words(cast(str, item.prediction))
        factor = length_penalty(words, field.words, upper_bound=self.length == "upper_bound" and field.upper_bound)
        return dataclasses.replace(score, value=score.value * float(factor))


class AcousticMetric:
    """What is measured: loudness, pitch, events and spectrum, and the parts their scores are made of.

    Args:
        sigma: σ of `lufs` in dB and of `median_f0` in semitones.
    """

    name = "scorers"
    columns: tuple[str, ...] = SCORES

    def __init__(self, sigma: Mapping[str, float] = SIGMA):
        self.sigma = dict(sigma)

    def score(
        self,
        predictions: Sequence[AudioCard],
        references: Sequence[AudioCard],
        wanted: Wanted,
        *,
        progress: Progress = no_progress,
    ) -> Scores:
        """See `CardMetric`; parts of a field are wanted with it."""
        found = score_matrix(
            [card.values for card in predictions], [card.values for card in references], sigma=self.sigma
        )
        return {
            name: [
                Score(float(value)) if field_of(name) in fields and not math.isnan(value) else None
                for value, fields in zip(found[name], wanted, strict=True)
            ]
            for name in self.columns
        }


def scores_at(
    found: Mapping[str, Scores], index: int
) -> tuple[dict[str, dict[str, float | None]], dict[str, dict[str, str]]]:
    """What several metrics say of one card: scores by metric and column, and reasons of those without a value."""
    scores: dict[str, dict[str, float | None]] = {}
    reasons: dict[str, dict[str, str]] = {}
    for name, columns in found.items():
        for column, each in columns.items():
            score = each[index]
            if score is not None:
                scores.setdefault(name, {})[column] = None if score.value is None else round(score.value, 6)
                if score.reason is not None:
                    reasons.setdefault(name, {})[column] = score.reason
    return scores, reasons


def field_of(column: str) -> str:
    """The field that a column of `AcousticMetric` is about."""
    return max((name for name in ACOUSTIC_FIELDS if column.startswith(name)), key=len)


def axis_means(scores: Mapping[str, float | None]) -> dict[Axis, float | None]:
    """Mean score of each axis over its fields that have one; None for an axis without."""
    means: dict[Axis, float | None] = {}
    for axis in Axis:
        values = [scores.get(name) for name, field in FIELDS.items() if field.axis is axis]
        known = [value for value in values if value is not None]
        means[axis] = float(np.mean(known)) if known else None
    return means


def total(means: Mapping[Axis, float | None], weights: Mapping[Axis, float]) -> float | None:
    """Weighted mean over the axes that have a score; None where none has."""
    known = [(weights[axis], value) for axis, value in means.items() if value is not None and weights[axis] > 0]
    if not known:
        return None
    return sum(weight * value for weight, value in known) / sum(weight for weight, _ in known)

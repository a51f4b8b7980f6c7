"""Baselines for the text axes: the metrics of captioning, and soft F1 over the embeddings of tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jaxeval.captions import METRICS, caption_metrics
from jaxeval.cards.schema import TEXT_KINDS, Kind
from jaxeval.judges.matching import Matching, soft_f1
from jaxeval.judges.protocol import Item, Progress, Score, Text, no_progress, score_others

if TYPE_CHECKING:
    from jaxeval.models.sentence_encoder import SentenceEncoder

CAPTION_BASELINES = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "meteor")
"""Caption metrics that lie in [0, 1]."""


class CaptionBaseline:
    """A caption metric of `jaxeval.captions`, of one prediction against one reference.

    Tags are a caption too: sorted, since a set has no order, and joined. Where the metric is not available, every item
    is unscored and says so.
    """

    kinds = TEXT_KINDS

    def __init__(self, metric: str):
        if metric not in CAPTION_BASELINES:
            raise ValueError(f"{metric!r} is none of {', '.join(CAPTION_BASELINES)}")
        self.name = metric

    def score(self, items: Sequence[Item], *, progress: Progress = no_progress) -> list[Score]:
        """One score an item; see `Judge`."""
        return score_others(self.kinds, items, progress, lambda rest: self._measure(rest, progress))

    def _measure(self, items: Sequence[Item], progress: Progress) -> list[Score]:
        progress(len(items))
        if self.name not in METRICS:
            return [Score(None, f"the caption metric {self.name} is not available") for _ in items]
        predictions = [_joined(item.prediction) for item in items]
        references = [[_joined(item.reference)] for item in items]
        rows = caption_metrics(predictions, references, [self.name])[1]
        return [Score(min(1.0, row[self.name])) for row in rows]


class SoftF1:
    """F1 of tags with the cosine of their embeddings, negative ones as 0, in place of equality."""

    name = "soft_f1"
    kinds = frozenset({Kind.TAGS})

    def __init__(self, encoder: SentenceEncoder, *, matching: Matching = "greedy"):
        self._encoder, self._matching = encoder, matching

    def score(self, items: Sequence[Item], *, progress: Progress = no_progress) -> list[Score]:
        """One score an item; see `Judge`."""
        return score_others(self.kinds, items, progress, lambda rest: self._measure(rest, progress))

    def _measure(self, items: Sequence[Item], progress: Progress) -> list[Score]:
        vectors = self._encoder.encode_sets([side for item in items for side in (item.prediction, item.reference)])
        scores = []
        for predicted, reference in zip(vectors[::2], vectors[1::2], strict=True):
            cosines = np.clip(predicted @ reference.T, 0, 1)
            scores.append(Score(soft_f1(cosines, self._matching)))
        progress(len(items))
        return scores


def _joined(text: Text) -> str:
    return text if isinstance(text, str) else ", ".join(sorted(text, key=str.casefold))

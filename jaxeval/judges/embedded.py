"""The embedded judge: no network and no LLM, only a sentence encoder that comes with the project.

Tags are scored by soft F1 with a one-to-one assignment, so that what is missing and what is made up both cost. Texts
are scored by the mean of two marks: `sentence`, the similarity of the whole, and `words`, soft F1 over the content
words, which notices a single wrong word that the whole hardly feels.

Cosines are stretched so that 0 is what unrelated texts reach and 1 what the same in other words reaches. The ends of
the scales were read off all-MiniLM-L6-v2: captions of different recordings have a cosine of 0.22 on average and
unrelated tags 0.3; light rewordings of captions have 0.93 in the median, and synonyms mostly more than 0.7. Another
encoder may want others.

Limits. Antonyms are close to each other in such embeddings (loud and quiet are closer than loud and soft), so a
wrong attribute costs less than it should, and a synonym that the encoder does not know costs as much. Word order,
negation, and who does what to whom hardly count. There is no knowledge of the world: an inference that is as plausible
as the reference but another one scores low. Texts are compared up to some 190 words. English only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jaxeval.cards.schema import TEXT_KINDS
from jaxeval.judges.matching import soft_f1
from jaxeval.judges.protocol import Item, Progress, Score, Text, no_progress, score_others

if TYPE_CHECKING:
    from jaxeval.models.sentence_encoder import SentenceEncoder

TEXT_SCALE = (0.2, 0.9)
"""Cosines of texts that become 0 and 1."""
WORD_SCALE = (0.3, 0.7)
"""The same for tags and single words."""
MOST_WORDS = 256
"""Words of a text that are looked at, as the encoder looks at no more tokens."""
CHUNK = 4096
"""Items between two reports of progress."""
_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_FUNCTION_WORDS = """
a an the this that these those some any each every other another such same and or but nor so if then than as
while because when where who whom whose which what how of in on at to from with without by for into onto over
under out off up down through between among about after before during near is are was were be been being am do
does did has have had can could will would shall should may might must it its he his him she her they their them
we our us you your i my me one there here very also just too only
"""
_IGNORED = frozenset(_FUNCTION_WORDS.split())


class EmbeddedJudge:
    """The judge; see the module docstring.

    Args:
        encoder: gives the embeddings.
    """

    name = "embedded"
    kinds = TEXT_KINDS

    def __init__(self, encoder: SentenceEncoder):
        self._encoder = encoder

    def score(self, items: Sequence[Item], *, progress: Progress = no_progress) -> list[Score]:
        """One score an item; see `Judge`."""
        return score_others(self.kinds, items, progress, lambda rest: self._judge(rest, progress))

    def _judge(self, items: Sequence[Item], progress: Progress) -> list[Score]:
        scores: list[Score] = []
        for start in range(0, len(items), CHUNK):
            chunk = items[start : start + CHUNK]
            sides = [side for item in chunk for side in (item.prediction, item.reference)]
            vectors = self._encoder.encode_sets([part for side in sides for part in (_parts(side), _whole(side))])
            scores += [_score(*vectors[first : first + 4]) for first in range(0, len(vectors), 4)]
            progress(len(chunk))
        return scores


def _parts(side: Text) -> Sequence[str]:
    """Tags, or the content words of a text; if it has none, whatever stands between its spaces."""
    if not isinstance(side, str):
        return side
    words = list(dict.fromkeys(_WORD.findall(side.lower())))
    return ([word for word in words if word not in _IGNORED] or side.split())[:MOST_WORDS]


def _whole(side: Text) -> Sequence[str]:
    return (side,) if isinstance(side, str) else ()


def _score(parts: np.ndarray, whole: np.ndarray, reference_parts: np.ndarray, reference: np.ndarray) -> Score:
    """The score of one item from the vectors of its prediction and of its reference."""
    cosines = _stretched(parts @ reference_parts.T, WORD_SCALE)
    if not len(whole):
        return Score(soft_f1(cosines, "optimal"))
    marks = {
        "sentence": float(_stretched(whole @ reference.T, TEXT_SCALE)[0, 0]),
        # Greedy, since one word often stands for two: "car alarm", "siren".
        "words": soft_f1(cosines, "greedy"),
    }
    return Score(sum(marks.values()) / len(marks), marks=marks)


def _stretched(cosines: np.ndarray, scale: tuple[float, float]) -> np.ndarray:
    low, high = scale
    return np.clip((cosines - low) / (high - low), 0, 1)

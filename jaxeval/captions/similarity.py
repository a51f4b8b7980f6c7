"""Similarity of captions by the vectors of sentences, and FENSE, which punishes broken sentences.

Zhou et al., "Can Audio Captions Be Evaluated with Image Caption Metrics?", ICASSP 2022. Both look at the texts as
written, not at their tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxeval.captions.score import Score, Unavailable, mean_score
from jaxeval.captions.tools import Tools
from jaxeval.errors import InputError

THRESHOLD, PENALTY = 0.9, 0.9
"""Above this probability of an error, this share of the similarity is taken away."""


def sbert_sim(candidates: Sequence[str], references: Sequence[Sequence[str]], tools: Tools) -> Score:
    """Cosine of the sentence vectors of a candidate and each of its references; the mean over the references.

    Raises:
        Unavailable: the sentence encoder cannot be read.
    """
    try:
        encoder = tools.sentence_encoder
    except InputError as error:
        raise Unavailable(str(error)) from None
    vectors = encoder.encode([*candidates, *(text for texts in references for text in texts)])
    item = np.repeat(np.arange(len(candidates)), [len(texts) for texts in references])
    cosine = np.einsum("rd,rd->r", vectors[: len(candidates)][item], vectors[len(candidates) :], dtype=np.float64)
    return mean_score(np.bincount(item, cosine) / np.bincount(item))


def check_fluency(tools: Tools) -> None:
    """Raise `Unavailable` if the detector of errors is not named."""
    if tools.fluency is None:
        raise Unavailable(
            "FENSE needs its detector of errors, a folder named in JAXEVAL_FLUENCY; `python -m tools.convert_fluency` "
            "makes it of echecker_clotho_audiocaps_base.ckpt, a file of release V0.1 of "
            "https://github.com/blmoistawinde/fense"
        )


def fense(candidates: Sequence[str], similarity: Score, tools: Tools) -> Score:
    """`sbert_sim` of each item, a tenth of it where the detector is sure that the candidate is no proper sentence.

    Raises:
        Unavailable: the detector cannot be read.
    """
    check_fluency(tools)
    try:
        detector = tools.fluency_detector
    except InputError as error:
        raise Unavailable(str(error)) from None
    broken = detector.error_probability(candidates) > THRESHOLD
    return mean_score(similarity.items * (1 - PENALTY * broken))

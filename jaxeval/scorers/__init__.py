"""The score math of audio cards: pure, traceable functions, and `score_matrix` on top, which scores a whole matrix.

float32 in, float32 out, any leading axes; NaN means undefined.
"""

from jaxeval.scorers.chance import chance_level, skill
from jaxeval.scorers.events import Events, EventScores, event_scores
from jaxeval.scorers.length import count_words, length_penalty
from jaxeval.scorers.matrix import SCORES, score_matrix
from jaxeval.scorers.packing import MISSING, Cells, EventLists, flatten_events, pack_cells, pack_events
from jaxeval.scorers.scalars import SIGMA, hz_to_semitones, normalized_mae, robust_sigma
from jaxeval.scorers.spectrum import exact_spectral_score, ordinal_spectral_score

__all__ = [
    "MISSING",
    "SCORES",
    "SIGMA",
    "Cells",
    "EventLists",
    "EventScores",
    "Events",
    "chance_level",
    "count_words",
    "event_scores",
    "exact_spectral_score",
    "flatten_events",
    "hz_to_semitones",
    "length_penalty",
    "normalized_mae",
    "ordinal_spectral_score",
    "pack_cells",
    "pack_events",
    "robust_sigma",
    "score_matrix",
    "skill",
]

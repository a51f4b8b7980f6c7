"""A whole matrix at once: the values of the scorers called alone, however it is cut, and what missing fields score."""

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from jaxeval.scorers import (
    SCORES,
    SIGMA,
    event_scores,
    exact_spectral_score,
    hz_to_semitones,
    normalized_mae,
    ordinal_spectral_score,
    pack_cells,
    pack_events,
    score_matrix,
)
from tests.scorers.cells import moved, random_events

SHAPE = (2, 3, 30)
ONE = jax.devices()[:1]
close = partial(np.testing.assert_allclose, rtol=0, atol=1e-6)


def card(rng: np.random.Generator, events: np.ndarray) -> dict:
    """The acoustic fields of a card as `AudioCard.values` has them."""
    return {
        "lufs": None if rng.random() < 0.2 else float(rng.normal(-25, 7)),
        "median_f0": None if rng.random() < 0.2 else float(rng.uniform(50, 900)),
        "active_event": tuple(map(tuple, events.tolist())),
        "frequency_profile": tuple(rng.integers(0, 4, 10).tolist()),
    }


@pytest.fixture(scope="module")
def matrix():
    """Predictions [type][severity][clip] and references [clip]; one list is far longer than all others."""
    rng = np.random.default_rng(0)
    types, severities, clips = SHAPE
    events = [random_events(rng, most=8) for _ in range(clips)]
    predictions = [
        [
            [card(rng, moved(rng, one) if clip % 3 else random_events(rng, most=8)) for clip, one in enumerate(events)]
            for _ in range(severities)
        ]
        for _ in range(types)
    ]
    predictions[1][2][7]["active_event"] = tuple((float(k), k + 0.5) for k in range(100))
    return predictions, [card(rng, one) for one in events]


@pytest.fixture(scope="module")
def found(matrix):
    return score_matrix(*matrix)


def test_every_score_is_that_of_the_scorer_called_alone(matrix, found):
    predictions, references = matrix
    pred = [one for rows in predictions for row in rows for one in row]
    ref = references * (SHAPE[0] * SHAPE[1])

    def column(cards, name):
        return np.array([one[name] for one in cards], np.float32)

    events = event_scores(*(pack_events([one["active_event"] for one in cards]) for cards in (pred, ref)))
    levels = column(pred, "frequency_profile"), column(ref, "frequency_profile")
    f0 = [hz_to_semitones(column(cards, "median_f0")) for cards in (pred, ref)]
    expected = {
        "lufs": normalized_mae(column(pred, "lufs"), column(ref, "lufs"), SIGMA["lufs"]),
        "median_f0": normalized_mae(f0[0], f0[1], SIGMA["median_f0"]),
        "active_event": (events.f1 + events.miou) / 2,
        "frequency_profile": ordinal_spectral_score(*levels),
        "active_event_f1": events.f1,
        "active_event_precision": events.precision,
        "active_event_recall": events.recall,
        "active_event_miou": events.miou,
        "frequency_profile_exact": exact_spectral_score(*levels),
    }
    assert tuple(found) == tuple(expected) == SCORES
    for name, values in expected.items():
        assert found[name].shape == SHAPE and found[name].dtype == np.float32
        close(found[name].ravel(), values)


def test_one_device_in_chunks_gives_what_eight_give_at_once(matrix, found):
    assert jax.device_count() == 8
    packed = tuple(map(pack_cells, matrix))
    assert packed[0].shape == SHAPE and packed[1].shape == SHAPE[2:]
    jax.tree.map(close, score_matrix(*packed, chunk=100, devices=ONE), found)


def test_a_clip_scores_the_same_in_a_matrix_of_its_own(matrix, found):
    predictions, references = matrix
    alone = score_matrix(predictions[1][2][7], references[7], devices=ONE)
    for name, value in alone.items():
        assert value.shape == ()
        close(value, found[name][1, 2, 7])


def test_options_reach_the_scorers():
    pred = {"lufs": -20.0, "median_f0": 220.0, "active_event": ((0.0, 1.0),), "frequency_profile": (0,) * 10}
    ref = {"lufs": -21.0, "median_f0": 440.0, "active_event": ((0.4, 1.4),), "frequency_profile": (0,) * 10}
    options: dict[str, Any] = {"sigma": {"lufs": 1.0, "median_f0": 12.0}, "undefined": "exclude", "tolerance": 0.4}
    scores = score_matrix([pred, pred | {"lufs": None}], ref, devices=ONE, **options)
    np.testing.assert_array_equal(scores["lufs"], [0.75, np.nan])
    np.testing.assert_array_equal(scores["median_f0"], [0.75, 0.75])
    np.testing.assert_array_equal(scores["active_event_f1"], [1, 1])
    wrong: dict[str, Any] = {"matching": "best", "tolerance": -1.0, "undefined": "drop"}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=name):
            score_matrix([pred], ref, **{name: value})


def test_missing_fields_score_0_in_a_prediction_and_are_left_out_of_the_reference():
    nothing: dict = {}
    undefined = {"lufs": None, "median_f0": None, "active_event": (), "frequency_profile": (0,) * 10}
    scores = score_matrix([nothing, undefined, nothing], [undefined, nothing, nothing], devices=ONE)
    for name, values in scores.items():
        np.testing.assert_array_equal(values, [0, np.nan, np.nan], err_msg=name)
    assert all(value == 1 for value in score_matrix(undefined, undefined, devices=ONE).values())


def test_a_matrix_without_clips_has_no_scores():
    assert score_matrix([], [])["lufs"].shape == (0,)


def test_a_matrix_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"axis 1 of the matrix has lists of lengths \[1, 2\]"):
        pack_cells([[{}], [{}, {}]])
    with pytest.raises(ValueError, match="frequency_profile: expected 10 levels"):
        pack_cells([{"frequency_profile": (0,) * 9}, {"frequency_profile": (0,) * 11}])

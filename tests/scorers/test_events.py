"""Events: F1 and mIoU against float64 references, at borders, and the same in every way of calling."""

from fractions import Fraction
from functools import partial
from itertools import permutations
from typing import Any

import jax
import mir_eval
import numpy as np
import pytest

from jaxeval.scorers import Events, EventScores, event_scores, pack_events
from jaxeval.scorers.events import _is_plain
from jaxeval.sharding import batch_sharding, make_mesh
from tests.scorers.cells import pair_weights, random_cells, reference_scores

CELLS = 20_000
close = partial(np.testing.assert_allclose, rtol=0, atol=1e-6)


@pytest.fixture(scope="module")
def cells():
    return random_cells(CELLS)


@pytest.fixture(scope="module")
def packed(cells):
    return tuple(map(pack_events, cells))


def scores(pred, ref, **options: Any) -> EventScores:
    """Scores of one cell as Python numbers."""
    return EventScores(*(score.item() for score in event_scores(pack_events([pred]), pack_events([ref]), **options)))


@pytest.mark.parametrize("matching", ["iou", "tolerance"])
def test_scores_of_20_000_cells_are_those_of_an_assignment_in_float64(cells, packed, matching):
    expected = np.array([reference_scores(pred, ref, matching) for pred, ref in zip(*cells, strict=True)])
    found = event_scores(*packed, matching=matching)
    close(found.f1, expected[:, 0])
    close(found.miou, expected[:, 1])


def test_the_cells_are_of_every_kind(cells, packed):
    pred, ref = cells
    plain = np.asarray(_is_plain(packed[0], 0.2, "iou") & _is_plain(packed[1], 0.2, "iou"))
    some = np.array([len(a) > 1 and len(b) > 1 for a, b in zip(pred, ref, strict=True)])
    assert (plain & some).sum() > 0.1 * CELLS and (~plain & some).sum() > 0.3 * CELLS
    assert sum(not len(a) and not len(b) for a, b in zip(pred, ref, strict=True)) > 100
    assert max(map(len, ref)) == 12


def test_the_reference_itself_finds_what_trying_every_assignment_finds(cells):
    small = [cell for cell in zip(*cells, strict=True) if 0 < len(cell[0]) <= len(cell[1]) <= 4]
    for pred, ref in small[:300]:
        near, iou = pair_weights(pred, ref)
        rows = np.arange(len(pred))
        choices = [np.array(choice) for choice in permutations(range(len(ref)), len(pred))]
        hits = max(near[rows, choice].sum() for choice in choices)
        total = max(iou[rows, choice].sum() for choice in choices)
        expected = 2 * hits / (len(pred) + len(ref)), total / len(ref)
        np.testing.assert_allclose(reference_scores(pred, ref), expected, rtol=0, atol=1e-12)


def test_f1_is_that_of_mir_eval_where_it_matches_onsets_and_offsets_of_one_pitch(cells, packed):
    found = event_scores(*packed)
    for index, (pred, ref) in enumerate(list(zip(*cells, strict=True))[:1500]):
        # mir_eval refuses events without length, and gives 0 to two empty lists.
        if not len(pred) or not len(ref) or (np.diff(pred) <= 0).any() or (np.diff(ref) <= 0).any():
            continue
        pitches = np.full(len(ref), 440.0), np.full(len(pred), 440.0)
        precision, recall, f1, _ = mir_eval.transcription.precision_recall_f1_overlap(
            ref, pitches[0], pred, pitches[1], onset_tolerance=0.2, offset_ratio=0.0, offset_min_tolerance=0.2
        )
        expected = precision, recall, f1
        np.testing.assert_allclose([x[index] for x in (found.precision, found.recall, found.f1)], expected, atol=1e-6)


def test_prediction_and_reference_may_change_places(packed):
    there, back = event_scores(*packed), event_scores(*reversed(packed))
    close(there.f1, back.f1)
    close(there.miou, back.miou)
    np.testing.assert_array_equal(there.precision, back.recall)


def test_the_order_of_events_never_matters(cells, packed):
    rng = np.random.default_rng(1)
    shuffled = [pack_events([rng.permutation(events) for events in lists]) for lists in cells]
    jax.tree.map(np.testing.assert_array_equal, event_scores(*shuffled), event_scores(*packed))
    backwards = []
    for events in packed:
        order = np.where(
            np.arange(16) < events.count[:, None], events.count[:, None] - 1 - np.arange(16), np.arange(16)
        )
        onset, offset = (np.take_along_axis(x, order, axis=-1) for x in (events.onset, events.offset))
        backwards.append(Events(onset, offset, events.count))
    jax.tree.map(close, event_scores(*backwards), event_scores(*packed))


def test_a_cell_scores_the_same_alone_in_a_batch_and_over_eight_devices(packed):
    few, expected = jax.tree.map(lambda x: x[:64], (packed, event_scores(*packed)))
    for row in range(16):
        alone = event_scores(*jax.tree.map(lambda x, row=row: x[row], few))
        jax.tree.map(close, alone, jax.tree.map(lambda x, row=row: x[row], expected))
    mesh = make_mesh()
    assert mesh.size == 8
    jax.tree.map(close, event_scores(*jax.device_put(few, batch_sharding(mesh))), expected)


def test_leading_axes_broadcast_and_vmap_adds_one(packed):
    pred, ref = jax.tree.map(lambda x: x[:8], packed)
    table = jax.vmap(event_scores, in_axes=(None, 0))(jax.tree.map(lambda x: x.reshape(2, 4, *x.shape[1:]), pred), ref)
    assert table.f1.shape == (8, 2, 4)
    diagonal = jax.tree.map(lambda x: np.diag(x.reshape(8, 8)), table)
    jax.tree.map(close, diagonal, jax.tree.map(lambda x: x[:8], event_scores(*packed)))


@pytest.mark.parametrize("overlapping", [False, True])
def test_long_lists_are_exact_too(overlapping):
    rng = np.random.default_rng(2)
    times = np.sort(rng.uniform(0, 300, 1200)).reshape(2, 300, 2)
    times[..., 1] += overlapping * rng.uniform(0, 5, (2, 300))
    pred, ref = times.astype(np.float32).astype(float)
    if not overlapping:
        pred, ref = (np.sort(events.ravel()).reshape(-1, 2) for events in (pred, ref))
    found = scores(pred, ref)
    close([found.f1, found.miou], reference_scores(pred, ref))


@pytest.mark.parametrize(("offset", "expected"), [(0.9, 1.0), (0.90004, 1.0), (0.9002, 0.0), (0.9001, 0.0)])
@pytest.mark.parametrize("start", [0.0, 0.1, 100.0, 400.0])
def test_the_border_counts_as_inside_and_is_decided_at_a_tenth_of_a_millisecond(offset, expected, start):
    assert scores([(start, start + 0.7)], [(start, start + offset)]).f1 == expected
    assert scores([(start, start + offset)], [(start, start + 0.7)]).f1 == expected


def test_the_border_is_exact_for_float32_times(packed):
    rng = np.random.default_rng(3)
    time = np.concatenate([rng.uniform(0, 1, 1500), rng.uniform(0, 999, 500)]).astype(np.float32)
    partner = (time + rng.choice([-1, 1], time.size) * 0.20005).astype(np.float32)
    for _ in range(2):  # and the numbers next to those closest to the border
        partner = np.nextafter(partner, np.float32(rng.choice([-1e9, 1e9])))
        keep = partner >= 0
        early, late = np.minimum(time, partner)[keep], np.maximum(time, partner)[keep]
        border = Fraction(0.2 + 0.5e-4)
        expected = [Fraction(float(b)) - Fraction(float(a)) <= border for a, b in zip(early, late, strict=True)]
        assert 0.1 < np.mean(expected) < 0.9
        for pair in ((early, late), (late, early)):
            sides = [Events(*(x.copy() for x in side)) for side in packed]
            for side, onset in zip(sides, pair, strict=True):
                side.onset[: onset.size, 0], side.offset[: onset.size, 0], side.count[: onset.size] = onset, 999.5, 1
            np.testing.assert_array_equal(event_scores(*sides).f1[: early.size], expected)


def test_two_empty_lists_agree_and_one_empty_list_does_not():
    assert scores([], []) == EventScores(1, 1, 1, 1)
    assert scores([], [(0, 1)]) == scores([(0, 1)], []) == EventScores(0, 0, 0, 0)


def test_a_missing_prediction_scores_0_and_a_missing_reference_is_left_out():
    assert scores(None, []) == scores(None, [(0, 1)]) == EventScores(0, 0, 0, 0)
    assert np.isnan(scores([], None)).all() and np.isnan(scores(None, None)).all()


def test_an_event_without_length_overlaps_nothing_but_its_like():
    assert scores([(1, 1)], [(1, 1)]).miou == 1
    assert scores([(1, 1)], [(0.9, 1.1)]).miou == 0
    assert scores([(1, 1), (1, 1), (2, 3)], [(1, 1), (1, 1)]).miou == pytest.approx(2 / 3)


def test_repeated_events_are_false_positives():
    found = scores([(0, 1), (0, 1), (0, 1)], [(0, 1)])
    assert (found.precision, found.recall, found.f1) == pytest.approx((1 / 3, 1, 0.5))
    assert found.miou == pytest.approx(1 / 3)


def test_sounds_shorter_than_the_tolerance_match_without_any_overlap():
    assert scores([(1.0, 1.1)], [(1.15, 1.25)]) == EventScores(1, 1, 1, 0)


def test_the_largest_matching_is_found_where_taking_the_nearest_first_fails():
    assert scores([(1.0, 2.0), (1.15, 2.15)], [(1.16, 2.16), (1.3, 2.3)]).f1 == 1


def test_miou_may_pair_other_events_than_f1():
    pred, ref = [(0.0, 10.0)], [(0.1, 0.2), (0.3, 9.5)]
    assert scores(pred, ref).f1 == 0 and scores(pred, ref).miou == pytest.approx(0.46)
    assert scores(pred, ref, matching="tolerance", tolerance=0.4).miou == 0


def test_of_the_largest_matchings_within_tolerance_one_of_greatest_total_iou_counts():
    crossed = [(0.0, 0.3), (0.3, 0.6)], [(0.3, 0.6), (0.6, 0.9)]
    assert scores(*crossed, matching="tolerance", tolerance=0.4) == EventScores(1, 1, 1, 0)
    pred, ref = [(0.0, 1.0), (0.1, 1.1)], [(0.1, 1.1), (0.0, 1.0)]
    assert scores(pred, ref, matching="tolerance", tolerance=0.4) == EventScores(1, 1, 1, 1)


def test_the_tolerance_can_be_set():
    assert scores([(0, 1)], [(0, 1.4)], tolerance=0.4, matching="tolerance").f1 == 1
    assert scores([(0, 1)], [(0, 1.41)], tolerance=0.4, matching="tolerance").f1 == 0


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="matching='best', expected one of iou, tolerance"):
        scores([], [], matching="best")
    with pytest.raises(ValueError, match="tolerance=-1, expected at least 0"):
        scores([], [], tolerance=-1)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([(2.0, 1.0)], r"events of list 1: \[2, 1\], expected finite times, onset first"),
        ([(0.0, float("nan"))], r"events of list 1: \[0, nan\]"),
        ([(0.0, 1.0, 2.0)], "expected pairs of numbers"),
        ([("a", "b")], "expected pairs of numbers"),
    ],
)
def test_events_that_are_none_are_refused(events, message):
    with pytest.raises(ValueError, match=message):
        pack_events([[(0.0, 1.0)], events])


def test_packing_sorts_pads_and_takes_lists_and_arrays():
    lists = [[(2, 3), (1, 5), (1, 4)], [], None]
    packed = pack_events(lists)
    assert packed.onset.shape == (3, 8) and packed.onset.dtype == np.float32
    np.testing.assert_array_equal(packed.count, [3, 0, -1])
    np.testing.assert_array_equal(packed.onset[0], [1, 1, 2, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(packed.offset[0], [4, 5, 3, 0, 0, 0, 0, 0])
    arrays = pack_events([np.array(lists[0]), np.array([])])
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x, y[:2]), arrays, packed)
    assert pack_events([[(0, 1)] * 9]).onset.shape == (1, 16)
    assert pack_events([]).onset.shape == (0, 8)
    assert event_scores(pack_events([]), pack_events([])).f1.shape == (0,)

"""Shifts of known size: scalars, events, spectrum."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxeval.cards.schema import MISSING_LEVEL
from jaxeval.perturb import Edit, ErrorType, Severity, Skip
from jaxeval.perturb.cells import EVENT_TYPES
from jaxeval.perturb.numeric import SIGMAS, perturb_events, perturb_scalar, perturb_spectrum

KEYS = [(0, str(index), "field", "type") for index in range(40)]
LOW, MEDIUM, HIGH = Severity
EVENTS = ((0.5, 1.5), (3.0, 4.0), (5.0, 5.5), (7.0, 9.0))


def value(edit: Edit | Skip) -> Any:
    assert isinstance(edit, Edit)
    return edit.value


def distance(name: str, before: float, edit: Edit | Skip) -> float:
    return abs(12 * math.log2(value(edit) / before) if name == "median_f0" else value(edit) - before)


@pytest.mark.parametrize(("name", "before"), [("lufs", -23.0), ("median_f0", 440.0)])
@pytest.mark.parametrize(("severity", "score"), [(LOW, 0.9375), (MEDIUM, 0.625), (HIGH, 0.25)])
def test_a_scalar_is_shifted_to_its_golden_score_either_way(name, before, severity, score):
    edits = [perturb_scalar(name, before, severity, key) for key in KEYS]
    for edit in edits:
        assert 1 - distance(name, before, edit) / (4 * SIGMAS[name]) == pytest.approx(score, abs=1e-12)
    assert {value(edit) > before for edit in edits} == {True, False}


def test_a_sigma_can_be_given():
    assert distance("lufs", -20.0, perturb_scalar("lufs", -20.0, HIGH, KEYS[0], {"lufs": 2.0})) == pytest.approx(6.0)


def test_a_sign_flips_where_the_range_ends_and_says_so():
    edits = [perturb_scalar("lufs", -65.0, HIGH, key) for key in KEYS]
    assert {value(edit) for edit in edits} == {-65.0 + 3 * 6.86}
    assert {edit.flags for edit in edits if isinstance(edit, Edit)} == {(), ("sign flipped",)}


def test_a_scalar_that_cannot_move_is_skipped_with_a_reason():
    assert perturb_scalar("lufs", None, LOW, KEYS[0]) == Skip("undefined in the reference")
    assert perturb_scalar("lufs", -150.0, HIGH, KEYS[0]) == Skip("out of [-70, 5] both ways")


@pytest.mark.parametrize(("severity", "bands", "step"), [(LOW, 2, 1), (MEDIUM, 5, 1), (HIGH, 8, 2)])
def test_bands_move_to_the_exact_ordinal_score(severity, bands, step):
    levels = (0, 1, 2, 3, 0, 1, 2, 3, 0, 3)
    for key in KEYS:
        moved = value(perturb_spectrum(levels, severity, key))
        moves = [abs(new - old) for new, old in zip(moved, levels, strict=True)]
        assert sorted(moves) == [0] * (10 - bands) + [step] * bands
        assert 1 - sum(moves) / 30 == pytest.approx(1 - bands * step / 30)


def test_bands_of_a_lower_severity_are_among_those_of_a_higher():
    levels = (1,) * 10
    for key in KEYS:
        moved = [value(perturb_spectrum(levels, severity, key)) for severity in Severity]
        low, medium, high = ({band for band in range(10) if each[band] != 1} for each in moved)
        assert low < medium < high


def test_a_missing_band_is_left_alone():
    levels = (MISSING_LEVEL,) * 3 + (0,) * 7
    assert value(perturb_spectrum(levels, MEDIUM, KEYS[0]))[:3] == levels[:3]
    assert perturb_spectrum(levels, HIGH, KEYS[0]) == Skip("7 bands, 8 needed")


@pytest.mark.parametrize(("severity", "amount"), [(LOW, 0.1), (MEDIUM, 0.3), (HIGH, 1.0)])
def test_jitter_moves_every_border_by_its_amount(severity, amount):
    for key in KEYS:
        ((onset, offset),) = value(perturb_events(ErrorType.JITTER, ((2.5, 5.0),), 10.0, severity, key))
        assert abs(onset - 2.5) == pytest.approx(amount)
        assert abs(offset - 5.0) == pytest.approx(amount)


def test_jitter_prefers_what_fits_and_flags_what_does_not():
    whole = ((0.0, 4.0),)
    edit = perturb_events(ErrorType.JITTER, whole, 4.0, HIGH, KEYS[0])
    assert edit == Edit(((1.0, 3.0),))  # only shrinking stays inside
    edit = perturb_events(ErrorType.JITTER, ((0.0, 1.0),), 1.0, HIGH, KEYS[0])
    assert isinstance(edit, Edit)
    assert edit.flags == ("held at a border",)


@pytest.mark.parametrize(
    ("type", "counts"),
    [
        (ErrorType.DROP, (3, 2, 1)),
        (ErrorType.INSERT, (5, 6, 7)),
        (ErrorType.MERGE, (3, 2, 1)),
        (ErrorType.SPLIT, (5, 6, 7)),
    ],
)
def test_each_severity_drops_inserts_merges_or_splits_more(type, counts):
    results = [value(perturb_events(type, EVENTS, 10.0, severity, KEYS[0])) for severity in Severity]
    assert tuple(map(len, results)) == counts


def test_what_is_left_or_added_nests():
    for key in KEYS:
        dropped, inserted = (
            [set(value(perturb_events(type, EVENTS, 10.0, severity, key))) for severity in Severity]
            for type in (ErrorType.DROP, ErrorType.INSERT)
        )
        assert set(EVENTS) > dropped[0] > dropped[1] > dropped[2]
        assert set(EVENTS) < inserted[0] < inserted[1] < inserted[2]


def test_inserted_events_lie_where_no_other_is():
    for key in KEYS:
        edit = perturb_events(ErrorType.INSERT, EVENTS, 10.0, HIGH, key)
        inserted = set(value(edit)) - set(EVENTS)
        assert edit == Edit(value(edit))
        assert all(offset <= other[0] or other[1] <= onset for onset, offset in inserted for other in EVENTS)
    covered = perturb_events(ErrorType.INSERT, ((0.0, 2.0),), 2.0, LOW, KEYS[0])
    assert covered == Edit(value(covered), ("inserted over other events",))


def test_merging_and_splitting_keep_the_time_that_is_covered():
    for key in KEYS:
        assert value(perturb_events(ErrorType.MERGE, EVENTS, 10.0, HIGH, key)) == ((0.5, 9.0),)
        split = value(perturb_events(ErrorType.SPLIT, EVENTS, 10.0, HIGH, key))
        assert sum(offset - onset for onset, offset in split) == pytest.approx(4.5)


@pytest.mark.parametrize(
    ("type", "events", "reason"),
    [
        (ErrorType.JITTER, (), "no events"),
        (ErrorType.INSERT, (), "neither events nor a duration"),
        (ErrorType.DROP, EVENTS[:2], "too few events"),
        (ErrorType.MERGE, EVENTS[:3], "too few events"),
        (ErrorType.SPLIT, ((1.0, 1.0),) * 5, "too few events"),
    ],
)
def test_events_that_leave_no_room_for_a_severity_are_skipped(type, events, reason):
    edit = perturb_events(type, events, None, HIGH, KEYS[0])
    assert isinstance(edit, Skip)
    assert reason in edit.reason


SPANS = st.tuples(st.floats(0, 9), st.floats(0, 3)).map(lambda span: (span[0], min(span[0] + span[1], 10.0)))


@given(st.lists(SPANS, max_size=12), st.none() | st.just(10.0), st.sampled_from(EVENT_TYPES), st.integers(0, 99))
def test_events_stay_inside_the_clip_and_in_order(events, duration, type, seed):
    end = duration or max((offset for _, offset in events), default=0.0)
    for severity in Severity:
        edit = perturb_events(type, tuple(events), duration, severity, (seed, "a", "active_event", type))
        if isinstance(edit, Edit):
            result = list(value(edit))
            assert result == sorted(result)
            assert all(0 <= onset <= offset <= end for onset, offset in result)
            assert tuple(result) != tuple(sorted(events)) or type is ErrorType.JITTER

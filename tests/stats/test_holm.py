"""Holm's correction: a worked example, and the promise it makes."""

import numpy as np
import pytest

from jaxeval.stats.holm import holm


def test_a_worked_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_one_test_is_left_as_it_is_and_none_gives_none():
    assert holm([0.04]) == [0.04]
    assert holm([]) == []


def test_undefined_tests_stay_so_and_do_not_count():
    assert holm([None, 0.02, None, 0.01]) == [None, 0.02, None, 0.02]


def test_adjusted_values_are_never_above_one_nor_below_the_raw_ones():
    raw = np.random.default_rng(0).uniform(size=20)
    adjusted = np.array(holm(raw.tolist()))
    assert adjusted.max() <= 1
    assert (adjusted >= raw).all()
    assert (np.diff(adjusted[np.argsort(raw)]) >= 0).all()


def test_the_chance_of_any_false_alarm_stays_at_the_level():
    rng = np.random.default_rng(1)
    alarms = sum(np.min(np.array(holm(rng.uniform(size=6).tolist()))) <= 0.05 for _ in range(2000))
    assert alarms <= 2000 * 0.05 + 2 * np.sqrt(2000 * 0.05 * 0.95)

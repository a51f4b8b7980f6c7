"""Two one-sided tests: equal is shown, not assumed."""

import numpy as np
import pytest
from scipy import stats

from jaxeval.stats.equivalence import equivalence

RNG = np.random.default_rng(0)


def test_the_p_value_is_the_larger_of_two_t_tests():
    first, second = RNG.normal(0.02, 0.1, 25), RNG.normal(0, 0.1, 25)
    over = stats.ttest_1samp(first - second, -0.05, alternative="greater").pvalue
    under = stats.ttest_1samp(first - second, 0.05, alternative="less").pvalue
    assert equivalence(first, second, margin=0.05).p_value == pytest.approx(max(over, under))


@pytest.mark.parametrize("shift", [-0.2, -0.04, 0, 0.03, 0.2])
def test_it_rejects_just_where_the_interval_lies_within_the_margin(shift):
    for clips in (3, 10, 100):
        found = equivalence(RNG.normal(shift, 0.1, clips), np.zeros(clips), margin=0.05)
        assert found.low is not None and found.high is not None
        assert found.equivalent == (found.low > -0.05 and found.high < 0.05)


def test_many_clips_show_equivalence_and_few_noisy_ones_do_not():
    assert equivalence(RNG.normal(0, 0.1, 200), np.zeros(200), margin=0.05).equivalent
    assert not equivalence(RNG.normal(0, 0.1, 4), np.zeros(4), margin=0.05).equivalent


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_difference_at_the_margin_is_called_none_no_more_often_than_the_level(sign):
    wrong = sum(
        equivalence(RNG.normal(sign * 0.05, 0.1, 30), np.zeros(30), margin=0.05).equivalent for _ in range(1000)
    )
    assert wrong <= 1000 * 0.05 + 2 * np.sqrt(1000 * 0.05 * 0.95)


def test_differences_that_do_not_vary_leave_no_doubt():
    assert equivalence(np.ones(2), np.ones(2), margin=0.01).p_value == 0
    assert equivalence(np.full(9, 0.3), np.full(9, 0.1), margin=0.05).p_value == 1
    assert not equivalence(np.full(9, 0.25), np.zeros(9), margin=0.25).equivalent


def test_missing_scores_are_dropped_and_counted_and_too_few_are_undefined():
    found = equivalence(np.array([0.0, np.nan, 0.1]), np.array([0.0, 0.0, 0.1]), margin=0.05)
    assert (found.clips, found.dropped, found.equivalent) == (2, 1, True)
    undefined = equivalence(np.ones(1), np.ones(1), margin=0.05)
    assert (undefined.undefined, undefined.equivalent) == ("1 clips scored, at least 2 are needed", False)


@pytest.mark.parametrize("margin", [0, -1, np.nan])
def test_a_margin_must_be_positive(margin):
    with pytest.raises(ValueError, match="margin must be positive"):
        equivalence(np.ones(3), np.ones(3), margin=margin)

"""Page's L of falling scores, against scipy, by hand and at its borders."""

import numpy as np
import pytest
from scipy import stats

from jaxeval.stats.trend import monotone_rate, page_trend

RNG = np.random.default_rng(0)
NAN = np.nan


def test_scores_that_fall_everywhere_have_the_largest_l_and_a_small_p():
    scores = np.array([[0.9, 0.8, 0.7], [0.5, 0.6, 0.3], [0.1, 0.2, 0.25]])
    trend = page_trend(scores)
    assert (trend.statistic, trend.correlation, trend.clips, trend.dropped) == (42, 1, 3, 0)
    assert trend.p_value == pytest.approx(1 / 6**3)  # one arrangement of all


def test_scores_that_rise_have_correlation_minus_one_and_p_one():
    trend = page_trend(np.arange(12.0).reshape(3, 4))
    assert (trend.correlation, trend.p_value) == (pytest.approx(-1), pytest.approx(1))


@pytest.mark.parametrize("clips", [2, 5, 13, 200])
def test_it_is_scipys_test_of_the_reversed_order(clips):
    scores = RNG.normal(size=(4, clips)) - 0.3 * np.arange(4)[:, None]
    expected = stats.page_trend_test(-scores.T)
    trend = page_trend(scores)
    assert (trend.statistic, trend.p_value) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))


def test_the_correlation_is_the_mean_of_spearmans():
    scores = RNG.normal(size=(4, 30))
    each = [stats.spearmanr(clip, [3, 2, 1, 0]).statistic for clip in scores.T]
    assert page_trend(scores).correlation == pytest.approx(np.mean(each))


def test_a_constant_score_is_no_trend():
    trend = page_trend(np.ones((3, 50)))
    assert trend.correlation == pytest.approx(0)
    assert trend.p_value is not None
    assert trend.p_value >= 0.5


def test_ties_make_the_test_careful_not_bold():
    p_values = np.array([page_trend(RNG.integers(0, 2, (3, 20)) / 2).p_value for _ in range(400)])
    assert (p_values <= 0.05).sum() <= 400 * 0.05 + 2 * np.sqrt(400 * 0.05 * 0.95)


def test_clips_with_a_missing_score_are_dropped_and_counted():
    scores = RNG.normal(size=(3, 10))
    spoilt = np.concatenate([scores, [[NAN, 1, np.inf], [0, NAN, 0], [0, 0, 0]]], axis=1)
    assert page_trend(spoilt).dropped == 3
    assert page_trend(spoilt).statistic == page_trend(scores).statistic
    assert monotone_rate(spoilt).dropped == 3


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        (np.ones((2, 9)), "2 severities, at least 3 are needed"),
        (np.ones((3, 1)), "1 clips scored, at least 2 are needed"),
        (np.full((3, 5), NAN), "0 clips scored, at least 2 are needed"),
        (np.ones((3, 0)), "0 clips scored, at least 2 are needed"),
    ],
)
def test_too_little_is_undefined_and_says_why(scores, reason):
    trend = page_trend(scores)
    assert trend.undefined == reason
    assert (trend.statistic, trend.correlation, trend.p_value) == (None, None, None)


def test_monotone_rates_tell_falling_from_not_rising():
    scores = np.array([[3.0, 3, 3, 1], [2, 3, 2, 2], [1, 1, 2, 3]])
    rate = monotone_rate(scores)
    assert (rate.strict, rate.weak, rate.clips) == (0.25, 0.75, 4)
    assert monotone_rate(np.ones((3, 0))).weak is None

"""Paired differences: mean, interval, effect size, and what is undefined."""

import numpy as np
import pytest

from jaxeval.stats.paired import paired_difference

RNG = np.random.default_rng(0)


def test_mean_and_effect_size_are_those_of_the_differences():
    first, second = RNG.normal(1, 1, 50), RNG.normal(0, 1, 50)
    found = paired_difference(first, second)
    assert found.mean == pytest.approx((first - second).mean())
    assert found.effect_size == pytest.approx((first - second).mean() / (first - second).std(ddof=1))
    assert found.mean is not None and found.low is not None and found.high is not None
    assert found.low < found.mean < found.high


def test_the_interval_holds_the_truth_as_often_as_it_says():
    covered = 0
    for seed in range(200):
        sample = np.random.default_rng(seed).normal(0.3, 1, 40)
        found = paired_difference(sample, np.zeros(40), seed=seed)
        assert found.low is not None and found.high is not None
        covered += found.low <= 0.3 <= found.high
    assert 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200) - 0.01 <= covered / 200


def test_the_same_seed_gives_the_same_interval_and_another_another():
    first, second = RNG.normal(size=30), RNG.normal(size=30)
    assert paired_difference(first, second, seed=1) == paired_difference(first, second, seed=1)
    assert paired_difference(first, second, seed=1).low != paired_difference(first, second, seed=2).low


def test_more_clips_than_fit_at_once_narrow_the_interval():
    found = paired_difference(RNG.normal(0.1, 1, 20_000), np.zeros(20_000))
    assert found.low is not None and found.high is not None
    assert found.high - found.low == pytest.approx(2 * 1.96 / np.sqrt(20_000), rel=0.1)


def test_differences_that_do_not_vary_have_no_effect_size():
    found = paired_difference(np.full(9, 0.3), np.full(9, 0.1))
    assert (found.mean, found.low, found.high) == (pytest.approx(0.2),) * 3
    assert found.effect_size is None


def test_clips_without_a_score_on_either_side_are_dropped_and_counted():
    found = paired_difference(np.array([1, np.nan, 2, 3, -np.inf]), np.array([0, 0, np.nan, 1, -np.inf]))
    assert (found.mean, found.clips, found.dropped) == (1.5, 2, 3)


def test_one_clip_has_a_mean_alone_and_none_has_nothing():
    assert paired_difference(np.ones(1), np.zeros(1)).mean == 1
    assert paired_difference(np.ones(1), np.zeros(1)).low is None
    assert paired_difference(np.ones(0), np.zeros(0)).mean is None

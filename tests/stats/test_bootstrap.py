"""Bootstrap intervals: do they hold the truth as often as they say, by item, cluster and rater?"""

import numpy as np
import pytest
from scipy import stats

from jaxeval.stats import bootstrap_interval, bootstrap_intervals, compare, rater_intervals
from jaxeval.stats.bootstrap import item_draw, replicates
from jaxeval.stats.weighted import COEFFICIENTS, WeightedPair

SCIPY = {"lcc": stats.pearsonr, "srcc": stats.spearmanr, "ktau": stats.kendalltau}


def correlated(rng, items, correlation=0.6):
    x, noise = rng.normal(size=(2, items))
    return x, correlation * x + np.sqrt(1 - correlation**2) * noise


def bounds(interval):
    assert interval.low is not None and interval.high is not None and interval.undefined is None
    return np.array([interval.low, interval.high])


def test_resamples_have_the_coefficients_that_scipy_gives_them():
    x, y = correlated(np.random.default_rng(0), 200)
    y = np.round(y)
    found = replicates([WeightedPair(x, y)], COEFFICIENTS, item_draw(200), 150, seed=3)[0]
    rng = np.random.default_rng(3)
    for resample in range(150):
        drawn = rng.integers(200, size=200)
        wanted = [SCIPY[name](x[drawn], y[drawn]).statistic for name in COEFFICIENTS]
        np.testing.assert_allclose(found[:, resample], wanted, atol=1e-6)


def test_intervals_hold_the_truth_as_often_as_they_say():
    # Of two normal columns the three coefficients follow from the first.
    truth = {"lcc": 0.6, "srcc": 6 / np.pi * np.arcsin(0.3), "ktau": 2 / np.pi * np.arcsin(0.6)}
    held = dict.fromkeys(COEFFICIENTS, 0)
    for seed in range(500):
        x, y = correlated(np.random.default_rng([seed, 1]), 100)
        for name, interval in bootstrap_intervals(x, y, resamples=1000, seed=seed).items():
            low, high = bounds(interval)
            held[name] += low <= truth[name] <= high
    for name, count in held.items():
        assert 0.93 <= count / 500 <= 0.97, name


def test_intervals_of_clusters_hold_the_truth_where_those_of_items_do_not():
    held = {"items": 0, "clusters": 0}
    clusters = np.repeat(np.arange(12), 15)
    for seed in range(200):
        rng = np.random.default_rng([seed, 1])
        x, y = (rng.normal(size=12)[clusters] + 0.5 * rng.normal(size=180) for _ in range(2))
        for kind, labels in (("items", None), ("clusters", clusters)):
            low, high = bounds(bootstrap_interval(x, y, clusters=labels, resamples=400, seed=seed))
            held[kind] += low <= 0 <= high
    assert held["items"] < 0.6 * 200 and 0.9 * 200 <= held["clusters"] <= 0.98 * 200


def test_the_same_seed_gives_the_same_interval_and_another_another():
    x, y = correlated(np.random.default_rng(0), 40)
    assert bootstrap_interval(x, y, seed=1, resamples=300) == bootstrap_interval(x, y, seed=1, resamples=300)
    assert bootstrap_interval(x, y, seed=1, resamples=300) != bootstrap_interval(x, y, seed=2, resamples=300)


def test_one_coefficient_alone_has_the_interval_that_it_has_among_others():
    x, y = correlated(np.random.default_rng(0), 40)
    assert bootstrap_interval(x, y, "ktau", resamples=300) == bootstrap_intervals(x, y, resamples=300)["ktau"]


def test_items_that_lack_a_value_do_not_count():
    x, y = correlated(np.random.default_rng(0), 30)
    labels = [f"s{index % 5}" for index in range(31)]
    whole = bootstrap_interval(x, y, clusters=labels[:30], resamples=200)
    assert bootstrap_interval(np.append(x, np.nan), np.append(y, 1), clusters=labels, resamples=200) == whole


def test_more_items_than_fit_at_once_are_resampled_too():
    x, y = correlated(np.random.default_rng(0), 50_000)
    (width,) = np.diff(bounds(bootstrap_interval(x, y, resamples=200)))
    assert width == pytest.approx(2 * 1.96 * (1 - 0.36) / np.sqrt(50_000), rel=0.2)


def test_there_is_no_interval_without_a_coefficient_or_with_one_cluster():
    assert bootstrap_interval([1, 2], [1, 2]).undefined == "2 items, at least 3 are needed"
    assert bootstrap_interval([1, 2, 3], [4, 4, 4]).undefined == "y is constant"
    lone = bootstrap_interval([1, 2, 3], [4, 4, 5], clusters=["a", "a", "a"])
    assert (lone.low, lone.undefined) == (None, "1 cluster, at least 2 are needed")


def test_resamples_in_which_a_column_is_constant_are_left_out_and_counted():
    interval = bootstrap_interval([1, 2, 3, 4], [0, 0, 0, 1], resamples=2000)
    assert interval.low is not None
    # All but those that lack the last item, or have it alone.
    assert interval.resamples == pytest.approx(2000 * (1 - 0.75**4 - 0.25**4), rel=0.05)


def test_of_two_metrics_the_better_one_is_found():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=400)
    good, bad = truth + 0.5 * rng.normal(size=400), truth + 2 * rng.normal(size=400)
    for name in COEFFICIENTS:
        found = compare(good, bad, truth, name, resamples=500)
        wanted = np.subtract(*(SCIPY[name](metric, truth).statistic for metric in (good, bad)))
        low, high = bounds(found.interval)
        assert found.difference == pytest.approx(wanted) and 0 < low < wanted < high
    assert bounds(compare(good, good, truth, resamples=100).interval).tolist() == [0, 0]


def test_sharing_the_resamples_makes_the_difference_of_like_metrics_sharp():
    rng = np.random.default_rng(0)
    x, y = correlated(rng, 300)
    both = bounds(compare(x, x + 0.1 * rng.normal(size=300), y, resamples=500).interval)
    alone = bounds(bootstrap_interval(x, y, resamples=500))
    assert np.ptp(both) < 0.3 * np.ptp(alone)


def test_a_comparison_is_on_the_items_with_all_values_and_says_what_is_undefined():
    found = compare([1, 2, 3, 4, np.nan], [2, 1, 4, 3, 5], [1, 2, 3, 4, 5], resamples=50)
    assert (found.n, found.dropped) == (4, 1)
    constant = compare([1, 1, 1, 1], [2, 1, 4, 3], [1, 2, 3, 4])
    assert (constant.difference, constant.interval.low, constant.undefined) == (None, None, "first is constant")


def test_raters_with_items_of_their_own_are_clusters():
    x, y = correlated(np.random.default_rng(0), 60)
    raters = np.arange(60) % 6
    found = rater_intervals(x, y, np.arange(60), raters, resamples=300)
    assert found == bootstrap_intervals(x, y, clusters=raters, resamples=300)


def test_raters_who_rate_all_items_are_averaged_anew():
    rng = np.random.default_rng(0)
    x, truth = correlated(rng, 80, 0.8)
    items, raters = np.repeat(np.arange(80), 2), np.tile(["a", "b"], 80)
    ratings = truth[items] + np.where(raters == "a", 0.2, 2.0) * rng.normal(size=160)
    found = rater_intervals(x, ratings, items, raters, resamples=500)
    # Two raters can be drawn in three ways, and with so few the interval goes to the outermost.
    ways = [ratings[raters == "a"], ratings[raters == "b"], ratings.reshape(80, 2).mean(axis=1)]
    for name, interval in found.items():
        values = [SCIPY[name](x, way).statistic for way in ways]
        low, high = bounds(interval)
        assert low < values[-1] < high and high - low == pytest.approx(np.ptp(values))
        assert (interval.units, interval.resamples) == (2, 500)


def test_an_item_counts_as_much_as_the_share_of_its_ratings_that_was_drawn():
    x, ratings = np.arange(6.0), np.array([3, 4, 2, np.nan, 2, 3, 4, 1, 1, 5, 4, 5.0])
    items, raters = np.repeat(np.arange(6), 2), np.tile(["a", "b"], 6)
    found = rater_intervals(x, ratings, items, raters, ("lcc",), resamples=200)["lcc"]
    # Item 1 has a rating by "a" alone: without "a" it is gone, and with "a" twice it is there twice.
    only_a, only_b = [0, 1, 1, 2, 3, 4, 5], [0, 2, 3, 4, 5]
    ways = [(x[only_a], ratings[::2][only_a]), (x[only_b], ratings[1::2][only_b]), (x, [3.5, 2, 2.5, 2.5, 3, 4.5])]
    values = [stats.pearsonr(*way).statistic for way in ways]
    assert np.ptp(bounds(found)) == pytest.approx(np.ptp(values))


def test_intervals_of_raters_are_around_the_coefficient_and_not_below_it():
    rng = np.random.default_rng(0)
    x, truth = correlated(rng, 200, 0.9)
    items, raters = np.repeat(np.arange(200), 6), np.tile(np.arange(6), 200)
    ratings = truth[items] + 2 * rng.normal(size=1200)
    means = ratings.reshape(200, 6).mean(axis=1)
    for name, interval in rater_intervals(x, ratings, items, raters, resamples=500).items():
        low, high = bounds(interval)
        assert (low + high) / 2 == pytest.approx(SCIPY[name](x, means).statistic, abs=0.4 * (high - low))


def test_one_rater_gives_no_interval():
    found = rater_intervals([1, 2, 3], [1, 2, 4, 4], [0, 1, 2, 2], ["a"] * 4)["lcc"]
    assert found.undefined == "1 rater, at least 2 are needed"


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="confidence"):
        bootstrap_interval([1, 2, 3], [1, 2, 4], confidence=95)
    with pytest.raises(ValueError, match="at least one resample"):
        bootstrap_interval([1, 2, 3], [1, 2, 4], resamples=0)
    with pytest.raises(ValueError, match=r"labels have shape \(2,\), expected \(3,\)"):
        bootstrap_interval([1, 2, 3], [1, 2, 4], clusters=["a", "b"])
    with pytest.raises(ValueError, match="unknown coefficient"):
        bootstrap_interval([1, 2, 3], [1, 2, 4], "pearson")

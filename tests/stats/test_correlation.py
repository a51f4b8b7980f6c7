"""LCC, SRCC and KTAU against SciPy's, with and without ties, under weights, and where they are undefined."""

import numpy as np
import pytest
from scipy import stats

from jaxeval.stats import correlation, ktau, lcc, srcc
from jaxeval.stats.weighted import COEFFICIENTS, Scratch, WeightedPair

SCIPY = {"lcc": stats.pearsonr, "srcc": stats.spearmanr, "ktau": stats.kendalltau}
OURS = {"lcc": lcc, "srcc": srcc, "ktau": ktau}


def columns(kind, items, seed=0):
    rng = np.random.default_rng(seed)
    x, noise = rng.normal(size=(2, items))
    y = 0.6 * x + noise
    return {
        "continuous": (x, y),
        "ratings": (x, np.clip(np.round(3 + y), 1, 5)),
        "both tied": (np.round(x), np.round(y)),
        "mostly zero": (np.where(x > 1, x, 0), np.where(y > 1.5, y, 0)),
        "far from zero": (1e6 + x, 1e-9 * y - 1e-4),
    }[kind]


KINDS = ("continuous", "ratings", "both tied", "mostly zero", "far from zero")


@pytest.mark.parametrize("name", COEFFICIENTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("items", [20, 33, 64, 1000])
def test_coefficients_equal_scipys(name, kind, items):
    x, y = columns(kind, items)
    assert OURS[name](x, y) == pytest.approx(SCIPY[name](x, y).statistic, abs=1e-12)


@pytest.mark.parametrize("name", COEFFICIENTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype, close", [(np.float64, 1e-12), (np.float32, 1e-6)])
def test_a_weight_of_two_is_an_item_that_is_there_twice(name, kind, dtype, close):
    x, y = columns(kind, 150)
    drawn = np.random.default_rng(1).integers(150, size=(20, 150))
    weights = np.stack([np.bincount(row, minlength=150) for row in drawn], axis=1).astype(dtype)
    found = WeightedPair(x, y).correlate(name, weights, Scratch(dtype))
    np.testing.assert_allclose(found, [SCIPY[name](x[row], y[row]).statistic for row in drawn], rtol=0, atol=close)


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_weights_count_in_proportion(name):
    pair, scratch = WeightedPair(*columns("ratings", 90)), Scratch()
    weights = np.random.default_rng(0).integers(1, 4, (90, 5)).astype(float)
    found, fractions = (pair.correlate(name, scale * weights, scratch) for scale in (1, 0.1))
    np.testing.assert_allclose(fractions, found, atol=1e-12)


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_a_resample_without_variation_is_no_number(name):
    pair = WeightedPair(np.array([0.1, 0.2, 0.3, 0.7]), np.array([1.0, 1.0, 1.0, 2.0]))
    weights = np.array([[2, 2, 0, 0], [0, 1, 0, 3], [4, 0, 0, 0]], np.float32).T
    found = pair.correlate(name, np.ascontiguousarray(weights), Scratch(np.float32))
    assert np.isnan(found).tolist() == [True, False, True] and found[1] == pytest.approx(1)


def test_an_outlier_that_a_resample_lacks_does_not_cost_its_precision():
    x, y = np.append(np.arange(50.0), 1e9), np.append(np.sin(np.arange(50.0)), 0)
    without = np.append(np.ones(50), 0)[:, None]
    found = WeightedPair(x, y).lcc(without, Scratch())[0]
    assert found == pytest.approx(stats.pearsonr(x[:50], y[:50]).statistic, abs=1e-7)


def test_values_that_differ_in_their_last_digit_keep_their_ranks():
    x = 1e8 + np.arange(20) * 2e-8
    assert srcc(x, np.arange(20.0)) == pytest.approx(1) and ktau(x, np.arange(20.0)) == pytest.approx(1)


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_what_is_undefined_is_named(name):
    assert correlation([1, 2], [1, 2], name).undefined == "2 items, at least 3 are needed"
    assert correlation([], [], name).undefined == "0 items, at least 3 are needed"
    assert correlation([5, 5, 5], [1, 2, 3], name, names=("fense", "quality")).undefined == "fense is constant"
    assert correlation([5, 5, 5], [0, 0, 0], name).undefined == "x and y are constant"
    assert OURS[name]([1, 2, 3], [4, 4, 4]) is None


def test_items_that_lack_a_value_are_dropped_and_counted():
    found = correlation([1, 2, None, 4, np.inf], [1, 2, 3, 5, 9])
    assert (found.n, found.dropped) == (3, 2) and found.value == lcc([1, 2, 4], [1, 2, 5])


def test_columns_of_two_lengths_and_unknown_coefficients_are_refused():
    with pytest.raises(ValueError, match="one length"):
        lcc([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="unknown coefficient 'tau'; there are lcc, srcc, ktau"):
        correlation([1, 2, 3], [1, 2, 3], "tau")

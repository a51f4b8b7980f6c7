"""Edit_score and Faith_score on the published numbers, and at the borders."""

import subprocess
import sys

import numpy as np
import pytest

from jaxeval.edits import edit_score, faith_score
from jaxeval.edits.scores import EDIT_PARTS, EDIT_WEIGHTS, FAITH_PARTS, Weights, fit_weights, missing_parts

# Table 1: FENSE, SPICE, SPIDEr, CIDEr-D, METEOR, ROUGE-L, before and after tuning.
NAMES = ("fense", "spice", "spider", "cider_d", "meteor", "rouge_l")
DIFFERENCE = {
    "base": (0.2633, 0.0581, 0.0302, 0.0024, 0.0397, 0.0435),
    "tuned": (0.8370, 0.5701, 2.8121, 5.0542, 0.4023, 0.7113),
}
COMMONALITY = {
    "base": (0.2664, 0.0267, 0.0250, 0.0232, 0.0459, 0.0615),
    "tuned": (0.6929, 0.2273, 0.5638, 0.9003, 0.1766, 0.3216),
}
ROW = {
    f"{task}_{name}": value
    for task, values in (("difference", DIFFERENCE["tuned"]), ("commonality", COMMONALITY["tuned"]))
    for name, value in zip(NAMES, values, strict=True)
}


def test_the_published_corpus_values_give_the_scores_that_follow_from_them():
    assert edit_score(*(ROW[name] for name in EDIT_PARTS)).values == pytest.approx(0.651, abs=5e-4)
    assert faith_score(*(ROW[name] for name in FAITH_PARTS)).values == pytest.approx(-0.2165, abs=5e-5)


@pytest.mark.parametrize("values", [*DIFFERENCE.values(), *COMMONALITY.values()])
def test_published_spider_is_the_mean_of_spice_and_cider_d(values):
    row = dict(zip(NAMES, values, strict=True))
    assert (row["spice"] + row["cider_d"]) / 2 == pytest.approx(row["spider"], abs=5.1e-5)


def test_the_scores_are_the_equations_as_printed():
    rng = np.random.default_rng(0)
    a, b, c, d = rng.uniform(0, 2, (4, 50))

    def printed(w, v):
        inner = w[0] * a + w[1] * b + 1e-6 * np.exp(-0.5 * (v[0] * c + v[1] * d))
        return 1 / (1 + np.exp(-np.log(inner)))

    np.testing.assert_allclose(edit_score(a, b, c, d).values, printed((0.48, 0.52), (0.46, 0.54)), rtol=1e-14)
    np.testing.assert_allclose(faith_score(a, b, c, d).values, -printed((0.48, 0.52), (0.53, 0.47)), rtol=1e-14)


def test_faith_score_can_be_turned_to_rise_with_what_is_kept():
    worse, better = faith_score([0.1, 0.4], [0.2, 0.5], 0.3, 0.3).values
    assert better < worse
    up = faith_score([0.1, 0.4], [0.2, 0.5], 0.3, 0.3, sign=1).values
    np.testing.assert_array_equal(up, [-worse, -better])


def test_the_weights_behind_epsilon_can_be_read_by_their_labels():
    nothing = np.zeros(2)
    printed, labelled = (
        faith_score(nothing, nothing, [2, 0], [0, 2], z_terms=z).values for z in ("printed", "labelled")
    )
    np.testing.assert_allclose(printed, -1e-6 * np.exp([-0.53, -0.47]), rtol=1e-5)
    np.testing.assert_allclose(labelled, printed[::-1], rtol=1e-14)


def test_nothing_right_scores_next_to_nothing_and_a_sum_below_zero_is_taken_as_zero_and_counted():
    found = edit_score([0.0, -0.2, -1.0, 0.9], [0.0, 0.01, 0.0, -0.1], 0.1, 0.1)
    assert 0 < found.values[0] < 1e-6
    assert found.values[1:3].tolist() == [0, 0] and found.clamped == 2
    assert found.values[3] > 0 and found.values.dtype == np.float64


def test_an_item_that_lacks_a_part_has_no_score_and_is_told_why():
    found = edit_score([0.5, None, -1.0], [1.0, 1.0, 0.1], [0.2, 0.2, np.nan], 0.1)
    assert np.isnan(found.values).tolist() == [False, True, True] and found.clamped == 0
    row = ROW | {"difference_fense": None, "commonality_spice": float("nan")}
    assert missing_parts(row, EDIT_PARTS) == "difference_fense and commonality_spice missing"
    assert missing_parts(row, FAITH_PARTS) == "commonality_spice missing"
    assert missing_parts(ROW, EDIT_PARTS) is None


def test_weights_are_fitted_in_proportion_to_the_correlations():
    # The correlations that the source names: preservation with SPICE and ROUGE-L.
    fitted = fit_weights(gain=(0.67, 0.71), decay=(-0.41, -0.33))
    assert fitted.gain == pytest.approx((0.67 / 1.38, 0.71 / 1.38)) and fitted.gain == pytest.approx(
        (0.48, 0.52), abs=0.01
    )
    assert fitted.decay == pytest.approx((0.41 / 0.74, 0.33 / 0.74))
    assert fit_weights((0.48, 0.52), (0.46, 0.54)).gain == pytest.approx(EDIT_WEIGHTS.gain)


def test_fitted_weights_replace_the_published_ones():
    heavy = Weights(gain=(1.0, 0.0), decay=(0.5, 0.5))
    assert edit_score(0.5, 9.0, 0.0, 0.0, weights=heavy).values == pytest.approx(0.5 / 1.5, abs=1e-5)
    assert faith_score(0.5, 9.0, 0.0, 0.0, weights=heavy).values == pytest.approx(-0.5 / 1.5, abs=1e-5)


@pytest.mark.parametrize("bad", [(0.5, -0.5), (0.0, 0.0), (0.5,), (0.5, 1.5), (0.5, float("nan"))])
def test_correlations_that_give_no_proportion_are_refused(bad):
    with pytest.raises(ValueError, match="gain"):
        fit_weights(gain=bad, decay=(0.5, 0.5))


def test_unknown_readings_are_refused():
    with pytest.raises(ValueError, match="sign"):
        faith_score(0.1, 0.1, 0.1, 0.1, sign=2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="z_terms"):
        faith_score(0.1, 0.1, 0.1, 0.1, z_terms="other")  # type: ignore[arg-type]


def test_scores_and_statistics_are_imported_without_jax():
    code = "import sys, jaxeval.edits, jaxeval.stats; assert not {'jax', 'flax', 'transformers'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)

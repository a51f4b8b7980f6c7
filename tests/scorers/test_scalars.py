"""Numbers, lengths, spectra and what chance makes of them: golden values, undefined ones, chance."""

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from jaxeval.scorers import (
    SIGMA,
    chance_level,
    count_words,
    event_scores,
    exact_spectral_score,
    hz_to_semitones,
    length_penalty,
    normalized_mae,
    ordinal_spectral_score,
    pack_events,
    robust_sigma,
    skill,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("error", "score"), [(0.0, 1.0), (0.25, 0.9375), (1.5, 0.625), (3.0, 0.25), (4.0, 0.0), (9, 0.0)]
)
def test_errors_in_units_of_sigma_have_their_golden_scores(error, score):
    for sign in (-1, 1):
        assert normalized_mae(-20.0, -20 + sign * error * 8, 8.0) == score
    assert normalized_mae(-20.0, -20 + error * SIGMA["lufs"], SIGMA["lufs"]) == pytest.approx(score, abs=1e-6)


def test_undefined_values_agree_or_are_excluded():
    pred, ref = np.array([np.nan, np.nan, -20, -np.inf]), np.array([np.nan, -20, np.nan, np.nan])
    np.testing.assert_array_equal(normalized_mae(pred, ref, 7), [1, 0, 0, 1])
    np.testing.assert_array_equal(normalized_mae(pred, ref, 7, undefined="exclude"), [np.nan] * 4)
    assert np.isnan(normalized_mae(1.0, 1.0, 0.0))
    unknown: Any = "drop"
    with pytest.raises(ValueError, match="undefined='drop', expected 'agree' or 'exclude'"):
        normalized_mae(1, 1, 1, undefined=unknown)


def test_scalar_scores_are_within_1e_6_of_float64():
    pred, ref = (RNG.uniform(-70, 5, 10_000).astype(np.float32) for _ in range(2))
    expected = np.clip(1 - np.abs(pred.astype(float) - ref) / (4 * SIGMA["lufs"]), 0, 1)
    np.testing.assert_allclose(normalized_mae(pred, ref, SIGMA["lufs"]), expected, rtol=0, atol=1e-6)


def test_pitch_scores_are_within_1e_6_of_float64_from_10_hz_to_20_khz():
    pred, ref = (np.exp(RNG.uniform(np.log(10), np.log(20_000), 10_000)).astype(np.float32) for _ in range(2))
    expected = np.clip(1 - np.abs(12 * np.log2(pred.astype(float) / ref)) / (4 * SIGMA["median_f0"]), 0, 1)
    found = normalized_mae(hz_to_semitones(pred), hz_to_semitones(ref), SIGMA["median_f0"])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_an_octave_is_twelve_semitones_and_what_is_no_pitch_is_undefined():
    assert hz_to_semitones(440.0) - hz_to_semitones(220.0) == 12
    assert np.isnan(hz_to_semitones(np.array([0.0, -5.0, np.nan]))).all()


@pytest.mark.parametrize("estimator", ["mad", "iqr"])
def test_robust_sigma_is_the_deviation_of_gaussian_values_whatever_a_few_others_are(estimator):
    values = RNG.normal(3, 6.86, 100_000)
    values[:500], values[500:1000] = 1e6, np.nan
    assert robust_sigma(values, estimator=estimator) == pytest.approx(6.86, rel=0.02)
    assert robust_sigma(np.stack([values, 2 * values]), estimator=estimator).shape == (2,)


def test_robust_sigma_by_hand():
    assert robust_sigma(np.array([1.0, 2, 3, 4, 100])) == pytest.approx(1.4826)
    assert robust_sigma(np.array([1.0, 2, 3, 4, 100]), estimator="iqr") == pytest.approx(2 / 1.349)
    assert np.isnan(robust_sigma(np.array([np.nan, np.inf])))
    unknown: Any = "std"
    with pytest.raises(ValueError, match="estimator='std', expected 'mad' or 'iqr'"):
        robust_sigma(np.ones(3), estimator=unknown)


def test_captions_of_another_length_pay_in_proportion():
    np.testing.assert_allclose(length_penalty(np.arange(8), 3), [0, 1 / 3, 2 / 3, 1, 2 / 3, 1 / 3, 0, 0], atol=1e-6)
    np.testing.assert_allclose(
        length_penalty(np.array([2, 7, 9, 14]), 7, upper_bound=True), [1, 1, 5 / 7, 0], atol=1e-6
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [("", 0), ("A dog barks.", 3), ("a dog – barks ... !", 3), (" 2 dogs\n\tbark ", 3), ("雨が 降る", 2)],
)
def test_a_word_is_a_token_with_a_letter_or_digit(text, words):
    assert count_words(text) == words


@pytest.mark.parametrize(("bands", "steps", "score"), [(2, 1, 0.9333333), (5, 1, 0.8333333), (8, 2, 0.4666667)])
def test_perturbed_spectra_have_their_golden_scores(bands, steps, score):
    ref = RNG.integers(0, 4, 10)
    pred = np.where(np.arange(10) < bands, np.where(ref + steps > 3, ref - steps, ref + steps), ref)
    assert ordinal_spectral_score(pred, ref) == pytest.approx(score, abs=1e-6)
    assert exact_spectral_score(pred, ref) == pytest.approx(1 - bands / 10, abs=1e-6)


def test_a_missing_band_scores_0_in_the_prediction_and_is_left_out_of_the_reference():
    ref = np.array([[0, 1, 2, 3], [0, 1, -1, -1], [-1, -1, -1, -1]], np.int8)
    pred = np.array([[0, 1, -1, 0], [1, 1, -1, 3], [0, 0, 0, 0]], np.int8)
    np.testing.assert_allclose(ordinal_spectral_score(pred, ref), [0.5, 5 / 6, np.nan], atol=1e-6)
    np.testing.assert_allclose(exact_spectral_score(pred, ref), [0.5, 0.5, np.nan], atol=1e-6)


def test_the_worst_profile_scores_exactly_0_and_the_best_exactly_1():
    low, high = np.zeros(10, np.int8), np.full(10, 3, np.int8)
    for bands in range(1, 11):
        missing = np.where(np.arange(10) < bands, 0, -1)
        for score in (ordinal_spectral_score, jax.jit(ordinal_spectral_score)):
            assert score(high, missing) == score(low, high) == score(missing, high) == 0
            assert score(low, missing) == 1


def test_every_scorer_can_be_traced_and_gives_float32():
    levels = RNG.integers(0, 4, (5, 10))
    calls: list[tuple[Any, ...]] = [
        (partial(normalized_mae, sigma=7), np.ones(5), np.zeros(5)),
        (length_penalty, np.arange(5), np.full(5, 3)),
        (ordinal_spectral_score, levels, levels[::-1]),
        (exact_spectral_score, levels, levels[::-1]),
        (skill, np.ones(5), np.zeros(5)),
    ]
    for scorer, pred, ref in calls:
        plain = scorer(pred, ref)
        assert plain.dtype == np.float32
        np.testing.assert_array_equal(jax.jit(scorer)(pred, ref), plain)
        np.testing.assert_array_equal(jax.vmap(scorer)(pred, ref), plain)


def test_a_constant_guess_gets_four_fifths_on_gaussian_numbers_and_two_thirds_on_levels():
    values = RNG.normal(-25, 6.86, 100_000)
    values[:100] = np.nan
    exclude = partial(normalized_mae, sigma=6.86, undefined="exclude")
    assert chance_level(exclude, values) == pytest.approx(0.80, abs=0.01)
    levels = RNG.integers(0, 4, (100_000, 10))
    levels[0] = -1
    assert chance_level(ordinal_spectral_score, levels) == pytest.approx(2 / 3, abs=0.01)


def test_the_constant_guess_is_the_median_of_every_band_and_of_every_event():
    levels = np.array([[0, 3, -1], [0, 3, 1], [1, -1, 2], [3, 3, 2]], np.int8)
    guess = np.array([0, 3, 2], np.int8)
    assert chance_level(ordinal_spectral_score, levels) == pytest.approx(ordinal_spectral_score(guess, levels).mean())
    events = pack_events([[(0, 1), (2, 3)], [(0.2, 1.2)], [(0.4, 1.4), (4, 5), (6, 7)], None])

    def f1(pred, ref):
        return event_scores(pred, ref).f1

    # Two events, [0.2, 1.2] and [3, 4]: hits 1 of 2, 1 of 1 and 1 of 3.
    assert chance_level(f1, events) == pytest.approx((2 / 4 + 2 / 3 + 2 / 5) / 3)


def test_skill_is_what_is_earned_above_chance():
    np.testing.assert_allclose(skill(np.array([1.0, 0.8, 0.9, 0.6]), 0.8), [1, 0, 0.5, -1], atol=1e-6)
    assert np.isnan(skill(1.0, 1.0))

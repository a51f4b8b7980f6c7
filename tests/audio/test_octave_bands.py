"""Octave bands: tones fall into theirs, and what no file can hold is low."""

import numpy as np
import pytest

from jaxeval.audio.octave_bands import CENTRES, EDGES, band_levels, band_powers, frequency_profile
from jaxeval.cards.schema import BANDS, LEVELS


def tone(hz: float, rate: int, seconds: float = 1.0) -> np.ndarray:
    return np.sin(2 * np.pi * hz * np.arange(round(seconds * rate)) / rate)[:, None]


def test_names_are_those_of_the_exact_centres_and_each_band_is_an_octave():
    named = [float(band.removesuffix("k")) * (1000 if band.endswith("k") else 1) for band in BANDS]
    np.testing.assert_allclose(CENTRES, named, rtol=0.02)
    np.testing.assert_allclose(EDGES[1:] / EDGES[:-1], 2)
    np.testing.assert_allclose(EDGES[[0, -1]], [22.097, 22627.4], rtol=1e-4)


@pytest.mark.parametrize("band", range(10))
@pytest.mark.parametrize("place", [0.75, 1.0, 1.35])
def test_a_tone_is_high_in_its_band_alone_and_low_in_all_but_the_next(band, place):
    profile, unmeasured = frequency_profile(tone(CENTRES[band] * place, 48000), 48000)
    assert unmeasured == []
    assert [name for name in BANDS if profile[name] in ("high", "medium-high")] == [BANDS[band]]
    assert {profile[name] for number, name in enumerate(BANDS) if abs(number - band) > 1} == {"low"}


def test_white_noise_rises_by_3_db_an_octave():
    powers = band_powers(np.random.default_rng(0).normal(size=(20 * 48000, 1)), 48000)
    np.testing.assert_allclose(10 * np.log10(powers[1:] / powers[:-1]), 3.01, atol=0.5)


def test_every_moment_counts_alike():
    burst = np.random.default_rng(0).normal(size=(4800, 1))
    powers = [band_powers(np.pad(burst, ((at, 96000 - at), (0, 0))), 48000) for at in (0, 777, 50000, 96000)]
    for other in powers[1:]:
        np.testing.assert_allclose(other, powers[0], rtol=1e-9)


def test_all_power_between_the_outer_edges_is_in_some_band():
    samples = np.random.default_rng(0).normal(size=(96000, 2))
    hz = np.fft.rfftfreq(96000, 1 / 48000)
    inside = np.square(np.abs(np.fft.rfft(samples, axis=0)))[(hz >= EDGES[0]) & (hz < EDGES[-1])].sum()
    assert band_powers(samples, 48000).sum() == pytest.approx(inside)


def test_channels_add_up_even_where_they_would_cancel():
    samples = np.random.default_rng(0).normal(size=(24000, 1))
    both = np.concatenate([samples, -samples], axis=1)
    np.testing.assert_allclose(band_powers(both, 48000), 2 * band_powers(samples, 48000))


def test_limits_are_5_15_and_30_db_under_the_loudest_band():
    decibels = np.array([0, -4.9, -5.1, -14.9, -15.1, -29.9, -30.1, -np.inf])
    assert [LEVELS[level] for level in band_levels(7 * 10 ** (decibels / 10))] == [
        "high", "high", "medium-high", "medium-high", "medium-low", "medium-low", "low", "low"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rate", "missing"),
    [(8000, ["8k", "16k"]), (11025, ["8k", "16k"]), (16000, ["16k"]), (22050, ["16k"]), (32000, [])],
)
def test_bands_above_nyquist_are_low_and_named(rate, missing):
    profile, unmeasured = frequency_profile(np.random.default_rng(0).normal(size=(rate, 1)), rate)
    assert unmeasured == missing
    assert all(profile[band] == "low" for band in missing)
    assert profile["4k"] == "high"


def test_a_band_with_less_than_a_period_in_the_clip_is_low_and_named():
    profile, unmeasured = frequency_profile(tone(1000, 48000, 0.01), 48000)
    assert unmeasured == ["31.5", "63"]
    assert (profile["63"], profile["1k"]) == ("low", "high")


def test_silence_is_low_everywhere():
    profile, unmeasured = frequency_profile(np.zeros((48000, 1)), 48000)
    assert set(profile.values()) == {"low"}
    assert unmeasured == []


def test_neither_level_nor_a_constant_offset_changes_the_profile():
    samples = np.random.default_rng(0).normal(size=(24000, 1))
    assert frequency_profile(samples * 1e-3 + 0.5, 48000) == frequency_profile(samples, 48000)

"""Loudness against BS.1770's own calibration and pyloudnorm."""

import numpy as np
import pyloudnorm
import pytest

from jaxeval.audio.lengths import SAMPLE_RATE
from jaxeval.audio.loudness import loudness


def tone(seconds: float, amplitude: float = 1.0, hz: float = 997.0) -> np.ndarray:
    return amplitude * np.sin(2 * np.pi * hz * np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE)


def test_a_full_scale_tone_of_997_hz_is_at_minus_3_lufs():
    assert loudness(tone(3)) == pytest.approx(-3.01, abs=0.1)


def test_twice_the_amplitude_is_6_db_more():
    half = loudness(tone(1, 0.25))
    assert half is not None
    assert loudness(tone(1, 0.5)) == pytest.approx(half + 20 * np.log10(2), abs=1e-6)


def test_whole_blocks_of_noise_measure_as_in_pyloudnorm():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.1, 4 * SAMPLE_RATE) * np.repeat([1.0, 0.01, 0.3, 0.0], SAMPLE_RATE)
    assert loudness(noise) == pytest.approx(pyloudnorm.Meter(SAMPLE_RATE).integrated_loudness(noise), abs=1e-6)


def test_silence_around_a_sound_hardly_lowers_its_loudness():
    assert loudness(np.pad(tone(2), 3 * SAMPLE_RATE)) == pytest.approx(loudness(tone(2)), abs=0.8)


def test_silence_and_what_nobody_hears_have_no_loudness():
    assert loudness(np.zeros(16000)) is None
    assert loudness(tone(1, 1e-5)) is None
    assert loudness(np.zeros(100)) is None


def test_a_clip_shorter_than_a_block_is_measured_over_its_own_length():
    assert loudness(tone(0.1)) == pytest.approx(loudness(tone(2)), abs=0.5)


@pytest.mark.parametrize("samples", [7, 441, 882, 17639])
def test_any_length_under_a_block_has_a_loudness(samples):
    assert loudness(np.full(samples, 0.5) * (-1.0) ** np.arange(samples), 44100) is not None


def test_a_tone_is_about_as_loud_at_any_rate():
    for rate in (8000, 11127, 44100, 48000, 96000):
        samples = np.sin(2 * np.pi * 997 * np.arange(3 * rate) / rate)
        assert loudness(samples, rate) == pytest.approx(-3.01, abs=0.2)


def test_channels_add_up_and_surrounds_weigh_more():
    one = tone(1)
    alone = loudness(one)
    assert alone is not None
    assert loudness(np.stack([one, one], axis=1)) == pytest.approx(alone + 3.01, abs=0.01)
    surround = np.zeros((len(one), 6))
    surround[:, 4] = one
    assert loudness(surround) == pytest.approx(alone + 1.5, abs=0.01)
    effects = np.zeros((len(one), 6))
    effects[:, 3] = one
    assert loudness(effects) is None
    assert loudness(np.stack([one] * 8, axis=1)) == pytest.approx(alone, abs=1e-9)

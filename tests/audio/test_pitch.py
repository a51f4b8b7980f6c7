"""Pitch of tones of every kind, and none where there is none."""

import csv
from pathlib import Path

import numpy as np
import pytest

from jaxeval.audio.pitch import PitchConfig, median_f0, pitch_track
from jaxeval.audio.read import read_channels

NOTES = (60.0, 82.41, 110.0, 220.0, 440.0, 777.0, 1000.0, 1500.0)
RATES = (8000, 16000, 22050, 44100, 96000)


def tone(hz: float, rate: int, harmonics: tuple[int, ...] = (1,), seconds: float = 0.5) -> np.ndarray:
    """Harmonics with amplitudes 1/k, as far as they lie below Nyquist."""
    time = np.arange(round(seconds * rate)) / rate
    return sum((0.3 / k * np.sin(2 * np.pi * k * hz * time + k) for k in harmonics if k * hz < rate / 2), 0 * time)


def noise(slope: float, seconds: float = 3.0, rate: int = 44100, seed: int = 0) -> np.ndarray:
    """Noise whose power falls with frequency to the power of `slope`: 0 white, 1 pink, 2 brown."""
    spectrum = np.fft.rfft(np.random.default_rng(seed).normal(size=round(seconds * rate)))
    hz = np.maximum(np.fft.rfftfreq(round(seconds * rate), 1 / rate), 20)
    samples = np.fft.irfft(spectrum * hz ** (-slope / 2))
    return 0.1 * samples / samples.std()


def cents(found: float | None, hz: float) -> float:
    assert found is not None
    return 1200 * float(np.log2(found / hz))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("harmonics", [(1,), tuple(range(1, 9))], ids=["sine", "harmonic"])
def test_a_tone_has_its_pitch_within_20_cents(rate, harmonics):
    assert max(abs(cents(median_f0(tone(hz, rate, harmonics), rate), hz)) for hz in NOTES) < 20


@pytest.mark.parametrize("rate", RATES[1:])
def test_a_missing_fundamental_is_heard(rate):
    assert max(abs(cents(median_f0(tone(hz, rate, tuple(range(2, 9))), rate), hz)) for hz in NOTES) < 20


def test_a_tone_in_noise_20_db_under_it_keeps_its_pitch():
    for hz in NOTES:
        samples = tone(hz, 44100)
        noisy = samples + noise(0, 0.5)[: len(samples)] * samples.std()
        assert abs(cents(median_f0(noisy, 44100), hz)) < 20


@pytest.mark.parametrize("slope", [0, 1, 2], ids=["white", "pink", "brown"])
@pytest.mark.parametrize("seed", range(4))
def test_noise_is_unvoiced(slope, seed):
    assert median_f0(noise(slope, seed=seed), 44100) is None


@pytest.mark.parametrize("hz", [30.0, 45.0, 4200.0, 6000.0, 9500.0])
def test_a_pitch_out_of_range_is_none_rather_than_an_octave_off(hz):
    assert median_f0(tone(hz, 44100), 44100) is None


def test_silence_a_constant_and_clips_of_any_length_are_no_trouble():
    assert median_f0(np.zeros(44100), 44100) is None
    assert median_f0(np.full(44100, 0.5), 44100) is None
    for samples in (1, 2, 50, 500):
        assert median_f0(noise(0)[:samples], 44100) is None
    assert abs(cents(median_f0(tone(440, 44100, seconds=0.04), 44100), 440)) < 20


def test_level_does_not_matter():
    samples = tone(220, 44100, (1, 2, 3))
    assert median_f0(samples * 1e-6, 44100) == pytest.approx(median_f0(samples, 44100), rel=1e-3)
    assert median_f0(samples * 1e6, 44100) == pytest.approx(median_f0(samples, 44100), rel=1e-3)


def test_the_median_is_over_the_voiced_frames_alone():
    melody = np.concatenate([tone(200, 16000, seconds=0.4), tone(300, 16000, seconds=1), np.zeros(48000)])
    mixed = np.concatenate([melody, noise(0, 0.5, 16000)])
    assert abs(cents(median_f0(mixed, 16000), 300)) < 20


def test_a_track_follows_a_glide():
    rate, seconds = 22050, 2.0
    time = np.arange(round(seconds * rate)) / rate
    hz = 200 * 2 ** (time / seconds)
    track = pitch_track(np.sin(2 * np.pi * np.cumsum(hz) / rate), rate, PitchConfig())
    middle = (np.arange(len(track.f0)) * round(0.01 * rate) + 0.03 * rate) / rate
    assert np.nanmax(np.abs(1200 * np.log2(track.f0 / (200 * 2 ** (middle / seconds))))) < 20


@pytest.mark.shared
def test_real_clips_have_crepes_pitch(shared):
    """The table has the clips on which CREPE is sure in half of the frames; tests/parity holds that it does."""
    with open(Path(__file__).with_name("crepe_medians.csv"), newline="") as file:
        medians = {row["path"]: float(row["median_f0"]) for row in csv.DictReader(file)}
    close = 0
    for path, expected in medians.items():
        samples, rate = read_channels(shared / "data" / "recordings" / path, max_seconds=None)
        found = median_f0(samples.mean(axis=1), rate)
        close += found is not None and abs(cents(found, expected)) < 50
    assert close >= 0.8 * len(medians)

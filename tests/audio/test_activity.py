"""Onsets and offsets of sounds between stretches of known silence."""

import numpy as np
import pytest

from jaxeval.audio.activity import active_events, frame_levels
from jaxeval.audio.read import read_channels

RATES = (8000, 16000, 22050, 44100, 48000, 96000)


def sound(rng: np.random.Generator, samples: int, rate: int) -> np.ndarray:
    time = np.arange(samples) / rate
    hz = rng.uniform(60, 3000)
    kinds = (
        lambda: rng.normal(0, 0.3, samples),
        lambda: 0.5 * np.sin(2 * np.pi * hz * time),
        lambda: np.cumsum(rng.normal(0, 0.02, samples)),
        lambda: 0.5 * np.sign(np.sin(2 * np.pi * hz / 3 * time)),
    )
    return kinds[rng.integers(len(kinds))]() * 10 ** (-rng.uniform(0, 25) / 20)


def scene(seed: int) -> tuple[np.ndarray, int, np.ndarray]:
    """Up to five sounds between silences, over noise of -60 dB or less and perhaps an offset; with rate and borders."""
    rng = np.random.default_rng(seed)
    rate = int(rng.choice(RATES))
    background = rng.choice([0, 1e-5, 1e-4, 1e-3])
    parts, borders, position = [], [], 0
    for _ in range(rng.integers(1, 6)):
        gap, length = round(rng.uniform(0.15, 1.5) * rate), round(rng.uniform(0.06, 1.5) * rate)
        parts += [np.zeros(gap), sound(rng, length, rate)]
        borders.append(((position + gap) / rate, (position + gap + length) / rate))
        position += gap + length
    samples = np.concatenate([*parts, np.zeros(round(rng.uniform(0, 1) * rate))])
    return samples + rng.normal(0, 1, len(samples)) * background + rng.choice([0, 0.05]), rate, np.array(borders)


@pytest.mark.parametrize("seed", range(60))
def test_borders_are_within_50_ms(seed):
    samples, rate, expected = scene(seed)
    found = np.array(active_events(samples[:, None], rate))
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 0.05


def noise(seconds: float, rate: int = 16000) -> np.ndarray:
    return np.random.default_rng(1).normal(0, 0.1, round(seconds * rate))


def test_steady_sound_is_one_event_from_end_to_end():
    assert active_events(noise(3)[:, None], 16000) == [(0.0, 3.0)]


def test_silence_and_a_constant_offset_are_no_event():
    assert active_events(np.zeros((48000, 1)), 16000) == []
    assert active_events(np.full((48000, 2), 0.2), 16000) == []


def test_a_sound_over_a_louder_background_stands_out():
    samples = np.concatenate([noise(2) / 10, noise(1), noise(2) / 10])
    ((onset, offset),) = active_events(samples[:, None], 16000)
    assert (onset, offset) == (pytest.approx(2, abs=0.05), pytest.approx(3, abs=0.05))


def test_short_gaps_close_and_short_blips_go():
    gap = np.concatenate([noise(0.5), np.zeros(1120), noise(0.5)])  # 70 ms
    assert active_events(gap[:, None], 16000) == [(0.0, 1.07)]
    blip = np.concatenate([noise(0.5), np.zeros(8000), noise(0.01), np.zeros(8000)])
    assert active_events(blip[:, None], 16000) == [(0.0, 0.5)]


def test_a_level_that_wavers_within_the_hysteresis_is_not_cut():
    envelope = np.repeat(10 ** (np.array([0, -60, -4, -9, -4, -9, -4, -60]) / 20), 8000)
    events = active_events((noise(4) * envelope)[:, None], 16000)
    assert len(events) == 2
    assert events[1] == (pytest.approx(1, abs=0.05), pytest.approx(3.5, abs=0.05))


def test_a_sound_in_one_channel_alone_is_an_event():
    samples = np.stack([noise(1), np.zeros(16000)], axis=1)
    assert active_events(samples, 16000) == [(0.0, 1.0)]


@pytest.mark.parametrize("samples", [1, 2, 100, 320])
def test_a_clip_shorter_than_an_event_is_one_within_its_length(samples):
    events = active_events((-1.0) ** np.arange(samples)[:, None], 16000)
    assert events == ([(0.0, samples / 16000)] if samples > 1 else [])


def test_the_last_frame_counts_by_the_samples_it_has():
    np.testing.assert_allclose(frame_levels((-1.0) ** np.arange(25)[:, None], 10), [0, 0, 10 * np.log10(0.96)])


@pytest.mark.shared
def test_the_events_of_the_long_recording_begin_where_they_were_put(shared):
    samples, rate = read_channels(shared / "data" / "recordings_odd" / "long_45s.flac", max_seconds=None)
    onsets = np.array([onset for onset, _ in active_events(samples, rate)])
    for expected in (2.0, 11.0, 18.5, 24.5, 27.0, 32.0, 35.0, 41.0):
        assert np.abs(onsets - expected).min() < 0.05

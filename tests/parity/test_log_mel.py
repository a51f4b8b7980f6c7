"""Log-mel features, live against transformers' `WhisperFeatureExtractor`."""

from pathlib import Path

import numpy as np
import pytest
from transformers import WhisperFeatureExtractor

from jaxeval.audio.lengths import MAX_FRAMES, MAX_SAMPLES, frame_bucket, mel_frames
from jaxeval.audio.log_mel import log_mel
from jaxeval.audio.read import read_audio

GOLDEN = np.load(Path(__file__).parent.parent / "audio" / "log_mel_golden.npz")
NOISE = np.random.default_rng(0).normal(0, 0.1, MAX_SAMPLES).astype(np.float32)


def reference(clip: np.ndarray, num_mels: int) -> np.ndarray:
    extract = WhisperFeatureExtractor(feature_size=num_mels)
    return extract(clip, sampling_rate=16000, return_tensors="np").input_features[0]


def ours(clip: np.ndarray, num_mels: int, frames: int) -> np.ndarray:
    return np.asarray(log_mel(clip[None], frames=frames, num_mels=num_mels)[0])


@pytest.mark.parametrize("num_mels", [80, 128])
@pytest.mark.parametrize("samples", [321, 1600, 159_999, 160_000, 479_800, 479_999, MAX_SAMPLES])
def test_noise_of_any_length_has_the_reference_features(samples, num_mels):
    clip = NOISE[:samples]
    expected = reference(clip, num_mels)
    for frames in {frame_bucket(mel_frames(samples)), MAX_FRAMES}:
        np.testing.assert_allclose(ours(clip, num_mels, frames), expected[:, :frames], atol=1e-4)


def test_silence_has_the_reference_features():
    clip = np.zeros(16000, np.float32)
    np.testing.assert_allclose(ours(clip, 128, MAX_FRAMES), reference(clip, 128), atol=1e-6)


@pytest.mark.shared
def test_real_recordings_have_the_reference_features(shared):
    for path in sorted((shared / "data" / "recordings").glob("*/*.flac"))[::16]:
        clip = read_audio(path)
        frames = frame_bucket(mel_frames(len(clip)))
        expected = reference(clip, 128)[:, :frames]
        np.testing.assert_allclose(ours(clip, 128, frames), expected, atol=1e-4, err_msg=str(path))


@pytest.mark.parametrize("num_mels", [80, 128])
def test_the_golden_values_are_those_of_the_reference(num_mels):
    clip = (GOLDEN["pcm"] / 2**15).astype(np.float32)
    full = np.tile(clip, MAX_SAMPLES // len(clip) + 1)[:MAX_SAMPLES]
    np.testing.assert_allclose(GOLDEN[f"clip_{num_mels}"], reference(clip, num_mels)[:, :40], atol=1e-5)
    np.testing.assert_allclose(GOLDEN[f"full_end_{num_mels}"], reference(full, num_mels)[:, -5:], atol=1e-5)

"""Log-mel features against values that transformers' `WhisperFeatureExtractor` gave."""

from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from jaxeval.audio.lengths import MAX_FRAMES, MAX_SAMPLES
from jaxeval.audio.log_mel import log_mel, mel_filters

GOLDEN = np.load(Path(__file__).with_name("log_mel_golden.npz"))
CLIP = (GOLDEN["pcm"] / 2**15).astype(np.float32)


@pytest.mark.parametrize("num_mels", [80, 128])
def test_a_short_clip_has_the_reference_features(num_mels):
    features = log_mel(CLIP[None], frames=40, num_mels=num_mels)
    np.testing.assert_allclose(features[0], GOLDEN[f"clip_{num_mels}"], atol=1e-4)


@pytest.mark.parametrize("num_mels", [80, 128])
def test_thirty_full_seconds_are_mirrored_at_their_end_as_in_the_reference(num_mels):
    full = np.tile(CLIP, MAX_SAMPLES // len(CLIP) + 1)[None, :MAX_SAMPLES]
    features = log_mel(full, frames=MAX_FRAMES, num_mels=num_mels)
    np.testing.assert_allclose(features[0, :, -5:], GOLDEN[f"full_end_{num_mels}"], atol=1e-4)


def test_fewer_frames_are_the_first_frames_of_the_whole():
    whole = log_mel(CLIP[None], frames=MAX_FRAMES, num_mels=128)
    np.testing.assert_allclose(log_mel(CLIP[None], frames=102, num_mels=128), whole[:, :, :102], atol=1e-6)


def test_zeros_after_a_clip_change_nothing():
    padded = np.pad(CLIP, (0, 9000))[None]
    np.testing.assert_array_equal(
        log_mel(padded, frames=102, num_mels=80), log_mel(CLIP[None], frames=102, num_mels=80)
    )


def test_each_clip_of_a_batch_has_its_own_dynamic_range():
    quiet = np.stack([CLIP, 1e-3 * CLIP])
    together = log_mel(quiet, frames=40, num_mels=80)
    np.testing.assert_allclose(together[1], log_mel(quiet[1:], frames=40, num_mels=80)[0], atol=1e-6)


def test_silence_is_the_floor_everywhere():
    np.testing.assert_array_equal(log_mel(np.zeros((1, 1600)), frames=102, num_mels=80), -1.5)


def test_features_are_computed_where_their_clips_are():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    clips = NamedSharding(mesh, PartitionSpec("data"))
    function = jax.jit(lambda x: log_mel(x, frames=102, num_mels=80), in_shardings=clips, out_shardings=clips)
    waveforms = np.stack([CLIP * scale for scale in np.linspace(0.1, 1, 8)]).astype(np.float32)
    assert "all-gather" not in str(function.lower(waveforms).compile().as_text())
    np.testing.assert_allclose(function(waveforms), log_mel(waveforms, frames=102, num_mels=80), atol=1e-6)


def test_filters_have_unit_area():
    spacing = 8000 / 200
    areas = mel_filters(40).sum(axis=0) * spacing
    np.testing.assert_allclose(areas[20:], 1, rtol=0.05)


def test_more_than_thirty_seconds_are_refused():
    with pytest.raises(ValueError, match="at most 480000 samples"):
        log_mel(np.zeros((1, MAX_SAMPLES + 1)), frames=MAX_FRAMES, num_mels=80)
    with pytest.raises(ValueError, match=r"within 1\.\.3000"):
        log_mel(np.zeros((1, 1600)), frames=MAX_FRAMES + 1, num_mels=80)

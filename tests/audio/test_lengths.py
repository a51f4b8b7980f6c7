"""Lengths along Qwen2-Audio's path from samples to audio tokens."""

import subprocess
import sys

import numpy as np
import pytest

from jaxeval.audio.lengths import (
    FRAME_BUCKETS,
    MAX_FRAMES,
    MAX_SAMPLES,
    MIN_SAMPLES,
    audio_tokens,
    conv_frames,
    frame_bucket,
    mel_frames,
)


def test_thirty_seconds_are_3000_frames_and_750_tokens():
    assert mel_frames(MAX_SAMPLES) == MAX_FRAMES
    assert audio_tokens(MAX_FRAMES) == 750


def test_longer_than_thirty_seconds_stays_at_3000_frames():
    assert mel_frames(MAX_SAMPLES + 1) == MAX_FRAMES


def test_a_started_hop_counts_as_a_frame():
    assert [mel_frames(samples) for samples in (1, 160, 161, 320, 321)] == [1, 1, 2, 2, 3]


def test_the_shortest_usable_clip_gives_one_token_and_one_sample_less_gives_none():
    assert audio_tokens(mel_frames(MIN_SAMPLES)) == 1
    assert audio_tokens(mel_frames(MIN_SAMPLES - 1)) == 0


def test_arrays_give_what_integers_give():
    samples = np.arange(0, MAX_SAMPLES + 1000, 997)
    for function, values in ((mel_frames, samples), (conv_frames, mel_frames(samples)), (audio_tokens, samples // 160)):
        assert function(values).tolist() == [function(int(value)) for value in values]


def test_ten_seconds_run_at_1002_frames():
    assert frame_bucket(1000) == 1002
    assert frame_bucket(1001) == 1502


def test_every_bucket_keeps_the_padding_frames_the_convolutions_touch():
    for frames in range(1, MAX_FRAMES + 1):
        bucket = frame_bucket(frames)
        assert bucket in FRAME_BUCKETS
        assert bucket >= min(2 * conv_frames(frames) + 1, MAX_FRAMES)


@pytest.mark.parametrize("frames", [0, -1, MAX_FRAMES + 1])
def test_a_length_outside_the_encoder_has_no_bucket(frames):
    with pytest.raises(ValueError, match=r"within 1\.\.3000"):
        frame_bucket(frames)


def test_data_workers_can_count_and_read_without_jax():
    code = "import sys, jaxeval.audio.read, jaxeval.pairs.build, jaxeval.pairs.read; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

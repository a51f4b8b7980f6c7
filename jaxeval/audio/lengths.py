"""How long a recording is on its way through Qwen2-Audio: samples → mel frames → conv frames → audio tokens.

Integers and arrays of integers alike. Nothing here imports jax, because the data loader's worker
processes count tokens with it. The formulas are those of Qwen2-Audio's encoder: a mel frame every 10 ms, a
convolution of stride 2, then an average pool by 2, which leaves 25 audio tokens a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    import jax

SAMPLE_RATE = 16_000
HOP = 160
MAX_SAMPLES = 480_000
MAX_FRAMES = MAX_SAMPLES // HOP
MIN_SAMPLES = 2 * HOP + 1
"""The shortest clip that gives an audio token: two mel frames are one conv frame, and half of that is none."""

BUCKET_SECONDS = (1, 2, 3, 5, 7.5, 10, 15, 20, 25)
FRAME_BUCKETS = (*(int(100 * seconds) + 2 for seconds in BUCKET_SECONDS), MAX_FRAMES)

Length = TypeVar("Length", int, np.ndarray, "jax.Array")


def mel_frames(samples: Length) -> Length:
    """Mel frames that hold a clip of so many 16 kHz samples: `ceil(n / 160)`, at most 3000."""
    return _at_most(-(-samples // HOP), MAX_FRAMES)


def conv_frames(frames: Length) -> Length:
    """Encoder positions after the stride-2 convolution: `(f - 1) // 2 + 1`."""
    return (frames - 1) // 2 + 1


def audio_tokens(frames: Length) -> Length:
    """Audio tokens of so many mel frames: conv frames pooled by two, at most 750."""
    return conv_frames(frames) // 2


def frame_bucket(frames: int) -> int:
    """Mel length at which the encoder runs when the longest clip of a batch has so many valid frames.

    The encoder gives the same features at length T as at 3000 when `T >= 2 * conv_frames + 1`: the last valid
    conv frame then still sees the padding frames it sees at full length. The two frames added to each bucket
    make room for that, so that a clip of exactly 10 s runs at 1002.

    Raises:
        ValueError: `frames` is not within 1..3000.
    """
    if not 1 <= frames <= MAX_FRAMES:
        raise ValueError(f"frames must be within 1..{MAX_FRAMES}, got {frames}")
    needed = min(2 * conv_frames(int(frames)) + 1, MAX_FRAMES)
    return next(bucket for bucket in FRAME_BUCKETS if bucket >= needed)


def _at_most(value: Length, limit: int) -> Length:
    return min(value, limit) if isinstance(value, int) else value.clip(max=limit)

"""Loudness of a recording in LUFS, after ITU-R BS.1770-4, as pyloudnorm measures it.

K-weighting (a shelf for the head, a high-pass for the ear), mean square over 400 ms blocks that overlap by
three quarters, blocks under -70 LUFS dropped, then those 10 LU under the mean of the rest. What the recommendation
leaves open, and what a file may bring:

| recording | what happens |
|---|---|
| shorter than a block | one block of its own length |
| a last block that lacks up to half a step (50 ms) | counts as if silence followed |
| one channel | as it is, not as two of the same |
| five channels | front left, right, centre, and two surrounds that weigh 1.5 dB more |
| six channels | the fourth, for low-frequency effects, is left out, then as five |
| more channels | their average |

pyloudnorm's filters are not quite the recommendation's, and differ from ffmpeg's by up to 0.3 LU on some sounds; they
are what published LUFS of audio data sets mostly come from.
"""

from __future__ import annotations

import numpy as np
import pyloudnorm

from jaxeval.audio.lengths import SAMPLE_RATE

BLOCK_SECONDS = 0.4
LOW_FREQUENCY_EFFECTS = 3
MAX_CHANNELS = 5


def loudness(samples: np.ndarray, rate: int = SAMPLE_RATE) -> float | None:
    """Integrated loudness in LUFS of [samples] or [samples, channels], or None for silence (all under -70 LUFS)."""
    channels = samples.astype(np.float64).reshape(len(samples), -1)
    if channels.shape[1] == MAX_CHANNELS + 1:
        channels = np.delete(channels, LOW_FREQUENCY_EFFECTS, axis=1)
    elif channels.shape[1] > MAX_CHANNELS:
        channels = channels.mean(axis=1, keepdims=True)
    block = min(BLOCK_SECONDS, np.nextafter(len(channels) / rate, 0))  # pyloudnorm wants more samples than a block has
    value = pyloudnorm.Meter(rate, block_size=block).integrated_loudness(channels)
    return float(value) if np.isfinite(value) else None

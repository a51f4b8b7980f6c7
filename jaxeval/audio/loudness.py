"""Loudness of a recording in LUFS, after ITU-R BS.1770-4, for 16 kHz mono.

K-weighting (a shelf for the head, a high-pass for the ear), mean square over 400 ms blocks that overlap by
three quarters, blocks under -70 LUFS dropped, then those 10 dB under the mean of the rest. Two things the
recommendation leaves open: a clip shorter than a block is one block of its own length, and a last block
that is not full does not count.
"""

from __future__ import annotations

import numpy as np
from scipy.signal import sosfilt

from jaxeval.audio.lengths import SAMPLE_RATE

BLOCK = SAMPLE_RATE * 400 // 1000
STEP = BLOCK // 4
ABSOLUTE_GATE = -70.0
RELATIVE_GATE = -10.0


def loudness(samples: np.ndarray) -> float | None:
    """Integrated loudness in LUFS of [samples] at 16 kHz, or None for silence (nothing above -70 LUFS)."""
    squares = np.square(sosfilt(_K_WEIGHTING, samples.astype(np.float64)))
    block = min(BLOCK, len(squares))
    sums = np.concatenate([[0.0], np.cumsum(squares)])
    power = np.maximum(sums[block:] - sums[:-block], 0)[::STEP] / block
    audible = power[_lufs(power) > ABSOLUTE_GATE]
    if not audible.size:
        return None
    return float(_lufs(audible[_lufs(audible) > _lufs(audible.mean()) + RELATIVE_GATE].mean()))


def _lufs(power: np.ndarray | float) -> np.ndarray:
    return -0.691 + 10 * np.log10(np.maximum(power, 1e-30))


def _k_weighting(rate: int) -> np.ndarray:
    """The two filters of BS.1770 as second-order sections, moved from their 48 kHz to `rate`.

    The recommendation prints coefficients at 48 kHz only; these are the analogue filters behind them (f0, Q and
    gain as found by Brecht De Man, "Evaluation of implementations of the EBU R128 loudness measurement", 2018).
    """
    gain, shelf = 10 ** (3.999843853973347 / 20), np.tan(np.pi * 1681.974450955533 / rate)
    middle, quality = gain**0.4996667741545416, 0.7071752369554196
    a0 = 1 + shelf / quality + shelf**2
    head = [
        (gain + middle * shelf / quality + shelf**2) / a0,
        2 * (shelf**2 - gain) / a0,
        (gain - middle * shelf / quality + shelf**2) / a0,
        1.0,
        2 * (shelf**2 - 1) / a0,
        (1 - shelf / quality + shelf**2) / a0,
    ]
    low, quality = np.tan(np.pi * 38.13547087602444 / rate), 0.5003270373238773
    a0 = 1 + low / quality + low**2
    ear = [1.0, -2.0, 1.0, 1.0, 2 * (low**2 - 1) / a0, (1 - low / quality + low**2) / a0]
    return np.array([head, ear])


_K_WEIGHTING = _k_weighting(SAMPLE_RATE)

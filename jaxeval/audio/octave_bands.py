"""How a recording's power is spread over ten octave bands, for the `frequency_profile` of its card.

Bands are base-2 octaves around 1 kHz: exact centres 1000·2ᵏ Hz for k = -5..4, edges half an octave to either side, so
the first begins at 22.1 Hz and "16k" ends at 22.6 kHz. They are measured at the recording's own rate:

| band | what happens |
|---|---|
| wholly above Nyquist | `low`, and named as not measured |
| partly above Nyquist | measured over the part below |
| between two bins of the spectrum, as in a clip shorter than a period | `low`, and named as not measured |

A level is relative to the loudest band: the profile says how a sound is coloured, and `lufs` how loud it is. The
limits of -5, -15 and -30 dB are near the quartiles of what real recordings have (-5, -14 and -28 dB over the 8509
bands of 851 sound effects), so all four levels are about equally common and a constant guess gains nothing.
"""

from __future__ import annotations

import numpy as np
from scipy import fft

from jaxeval.cards.schema import BANDS, LEVELS

CENTRES = 1000 * 2.0 ** np.arange(-5, 5)
EDGES = np.append(CENTRES / 2**0.5, CENTRES[-1] * 2**0.5)
"""Hz; band i lies between edge i and i + 1."""
LIMITS_DB = (-30.0, -15.0, -5.0)
"""Relative to the loudest band, from which on a band is medium-low, medium-high, high."""


def band_powers(samples: np.ndarray, rate: int) -> np.ndarray:
    """Power of [samples, channels] in each octave band, channels summed; NaN where it cannot be measured.

    One transform of the whole recording without a window, so that an attack in its first sample counts as it should,
    and all power is in some bin. A tone cut off within a period is no pure tone, and shows in the next band at about
    -25 dB if it is low and lasts a second.
    """
    spectrum = np.square(np.abs(fft.rfft(samples.astype(np.float64), axis=0))).sum(axis=1)
    bins = np.searchsorted(fft.rfftfreq(len(samples), 1 / rate), EDGES)
    cumulated = np.append(0, np.cumsum(spectrum))
    return np.where(bins[1:] > bins[:-1], np.diff(cumulated[bins]), np.nan)


def band_levels(powers: np.ndarray) -> np.ndarray:
    """Levels 0..3 of band powers; all 0 for silence, and 0 where the power is NaN."""
    known = np.nan_to_num(powers, nan=0.0)
    if not known.any():
        return np.zeros(len(powers), int)
    relative = 10 * np.log10(np.maximum(known / known.max(), 1e-20))
    return np.searchsorted(LIMITS_DB, relative, side="right")


def frequency_profile(samples: np.ndarray, rate: int) -> tuple[dict[str, str], list[str]]:
    """Level of every band of [samples, channels] by the band's name, and the bands that could not be measured."""
    powers = band_powers(samples, rate)
    profile = {band: LEVELS[level] for band, level in zip(BANDS, band_levels(powers), strict=True)}
    return profile, [band for band, power in zip(BANDS, powers, strict=True) if np.isnan(power)]

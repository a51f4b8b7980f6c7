"""What a recording's samples say about it: the acoustic fields of its card (design §3).

| field | how |
|---|---|
| `duration` | seconds, at the recording's own rate |
| `lufs` | `loudness`; null is silence, and a silent recording has no pitch, no events and an all-`low` profile |
| `median_f0` | `pitch`, of the average over channels; null is unvoiced |
| `active_event` | `activity` |
| `frequency_profile` | `octave_bands`; `unmeasured_bands` names those that are `low` for want of a measurement |

`flags` say what a reader of the numbers should know:

| flag | meaning |
|---|---|
| `silent` | nothing reaches -70 LUFS |
| `short` | under 0.4 s: loudness is over its own length |
| `clipped` | three samples in a row at full scale |
| `over_full_scale` | float samples beyond ±1, measured as they are |
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxeval.audio.activity import active_events
from jaxeval.audio.loudness import BLOCK_SECONDS, loudness
from jaxeval.audio.octave_bands import frequency_profile
from jaxeval.audio.pitch import median_f0
from jaxeval.cards.schema import ACOUSTIC_FIELDS

MEASURED = ("duration", *ACOUSTIC_FIELDS, "unmeasured_bands", "sample_rate", "channels", "flags")
"""Names of what `measure` gives."""
FULL_SCALE = 0.9999
CLIPPED_RUN = 3


def measure(samples: np.ndarray, rate: int) -> dict[str, Any]:
    """The measured part of a card, ready for JSON, from [samples, channels] at `rate` Hz.

    Numbers are rounded to what they are good for: 0.001 dB, 0.01 Hz, 0.1 ms.
    """
    lufs = loudness(samples, rate)
    silent = lufs is None
    heard = np.zeros_like(samples) if silent else samples
    f0 = None if silent else median_f0(heard.mean(axis=1), rate)
    events = [] if silent else active_events(heard, rate)
    profile, unmeasured = frequency_profile(heard, rate)
    return {
        "duration": round(len(samples) / rate, 6),
        "lufs": None if lufs is None else round(lufs, 3),
        "median_f0": None if f0 is None else round(f0, 2),
        "active_event": [[round(onset, 4), round(offset, 4)] for onset, offset in events],
        "frequency_profile": profile,
        "unmeasured_bands": unmeasured,
        "sample_rate": rate,
        "channels": samples.shape[1],
        "flags": _flags(samples, rate, silent),
    }


def _flags(samples: np.ndarray, rate: int, silent: bool) -> list[str]:
    full = np.abs(samples) >= FULL_SCALE
    over = bool((np.abs(samples) > 1).any())
    runs = np.lib.stride_tricks.sliding_window_view(full, min(CLIPPED_RUN, len(full)), axis=0)
    found = {
        "silent": silent,
        "short": len(samples) < BLOCK_SECONDS * rate,
        "clipped": not over and bool(runs.all(axis=-1).any()),
        "over_full_scale": over,
    }
    return [flag for flag, is_so in found.items() if is_so]

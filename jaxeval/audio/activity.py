"""When something is to be heard: onset and offset of each event, for the `active_event` of a card.

A level every 10 ms, two thresholds (an event begins above the higher one and ends below the lower one, so that a
wavering level does not cut it), short gaps closed, short events dropped. Both thresholds follow the recording: they
stand over its background, but neither so deep that a fading tail counts, nor so high that a steady sound does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage


@dataclass(frozen=True)
class ActivityConfig:
    """What counts as an event; levels are the mean square of a frame in dB, a full-scale sine being at -3.

    Attributes:
        frame: seconds a level is taken over, and the resolution of the borders.
        over_background: dB by which an event begins over the background.
        background: percentile of the levels that is taken for the background.
        depth: dB under the loudest frame, under which no event begins; 60 is what reverberation time is taken over.
        headroom: dB under the loudest frame, over which one always does.
        hysteresis: dB by which the level must fall under where events begin, to end one.
        silence: dB under which nothing is heard.
        closed_gap: seconds; a shorter gap between events is none.
        least_duration: seconds; a shorter event is none.
    """

    frame: float = 0.01
    over_background: float = 10.0
    background: float = 10.0
    depth: float = 60.0
    headroom: float = 10.0
    hysteresis: float = 6.0
    silence: float = -70.0
    closed_gap: float = 0.1
    least_duration: float = 0.03


def active_events(samples: np.ndarray, rate: int, config: ActivityConfig | None = None) -> list[tuple[float, float]]:
    """Events of [samples, channels] as (onset, offset) in seconds, in order, within the recording.

    Returns:
        The borders, at multiples of `config.frame`, the last one at most the recording's length; empty for silence.
    """
    config = config or ActivityConfig()
    size = max(1, round(config.frame * rate))
    levels = frame_levels(samples, size)
    begin, end = _thresholds(levels, config)
    runs, _ = ndimage.label(levels >= end)
    begun = np.unique(runs[(levels >= begin) & (runs > 0)])
    found = ndimage.find_objects(runs)
    borders = [(found[run - 1][0].start * size / rate, found[run - 1][0].stop * size / rate) for run in begun]
    events = [(onset, min(offset, len(samples) / rate)) for onset, offset in _without_gaps(borders, config.closed_gap)]
    return [event for event in events if event[1] - event[0] >= min(config.least_duration, len(samples) / rate)]


def frame_levels(samples: np.ndarray, size: int) -> np.ndarray:
    """Level in dB of each `size` samples of [samples, channels], mean over channels; the last frame may be shorter.

    The mean of every frame is taken off, so that a constant offset is silence and rumble counts little, without a
    filter that would ring on after the end of a sound.
    """
    starts = np.arange(0, len(samples), size)
    lengths = np.diff(np.append(starts, len(samples)))[:, None]
    values = samples.astype(np.float64)
    means = np.add.reduceat(values, starts) / lengths
    squares = np.add.reduceat(np.square(values - np.repeat(means, lengths[:, 0], axis=0)), starts) / lengths
    return 10 * np.log10(np.maximum(squares.mean(axis=1), 1e-20))


def _thresholds(levels: np.ndarray, config: ActivityConfig) -> tuple[float, float]:
    """Level in dB at which an event begins, and at which it ends."""
    loudest = levels.max()
    over_background = np.percentile(levels, config.background) + config.over_background
    begin = np.clip(over_background, loudest - config.depth, loudest - config.headroom)
    return max(begin, config.silence), max(begin - config.hysteresis, config.silence)


def _without_gaps(borders: list[tuple[float, float]], gap: float) -> list[tuple[float, float]]:
    events: list[tuple[float, float]] = []
    for onset, offset in borders:
        if events and onset - events[-1][1] < gap:
            onset = events.pop()[0]
        events.append((onset, offset))
    return events

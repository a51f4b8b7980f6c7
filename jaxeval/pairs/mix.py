"""From a recipe and its recordings to the two sides of a pair.

Both sides are one sum scaled by one gain, so what was not edited is the same on both sides to the last bit
before rounding, and neither side clips.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxeval.audio.lengths import SAMPLE_RATE
from jaxeval.audio.loudness import loudness
from jaxeval.errors import InputError
from jaxeval.pairs.clips import Clip
from jaxeval.pairs.recipe import Part, Recipe

PEAK = 0.98
_REFERENCE_LUFS = -23.0


@dataclass(frozen=True)
class Source:
    """A recording ready to be mixed: at most a scene long.

    Attributes:
        samples: 16 kHz mono.
        lufs: its loudness over its own length.
        offset: first sample taken of the recording; above 0 where it was longer than the scene.
    """

    samples: np.ndarray
    lufs: float
    offset: int


@dataclass(frozen=True)
class Scene:
    """Both sides of a pair, equally long, and where each part lies in them (`sources`, as in the table)."""

    original: np.ndarray
    edited: np.ndarray
    sources: list[dict[str, Any]]
    gain_db: float


def prepare(path: str | os.PathLike[str], samples: np.ndarray, length: int) -> Source:
    """Measure a recording and cut it to its loudest window of `length` samples, if it is longer than that.

    The loudest window is the part a caption most likely speaks of.

    Args:
        path: where the recording came from, for the error.
        samples: 16 kHz mono.
        length: samples of the scene.

    Raises:
        InputError: there is no sound in it.
    """
    offset = 0
    if len(samples) > length:
        energy = np.concatenate([[0.0], np.cumsum(np.square(samples, dtype=np.float64))])
        offset = int(np.argmax(energy[length:] - energy[:-length]))
    window = samples[offset : offset + length].copy()  # a view would keep the whole recording in memory
    lufs = loudness(window)
    if lufs is None:
        raise InputError(f"{path}: silence; a pair needs a sound to add or remove")
    return Source(window, lufs, offset)


def mix(recipe: Recipe, load: Callable[[Clip], Source], length: int) -> Scene:
    """Mix both sides of a pair, `length` samples each.

    Args:
        recipe: what to mix.
        load: gives the prepared recording of a clip.
        length: samples of the scene.
    """
    layers = {role: np.zeros(length, np.float32) for role in ("background", "event", "replacement")}
    reference = _REFERENCE_LUFS
    sources = []
    onset = 0
    for part in recipe.parts:
        source = load(part.clip)
        if part.role == "event":  # the background is complete
            reference = _lufs(layers["background"])
        room = length - len(source.samples)
        # A replacement begins where the sound it replaces began, or as late as it fits.
        onset = min(onset, room) if part.role == "replacement" else round(part.position * room)
        gain = np.float32(10 ** ((reference + part.level_db - source.lufs) / 20))
        layers[part.role][onset : onset + len(source.samples)] += gain * source.samples
        sources.append(_described(part, source, onset))
    without, with_event = layers["background"], layers["background"] + layers["event"]
    original, edited = {
        "add": (without, with_event),
        "delete": (with_event, without),
        "replace": (with_event, without + layers["replacement"]),
    }[recipe.operation]
    gain = _scene_gain(original, edited, recipe.lufs)
    return Scene(original * gain, edited * gain, sources, float(20 * np.log10(gain)))


def _scene_gain(original: np.ndarray, edited: np.ndarray, lufs: float) -> np.float32:
    """The gain that brings the original to `lufs`, less where either side would come near clipping."""
    wanted = 10 ** ((lufs - _lufs(original)) / 20)
    return np.float32(min(wanted, PEAK / max(np.abs(original).max(), np.abs(edited).max())))


def _lufs(scene: np.ndarray) -> float:
    level = loudness(scene)
    if level is None:
        raise ValueError("a scene of audible recordings is silent")
    return level


def _described(part: Part, source: Source, onset: int) -> dict[str, Any]:
    return {
        "path": part.clip.name,
        "group": part.clip.group,
        "role": part.role,
        "onset_s": onset / SAMPLE_RATE,
        "duration_s": len(source.samples) / SAMPLE_RATE,
        "offset_s": source.offset / SAMPLE_RATE,
        "level_db": round(part.level_db, 3),
    }

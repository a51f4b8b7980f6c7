"""What goes into pair number i: drawn from (seed, i) alone, before any audio is read.

A recipe is the same whatever the number of workers, the number of pairs or an interruption, because nothing
but the seed, the pair's number and the clips enter it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jaxeval.errors import InputError
from jaxeval.pairs.clips import Clip, Groups
from jaxeval.pairs.texts import OPERATIONS, WORDINGS

SPLIT_CYCLE = ("train", "validation", "test", *7 * ("train",))
EVENT_LEVEL_DB = (-5.0, 10.0)
BACKGROUND_LEVEL_DB = (-6.0, 0.0)
SCENE_LUFS = (-32.0, -18.0)
MIN_GROUPS_FOR_TWO_BACKGROUNDS = 5
_MAX_DRAWS = 10_000


@dataclass(frozen=True)
class Part:
    """One recording in a scene.

    Attributes:
        clip: the recording.
        role: `background` (on both sides), `event` (the sound added, removed or replaced) or `replacement`.
        level_db: its loudness against the background's (of a second background: against the first one's).
        position: where it lies, from 0 (at the start) to 1 (ends with the scene).
    """

    clip: Clip
    role: str
    level_db: float
    position: float


@dataclass(frozen=True)
class Recipe:
    """All choices behind one pair; `lufs` is what the original's loudness aims at."""

    index: int
    split: str
    operation: str
    wording: int
    lufs: float
    parts: tuple[Part, ...]


def draw_recipe(groups: Groups, seed: int, index: int) -> Recipe:
    """Draw pair number `index`.

    Splits come in cycles of ten (8:1:1) and operations in turn within each split, so that both stay balanced in
    every run. The longest of the recordings drawn make the background.

    Args:
        groups: the groups of each split, from `split_groups`.
        seed: seed of the run.
        index: number of the pair.
    """
    rng = np.random.default_rng([seed, index])
    split = SPLIT_CYCLE[index % len(SPLIT_CYCLE)]
    operation = OPERATIONS[(index + index // len(SPLIT_CYCLE)) % len(OPERATIONS)]
    two_fit = len(groups[split]) >= MIN_GROUPS_FOR_TWO_BACKGROUNDS
    backgrounds = int(rng.integers(1, 3)) if two_fit else 1
    roles = ["background"] * backgrounds + ["event"] + ["replacement"] * (operation == "replace")
    clips = _draw_clips(rng, groups[split], len(roles), split)
    by_length = sorted(clips, key=lambda clip: -clip.seconds)
    foreground = [clip for clip in clips if clip in by_length[backgrounds:]]  # as drawn: no order of length
    parts = []
    for number, (role, clip) in enumerate(zip(roles, by_length[:backgrounds] + foreground, strict=True)):
        low, high = BACKGROUND_LEVEL_DB if role == "background" else EVENT_LEVEL_DB
        level = 0.0 if number == 0 else float(rng.uniform(low, high))
        parts.append(Part(clip, role, level, float(rng.random())))
    return Recipe(index, split, operation, int(rng.integers(WORDINGS)), float(rng.uniform(*SCENE_LUFS)), tuple(parts))


def _draw_clips(rng: np.random.Generator, groups: Sequence[Sequence[Clip]], count: int, split: str) -> list[Clip]:
    """Clips of different groups with different captions; a group with many variants is drawn no more often."""
    chosen: list[Clip] = []
    for _ in range(_MAX_DRAWS):
        group = groups[int(rng.integers(len(groups)))]
        clip = group[int(rng.integers(len(group)))]
        same = (clip.group == other.group or clip.caption.casefold() == other.caption.casefold() for other in chosen)
        if not any(same):
            chosen.append(clip)
        if len(chosen) == count:
            return chosen
    raise InputError(f"the {split} clips have too few different captions for a pair of {count} recordings")

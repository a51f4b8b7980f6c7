"""The captioned clips pairs are made of: their table and their split (design §3, §7)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jaxeval.errors import InputError
from jaxeval.tables import audio_path, read_table

SPLITS = ("train", "validation", "test")
MIN_GROUPS = 3
"""A replace pair takes three recordings: a background, the old sound and the new one."""

MAX_SOURCE_SECONDS = 600.0
"""Longer recordings are refused, so that a worker's memory stays bounded."""


@dataclass(frozen=True)
class Clip:
    """A captioned recording.

    Attributes:
        name: the path as the table gives it.
        path: where the file is.
        caption: what is heard.
        group: the recording it is a variant of; no split crosses a group.
        seconds: its length, 0 until the file has been read.
    """

    name: str
    path: Path
    caption: str
    group: str
    seconds: float = 0.0


Groups = dict[str, list[list[Clip]]]
"""Per split its groups, each a list of clips."""


def read_clips(table: str | os.PathLike[str]) -> list[Clip]:
    """Read a clips table: columns `path, caption`, and `group` where there is one (default the path).

    Raises:
        InputError: a column or value is missing, a path occurs twice, the table is empty or malformed.
    """
    clips = []
    for number, row in enumerate(read_table(table, required=("path", "caption"), unique=("path",)), 1):
        for column in ("path", "caption"):
            if not isinstance(row[column], str) or not row[column].strip():
                raise InputError(f"{table}: row {number}: column {column!r} is not text: {row[column]!r}")
        group = row.get("group")
        name = row["path"]
        caption = " ".join(row["caption"].split())
        clips.append(Clip(name, audio_path(table, name), caption, str(group) if group not in (None, "") else name))
    return clips


def split_groups(table: str | os.PathLike[str], clips: Sequence[Clip], seed: int) -> Groups:
    """Deal the groups out to train, validation and test, 8:1:1, at least three groups each.

    Groups are ordered by a hash of seed and name, so that neither the order of the table nor Python's hashing
    matters and a clip more moves hardly any group.

    Raises:
        InputError: there are too few groups, or too few different captions in a split.
    """
    groups: dict[str, list[Clip]] = {}
    for clip in clips:
        groups.setdefault(clip.group, []).append(clip)
    if len(groups) < MIN_GROUPS * len(SPLITS):
        raise InputError(
            f"{table}: {len(groups)} groups of recordings are too few: train, validation and test share none, "
            f"and each takes at least {MIN_GROUPS}"
        )
    ordered = sorted(groups, key=lambda group: hashlib.sha256(f"{seed}:{group}".encode()).digest())
    held_out = max(MIN_GROUPS, round(len(ordered) / 10))
    names = {
        "validation": ordered[:held_out],
        "test": ordered[held_out : 2 * held_out],
        "train": ordered[2 * held_out :],
    }
    for split in SPLITS:
        captions = {clip.caption.casefold() for group in names[split] for clip in groups[group]}
        if len(captions) < MIN_GROUPS:
            raise InputError(
                f"{table}: only {len(captions)} different captions fall into {split}; pairs take {MIN_GROUPS}"
            )
    return {split: [groups[group] for group in names[split]] for split in SPLITS}

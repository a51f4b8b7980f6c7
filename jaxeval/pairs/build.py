"""Build a set of pairs: clips table in, `pairs.jsonl` and 16 kHz FLAC out (design §3, §7).

Two passes, each spread over worker processes: every recording is checked once (`clips.jsonl`), then pair after
pair is drawn, mixed and written. The parent only appends finished rows, so memory does not grow with the number
of pairs, and a run that was killed goes on with the first pair that has no row.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from jaxeval.audio.lengths import SAMPLE_RATE
from jaxeval.audio.loudness import loudness
from jaxeval.audio.read import read_audio, write_flac
from jaxeval.errors import InputError
from jaxeval.files import PartialRows, file_hash
from jaxeval.pairs.clips import MAX_SOURCE_SECONDS, Clip, Groups, read_clips, split_groups
from jaxeval.pairs.mix import Source, mix, prepare
from jaxeval.pairs.recipe import Recipe, draw_recipe
from jaxeval.pairs.texts import difference, scene_caption
from jaxeval.runs import start_run
from jaxeval.tables import Row, audio_path, read_table
from jaxeval.workers import unordered_map

FOLDER_SIZE = 500
"""Pairs whose audio shares a folder: a thousand files."""

CACHED_SOURCES = 64
"""Decoded recordings a worker keeps: at most 64 scenes' worth of samples."""


@dataclass(frozen=True)
class BuildConfig:
    """How to build pairs.

    Attributes:
        clips: the clips table.
        out: folder for `pairs.jsonl`, `clips.jsonl`, `audio/`, `config.json` and `environment.json`.
        count: number of pairs.
        seed: seed of splits and recipes.
        seconds: length of every recording made, in whole tenths of a second.
        workers: processes; the result does not depend on it.
        skip_bad: leave out recordings that cannot be used (`clips.jsonl` says why) instead of stopping.
    """

    clips: str
    out: str
    count: int
    seed: int
    seconds: float = 10.0
    workers: int = 1
    skip_bad: bool = False

    @property
    def length(self) -> int:
        """Samples of a scene."""
        return round(self.seconds * 10) * SAMPLE_RATE // 10


def build_pairs(config: BuildConfig) -> Path:
    """Build the pairs, or go on with an interrupted run of the same settings; returns the path of `pairs.jsonl`.

    Raises:
        InputError: the table, a recording or the output folder is wrong.
        RunError: a worker process died, or another run is at work in the folder.
    """
    out = Path(config.out)
    table = out / "pairs.jsonl"
    clips = read_clips(config.clips)
    split_groups(config.clips, clips, config.seed)  # too few groups: say so before a long check
    settings = _settings(config)
    start_run(out, settings, {"clips": config.clips})
    if table.exists():
        _check_audio(table)
        print(f"{table} is already finished", file=sys.stderr)
        return table
    try:
        usable = _check_clips(config, clips, settings)
        groups = split_groups(config.clips, usable, config.seed)
    except InputError:
        _discard_run(out)
        raise
    rows = PartialRows(table, settings)
    try:
        for leftover in out.glob("audio/*/.*.flac.*"):  # of a run that was killed: `rows` is ours alone
            leftover.unlink(missing_ok=True)
        done = {row["id"] for row in rows.rows}
        todo = [index for index in range(config.count) if pair_id(index) not in done]
        with tqdm(total=config.count, initial=len(done), desc="pairs", unit="pair") as progress:
            for row in unordered_map(PairMaker(config, groups), todo, config.workers):
                rows.append(row)
                progress.update()
        rows.finish(order=[pair_id(index) for index in range(config.count)])
    finally:
        rows.close()
    return table


def pair_id(index: int) -> str:
    """Id of pair number `index`."""
    return f"{index:06d}"


@dataclass(frozen=True)
class PairMaker:
    """Makes one pair: draws its recipe, mixes it, writes both files. Calls in any order give the same pairs."""

    config: BuildConfig
    groups: Groups

    def __call__(self, index: int) -> Row:
        """Make pair number `index` and return its row."""
        recipe = draw_recipe(self.groups, self.config.seed, index)
        scene = mix(recipe, lambda clip: _load(clip, self.config.length), self.config.length)
        names = {
            side: f"audio/{index // FOLDER_SIZE:04d}/{pair_id(index)}_{side}.flac" for side in ("original", "edited")
        }
        write_flac(Path(self.config.out) / names["original"], scene.original)
        write_flac(Path(self.config.out) / names["edited"], scene.edited)
        changed = scene.sources[-1]
        return {
            "id": pair_id(index),
            "original_audio": names["original"],
            "edited_audio": names["edited"],
            "operation": recipe.operation,
            **_texts(recipe),
            "split": recipe.split,
            "onset_s": changed["onset_s"],
            "level_db": changed["level_db"],
            "original_lufs": _rounded(loudness(scene.original)),
            "edited_lufs": _rounded(loudness(scene.edited)),
            "gain_db": _rounded(scene.gain_db),
            "sources": scene.sources,
        }


@functools.lru_cache(maxsize=CACHED_SOURCES)
def _load(clip: Clip, length: int) -> Source:
    return prepare(clip.path, read_audio(clip.path, max_seconds=MAX_SOURCE_SECONDS), length)


def _texts(recipe: Recipe) -> dict[str, str]:
    captions = {part.role: part.clip.caption for part in recipe.parts}
    background = [part.clip.caption for part in recipe.parts if part.role == "background"]
    event, replacement = captions["event"], captions.get("replacement", "")
    without = scene_caption(background)
    with_event = scene_caption([*background, event])
    original, edited = {
        "add": (without, with_event),
        "delete": (with_event, without),
        "replace": (with_event, scene_caption([*background, replacement])),
    }[recipe.operation]
    change = difference(recipe.operation, recipe.wording, event, replacement)
    return {
        "instruction": change,
        "original_caption": original,
        "edited_caption": edited,
        "difference": change,
        "commonality": without,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _settings(config: BuildConfig) -> dict[str, Any]:
    """Everything that decides what the pairs are."""
    digest = file_hash(config.clips)
    chosen = {key: value for key, value in asdict(config).items() if key not in ("clips", "out", "workers")}
    return {"clips_sha256": digest, **chosen}


def _check_audio(table: Path) -> None:
    """Raise `InputError` where a finished run has lost recordings."""
    names = [str(row[side]) for row in read_table(table) for side in ("original_audio", "edited_audio")]
    lost = [name for name in names if not audio_path(table, name).exists()]
    if lost:
        raise InputError(
            f"{table}: {len(lost)} of {len(names)} recordings are gone, such as {lost[0]}; choose another --out"
        )


def _discard_run(out: Path) -> None:
    """Leave nothing of a run that had wrong input."""
    for name in ("clips.jsonl", "clips.jsonl.partial", "config.json", "environment.json"):
        (out / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not ours, or not empty
        out.rmdir()


def _check_clips(config: BuildConfig, clips: Sequence[Clip], settings: dict[str, Any]) -> list[Clip]:
    """Decode every recording once, before any pair is made: the usable clips with their lengths.

    The findings go to `clips.jsonl`: `id` (the path), `seconds`, and `problem` or null.
    """
    table = Path(config.out) / "clips.jsonl"
    if not table.exists():
        rows = PartialRows(table, settings)
        try:
            done = {row["id"] for row in rows.rows}
            todo = [clip for clip in clips if clip.name not in done]
            with tqdm(total=len(clips), initial=len(done), desc="check", unit="clip") as progress:
                for row in unordered_map(functools.partial(_check_clip, config.length), todo, config.workers):
                    rows.append(row)
                    progress.update()
            rows.finish(order=[clip.name for clip in clips])
        finally:
            rows.close()
    found = read_table(table)
    problems = [row["problem"] for row in found if row["problem"]]
    if problems and not config.skip_bad:
        more = f" ({len(problems) - 1} more of {len(clips)} clips are bad)" if len(problems) > 1 else ""
        raise InputError(f"{problems[0]}{more}; --skip-bad leaves such clips out")
    if problems:
        print(f"skipped {len(problems)} of {len(clips)} clips; {table} says why", file=sys.stderr)
    usable = zip(clips, found, strict=True)
    return [replace(clip, seconds=row["seconds"]) for clip, row in usable if not row["problem"]]


def _check_clip(length: int, clip: Clip) -> Row:
    try:
        samples = read_audio(clip.path, max_seconds=MAX_SOURCE_SECONDS)
        prepare(clip.path, samples, length)
    except InputError as error:
        return {"id": clip.name, "seconds": None, "problem": str(error)}
    return {"id": clip.name, "seconds": len(samples) / SAMPLE_RATE, "problem": None}

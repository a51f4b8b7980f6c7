"""`python -m jaxeval measure`: audio files in, one row a recording out, in the shape of a card (design §3)."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from jaxeval import arguments
from jaxeval.audio.activity import ActivityConfig
from jaxeval.audio.measure import MEASURED, measure
from jaxeval.audio.octave_bands import LIMITS_DB
from jaxeval.audio.pitch import PitchConfig
from jaxeval.audio.read import read_channels
from jaxeval.audio.recordings import Recording, find_recordings
from jaxeval.errors import InputError
from jaxeval.files import PartialRows
from jaxeval.runs import is_finished, write_record
from jaxeval.tables import Row
from jaxeval.workers import unordered_map

MAX_SECONDS = 600.0
"""Longer recordings are refused, so that a worker's memory stays bounded."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "files",
        nargs="+",
        type=arguments.path,
        metavar="FILES",
        help="audio files, folders, and tables of cards (audio), clips (path) or pairs (original_audio, edited_audio)",
    )
    parser.add_argument(
        "--out", required=True, type=arguments.jsonl, metavar="FILE", help="cards, one JSON line a recording"
    )
    parser.add_argument(
        "--workers", type=arguments.positive, default=os.cpu_count() or 1, help="processes (default: all cores)"
    )
    parser.add_argument("--skip-bad", action="store_true", help="leave out unusable recordings instead of stopping")


def run(args: argparse.Namespace) -> None:
    """Measure the recordings and print where the rows are."""
    out = Path(args.out)
    recordings = find_recordings(args.files)
    settings = _settings(recordings, args.skip_bad)
    if not is_finished(out, settings):
        measure_recordings(recordings, out, settings, workers=args.workers, skip_bad=args.skip_bad)
    print(out)


def measure_recordings(
    recordings: Sequence[Recording], out: Path, settings: dict[str, Any], *, workers: int, skip_bad: bool
) -> None:
    """Measure what an interrupted run has not, and write the rows to `out` in the order of the recordings.

    Args:
        recordings: what to measure, ids all different.
        out: the file to make.
        settings: what the rows depend on; an interrupted run must agree.
        workers: processes; the rows do not depend on it.
        skip_bad: leave out recordings that cannot be used, and say which.

    Raises:
        InputError: a recording cannot be used, or none can.
        RunError: a worker died, or another run is writing to `out`.
    """
    if not skip_bad and not out.with_name(f"{out.name}.partial").exists():
        check_recordings(recordings, workers)
    rows = PartialRows(out, settings)
    try:
        problems = {row["id"]: row["problem"] for row in rows.rows if "problem" in row}
        done = {row["id"] for row in rows.rows}
        todo = [recording for recording in recordings if recording.id not in done]
        with tqdm(total=len(recordings), initial=len(done), desc="measure", unit="clip") as progress:
            for row in unordered_map(Measurer(out.parent, skip_bad), todo, min(workers, max(1, len(todo)))):
                rows.append(row)
                problems |= {row["id"]: row["problem"]} if "problem" in row else {}
                progress.update()
        if len(problems) == len(recordings):
            rows.partial.unlink()
            raise InputError(f"none of the {len(recordings)} recordings can be used: {next(iter(problems.values()))}")
        write_record(out, settings)
        rows.finish(order=[recording.id for recording in recordings if recording.id not in problems])
    finally:
        rows.close()
    if problems:
        print(f"skipped {len(problems)} of {len(recordings)} recordings:", file=sys.stderr)
        print(*(f"  {problem}" for problem in problems.values()), sep="\n", file=sys.stderr)


def check_recordings(recordings: Sequence[Recording], workers: int) -> None:
    """Decode every recording once, so that a damaged one stops a long run before it starts.

    Raises:
        InputError: some cannot be used; the message names the first.
    """
    problems = {}
    with tqdm(total=len(recordings), desc="check", unit="clip", leave=False) as progress:
        for name, problem in unordered_map(_problem, recordings, min(workers, len(recordings))):
            problems[name] = problem
            progress.update()
    found = [problem for recording in recordings if (problem := problems[recording.id]) is not None]
    if found:
        more = f" ({len(found) - 1} more of {len(recordings)} recordings are bad)" if len(found) > 1 else ""
        raise InputError(f"{found[0]}{more}; --skip-bad leaves such recordings out")


@dataclass(frozen=True)
class Measurer:
    """Makes the row of one recording.

    Attributes:
        folder: where the rows will lie; paths in them are relative to it.
        skip_bad: give a row with a `problem` for a recording that cannot be used, instead of raising.
    """

    folder: Path
    skip_bad: bool

    def __call__(self, recording: Recording) -> Row:
        """Read and measure; what the table said beside is kept, unless it is measured anew."""
        try:
            measured = measure(*read_channels(recording.path, max_seconds=MAX_SECONDS))
        except InputError as error:
            if not self.skip_bad:
                raise
            return {"id": recording.id, "problem": str(error)}
        kept = {name: value for name, value in recording.columns.items() if name not in ("audio", *MEASURED)}
        audio = Path(os.path.relpath(recording.path.absolute(), self.folder.absolute())).as_posix()
        return {"id": recording.id, "audio": audio, **kept, **measured}


def _problem(recording: Recording) -> tuple[str, str | None]:
    try:
        read_channels(recording.path, max_seconds=MAX_SECONDS)
    except InputError as error:
        return recording.id, str(error)
    return recording.id, None


def _settings(recordings: Sequence[Recording], skip_bad: bool) -> dict[str, Any]:
    """What the rows depend on; a resumed run must agree in all of it."""
    named = [[recording.id, str(recording.path), recording.columns] for recording in recordings]
    return {
        "recordings_sha256": hashlib.sha256(json.dumps(named, sort_keys=True, default=str).encode()).hexdigest(),
        "skip_bad": skip_bad,
        "pitch": asdict(PitchConfig()),
        "activity": asdict(ActivityConfig()),
        "octave_limits_db": list(LIMITS_DB),
    }

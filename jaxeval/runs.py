"""Runs that know their settings: a folder or file goes on, or is finished, only under those it was started with.

A long job may be cut into shards, each a process or a job of a cluster of its own. A shard leaves its rows in
`parts/` of the run folder, and whoever merges finds there which shards are still missing.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from jaxeval.errors import InputError
from jaxeval.files import environment, read_json, write_json
from jaxeval.tables import Row, read_table

T = TypeVar("T")


def start_run(out: Path, settings: Mapping[str, Any], about: Mapping[str, Any] | None = None) -> None:
    """Write `config.json` and `environment.json` of a run folder, or see that its earlier run had the same settings.

    Args:
        out: the run folder.
        settings: what the results depend on.
        about: what else `config.json` is to say, such as paths.

    Raises:
        InputError: the folder holds a run with other settings, or files of something else.
    """
    config = out / "config.json"
    if config.exists():
        check_settings(config, read_json(config), settings)
        return
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out}: holds files but no config.json of a run; choose another folder")
    write_json(out / "environment.json", environment())
    write_json(config, {**(about or {}), **settings})


def check_settings(source: Path, found: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raise `InputError` if results were made with other settings than these; `source` names them."""
    for name, value in settings.items():
        if found.get(name) != value:
            raise InputError(
                f"{source}: holds results made with {name}={found.get(name)!r}, not {value!r}; choose another output"
            )


def is_finished(out: Path, settings: Mapping[str, Any]) -> bool:
    """Whether a file of rows is there already, made with these settings.

    Raises:
        InputError: it was made with others, or by something that kept no record.
    """
    if not out.exists():
        return False
    record = _record(out)
    if not record.exists():
        raise InputError(f"{out}: exists already, without the {record.name} of finished rows; choose another --out")
    check_settings(out, read_json(record).get("config", {}), settings)
    print(f"{out} is finished already; delete it or name another file to make it again", file=sys.stderr)
    return True


def write_record(out: Path, settings: Mapping[str, Any]) -> None:
    """Keep the settings of a file of rows, and the environment they were made in, beside it; before it is finished."""
    write_json(_record(out), {"config": dict(settings), "environment": environment()})


def _record(out: Path) -> Path:
    return out.with_suffix(".run.json")


@dataclass(frozen=True)
class Shard:
    """Part `index` of `count`, counted from 1."""

    index: int = 1
    count: int = 1

    def take(self, items: Sequence[T]) -> Sequence[T]:
        """Every `count`-th item."""
        return items[self.index - 1 :: self.count]

    def part(self, out: Path) -> Path:
        """The file with the rows of this shard."""
        return out / "parts" / f"part-{self.index:04}-of-{self.count:04}.jsonl"

    def how_to_merge(self, out: Path) -> str:
        """What to tell the user when the shard is finished."""
        return f"{self.part(out)}: when all {self.count} shards are done, run it with --merge in place of --shard"


def add_shard_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--shard` and `--merge`."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--shard", type=shard, metavar="I/N", help="do this part of the cards only, such as 3/8")
    group.add_argument("--merge", action="store_true", help="do nothing but report, once all shards are done")


def shard(text: str) -> Shard:
    """A shard as typed on a command line: `3/8`."""
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no shard, such as 1/8 or 8/8")
    return Shard(int(match[1]), int(match[2]))


def merge_parts(out: Path) -> list[Row]:
    """The rows of all shards of a run, shard by shard.

    Raises:
        InputError: a shard is missing or unfinished, or the folder has shards of two counts.
    """
    parts = sorted((out / "parts").glob("part-*-of-*.jsonl"))
    counts = {int(part.stem.split("-of-")[1]) for part in parts}
    if not parts:
        raise InputError(f"{out}: no finished shard in parts/")
    if len(counts) > 1:
        raise InputError(
            f"{out}: parts/ holds shards of {' and '.join(map(str, sorted(counts)))}; remove those not meant"
        )
    count = counts.pop()
    missing = [str(index) for index in range(1, count + 1) if not Shard(index, count).part(out).exists()]
    if missing:
        raise InputError(f"{out}: shards {', '.join(missing[:10])} of {count} are not finished yet")
    return [row for part in parts if part.stat().st_size for row in read_table(part)]

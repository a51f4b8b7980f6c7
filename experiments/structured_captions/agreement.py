"""One judge over all perturbed texts of an audit, in a process of its own: scores, failures, seconds and memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from tqdm import tqdm

from jaxeval.arguments import Parser
from jaxeval.cards import parse_card, read_cards
from jaxeval.cards.schema import TEXT_FIELDS, AudioCard
from jaxeval.errors import exit_code
from jaxeval.files import file_hash, read_json, write_json
from jaxeval.judges.arguments import add_judge_arguments, judge_from, what_is_judged_by
from jaxeval.judges.protocol import Item, Text
from jaxeval.tables import Row, read_table
from jaxeval.typed import from_object


@dataclass(frozen=True)
class Agreement:
    """What a judge said of all items, in the order of the audit's cells.

    Attributes:
        judge: its name.
        inputs: hash of the cells, and the settings of the judge.
        fields: the field of each item; scores: None where it has none; reasons: why.
        cards: number of cards the items come from.
        seconds: spent on all items; memory_mb: the most the process held.
    """

    judge: str
    inputs: dict
    fields: list
    scores: list
    reasons: list
    cards: int
    seconds: float
    memory_mb: float

    def verdicts(self) -> Iterator[tuple[float | None, str | None]]:
        """Score and reason of each item; both None where the judge is not for such fields."""
        return zip(self.scores, self.reasons, strict=True)


def read_agreement(file: Path) -> Agreement:
    """Read what a process of this module has written."""
    return from_object(Agreement, read_json(file), str(file))


def perturbed_items(cards: list[AudioCard], rows: list[Row]) -> list[Item]:
    """Every changed text field of the cells, beside what it was."""
    by_key = {(card.id, card.system): card for card in cards}
    items = []
    for row in rows:
        card = by_key[row["id"], row.get("system")]
        changed = parse_card({"id": card.id, **(row["values"] or {})}, strict=True)
        items += [
            Item(name, cast(Text, card.values[name]), cast(Text, changed.values[name]))
            for name in TEXT_FIELDS
            if name in changed.values
        ]
    return items


def main() -> None:
    """Judge the items, unless the file has them."""
    parser = Parser(prog="experiments.structured_captions.agreement", description=str(__doc__).splitlines()[0])
    for name in ("--cards", "--cells", "--out"):
        parser.add_argument(name, type=Path, required=True)
    add_judge_arguments(parser)
    args = parser.parse_args()
    args.baselines = []
    inputs = {"cells": file_hash(args.cells), **what_is_judged_by(args)}
    if args.out.exists() and read_agreement(args.out).inputs == inputs:
        return
    cards = read_cards(args.cards, strict=True)
    items = perturbed_items(cards, read_table(args.cells))
    judge = judge_from(args, args.out.parent)
    mine = [index for index, item in enumerate(items) if item.kind in judge.kinds]
    began = time.monotonic()
    with tqdm(total=len(mine), desc=judge.name, unit="text", disable=None) as progress:
        found = dict(zip(mine, judge.score([items[index] for index in mine], progress=progress.update), strict=True))
    seconds = time.monotonic() - began
    result = Agreement(
        judge=judge.name,
        inputs=inputs,
        fields=[item.field for item in items],
        scores=[found[index].value if index in found else None for index in range(len(items))],
        reasons=[found[index].reason if index in found else None for index in range(len(items))],
        cards=len(cards),
        seconds=seconds,
        memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )
    write_json(args.out, asdict(result))


if __name__ == "__main__":
    sys.exit(exit_code(main))

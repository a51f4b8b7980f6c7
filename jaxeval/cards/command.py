"""`python -m jaxeval score`: predicted cards against references, on 15 fields and five axes.

Two stages. Cards are scored a few at a time into `parts/`, which an interrupted run goes on with and a cluster fills
from several jobs (`--shard i/n`). From the finished parts come the item table, the summary, figures and the page.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from tqdm import tqdm

from jaxeval import arguments
from jaxeval.cards.reading import join_cards, read_cards
from jaxeval.cards.schema import FIELDS, AudioCard, Axis
from jaxeval.cards.scoring import AcousticMetric, CardMetric, TextMetric, scores_at
from jaxeval.cards.summary import JUDGED, CardResult, chance_levels, write_report
from jaxeval.errors import InputError
from jaxeval.files import PartialRows, file_hash
from jaxeval.judges.arguments import add_judge_arguments, baselines_from, judge_from, what_is_judged_by
from jaxeval.runs import Shard, add_shard_arguments, merge_parts, start_run
from jaxeval.scorers import SIGMA, hz_to_semitones, pack_cells, robust_sigma
from jaxeval.tables import Row

CARDS_AT_A_TIME = 64
Pairs = Sequence[tuple[AudioCard, AudioCard]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--predictions", required=True, type=arguments.path, metavar="FILE", help="table of cards")
    parser.add_argument("--references", required=True, type=arguments.path, metavar="FILE", help="table of cards")
    parser.add_argument("--out", required=True, type=arguments.path, metavar="DIR", help="the run folder")
    add_judge_arguments(parser)
    parser.add_argument(
        "--sigma", choices=("published", "fitted"), default="published", help="spread of the scalars: 6.86 dB and "
        "14.97 semitones, or that of the references (default %(default)s)"
    )  # fmt: skip
    parser.add_argument(
        "--weights", type=axis_weights, default={}, metavar="AXIS=W,…", help="weights of axes in the total (default 1)"
    )
    parser.add_argument(
        "--upper-bound", action="store_true", help="fewer than 7 words cost nothing where the field says 'or less'"
    )
    add_shard_arguments(parser)
    parser.add_argument(
        "--page-items", type=arguments.positive, default=50, metavar="N", help="cards on the page (default %(default)s)"
    )
    parser.add_argument("--note", action="append", default=[], metavar="TEXT", help="a remark on top of the page")


def run(args: argparse.Namespace) -> None:
    """Score, and report once all is scored."""
    out = Path(args.out)
    references = read_cards(args.references, strict=True)
    pairs, unpredicted = join_cards(read_cards(args.predictions), references)
    sigma = SIGMA if args.sigma == "published" else fitted_sigma(references, args.references)
    metrics = {} if args.merge else card_metrics(args, sigma, out)
    start_run(
        out,
        {
            "command": "score",
            "predictions_sha256": file_hash(args.predictions),
            "references_sha256": file_hash(args.references),
            **what_is_judged_by(args),
            "sigma": sigma,
            "upper_bound": args.upper_bound,
        },
        {"predictions": args.predictions, "references": args.references},
    )
    if not args.merge:
        score_shard(pairs, metrics, out, args.shard or Shard())
        if args.shard:
            print(args.shard.how_to_merge(out))
            return
    rows = {_key(row): row for row in merge_parts(out)}
    weights = dict.fromkeys(Axis, 1.0) | args.weights
    write_report(
        out,
        [CardResult.of(pair, rows[_card_key(pair[0])], weights) for pair in pairs],
        chance=chance_levels(references, sigma),
        coverage=f"{len(pairs)} cards scored; {len(unpredicted)} references have no prediction and are left out.",
        tables=(args.predictions, args.references),
        page_items=args.page_items,
        notes=args.note,
    )


def card_metrics(args: argparse.Namespace, sigma: Mapping[str, float], out: Path) -> dict[str, CardMetric]:
    """What cards are scored by: the judge and the baselines on texts, the scorers on what is measured."""
    length: Literal["symmetric", "upper_bound"] = "upper_bound" if args.upper_bound else "symmetric"
    return {
        JUDGED: TextMetric(judge_from(args, out), length=length),
        **{one.name: TextMetric(one, length=None) for one in baselines_from(args, out)},
        AcousticMetric.name: AcousticMetric(sigma),
    }


def score_shard(pairs: Pairs, metrics: Mapping[str, CardMetric], out: Path, part: Shard) -> None:
    """Score the cards of a shard that an earlier run has not, into its part file."""
    file = part.part(out)
    if file.exists():
        return
    mine = part.take(pairs)
    rows = PartialRows(file, {"shard": [part.index, part.count]})
    try:
        done = {_key(row) for row in rows.rows}
        todo = [pair for pair in mine if _card_key(pair[0]) not in done]
        with tqdm(total=len(mine), initial=len(done), desc="score", unit="card", disable=None) as progress:
            for first in range(0, len(todo), CARDS_AT_A_TIME):
                some = todo[first : first + CARDS_AT_A_TIME]
                for row in score_pairs(some, metrics):
                    rows.append(row)
                progress.update(len(some))
        rows.finish()
    finally:
        rows.close()


def score_pairs(pairs: Pairs, metrics: Mapping[str, CardMetric]) -> list[Row]:
    """Score cards with several metrics.

    Returns:
        A row a card: `id`, `system`, `scores` by metric and column, and `reasons` of those without a value.
    """
    predictions, references = ([pair[side] for pair in pairs] for side in (0, 1))
    everything = [tuple(FIELDS)] * len(pairs)
    found = {name: metric.score(predictions, references, everything) for name, metric in metrics.items()}
    rows = []
    for index, card in enumerate(predictions):
        scores, reasons = scores_at(found, index)
        rows.append({"id": card.id, "system": card.system, "scores": scores, "reasons": reasons})
    return rows


def fitted_sigma(references: Sequence[AudioCard], path: str) -> dict[str, float]:
    """σ of the scalars from a reference set.

    Raises:
        InputError: it does not spread, or too few values are defined.
    """
    cells = pack_cells([card.values for card in references])
    values = {"lufs": cells.lufs, "median_f0": np.asarray(hz_to_semitones(cells.median_f0))}
    sigma = {name: float(robust_sigma(found)) for name, found in values.items()}
    for name, value in sigma.items():
        if not value > 0:
            raise InputError(f"{path}: {name} has no spread to fit sigma from; use --sigma published")
    return sigma


def axis_weights(text: str) -> dict[Axis, float]:
    """`tags=2,numeric=0` as typed on a command line."""
    weights = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            weights[Axis(name.strip())] = float(value)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{part!r} is no AXIS=WEIGHT with one of {', '.join(Axis)}") from None
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights.values()):
        raise argparse.ArgumentTypeError(f"{text!r}: weights are finite and not below 0")
    return weights


def _card_key(card: AudioCard) -> tuple[str, str]:
    return card.id, card.system or ""


def _key(row: Row) -> tuple[str, str]:
    return row["id"], row["system"] or ""

"""`python -m jaxeval audit`: does a metric fall where cards get worse, and stay where they only read differently?

Takes references alone. Every card is perturbed in every cell of error type × severity, the metrics score what came out
against what went in, and statistics say which of them can be trusted. Like `score`, it goes on where it was interrupted
and can be cut into shards.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from jaxeval import arguments
from jaxeval.audit.cells import audit_cards
from jaxeval.audit.metric import FunctionMetric
from jaxeval.audit.report import write_report
from jaxeval.audit.verdicts import all_series
from jaxeval.cards.reading import read_cards
from jaxeval.cards.schema import AudioCard
from jaxeval.cards.scoring import AcousticMetric, CardMetric, TextMetric
from jaxeval.errors import InputError
from jaxeval.files import PartialRows, file_hash
from jaxeval.judges.arguments import add_judge_arguments, baselines_from, judge_from, settings_from, what_is_judged_by
from jaxeval.judges.http_chat import HttpChat
from jaxeval.perturb import ErrorType, RuleBased, TextPerturber
from jaxeval.perturb.cells import TEXT_TYPES
from jaxeval.perturb.llm import LanguageModel
from jaxeval.runs import Shard, add_shard_arguments, merge_parts, start_run
from jaxeval.scorers import SIGMA
from jaxeval.stats.verdict import VerdictConfig

CARDS_AT_A_TIME = 16
CARD_TOKENS = 2048
"""A reply with all text fields of a card."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--references", required=True, type=arguments.path, metavar="FILE", help="table of cards")
    parser.add_argument("--out", required=True, type=arguments.path, metavar="DIR", help="the run folder")
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="PACKAGE.MODULE:FUNCTION",
        help="f(predictions, references) -> scores, audited in place of judge and baselines; may be repeated",
    )
    parser.add_argument(
        "--types", nargs="+", type=ErrorType, choices=tuple(ErrorType), default=tuple(ErrorType), metavar="TYPE",
        help=f"types of error (default all: {', '.join(ErrorType)})",
    )  # fmt: skip
    add_judge_arguments(parser)
    parser.add_argument(
        "--perturb-with", choices=("rules", "judge"), default="rules", help="texts are perturbed by rules, or by the "
        "model of --judge URL (default %(default)s)",
    )  # fmt: skip
    parser.add_argument("--seed", type=arguments.seed, default=0, help="of the perturbations (default %(default)s)")
    parser.add_argument("--level", type=_share, default=0.05, help="of the tests (default %(default)s)")
    parser.add_argument(
        "--margin", type=_positive, default=0.05, help="what a paraphrase may change of the mean (default %(default)s)"
    )
    add_shard_arguments(parser)
    parser.add_argument("--note", action="append", default=[], metavar="TEXT", help="a remark on top of the page")


def run(args: argparse.Namespace) -> None:
    """Perturb and score, and report once all is scored."""
    out = Path(args.out)
    cards = read_cards(args.references, strict=True)
    types = list(dict.fromkeys(args.types))
    functions = [FunctionMetric(name) for name in dict.fromkeys(args.metric)]
    metrics = [] if args.merge else functions or default_metrics(args, out, types)
    text = text_perturber(args, out)
    start_run(
        out,
        {
            "command": "audit",
            "references_sha256": file_hash(args.references),
            "metrics": sorted(args.metric),
            "types": [type.value for type in types],
            **({} if functions else what_is_judged_by(args)),
            "perturb_with": args.perturb_with,
            "seed": args.seed,
            "sigma": SIGMA,
        },
        {"references": args.references},
    )
    if not args.merge:
        part = args.shard or Shard()
        audit_shard(part.take(cards), metrics, types, text, args.seed, out, part)
        if args.shard:
            print(part.how_to_merge(out))
            return
    rows = {(row["id"], row["system"]): row for row in merge_parts(out)}
    ordered = [rows[card.id, card.system] for card in cards]
    config = VerdictConfig(level=args.level, margin=args.margin, seed=args.seed)
    write_report(out, ordered, cards, list(all_series(ordered, types)), config, args.note)


def audit_shard(
    cards: Sequence[AudioCard],
    metrics: Sequence[CardMetric],
    types: Sequence[ErrorType],
    text: TextPerturber,
    seed: int,
    out: Path,
    part: Shard,
    sigma: Mapping[str, float] = SIGMA,
) -> None:
    """Audit the cards of a shard that an earlier run has not, into its part file."""
    file = part.part(out)
    if file.exists():
        return
    rows = PartialRows(file, {"shard": [part.index, part.count]})
    try:
        done = {(row["id"], row["system"]) for row in rows.rows}
        todo = [card for card in cards if (card.id, card.system) not in done]
        with tqdm(total=len(cards), initial=len(done), desc="audit", unit="card", disable=None) as progress:
            for first in range(0, len(todo), CARDS_AT_A_TIME):
                some = todo[first : first + CARDS_AT_A_TIME]
                for row in audit_cards(some, metrics, types, seed=seed, text=text, sigma=sigma):
                    rows.append(row)
                progress.update(len(some))
        rows.finish()
    finally:
        rows.close()


def default_metrics(args: argparse.Namespace, out: Path, types: Sequence[ErrorType]) -> list[CardMetric]:
    """What is audited where no metric is named: judge and baselines on texts, the scorers on what is measured."""
    metrics: list[CardMetric] = []
    if any(type in TEXT_TYPES for type in types):
        metrics.append(TextMetric(judge_from(args, out)))
        metrics += [TextMetric(one, length=None) for one in baselines_from(args, out)]
    if any(type not in TEXT_TYPES for type in types):
        metrics.append(AcousticMetric())
    return metrics


def text_perturber(args: argparse.Namespace, out: Path) -> TextPerturber:
    """What perturbs texts.

    Raises:
        InputError: a model is wanted, and `--judge` is no endpoint.
    """
    if args.perturb_with == "rules":
        return RuleBased()
    http = settings_from(args, out).http
    if http is None:
        raise InputError("--perturb-with judge: --judge must be an endpoint")
    whole_card = max(http.max_tokens, CARD_TOKENS)
    return LanguageModel(HttpChat(args.judge, dataclasses.replace(http, max_tokens=whole_card)))


def _share(text: str) -> float:
    value = _positive(text)
    if value >= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and 1")
    return value


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return value

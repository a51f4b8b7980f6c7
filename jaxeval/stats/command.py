"""`python -m jaxeval correlate`: do metrics follow what people say? Tables of correlations, heat maps and a page.

Takes any two tables with numeric columns: scores, such as the item table of `metrics`, and ratings or objective
measures of the same items. Every column of the one is correlated with every column of the other.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tqdm import tqdm

from jaxeval import arguments
from jaxeval.errors import InputError
from jaxeval.files import check_replaceable, environment, file_hash, whole_folder, write_json
from jaxeval.stats.bootstrap import CONFIDENCE, RESAMPLES
from jaxeval.stats.columns import Joined, join_columns
from jaxeval.stats.report import RESULTS, write_report
from jaxeval.stats.study import SYSTEM, StudyConfig, correlate, differences, levels

MOST_RESAMPLES = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--scores", required=True, type=arguments.path, metavar="FILE", help="table of metrics by item")
    parser.add_argument(
        "--ratings", required=True, type=arguments.path, metavar="FILE", help="table of ratings or measures by item"
    )
    parser.add_argument("--out", required=True, type=arguments.path, metavar="DIR", help="folder for the results")
    parser.add_argument("--metrics", nargs="+", metavar="NAME", help="columns of the scores (default: all of numbers)")
    parser.add_argument("--columns", nargs="+", metavar="NAME", help="columns of the ratings (default: all of numbers)")
    parser.add_argument("--model", metavar="NAME", help="whose scores to take, if the table has several models")
    parser.add_argument(
        "--against",
        metavar="METRIC",
        help="compare all other metrics with this one, by the difference of correlations",
    )
    parser.add_argument(
        "--cluster", choices=("rater", "system"), help="resample raters or systems instead of single items"
    )
    parser.add_argument(
        "--confidence", type=_share, default=CONFIDENCE, metavar="P", help="of the intervals (default %(default)s)"
    )
    parser.add_argument(
        "--resamples", type=_resamples, default=RESAMPLES, metavar="N", help="of the bootstrap (default %(default)s)"
    )
    parser.add_argument("--seed", type=arguments.seed, default=0, help="of the bootstrap (default %(default)s)")
    parser.add_argument(
        "--note", action="append", default=[], metavar="TEXT", help="a remark on top of the page; may be repeated"
    )


def run(args: argparse.Namespace) -> None:
    """Join, correlate, write the run folder, print the table."""
    check_replaceable(args.out, RESULTS)
    joined = join_columns(args.scores, args.ratings, metrics=args.metrics, targets=args.columns, model=args.model)
    _check(args, joined)
    config = StudyConfig(args.cluster, args.confidence, args.resamples, args.seed)
    pairs = [
        (level, metric, target) for level in levels(joined) for metric in joined.metrics for target in joined.targets
    ]
    rows = [
        correlate(joined, level, metric, target, config)
        for level, metric, target in tqdm(pairs, desc="correlate", unit="pair", leave=False)
    ]
    compared = [pair for pair in pairs if args.against is not None and pair[1] != args.against]
    difference_rows = [
        row
        for level, metric, target in tqdm(compared, desc="compare", unit="pair", leave=False, disable=not compared)
        for row in differences(joined, level, metric, args.against, target, config)
    ]
    with whole_folder(args.out) as out:
        inputs = {name: {"path": path, "sha256": file_hash(path)} for name, path in _inputs(args)}
        settings = {name: value for name, value in vars(args).items() if name in _SETTINGS}
        write_json(out / "config.json", {"command": "correlate", **inputs, **settings})
        write_json(out / "environment.json", environment())
        text = write_report(out, joined, rows, difference_rows, config, args.note)
    print(text)
    print(f"\nreport: {Path(args.out) / 'report.html'}")


_SETTINGS = ("metrics", "columns", "model", "against", "cluster", "confidence", "resamples", "seed", "note")


def _inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    return [("scores", args.scores), ("ratings", args.ratings)]


def _check(args: argparse.Namespace, joined: Joined) -> None:
    if args.against is not None and args.against not in joined.metrics:
        raise InputError(f"--against: no metric {args.against!r}; there are {', '.join(joined.metrics)}")
    if args.cluster == SYSTEM and joined.systems is None:
        raise InputError(f"--cluster system: neither {args.scores} nor {args.ratings} has a column 'system'")
    if args.cluster == "rater" and joined.ratings is None:
        raise InputError(f"--cluster rater: {args.ratings} has no column 'rater'")
    if args.cluster == "rater" and args.against is not None:
        raise InputError("--against: differences are resampled by item or system, not by rater")


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text[:50]!r} does not lie between 0 and 1")
    return value


def _resamples(text: str) -> int:
    value = arguments.positive(text)
    if value > MOST_RESAMPLES:
        raise argparse.ArgumentTypeError(f"{text[:50]} resamples are more than {MOST_RESAMPLES}")
    return value

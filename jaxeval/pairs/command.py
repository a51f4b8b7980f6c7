"""`python -m jaxeval pairs`: the command line of `jaxeval.pairs.build`."""

from __future__ import annotations

import argparse
import os

from jaxeval import arguments
from jaxeval.pairs.build import BuildConfig, build_pairs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument(
        "--clips",
        required=True,
        type=arguments.path,
        metavar="MANIFEST",
        help="clips table: path, caption; group optional",
    )
    parser.add_argument(
        "--out", required=True, type=arguments.path, metavar="DIR", help="folder for pairs.jsonl and the audio"
    )
    parser.add_argument("--count", required=True, type=arguments.positive, metavar="N", help="number of pairs")
    parser.add_argument("--seed", required=True, type=arguments.seed, metavar="S", help="seed of splits and pairs")
    parser.add_argument("--seconds", type=_scene_seconds, default=10.0, help="length of both recordings (default 10)")
    parser.add_argument(
        "--workers", type=arguments.positive, default=os.cpu_count() or 1, help="processes (default: all cores)"
    )
    parser.add_argument("--skip-bad", action="store_true", help="leave out unusable recordings instead of stopping")


def run(args: argparse.Namespace) -> None:
    """Build the pairs and print where they are."""
    config = BuildConfig(args.clips, args.out, args.count, args.seed, args.seconds, args.workers, args.skip_bad)
    print(build_pairs(config))


def _scene_seconds(text: str) -> float:
    value = float(text)
    if not 1 <= value <= 30 or round(value, 1) != value:
        raise argparse.ArgumentTypeError(f"{text} is not within 1 to 30 in whole tenths")
    return value

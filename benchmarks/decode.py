"""How fast answers are generated, ours against transformers' `generate`: `python -m benchmarks.decode`.

Timed is everything from log-mel features to the last of `--new-tokens` greedy tokens a row: encoder, prefill, decoding;
no token ends a row. Tokens a second count the new ones alone. Several batch sizes can be given; they share the model.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import sides, workload
from jaxeval.errors import exit_code
from jaxeval.files import environment, write_json


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decode", description=__doc__)
    workload.add_arguments(parser, "preset", "seconds", "text", "new_tokens", "dtype", "attention", "mesh")
    parser.add_argument("--batch", type=int, nargs="+", default=[4], help="rows; one measurement each")
    sides.add_arguments(parser)
    arguments = parser.parse_args()
    works = [workload.from_arguments(arguments, batch=batch, answer=1) for batch in arguments.batch]
    results = sides.compare("decode", works, arguments.rounds, peer=arguments.peer)
    sides.show(results)
    if arguments.json:
        write_json(arguments.json, {"environment": environment(), "results": results})


if __name__ == "__main__":
    sys.exit(exit_code(main))

"""`python -m jaxeval COMMAND`: one line here for each command; the work is in the module the line names.

A command module offers `add_arguments(parser)` and `run(args)`. It is imported only when its command is
called, so that `--help` and light commands do not pay for jax.
"""

from __future__ import annotations

import importlib
import sys

from jaxeval.arguments import Parser
from jaxeval.errors import exit_code

COMMANDS = {
    "pairs": ("jaxeval.pairs.command", "build pairs of original and edited audio from captioned clips"),
    "describe": ("jaxeval.edits.describe", "say what differs and what two recordings share, with a converted model"),
    "measure": ("jaxeval.audio.command", "measure loudness, pitch, events and spectrum of recordings"),
    "score": ("jaxeval.cards.command", "score predicted audio cards against references on 15 fields and five axes"),
    "audit": ("jaxeval.audit.command", "perturb reference cards, and see whether metrics notice"),
    "metrics": ("jaxeval.captions.command", "score predicted captions against references and write a report"),
    "correlate": ("jaxeval.stats.command", "correlate metrics with human ratings and objective measures"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code of design §8."""
    return exit_code(lambda: _run(sys.argv[1:] if arguments is None else arguments))


def _run(arguments: list[str]) -> None:
    parser = Parser(prog="jaxeval", description="Evaluate audio edits and audio captions.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    named = arguments[0] if arguments else None
    for name, (module_name, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if name == named:
            module = importlib.import_module(module_name)
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    parsed = parser.parse_args(arguments)
    parsed.run(parsed)

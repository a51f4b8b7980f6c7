"""`python -m tools.convert_weights import | export | adapter`: Hugging Face and PEFT ⇄ Flax."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from jaxeval.errors import exit_code


def main(arguments: list[str] | None = None) -> int:
    """Run one conversion; returns the exit code of design §8."""
    parser = argparse.ArgumentParser(prog="convert_weights", description="Convert Qwen2-Audio weights and adapters.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    command = commands.add_parser("import", help="Hugging Face folder -> Flax checkpoint")
    command.add_argument("source", type=Path, metavar="HF_DIR")
    command.add_argument("target", type=Path, metavar="OUT_DIR")
    command.add_argument("--mesh", help="make and store the arrays on a mesh, such as data=1,fsdp=4")
    command.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), help="cast; default: keep as it is")
    command.set_defaults(run=_import)
    command = commands.add_parser("export", help="Flax checkpoint -> Hugging Face folder, adapter merged")
    command.add_argument("source", type=Path, metavar="CKPT")
    command.add_argument("target", type=Path, metavar="HF_DIR")
    command.add_argument("--adapter", type=Path, metavar="DIR", help="fold this adapter into the weights")
    command.set_defaults(run=_export)
    command = commands.add_parser("adapter", help="PEFT -> ours or ours -> PEFT, by what SOURCE is")
    command.add_argument("source", type=Path, metavar="SOURCE")
    command.add_argument("target", type=Path, metavar="OUT_DIR")
    command.add_argument("--base", type=Path, metavar="CKPT", help="the checkpoint it belongs to: checked and noted")
    command.set_defaults(run=_adapter)
    parsed = parser.parse_args(arguments)
    logging.getLogger("absl").setLevel(logging.CRITICAL)  # Orbax also logs, with a traceback, what it raises
    return exit_code(lambda: print(parsed.run(parsed)))


def _import(args: argparse.Namespace) -> str:
    from jaxeval.sharding import make_mesh, parse_mesh
    from tools.convert_weights.importing import import_checkpoint

    mesh = None if args.mesh is None else make_mesh(parse_mesh(args.mesh))
    return import_checkpoint(args.source, args.target, mesh=mesh, dtype=args.dtype)


def _export(args: argparse.Namespace) -> str:
    from tools.convert_weights.exporting import export_checkpoint

    return export_checkpoint(args.source, args.target, adapter=args.adapter)


def _adapter(args: argparse.Namespace) -> str:
    from tools.convert_weights.adapters import convert_adapter

    return convert_adapter(args.source, args.target, base=args.base)


if __name__ == "__main__":
    sys.exit(main())

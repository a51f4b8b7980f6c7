"""`python -m tools.convert_weights import | export | adapter`: Hugging Face and PEFT ⇄ Flax."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from jaxeval.arguments import Parser, path
from jaxeval.errors import exit_code


def main(arguments: list[str] | None = None) -> int:
    """Run one conversion; returns the exit code of design §8."""
    return exit_code(lambda: _run(arguments))


def _run(arguments: list[str] | None) -> None:
    parser = Parser(prog="convert_weights", description="Convert Qwen2-Audio weights and adapters.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    command = commands.add_parser("import", help="Hugging Face folder -> Flax checkpoint")
    command.add_argument("source", type=_folder, metavar="HF_DIR")
    command.add_argument("target", type=_folder, metavar="OUT_DIR")
    command.add_argument("--mesh", help="make and store the arrays on a mesh, such as data=1,fsdp=4")
    command.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), help="cast; default: keep as it is")
    command.set_defaults(run=_import)
    command = commands.add_parser("export", help="Flax checkpoint -> Hugging Face folder, adapter merged")
    command.add_argument("source", type=_folder, metavar="CKPT")
    command.add_argument("target", type=_folder, metavar="HF_DIR")
    command.add_argument("--adapter", type=_folder, metavar="DIR", help="fold this adapter into the weights")
    command.set_defaults(run=_export)
    command = commands.add_parser("adapter", help="PEFT -> ours or ours -> PEFT, by what SOURCE is")
    command.add_argument("source", type=_folder, metavar="SOURCE")
    command.add_argument("target", type=_folder, metavar="OUT_DIR")
    command.add_argument("--base", type=_folder, metavar="CKPT", help="the checkpoint it belongs to: checked and noted")
    command.set_defaults(run=_adapter)
    parsed = parser.parse_args(arguments)
    print(parsed.run(parsed))


def _folder(text: str) -> Path:
    return Path(path(text))


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

"""`--judge` and its options, as `score` and `audit` share them."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import typing
from pathlib import Path
from typing import Any

from jaxeval.errors import InputError
from jaxeval.files import folder_hash, parse_object
from jaxeval.judges.http_chat import HttpSettings
from jaxeval.judges.protocol import Judge
from jaxeval.judges.registry import BASELINES, DEFAULT_JUDGE, JudgeSettings, make_judge
from jaxeval.typed import convert

REPLIES_FILE = "replies.jsonl"
"""Where in a run folder the replies of an endpoint are kept, unless `cache` names another file."""
WHAT_IT_SAYS = ("model", "temperature", "max_tokens", "extra", "prompts", "orders", "encoder", "matching")
"""The options that change what a judge says, not only when and for how much."""


def add_judge_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument(
        "--judge",
        default=DEFAULT_JUDGE,
        metavar="NAME|URL",
        help=f"{DEFAULT_JUDGE}, {', '.join(BASELINES)}, or an OpenAI-compatible endpoint (default %(default)s)",
    )
    parser.add_argument(
        "--judge-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"may be repeated; of an endpoint: {', '.join(_kinds(HttpSettings))}; others: {', '.join(_own())}",
    )
    parser.add_argument(
        "--baselines",
        nargs="*",
        default=["bleu_1", "rouge_l", "soft_f1"],
        choices=BASELINES,
        metavar="NAME",
        help=f"what the judge is compared with (default bleu_1 rouge_l soft_f1; there are {', '.join(BASELINES)})",
    )


def judge_from(args: argparse.Namespace, out: Path) -> Judge:
    """The judge that the flags name; its replies are kept in the run folder `out`.

    Raises:
        InputError: there is no such judge, or an option is unknown, of the wrong type or missing.
    """
    return make_judge(args.judge, settings_from(args, out))


def baselines_from(args: argparse.Namespace, out: Path) -> list[Judge]:
    """The baselines that the flags name."""
    settings = settings_from(args, out)
    return [make_judge(name, settings) for name in dict.fromkeys(args.baselines)]


def settings_from(args: argparse.Namespace, out: Path) -> JudgeSettings:
    """The settings that the flags give."""
    own, http = _options(args)
    if "://" not in args.judge:
        if http:
            raise InputError(f"--judge-option {next(iter(http))}: only an endpoint has it, --judge is {args.judge}")
        return JudgeSettings(**own)
    if "model" not in http:
        raise InputError(f"--judge {args.judge}: --judge-option model=NAME is needed")
    return JudgeSettings(http=HttpSettings(**{"cache": str(out / REPLIES_FILE), **http}), **own)


def what_is_judged_by(args: argparse.Namespace) -> dict[str, Any]:
    """What a run's scores depend on: the judge and those of its options that change what it says."""
    own, http = _options(args)
    kept = {name: value for name, value in (own | http).items() if name in WHAT_IT_SAYS}
    if own.get("prompts"):
        kept["prompts"] = hashlib.sha256(Path(own["prompts"]).read_bytes()).hexdigest()
    if own.get("encoder"):
        kept["encoder"] = folder_hash(own["encoder"])
    return {"judge": args.judge, **kept, "baselines": sorted(set(args.baselines))}


def _options(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options by name, those of `JudgeSettings` and those of `HttpSettings`."""
    own, http = {}, {}
    for text in args.judge_option:
        name, equals, value = text.partition("=")
        place = f"--judge-option {name}"
        if not equals:
            raise InputError(f"{place}: expected NAME=VALUE")
        if name in _own():
            own[name] = convert(value, _own()[name], place)
        elif name in _kinds(HttpSettings):
            kind = _kinds(HttpSettings)[name]
            http[name] = parse_object(value, place) if kind is dict else convert(value, kind, place)
        else:
            raise InputError(f"{place}: unknown; there are {', '.join((*_kinds(HttpSettings), *_own()))}")
    return own, http


def _own() -> dict[str, Any]:
    return {name: kind for name, kind in _kinds(JudgeSettings).items() if name != "http"}


def _kinds(settings: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(settings)
    return {field.name: hints[field.name] for field in dataclasses.fields(settings)}

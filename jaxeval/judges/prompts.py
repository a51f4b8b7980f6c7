"""The questions a judge LLM is asked, from a file of templates, and the strict reading of what it answers.

Tags are judged as a set, with one number; descriptions and reasoning by four criteria in one answer.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from jaxeval.cards.schema import FIELDS, Kind
from jaxeval.errors import InputError
from jaxeval.judges.chat import Message, UnusableReply
from jaxeval.judges.protocol import Item

CRITERIA = ("correctness", "relevance", "completeness", "clarity")
HIGHEST_MARK = 10
DEFAULT = Path(__file__).with_name("prompts.toml")
_PLACEHOLDERS = frozenset({"field", "reference", "prediction", "criteria", "form"})


@dataclass(frozen=True)
class Prompt:
    """How fields of one kind are asked about: two templates, and the criteria by name (none for tags)."""

    system: Template
    user: Template
    criteria: dict[str, str]

    def messages(self, item: Item, turn: int = 0) -> list[Message]:
        """The two messages of an item.

        Args:
            item: what is judged.
            turn: by how many places the list of criteria is turned round; which comes first can shift the marks.
        """
        names = [*CRITERIA[turn:], *CRITERIA[:turn]] if self.criteria else []
        values = {
            "field": FIELDS[item.field].prompt,
            "reference": json.dumps(item.reference, ensure_ascii=False),
            "prediction": json.dumps(item.prediction, ensure_ascii=False),
            "criteria": "\n".join(f"- {name}: {self.criteria[name]}" for name in names),
            "form": _form(names),
        }
        roles = {"system": self.system, "user": self.user}
        return [{"role": role, "content": text.substitute(values).strip()} for role, text in roles.items()]


def read_prompts(path: str | os.PathLike[str] | None = None) -> dict[Kind, Prompt]:
    """Read a file of templates.

    Args:
        path: a file like `prompts.toml` beside this module, which is the default.

    Raises:
        InputError: the file is missing or malformed, or lacks a table, a template, a criterion or a placeholder.
    """
    file = DEFAULT if path is None else Path(path)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{file}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not TOML ({error})") from None
    return {kind: _prompt(content.get(kind), kind, file) for kind in (Kind.TAGS, Kind.DESCRIPTION, Kind.REASONING)}


def read_reply(text: str, kind: Kind) -> tuple[float, dict[str, float]]:
    """The score in a reply, and the marks it is the mean of; strict, apart from a code fence around the object.

    Raises:
        UnusableReply: it is not the JSON object that was asked for.
    """
    values = _read_object(_without_fence(text))
    names = ("score",) if kind is Kind.TAGS else CRITERIA
    if values.keys() != set(names):
        raise UnusableReply(f"the reply has {', '.join(sorted(values)) or 'nothing'} in place of {', '.join(names)}")
    if kind is Kind.TAGS:
        score = values["score"]
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
            raise UnusableReply(f"score is {_short(score)}, expected a number from 0 to 1")
        return float(score), {}
    for name, mark in values.items():
        if isinstance(mark, bool) or not isinstance(mark, int) or not 0 <= mark <= HIGHEST_MARK:
            raise UnusableReply(f"{name} is {_short(mark)}, expected a whole number from 0 to {HIGHEST_MARK}")
    marks = {name: values[name] / HIGHEST_MARK for name in CRITERIA}
    return sum(values.values()) / (HIGHEST_MARK * len(CRITERIA)), marks


def _prompt(table: Any, kind: Kind, file: Path) -> Prompt:
    if not isinstance(table, dict):
        raise InputError(f"{file}: the table [{kind}] is missing")
    templates = {name: _template(table.get(name), f"{file}: {kind}.{name}") for name in ("system", "user")}
    if missing := sorted({"reference", "prediction"} - set(templates["user"].get_identifiers())):
        raise InputError(f"{file}: {kind}.user: ${missing[0]} is missing")
    criteria = table.get("criteria", {})
    if kind is not Kind.TAGS and (
        not isinstance(criteria, dict)
        or criteria.keys() != set(CRITERIA)
        or not all(isinstance(text, str) for text in criteria.values())
    ):
        raise InputError(f"{file}: [{kind}.criteria] must describe {', '.join(CRITERIA)}")
    return Prompt(templates["system"], templates["user"], {} if kind is Kind.TAGS else criteria)


def _template(text: Any, place: str) -> Template:
    if not isinstance(text, str):
        raise InputError(f"{place}: a text is needed")
    template = Template(text)
    if not template.is_valid():
        raise InputError(f"{place}: a lone dollar sign; write $$")
    if unknown := sorted(set(template.get_identifiers()) - _PLACEHOLDERS):
        raise InputError(f"{place}: unknown placeholder ${unknown[0]}; known are {', '.join(sorted(_PLACEHOLDERS))}")
    return template


def _form(names: Sequence[str]) -> str:
    if not names:
        return '{"score": <number from 0 to 1>}'
    return "{" + ", ".join(f'"{name}": <0 to {HIGHEST_MARK}>' for name in names) + "}"


def _without_fence(text: str) -> str:
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and len(text) > 6:
        text = text.removeprefix("```").removesuffix("```").removeprefix("json")
    return text


def _read_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UnusableReply(f"the reply is not JSON ({error}): {_short(text)}") from None
    if not isinstance(value, dict):
        raise UnusableReply(f"the reply is no JSON object: {_short(text)}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name occurs twice")
    return values


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."

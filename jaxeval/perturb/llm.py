"""Text perturbations by a language model: a prompt for each type and severity, and a strict reading of the answer.

The model gets all text fields of a card at once, so that the change is the same in all of them, and nothing of the
card's numbers or of other cards. The same cell makes the same messages; that they get the same answer is the business
of the chat's temperature and cache. An answer that is not right leaves its fields skipped, with the reason.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from importlib import resources
from typing import Any

from jaxeval.cards.reading import card_row, parse_card
from jaxeval.cards.schema import FIELDS, TEXT_FIELDS, AudioCard, Status
from jaxeval.errors import RunError
from jaxeval.perturb.cells import Edit, ErrorType, Severity, Skip

Chat = Callable[[list[dict[str, str]]], str]
"""Messages (`role` and `content` each) to the text of an answer; raises `RunError` where there is none."""


class LanguageModel:
    """A `TextPerturber` that asks a chat model.

    Args:
        chat: the model, such as an HTTP client of `jaxeval.judges`; temperature 0 is advised.
    """

    def __init__(self, chat: Chat):
        self.chat = chat
        self.prompts = load_prompts()

    def __call__(self, card: AudioCard, type: ErrorType, severity: Severity, seed: int) -> dict[str, Edit | Skip]:
        """The edited text fields of a card; the seed has no part in it."""
        fields = [name for name in TEXT_FIELDS if name in card.values]
        if not fields:
            return {}
        try:
            answer = parse_card(self.chat(messages(self.prompts, card, type, severity)))
        except RunError as error:
            return dict.fromkeys(fields, Skip(f"no answer: {error}"))
        return {name: _edit(answer, name) for name in fields}


def load_prompts() -> dict[str, Any]:
    """The prompts of the package."""
    return tomllib.loads(resources.files(__package__).joinpath("prompts.toml").read_text(encoding="utf-8"))


def messages(prompts: dict[str, Any], card: AudioCard, type: ErrorType, severity: Severity) -> list[dict[str, str]]:
    """The two messages that ask for a cell."""
    row = card_row(card)
    fields = {name: row[name] for name in TEXT_FIELDS if name in row}
    limits = [
        prompts["limits"].format(field=name, words=field.words)
        for name, field in FIELDS.items()
        if field.words is not None
    ]
    user = prompts["user"].format(
        change=prompts[type]["change"],
        strength=prompts[type][severity],
        limits=", ".join(limits),
        fields=json.dumps(fields, ensure_ascii=False, indent=2),
    )
    return [{"role": "system", "content": prompts["system"]}, {"role": "user", "content": user}]


def _edit(answer: AudioCard, field: str) -> Edit | Skip:
    """A field of the answer, if it is there exactly as the schema wants it."""
    if answer.status[field] is Status.OK:
        return Edit(answer.values[field])
    return Skip(f"answer: {answer.status[field]} {answer.notes.get(field, '')}".rstrip())

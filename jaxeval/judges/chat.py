"""Chats: messages go in, text comes out. What a judge LLM and an LLM that perturbs cards are asked through.

`HttpChat` is one; a model run here would be another. How often a question is asked again, and what is remembered, is
the chat's business, so it is told what a usable answer looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from jaxeval.judges.protocol import NO_USAGE, Progress, Usage

Message = dict[str, str]
"""`role` (`system` or `user`) and `content`."""
Check = Callable[[str], object]
"""Raises `UnusableReply` if a reply cannot be used."""


class UnusableReply(Exception):
    """A reply came, but it is not what was asked for; the message says why."""


def any_reply(text: str) -> None:
    """Every reply can be used."""


@dataclass(frozen=True)
class Question:
    """A conversation that waits for its last message, and what that message must be like."""

    messages: Sequence[Message]
    check: Check = any_reply


@dataclass(frozen=True)
class Reply:
    """What became of a question.

    Attributes:
        text: the reply, one that passed the check; None if there is none.
        reason: why there is none.
        usage: what it took, now or, if `cached`, when it was first asked.
    """

    text: str | None
    reason: str | None = None
    usage: Usage = NO_USAGE
    cached: bool = False


class Chat(Protocol):
    """An LLM.

    Attributes:
        name: of the model, as tables show it.
    """

    name: str

    def ask(self, questions: Sequence[Question], *, progress: Progress = ...) -> list[Reply]:
        """One reply a question, in their order, whatever fails."""
        ...

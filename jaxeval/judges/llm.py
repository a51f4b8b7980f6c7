"""A judge that asks a chat: the list judge for tags, the judge of four criteria for descriptions and reasoning."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

from jaxeval.cards.schema import TEXT_KINDS
from jaxeval.errors import InputError
from jaxeval.judges.chat import Chat, Question, Reply
from jaxeval.judges.prompts import CRITERIA, read_prompts, read_reply
from jaxeval.judges.protocol import Item, Progress, Score, Usage, no_progress, score_others


class LLMJudge:
    """Judges all text fields by asking an LLM.

    An item is unscored if the chat gave no usable answer to one of its questions.

    Args:
        chat: the LLM.
        prompts: a file of templates in place of the packaged one.
        orders: ask about each description or reasoning so many times, each time with another criterion first, and take
            the mean; 4 lets every criterion be first once.
    """

    kinds = TEXT_KINDS

    def __init__(self, chat: Chat, *, prompts: str | os.PathLike[str] | None = None, orders: int = 1):
        if not 1 <= orders <= len(CRITERIA):
            raise InputError(f"orders is {orders}, expected 1 to {len(CRITERIA)}")
        self.name, self._chat, self._prompts, self._orders = chat.name, chat, read_prompts(prompts), orders

    def score(self, items: Sequence[Item], *, progress: Progress = no_progress) -> list[Score]:
        """One score an item; see `Judge`."""
        return score_others(self.kinds, items, progress, lambda rest: self._ask(rest, progress))

    def _ask(self, items: Sequence[Item], progress: Progress) -> list[Score]:
        turns = [range(self._orders if self._prompts[item.kind].criteria else 1) for item in items]
        questions = [
            Question(self._prompts[item.kind].messages(item, turn), partial(read_reply, kind=item.kind))
            for item, item_turns in zip(items, turns, strict=True)
            for turn in item_turns
        ]
        replies = iter(self._chat.ask(questions, progress=_in_items(progress, len(items), len(questions))))
        return [_score(item, [next(replies) for _ in each]) for item, each in zip(items, turns, strict=True)]


def _score(item: Item, replies: Sequence[Reply]) -> Score:
    """The mean over the replies of an item, or the first reason why there is none."""
    usage, cached = sum((reply.usage for reply in replies), Usage()), all(reply.cached for reply in replies)
    texts = [reply.text for reply in replies if reply.text is not None]
    if len(texts) < len(replies):
        reason = next(reply.reason for reply in replies if reply.text is None)
        return Score(None, reason, usage=usage)
    read = [read_reply(text, item.kind) for text in texts]
    marks = {name: sum(marks[name] for _, marks in read) / len(read) for name in read[0][1]}
    return Score(sum(value for value, _ in read) / len(read), marks=marks, usage=usage, cached=cached)


def _in_items(progress: Progress, items: int, questions: int) -> Progress:
    """Progress counted in questions, passed on in items."""
    asked = 0

    def report(count: int) -> None:
        nonlocal asked
        before, asked = asked * items // questions, asked + count
        progress(asked * items // questions - before)

    return report

"""What a judge is: it gets a field's reference and its prediction, and says how good the prediction is.

Everything that scores a text field stands behind this protocol, an LLM over HTTP, the embedded judge and the baselines
alike, so that `score` and `audit` treat them alike. Fields that are missing or malformed never get here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jaxeval.cards.schema import FIELDS, TEXT_KINDS, Kind

Text = tuple[str, ...] | str
"""Tags, or a text."""
Progress = Callable[[int], object]
"""Told how many more items are done, as `tqdm.update` is."""


@dataclass(frozen=True)
class Item:
    """One thing to judge: the value of a text field in a prediction, and in the reference."""

    field: str
    reference: Text
    prediction: Text

    def __post_init__(self):
        if self.field not in FIELDS or FIELDS[self.field].kind not in TEXT_KINDS:
            raise ValueError(f"{self.field!r} is no text field")
        expected = tuple if self.kind is Kind.TAGS else str
        if not (isinstance(self.reference, expected) and isinstance(self.prediction, expected)):
            raise TypeError(f"{self.field}: reference and prediction must both be a {expected.__name__}")

    @property
    def kind(self) -> Kind:
        return FIELDS[self.field].kind


@dataclass(frozen=True)
class Usage:
    """What it took: requests that were sent, failed ones among them, tokens as the server counted them, and seconds."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.seconds + other.seconds,
        )


NO_USAGE = Usage()


@dataclass(frozen=True)
class Score:
    """What a judge says of an item.

    Attributes:
        value: in [0, 1], higher is better; None if the item is unscored.
        reason: why it is unscored.
        marks: the single marks that `value` is the mean of, in [0, 1], where a judge gives such.
        usage: what it took, now or, if `cached`, when it was first asked.
    """

    value: float | None
    reason: str | None = None
    marks: dict[str, float] = field(default_factory=dict)
    usage: Usage = NO_USAGE
    cached: bool = False

    def __post_init__(self):
        if (self.value is None) == (self.reason is None):
            raise ValueError("a score has either a value or a reason why it has none")
        if self.value is not None and not 0 <= self.value <= 1:
            raise ValueError(f"a score lies in [0, 1], not at {self.value}")


class Judge(Protocol):
    """Scores items.

    Attributes:
        name: as tables show it.
        kinds: the kinds of fields it can judge.
    """

    name: str
    kinds: frozenset[Kind]

    def score(self, items: Sequence[Item], *, progress: Progress = ...) -> list[Score]:
        """One score an item, in their order, whatever fails; each depends on its item alone.

        Args:
            items: of `kinds` only.
            progress: called as items are done.
        """
        ...


def no_progress(count: int) -> None:
    """Nobody wants to know."""


def decide_empty(item: Item) -> Score | None:
    """The score where one side is empty, which takes no judge: 1 if both are, else 0. None if neither is."""
    empty = [not _words(item.reference), not _words(item.prediction)]
    return Score(float(all(empty))) if any(empty) else None


def score_others(
    kinds: frozenset[Kind], items: Sequence[Item], progress: Progress, score: Callable[[list[Item]], list[Score]]
) -> list[Score]:
    """Score the items that `decide_empty` leaves open, if any, with `score`, and put all scores in order.

    Raises:
        ValueError: an item is not of `kinds`.
    """
    if strange := next((item for item in items if item.kind not in kinds), None):
        raise ValueError(f"{strange.field}: this judge scores {', '.join(sorted(kinds))}, not {strange.kind}")
    decided = [decide_empty(item) for item in items]
    progress(sum(one is not None for one in decided))
    undecided = [item for item, one in zip(items, decided, strict=True) if one is None]
    scores = iter(score(undecided) if undecided else ())
    return [next(scores) if one is None else one for one in decided]


def _words(side: Text) -> str:
    return (side if isinstance(side, str) else " ".join(side)).strip()

"""The vocabulary of the perturbation matrix: error types, severities, and what a cell of it holds (design §6)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from jaxeval.cards.schema import TEXT_FIELDS, AudioCard, Value


class ErrorType(StrEnum):
    """What is done to a card: four types for text, seven for what is measured.

    PARAPHRASE keeps the meaning and is the control. ACOUSTIC replaces sound sources, ATTRIBUTE changes properties,
    HALLUCINATION adds sounds that are not there. SCALAR shifts loudness and frequency. JITTER moves the borders of
    events; DROP, INSERT, MERGE and SPLIT change their number. SPECTRUM shifts band levels.
    """

    PARAPHRASE = "paraphrase"
    ACOUSTIC = "acoustic"
    ATTRIBUTE = "attribute"
    HALLUCINATION = "hallucination"
    SCALAR = "scalar"
    JITTER = "jitter"
    DROP = "drop"
    INSERT = "insert"
    MERGE = "merge"
    SPLIT = "split"
    SPECTRUM = "spectrum"


class Severity(StrEnum):
    """How much of it is done."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


TEXT_TYPES = (ErrorType.PARAPHRASE, ErrorType.ACOUSTIC, ErrorType.ATTRIBUTE, ErrorType.HALLUCINATION)
EVENT_TYPES = (ErrorType.JITTER, ErrorType.DROP, ErrorType.INSERT, ErrorType.MERGE, ErrorType.SPLIT)
FIELDS_OF: dict[ErrorType, tuple[str, ...]] = {
    **dict.fromkeys(TEXT_TYPES, TEXT_FIELDS),
    ErrorType.SCALAR: ("lufs", "median_f0"),
    **dict.fromkeys(EVENT_TYPES, ("active_event",)),
    ErrorType.SPECTRUM: ("frequency_profile",),
}
"""The fields that a type touches; it leaves all others as they are."""


@dataclass(frozen=True)
class Edit:
    """A field's new value; `flags` tell what is special about it, such as a sign that had to flip."""

    value: Value
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Skip:
    """A field that cannot be perturbed so, and why."""

    reason: str


class Effect(StrEnum):
    """What became of a field in a cell. Only CHANGED fields count in an audit; the others are reported."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """Effect on a field, with the flags of a change or the reason of a skip."""

    effect: Effect
    flags: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True)
class Cell:
    """One clip in one cell of the matrix.

    Attributes:
        type, severity: which cell.
        card: the perturbed card; fields that are not CHANGED are the reference's.
        outcomes: of every field of the type, by name.
    """

    type: ErrorType
    severity: Severity
    card: AudioCard
    outcomes: dict[str, Outcome]

    @property
    def changed(self) -> tuple[str, ...]:
        """The fields to score."""
        return tuple(name for name, outcome in self.outcomes.items() if outcome.effect is Effect.CHANGED)


class TextPerturber(Protocol):
    """What makes the text perturbations of a card, all its text fields at once so that they stay consistent."""

    def __call__(self, card: AudioCard, type: ErrorType, severity: Severity, seed: int) -> dict[str, Edit | Skip]:
        """An edit or a skip for each of `TEXT_FIELDS` that the card has; depends on nothing but the arguments."""
        ...

"""The matrix of error types and severities over cards: what an audit scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from jaxeval.cards.schema import AudioCard, Events, Status
from jaxeval.perturb.cells import (
    EVENT_TYPES,
    FIELDS_OF,
    TEXT_TYPES,
    Cell,
    Edit,
    Effect,
    ErrorType,
    Outcome,
    Severity,
    Skip,
    TextPerturber,
)
from jaxeval.perturb.draws import Key
from jaxeval.perturb.numeric import SIGMAS, TOLERANCE, perturb_events, perturb_scalar, perturb_spectrum
from jaxeval.perturb.rules import RuleBased


def perturb(
    card: AudioCard,
    type: ErrorType,
    severity: Severity,
    *,
    seed: int = 0,
    text: TextPerturber | None = None,
    sigmas: Mapping[str, float] = SIGMAS,
    tolerance: float = TOLERANCE,
) -> Cell:
    """Perturb one card: its text fields by `text` (default the rule-based generator), or its numbers.

    The result depends on the arguments alone. Fields that the type does not touch are the same objects as before.

    Args:
        card: a reference.
        type, severity: which cell of the matrix.
        seed: of the run.
        text: what makes text perturbations.
        sigmas: σ of `lufs` in dB and of `median_f0` in semitones.
        tolerance: τ of events, in seconds.
    """
    if type in TEXT_TYPES:
        edits = (text or RuleBased())(card, type, severity, seed)
    else:
        edits = {
            name: _perturb_number(card, name, type, severity, (seed, card.id, name, type), sigmas, tolerance)
            for name in FIELDS_OF[type]
            if name in card.values
        }
    outcomes = {name: _outcome(card, name, edits.get(name)) for name in FIELDS_OF[type]}
    values = {
        name: edit.value
        for name, edit in edits.items()
        if isinstance(edit, Edit) and outcomes[name].effect is Effect.CHANGED
    }
    return Cell(
        type,
        severity,
        dataclasses.replace(
            card,
            values=card.values | values,
            status=card.status | dict.fromkeys(values, Status.OK),
            notes={name: note for name, note in card.notes.items() if name not in values},
        ),
        outcomes,
    )


def perturb_matrix(
    cards: Iterable[AudioCard],
    *,
    types: Sequence[ErrorType] = tuple(ErrorType),
    severities: Sequence[Severity] = tuple(Severity),
    seed: int = 0,
    text: TextPerturber | None = None,
    sigmas: Mapping[str, float] = SIGMAS,
    tolerance: float = TOLERANCE,
) -> Iterator[Cell]:
    """Every cell of every card: card by card, then type by type, then by severity.

    Cells are independent of each other, so a job takes its shard by slicing the cards (`cards[i::n]`), and a finished
    cell need not be made again. Scores of the cells reshape to `[clip, type, severity]`.
    """
    text = text or RuleBased()
    for card in cards:
        for type in types:
            for severity in severities:
                yield perturb(card, type, severity, seed=seed, text=text, sigmas=sigmas, tolerance=tolerance)


def _perturb_number(
    card: AudioCard,
    name: str,
    type: ErrorType,
    severity: Severity,
    key: Key,
    sigmas: Mapping[str, float],
    tolerance: float,
) -> Edit | Skip:
    value = card.values[name]
    if type is ErrorType.SCALAR:
        return perturb_scalar(name, cast("float | None", value), severity, key, sigmas)
    if type in EVENT_TYPES:
        return perturb_events(type, cast("Events", value), card.duration, severity, key, tolerance)
    return perturb_spectrum(cast("tuple[int, ...]", value), severity, key)


def _outcome(card: AudioCard, name: str, edit: Edit | Skip | None) -> Outcome:
    if name not in card.values:
        return Outcome(Effect.SKIPPED, reason="missing in the reference")
    if edit is None:
        return Outcome(Effect.UNCHANGED)
    if isinstance(edit, Skip):
        return Outcome(Effect.SKIPPED, reason=edit.reason)
    if edit.value == card.values[name]:
        return Outcome(Effect.UNCHANGED)
    return Outcome(Effect.CHANGED, edit.flags)

"""Scoring the matrix: every card in every cell, by every metric, as rows that a run can go on from."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from jaxeval.cards.reading import card_row
from jaxeval.cards.schema import FIELDS, AudioCard
from jaxeval.cards.scoring import CardMetric, scores_at
from jaxeval.judges.protocol import Progress, no_progress
from jaxeval.perturb import Cell, ErrorType, Severity, TextPerturber, perturb
from jaxeval.tables import Row

THREADS = 8
"""For perturbations that wait for a model elsewhere; those by rules do not mind."""


def audit_cards(
    cards: Sequence[AudioCard],
    metrics: Sequence[CardMetric],
    types: Sequence[ErrorType],
    *,
    seed: int,
    text: TextPerturber,
    sigma: Mapping[str, float],
    progress: Progress = no_progress,
) -> list[Row]:
    """Perturb cards in every way, and score them as they were and as they became.

    Args:
        cards: the references.
        metrics: what is audited.
        types: of errors; each comes in three severities.
        seed: of the perturbations.
        text: what perturbs texts.
        sigma: σ of the scalars.
        progress: told of cards that are done.

    Returns:
        A row a card: `id`, `system`; `clean`, its scores against itself, by metric and column; and `cells`, in the
        order of types and severities, with `type`, `severity`, `values` (the changed fields as they became), `flags`
        and `skipped` (reasons) by field, `scores` by metric and column, and `reasons` of those without a value.
    """
    with ThreadPoolExecutor(THREADS) as pool:
        made = pool.map(
            lambda spec: perturb(*spec, seed=seed, text=text, sigmas=sigma), itertools.product(cards, types, Severity)
        )
        cells = [list(itertools.islice(made, len(types) * len(Severity))) for _ in cards]
    predictions = [
        each for card, own in zip(cards, cells, strict=True) for each in (card, *(cell.card for cell in own))
    ]
    references = [card for card, own in zip(cards, cells, strict=True) for _ in range(len(own) + 1)]
    wanted = [
        fields
        for card, own in zip(cards, cells, strict=True)
        for fields in (tuple(name for name in FIELDS if name in card.values), *(cell.changed for cell in own))
    ]
    found = {metric.name: metric.score(predictions, references, wanted) for metric in metrics}
    place = itertools.count()
    rows = []
    for card, own in zip(cards, cells, strict=True):
        clean, _ = scores_at(found, next(place))
        rows.append(
            {
                "id": card.id,
                "system": card.system,
                "clean": clean,
                "cells": [_cell_row(cell, *scores_at(found, next(place))) for cell in own],
            }
        )
        progress(1)
    return rows


def _cell_row(cell: Cell, scores: dict[str, dict[str, float | None]], reasons: dict[str, dict[str, str]]) -> Row:
    row = card_row(cell.card)
    return {
        "type": cell.type.value,
        "severity": cell.severity.value,
        "values": {name: row[name] for name in cell.changed},
        "flags": {name: list(outcome.flags) for name, outcome in cell.outcomes.items() if outcome.flags},
        "skipped": {name: outcome.reason for name, outcome in cell.outcomes.items() if outcome.reason},
        "scores": scores,
        "reasons": reasons,
    }

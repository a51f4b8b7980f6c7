"""From scored cards to what people read: item table, means beside chance, figures and the page."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from jaxeval.cards.schema import ACOUSTIC_FIELDS, FIELDS, AudioCard, Axis, Status
from jaxeval.cards.scoring import AcousticMetric, axis_means, field_of, total
from jaxeval.files import atomic_write, write_json
from jaxeval.reports.card_page import ScoredCard, write_card_page
from jaxeval.reports.figures import field_bars, figure_bytes
from jaxeval.reports.html import select
from jaxeval.reports.tables import markdown_table, text_table
from jaxeval.scorers import (
    MISSING,
    chance_level,
    event_scores,
    hz_to_semitones,
    normalized_mae,
    ordinal_spectral_score,
    pack_cells,
    pack_events,
    skill,
)
from jaxeval.tables import Row, audio_path, write_table

JUDGED = "judge"
"""Under which name the rows hold the scores of the judge; baselines stand there under their own."""
_IN_TERMINAL = ("system", "axis", "field", "mean", "chance", "skill", "scored", "unscored", "missing", "malformed")


@dataclass(frozen=True)
class CardResult:
    """All that is known about a scored card.

    Attributes:
        fields: the scores that count, by field.
        parts: by field, scores of baselines, and what an acoustic score is made of.
        reasons: why a field has no score.
        axes, total: means over fields, and over axes.
    """

    prediction: AudioCard
    reference: AudioCard
    fields: dict[str, float | None]
    parts: dict[str, dict[str, float | None]]
    reasons: dict[str, str]
    axes: dict[Axis, float | None]
    total: float | None

    @classmethod
    def of(cls, pair: tuple[AudioCard, AudioCard], row: Row, weights: Mapping[Axis, float]) -> CardResult:
        """From a row of `score_pairs`."""
        acoustic = row["scores"].get(AcousticMetric.name, {})
        fields = row["scores"].get(JUDGED, {}) | {name: acoustic[name] for name in ACOUSTIC_FIELDS if name in acoustic}
        parts: dict[str, dict[str, float | None]] = {}
        for name, columns in row["scores"].items():
            for column, value in columns.items():
                if name == AcousticMetric.name and column not in FIELDS:
                    field = field_of(column)
                    parts.setdefault(field, {})[column.removeprefix(f"{field}_")] = value
                elif name not in (JUDGED, AcousticMetric.name):
                    parts.setdefault(column, {})[name] = value
        axes = axis_means(fields)
        return cls(*pair, fields, parts, row["reasons"].get(JUDGED, {}), axes, total(axes, weights))


def write_report(
    out: Path,
    results: Sequence[CardResult],
    *,
    chance: Mapping[str, float],
    coverage: str,
    tables: tuple[str, str],
    page_items: int,
    notes: Sequence[str],
) -> None:
    """Write tables, figures and the page, and print the summary.

    Args:
        out: the run folder.
        results: every card.
        chance: see `chance_levels`.
        coverage: a sentence that says what is scored and what is not.
        tables: the files of predictions and of references, which audio paths are relative to.
        page_items: cards on the page, at most.
        notes: remarks on top of the page.
    """
    write_table(out / "items.jsonl", [item_row(result) for result in results])
    systems = list(dict.fromkeys(result.prediction.system for result in results))
    by_system = {system: [result for result in results if result.prediction.system == system] for system in systems}
    summary = [_system_row(system, found) for system, found in by_system.items()]
    fields = [row for system, found in by_system.items() for row in field_rows(system, found, chance)]
    columns = list(dict.fromkeys(name for row in fields for name in row))
    write_json(out / "summary.json", {"coverage": coverage, "notes": notes, "cards": summary, "fields": fields})
    write_table(out / "fields.csv", fields, columns)
    with atomic_write(out / "summary.md") as file:
        file.write(f"{markdown_table(summary, list(summary[0]))}\n{markdown_table(fields, columns)}\n{coverage}\n")
    for kind in ("png", "svg"):
        with atomic_write(out / f"fields.{kind}", "wb") as file:
            file.write(figure_bytes(field_bars(fields), kind))
    chosen, shown = select([_scored_card(tables, result) for result in results], page_items)
    write_card_page(
        out / "report.html",
        title="Predicted audio cards against references",
        summary=summary,
        fields=fields,
        field_columns=columns,
        cards=tqdm(chosen, desc="page", unit="card", leave=False, disable=None),
        shown=f"{coverage} {shown}",
        notes=notes,
    )
    print(text_table(fields, [name for name in columns if name in _IN_TERMINAL]))
    print()
    print(text_table(summary, list(summary[0])))
    unscored = sum(row["unscored"] for row in fields)
    if unscored:
        print(f"{unscored} fields are unscored; items.jsonl says why", file=sys.stderr)
    print(f"\n{coverage}\nreport: {out / 'report.html'}")


def item_row(result: CardResult) -> Row:
    """A card as a row of `items.jsonl`."""
    card = result.prediction
    parts = {f"{name}_{part}": value for name, found in result.parts.items() for part, value in found.items()}
    unusual = {name: status.value for name, status in card.status.items() if status is not Status.OK}
    return {
        "id": card.id,
        **({} if card.system is None else {"system": card.system}),
        "total": result.total,
        **{f"axis_{axis.value}": value for axis, value in result.axes.items()},
        **{name: result.fields.get(name) for name in FIELDS},
        **parts,
        "unscored": result.reasons,
        "status": unusual,
    }


def field_rows(system: str | None, results: Sequence[CardResult], chance: Mapping[str, float]) -> Iterator[Row]:
    """A row of the summary for each field: mean score, chance level, skill, and what became of the field."""
    names = list(dict.fromkeys(part for result in results for found in result.parts.values() for part in found))
    for name, field in FIELDS.items():
        known = [value for result in results if (value := result.fields.get(name)) is not None]
        mean, guess = _mean(known), chance.get(name)
        statuses = [result.prediction.status[name] for result in results if name in result.reference.values]
        yield {
            **_named(system),
            "axis": field.axis.value,
            "field": name,
            "mean": mean,
            "chance": guess,
            "skill": _skill(mean, guess),
            "scored": len(known),
            "unscored": sum(name in result.reasons for result in results),
            **{status.value: statuses.count(status) for status in (Status.MISSING, Status.MALFORMED, Status.REPAIRED)},
            "left_out": len(results) - len(statuses),
            **{
                part: _mean([v for r in results if (v := r.parts.get(name, {}).get(part)) is not None])
                for part in names
            },
        }


def chance_levels(references: Sequence[AudioCard], sigma: Mapping[str, float]) -> dict[str, float]:
    """For each acoustic field the score of the best constant guess."""
    cells = pack_cells([card.values for card in references])
    scalars = {"lufs": cells.lufs, "median_f0": np.asarray(hz_to_semitones(cells.median_f0))}
    levels = {}
    for name, values in scalars.items():
        there = values[getattr(cells, name) != MISSING]
        if len(there):
            levels[name] = chance_level(functools.partial(normalized_mae, sigma=sigma[name]), there)
    events = [card.values["active_event"] for card in references if "active_event" in card.values]
    if events:
        levels["active_event"] = chance_level(_event_score, pack_events(events))  # type: ignore[arg-type]
    levels["frequency_profile"] = chance_level(ordinal_spectral_score, cells.frequency_profile.astype(np.int32))
    return {name: float(level) for name, level in levels.items() if not math.isnan(float(level))}


def _event_score(pred: Any, ref: Any) -> Any:
    scores = event_scores(pred, ref)
    return (jnp.asarray(scores.f1) + jnp.asarray(scores.miou)) / 2


def _system_row(system: str | None, results: Sequence[CardResult]) -> Row:
    means = {axis.value: _mean([v for r in results if (v := r.axes[axis]) is not None]) for axis in Axis}
    totals = [result.total for result in results if result.total is not None]
    return {**_named(system), "cards": len(results), **means, "total": _mean(totals)}


def _scored_card(tables: tuple[str, str], result: CardResult) -> ScoredCard:
    card, reference = result.prediction, result.reference
    values = {
        name: {
            "score" if name in ACOUSTIC_FIELDS else "judge": result.fields.get(name),
            **result.parts.get(name, {}),
        }
        for name in FIELDS
    }
    sides = zip(tables, (card, reference), strict=True)
    audio = next((audio_path(table, side.audio) for table, side in sides if side.audio), None)
    return ScoredCard(
        title=" · ".join(filter(None, (card.id, card.system))),
        score=result.total,
        prediction=card,
        reference=reference,
        axes=result.axes,
        values=values,
        reasons=result.reasons,
        recordings={} if audio is None else {"Recording": audio},
    )


def _skill(mean: float | None, chance: float | None) -> float | None:
    if mean is None or chance is None:
        return None
    value = float(skill(mean, chance))
    return None if math.isnan(value) else value


def _named(system: str | None) -> Row:
    return {} if system is None else {"system": system}


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None

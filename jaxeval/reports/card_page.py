"""The page of `score`: summary, figure, and the cards beside their references, field by field, with the recording."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from jaxeval.cards.schema import BANDS, FIELDS, LEVELS, AudioCard, Axis, Kind, Status
from jaxeval.reports.figures import field_bars
from jaxeval.reports.html import article, figure, items_head, table, text_or_empty, write_html
from jaxeval.reports.tables import cell

UNITS = {"lufs": "LUFS", "median_f0": "Hz"}
UNDEFINED = {"lufs": "silence", "median_f0": "unvoiced"}


@dataclass(frozen=True)
class ScoredCard:
    """A prediction beside its reference.

    Attributes:
        title: what identifies it.
        score: its total; None if nothing of it has a score.
        axes: mean score of each axis.
        values: scores by field, those of baselines too, under the name of the metric.
        reasons: why a field has no score, by field.
        recordings: audio files by label.
    """

    title: str
    score: float | None
    prediction: AudioCard
    reference: AudioCard
    axes: Mapping[Axis, float | None]
    values: Mapping[str, Mapping[str, float | None]]
    reasons: Mapping[str, str] = field(default_factory=dict)
    recordings: Mapping[str, Path] = field(default_factory=dict)


def write_card_page(
    path: str | os.PathLike[str],
    *,
    title: str,
    summary: Sequence[Mapping[str, Any]],
    fields: Sequence[dict[str, Any]],
    field_columns: Sequence[str],
    cards: Iterable[ScoredCard],
    shown: str,
    notes: Sequence[str] = (),
) -> None:
    """Write the page, whole or not at all.

    Args:
        path: the HTML file to make.
        title: heading of the page.
        summary: rows of the table on top: a row a system, with the axes and the total.
        fields: rows of the second table and of the figure: a row a system and field.
        field_columns: columns of the second table.
        cards: the cards to show, read one at a time.
        shown: the sentence of `jaxeval.reports.html.select`.
        notes: what a reader must know first.
    """

    def parts() -> Iterator[str]:
        yield table(summary, list(summary[0]))
        yield figure(lambda ink: field_bars(fields, ink), "Mean score of each field; the table below has the numbers")
        yield table(fields, field_columns)
        yield items_head(shown, "weighted mean over the five axes")
        for order, card in enumerate(cards):
            yield article(
                card.title,
                card.score,
                order,
                facts={"duration": f"{card.reference.duration:.2f} s"} if card.reference.duration else {},
                recordings=card.recordings,
                sections=(_axis(card, axis) for axis in Axis),
            )

    write_html(path, title=title, notes=notes, parts=parts())


def value_text(name: str, value: Any) -> str:
    """A field's value as people read it."""
    kind = FIELDS[name].kind
    if kind is Kind.TAGS:
        return ", ".join(value)
    if kind is Kind.SCALAR:
        return UNDEFINED[name] if value is None else f"{value:.1f} {UNITS[name]}"
    if kind is Kind.EVENTS:
        return ", ".join(f"{onset:.2f}–{offset:.2f} s" for onset, offset in value) or "no event"
    if kind is Kind.SPECTRUM:
        return " · ".join(
            f"{band} {LEVELS[level] if level >= 0 else 'missing'}" for band, level in zip(BANDS, value, strict=True)
        )
    return str(value)


def _axis(card: ScoredCard, axis: Axis) -> str:
    rows = "".join(_field(card, name) for name, field in FIELDS.items() if field.axis is axis)
    return f"<section><h4>{axis.value} <span>{cell(card.axes[axis])}</span></h4>\n{rows}</section>\n"


def _field(card: ScoredCard, name: str) -> str:
    flags, lines = [], []
    status = card.prediction.status[name]
    if status is not Status.OK:
        flags.append(
            f"{status.value}: {card.prediction.notes[name]}" if name in card.prediction.notes else status.value
        )
    if name in card.reasons:
        flags.append(f"unscored: {card.reasons[name]}")
    for label, side in (("reference", card.reference), ("prediction", card.prediction)):
        if name in side.values:
            quiet = ' class="quiet"' if label == "reference" else ""
            lines.append(f'<p{quiet} title="{label}">{text_or_empty(value_text(name, side.values[name]))}</p>')
    scores = "".join(
        f"<li>{escape(metric)} <b>{value:.3f}</b></li>"
        for metric, value in card.values.get(name, {}).items()
        if value is not None
    )
    marks = "".join(f'<span class="flag">{escape(flag)}</span> ' for flag in flags)
    return (
        f'<div class="line"><span class="who">{escape(name.replace("_", " "))}</span>'
        f'<div>{"".join(lines)}{marks}<ul class="values">{scores}</ul></div></div>\n'
    )

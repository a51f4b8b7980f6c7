"""The report of an audit: verdicts, the numbers behind them, curves of score against severity, and examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from jaxeval.audit.metric import CARD
from jaxeval.audit.verdicts import ALL_TEXT, STEPS, Series
from jaxeval.cards.schema import FIELDS, TEXT_FIELDS, AudioCard
from jaxeval.cards.scoring import AcousticMetric, field_of
from jaxeval.files import atomic_write, write_json
from jaxeval.perturb import ErrorType, Severity
from jaxeval.perturb.cells import EVENT_TYPES, FIELDS_OF, TEXT_TYPES
from jaxeval.reports.card_page import value_text
from jaxeval.reports.figures import figure_bytes, severity_curves
from jaxeval.reports.html import figure, table, write_html
from jaxeval.reports.tables import markdown_table, text_table
from jaxeval.stats.verdict import Verdict, VerdictConfig
from jaxeval.tables import Row, write_table

WHOLE = (ALL_TEXT, CARD)
"""What the verdict on a metric itself is about; the others are its parts."""
_LABELS = {"falls_with": "falls with", "paraphrase": "largest change under paraphrase"}
EXAMPLES = 3
"""Cards that the page shows in every cell."""
ARITHMETIC = (
    "Measured fields fall by arithmetic: a larger shift is a lower score, whatever the recording. Their curves check "
    "scorers and perturbations, not a judgement, so they get no verdict."
)


@dataclass(frozen=True)
class Judged:
    """A series and what the statistics say of it."""

    series: Series
    verdict: Verdict

    @property
    def is_arithmetic(self) -> bool:
        return self.series.metric == AcousticMetric.name


def write_report(
    out: Path,
    rows: Sequence[Row],
    cards: Sequence[AudioCard],
    series: Sequence[Series],
    config: VerdictConfig,
    notes: Sequence[str],
) -> list[Judged]:
    """Write everything below `out` and print the verdicts.

    Args:
        out: the run folder.
        rows: of `audit_cards`.
        cards: the references, in the same order.
        series: of `all_series`.
        config: levels and margin of the verdicts.
        notes: remarks on top of the page.
    """
    judged = [Judged(one, one.verdict(config)) for one in series]
    write_table(out / "cells.jsonl", list(_cell_rows(rows)))
    verdicts = [_verdict_row(one) for one in judged if not one.is_arithmetic]
    whole = [row for row in verdicts if row["scores"] in WHOLE]
    trends = [row for one in judged for row in _trend_rows(one)]
    controls = [row for one in judged for row in _control_rows(one, config)]
    effects = list(_effect_rows(rows))
    write_table(out / "trends.csv", trends)
    if controls:
        write_table(out / "paraphrase.csv", controls)
    write_table(out / "effects.csv", effects)
    write_json(
        out / "summary.json",
        {"notes": list(notes), "verdicts": verdicts, "trends": trends, "paraphrase": controls, "effects": effects},
    )
    with atomic_write(out / "summary.md") as file:
        file.write(f"{markdown_table(verdicts, _VERDICT_COLUMNS)}\n{markdown_table(trends, _TREND_COLUMNS)}")
    figures = dict(_figures(judged))
    for name, (draw, _) in figures.items():
        for kind in ("png", "svg"):
            with atomic_write(out / f"{name}.{kind}", "wb") as file:
                file.write(figure_bytes(draw("#22262b"), kind))
    write_html(
        out / "report.html",
        title="Audit of metrics by controlled perturbations",
        notes=notes,
        parts=_parts(rows, cards, verdicts, trends, controls, effects, figures, config),
    )
    print(text_table(whole, _VERDICT_COLUMNS) if whole else ARITHMETIC)
    print(f"report: {out / 'report.html'}")
    return judged


_VERDICT_COLUMNS = ("metric", "scores", "verdict", "falls_with", "misses", "paraphrase")
_TREND_COLUMNS = ("metric", "scores", "type", "cards", *STEPS, "p_adjusted", "falls")


def _verdict_row(judged: Judged) -> Row:
    found = judged.verdict
    falls = [type for type, result in found.errors.items() if result.falls]
    changes = [test.mean for test in found.control.severities if test.mean is not None] if found.control else []
    return {
        "metric": judged.series.metric,
        "scores": judged.series.column,
        "verdict": "passes" if found.passes else "fails",
        "falls_with": f"{len(falls)} of {len(found.errors)} types",
        "misses": ", ".join(type for type in found.errors if type not in falls),
        "paraphrase": max(changes, key=abs) if changes else None,
        "reasons": list(found.reasons),
    }


def _trend_rows(judged: Judged) -> Iterator[Row]:
    for type, result in judged.verdict.errors.items():
        means, _ = judged.series.means(type)
        yield {
            "metric": judged.series.metric,
            "scores": judged.series.column,
            "type": type,
            "cards": result.trend.clips,
            "unchanged": result.unchanged,
            "unscored": result.trend.dropped,
            **dict(zip(STEPS, means, strict=True)),
            **{
                f"{name}_{severity}": getattr(drop, name)
                for severity, drop in zip(Severity, result.drops, strict=True)
                for name in ("low", "high", "effect_size")
            },
            "page_l": result.trend.statistic,
            "p": result.trend.p_value,
            "p_adjusted": result.p_adjusted,
            "falls": result.falls,
            "strictly_monotone": result.monotone.strict,
            "weakly_monotone": result.monotone.weak,
            "undefined": result.trend.undefined,
        }


def _control_rows(judged: Judged, config: VerdictConfig) -> Iterator[Row]:
    control = judged.verdict.control
    for severity, test in zip(Severity, control.severities if control else (), strict=False):
        yield {
            "metric": judged.series.metric,
            "scores": judged.series.column,
            "severity": severity.value,
            "cards": test.clips,
            "change": test.mean,
            "low": test.low,
            "high": test.high,
            "margin": config.margin,
            "p": test.p_value,
            "equivalent": test.equivalent,
            "undefined": test.undefined,
        }


def _effect_rows(rows: Sequence[Row]) -> Iterator[Row]:
    """What became of the fields of each type: perturbed, without effect, skipped."""
    for type in dict.fromkeys(cell["type"] for row in rows for cell in row["cells"]):
        for severity in Severity:
            cells = [
                cell for row in rows for cell in row["cells"] if (cell["type"], cell["severity"]) == (type, severity)
            ]
            fields = FIELDS_OF[ErrorType(type)]
            skipped = [reason for cell in cells for reason in cell["skipped"].values()]
            changed = sum(len(cell["values"]) for cell in cells)
            yield {
                "type": type,
                "severity": severity.value,
                "fields": len(cells) * len(fields),
                "changed": changed,
                "unchanged": len(cells) * len(fields) - changed - len(skipped),
                "skipped": len(skipped),
                "flagged": sum(len(cell["flags"]) for cell in cells),
                "why_skipped": "; ".join(
                    f"{reason}: {skipped.count(reason)}" for reason in dict.fromkeys(skipped)
                ),
            }  # fmt: skip


def _cell_rows(rows: Sequence[Row]) -> Iterator[Row]:
    for row in rows:
        head = {"id": row["id"]} | ({"system": row["system"]} if row["system"] else {})
        yield {**head, "type": "none", "severity": "none", "scores": row["clean"]}
        for cell in row["cells"]:
            yield {**head, **cell}


def _figures(judged: Sequence[Judged]) -> Iterator[tuple[str, tuple[Callable[[str], Figure], str]]]:
    """By file name: how to draw it, and what it shows."""
    text = {one.series.metric: one.series for one in judged if one.series.column == ALL_TEXT}
    if text:
        curves = {type.value: text for type in TEXT_TYPES if any(type in one.scores for one in text.values())}
        yield "text", (_draw(curves), "Mean score of the text fields against severity, a line a metric")
        judge = next(iter(text))
        fields = {
            one.series.column: one.series
            for one in judged
            if one.series.metric == judge and one.series.column in TEXT_FIELDS
        }
        by_field = {name: {type: (series, type) for type in series.scores} for name, series in fields.items()}
        yield (
            "fields",
            (_draw_pairs(by_field), f"Score of {judge} for each field against severity, a line an error type"),
        )
    whole = {one.series.metric: one.series for one in judged if one.series.column == CARD}
    if whole:
        types = dict.fromkeys(type for one in whole.values() for type in one.scores)
        yield "cards", (_draw(dict.fromkeys(types, whole)), "Mean score of whole cards against severity")
    numbers = {one.series.column: one.series for one in judged if one.is_arithmetic}
    if numbers:
        panels: dict[str, dict[str, tuple[Series, str]]] = {}
        for column, series in numbers.items():
            for type in series.scores:
                name = type if type in EVENT_TYPES else field_of(column)
                part = column.removeprefix(field_of(column)).strip("_") or "score"
                panels.setdefault(name, {})[part] = (series, type)
        yield "numbers", (_draw_pairs(panels), "Scores of measured fields against the size of the error")


def _draw(panels: Mapping[str, Mapping[str, Series]]) -> Callable[[str], Figure]:
    return _draw_pairs(
        {
            type: {line: (series, type) for line, series in lines.items() if type in series.scores}
            for type, lines in panels.items()
        }
    )


def _draw_pairs(panels: Mapping[str, Mapping[str, tuple[Series, str]]]) -> Callable[[str], Figure]:
    found = {
        title: {line: series.means(type) for line, (series, type) in lines.items()} for title, lines in panels.items()
    }
    means = {title: {line: both[0] for line, both in lines.items()} for title, lines in found.items()}
    bands = {title: {line: both[1] for line, both in lines.items()} for title, lines in found.items()}
    return lambda ink: severity_curves(means, STEPS, ink, intervals=bands)


def _parts(
    rows: Sequence[Row],
    cards: Sequence[AudioCard],
    verdicts: Sequence[Row],
    trends: Sequence[Row],
    controls: Sequence[Row],
    effects: Sequence[Row],
    figures: Mapping[str, tuple[Callable[[str], Figure], str]],
    config: VerdictConfig,
) -> Iterator[str]:
    yield _heading(
        "Verdicts",
        "A metric passes if its scores fall with the severity of every type of error (Page's L, Holm within a metric, "
        f"level {config.level:g}) and a paraphrase changes the mean by less than {config.margin:g} (two one-sided "
        "tests).",
    )
    whole = [row for row in verdicts if row["scores"] in WHOLE]
    if whole:
        yield table(whole, _VERDICT_COLUMNS, labels=_LABELS)
    for row in whole:
        if row["reasons"]:
            reasons = "".join(f"<li>{escape(reason)}</li>" for reason in row["reasons"])
            yield f'<p class="quiet">Why {escape(row["metric"])} fails:</p>\n<ul class="quiet">{reasons}</ul>\n'
    for draw, caption in figures.values():
        yield _heading(caption, "")
        yield figure(draw, caption)
    if any(row["metric"] == AcousticMetric.name for row in trends):
        yield f'<p class="quiet">{escape(ARITHMETIC)}</p>\n'
    fields = [row for row in verdicts if row["scores"] not in WHOLE]
    if fields:
        yield _heading("Verdicts by field", "The same tests for each field alone; summary.json has the reasons.")
        yield table(fields, _VERDICT_COLUMNS, labels=_LABELS)
    yield _heading("Means by severity", "Over the cards that a perturbation changed and that are scored throughout.")
    yield table(trends, _TREND_COLUMNS)
    if controls:
        yield _heading("Paraphrase", "Change of the mean score, with the interval that has to lie within the margin.")
        yield table(controls, list(controls[0]))
    yield _heading("What the perturbations did", "A perturbation that changed nothing is counted here and not above.")
    yield table(effects, list(effects[0]))
    yield _heading("Examples", "The first cards in every cell; cells.jsonl has all of them.")
    for row, card in list(zip(rows, cards, strict=True))[:EXAMPLES]:
        yield _example(row, card)


def _heading(title: str, text: str) -> str:
    quiet = f'<p class="quiet">{escape(text)}</p>\n' if text else ""
    return f'<div class="items-head"><h2>{escape(title)}</h2></div>\n{quiet}'


def _example(row: Row, card: AudioCard) -> str:
    """A card and what the perturbations make of one field of it, with the scores of that field."""
    sections = []
    for type in dict.fromkeys(cell["type"] for cell in row["cells"]):
        cells = [cell for cell in row["cells"] if cell["type"] == type]
        name = next((name for name in _TELLING if all(name in cell["values"] for cell in cells)), None)
        if name is None or name not in card.values:
            continue
        lines = [_line("none", value_text(name, card.values[name]), row["clean"], name)]
        lines += [_line(cell["severity"], _shown(name, cell["values"][name]), cell["scores"], name) for cell in cells]
        title = f"{type} · {name.replace('_', ' ')}"
        sections.append(f"<section><h4>{escape(title)}</h4>\n{''.join(lines)}</section>\n")
    return f"<article><header><h3>{escape(card.id)}</h3></header>\n{''.join(sections)}</article>\n"


_TELLING = ("descriptive_caption", *FIELDS)
"""Fields in the order in which an example prefers them."""


def _line(step: str, text: str, scores: Mapping[str, Mapping[str, Any]], name: str) -> str:
    values = "".join(
        f"<li>{escape(metric)} <b>{columns[column]:.3f}</b></li>"
        for metric, columns in scores.items()
        for column in (name, CARD)
        if columns.get(column) is not None
    )
    return (
        f'<div class="line"><span class="who">{escape(step)}</span>'
        f'<div><p>{escape(text)}</p><ul class="values">{values}</ul></div></div>\n'
    )


def _shown(name: str, value: Any) -> str:
    """A value as it stands in a row, as people read it."""
    if name == "frequency_profile":
        return " · ".join(f"{band} {level}" for band, level in value.items())
    return value_text(name, value)

"""The report of `correlate`: one long table with all numbers, tables as papers print them, heat maps, and a page."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from jaxeval.edits.prompts import TASKS
from jaxeval.files import atomic_write, write_json
from jaxeval.reports.figures import figure_bytes, heat_map
from jaxeval.reports.html import figure, table, write_html
from jaxeval.reports.tables import latex_table, markdown_table, metric_label, text_table
from jaxeval.stats.columns import Joined
from jaxeval.stats.study import SYSTEM, UTTERANCE, StudyConfig
from jaxeval.stats.weighted import COEFFICIENTS
from jaxeval.tables import Row, write_table

LEVELS = (UTTERANCE, SYSTEM)
RESULTS = (
    "config.json",
    "environment.json",
    "summary.json",
    "summary.md",
    "correlations.csv",
    "differences.csv",
    "report.html",
    *(f"{level}.tex" for level in LEVELS),
    *(f"{level}_{name}.{kind}" for level in LEVELS for name in COEFFICIENTS for kind in ("png", "svg")),
)
"""What a run folder holds, and all that a second run may replace."""
_SHOWN = ("level", "metric", "column", "n", "dropped", *map(metric_label, COEFFICIENTS), "undefined")
_NAMES = {"lcc": "Linear correlation (LCC)", "srcc": "Rank correlation (SRCC)", "ktau": "Kendall's tau-b (KTAU)"}


def write_report(
    out: Path,
    joined: Joined,
    rows: Sequence[Row],
    differences: Sequence[Row],
    config: StudyConfig,
    notes: Sequence[str],
) -> str:
    """Write everything below `out`.

    Args:
        out: the folder.
        joined: what was correlated.
        rows: of `study.correlate`.
        differences: of `study.differences`.
        config: of the intervals.
        notes: remarks on top of the page.

    Returns:
        The table for the terminal.
    """
    levels = list(dict.fromkeys(row["level"] for row in rows))
    shown = [_shown(row) for row in rows]
    columns = [name for name in _SHOWN if name != "undefined" or any(row["undefined"] for row in rows)]
    wide = {level: wide_rows([row for row in rows if row["level"] == level]) for level in levels}
    remarks = [*notes, *joined.notes]
    write_table(out / "correlations.csv", rows)
    if differences:
        write_table(out / "differences.csv", differences)
    about = _about(config)
    write_json(
        out / "summary.json",
        {"notes": remarks, "intervals": about, "correlations": rows, "differences": list(differences)},
    )
    with atomic_write(out / "summary.md") as file:
        file.write(f"{markdown_table(shown, columns)}\n{about}\n")
        if differences:
            file.write(f"\n{markdown_table(differences, list(differences[0]))}")
    for level in levels:
        with atomic_write(out / f"{level}.tex") as file:
            file.write(latex_table(wide[level], list(wide[level][0])))
        for name in COEFFICIENTS:
            drawn = _draw(rows, level, name)
            for kind in ("png", "svg"):
                with atomic_write(out / f"{level}_{name}.{kind}", "wb") as file:
                    file.write(figure_bytes(drawn, kind))
    write_html(
        out / "report.html",
        title="Metrics against ratings",
        notes=remarks,
        parts=_parts(rows, shown, columns, wide, differences, about),
    )
    return "\n".join([text_table(shown, columns), "", about, *joined.notes])


def wide_rows(rows: Sequence[Row]) -> list[Row]:
    """Rows of one level as papers print them: a row a metric, and a number for each coefficient and column."""
    by_metric: dict[str, Row] = {}
    for name in COEFFICIENTS:
        for row in rows:
            line = by_metric.setdefault(row["metric"], {"metric": row["metric"]})
            line[f"{metric_label(name)} {row['column']}"] = row[name]
    return list(by_metric.values())


def _shown(row: Row) -> Row:
    """A row as people read it: each coefficient with its interval in one cell."""
    cells = {}
    for name in COEFFICIENTS:
        value, low, high = (row[key] for key in (name, f"{name}_low", f"{name}_high"))
        bounds = "" if low is None else f" [{low:.3f}, {high:.3f}]"
        cells[metric_label(name)] = None if value is None else f"{value:.3f}{bounds}"
    return row | cells


def _about(config: StudyConfig) -> str:
    unit = {"rater": "raters", "system": "systems", None: "items"}[config.cluster]
    return (
        f"In brackets: bootstrap intervals of confidence {config.confidence:g}, from {config.resamples} resamples of "
        f"{unit} at the level of utterances, and of systems at that of systems. n counts items or systems, dropped the "
        "items without one of the two values."
    )


def _draw(rows: Sequence[Row], level: str, coefficient: str, ink: str = "#22262b") -> Figure:
    values = {(row["metric"], row["column"]): row[coefficient] for row in rows if row["level"] == level}
    metrics = list(dict.fromkeys(metric for metric, _ in values))
    targets = list(dict.fromkeys(target for _, target in values))
    grid = [[values[metric, target] for target in targets] for metric in metrics]
    return heat_map(grid, list(map(_metric_name, metrics)), targets, ink)


def _metric_name(column: str) -> str:
    """`difference_rouge_l` as figures name it: the task, and the metric as papers write it."""
    task, _, metric = column.partition("_")
    return f"{task} {metric_label(metric)}" if task in TASKS and metric else column


def _parts(
    rows: Sequence[Row],
    shown: Sequence[Row],
    columns: Sequence[str],
    wide: dict[str, list[Row]],
    differences: Sequence[Row],
    about: str,
) -> Iterator[str]:
    for level in wide:
        yield _heading(f"By {level}", "")
        for name in COEFFICIENTS:
            yield f'<p class="quiet">{escape(_NAMES[name])}</p>\n'
            alt = f"Heat map of each metric and column. {_NAMES[name]}; the table below has the numbers"
            yield figure(functools.partial(_draw, rows, level, name), alt)
    yield _heading("All numbers", about)
    yield table(shown, columns)
    if differences:
        against = differences[0]["against"]
        text = f"Coefficient of the metric minus that of {against}, on the items that have both, with its interval."
        yield _heading(f"Against {against}", text)
        yield table(differences, list(differences[0]), strong=_is_shown)


def _is_shown(row: Any, column: str) -> bool:
    return column == "difference" and row["better"] is not None


def _heading(title: str, text: str) -> str:
    quiet = f'<p class="quiet">{escape(text)}</p>\n' if text else ""
    return f'<div class="items-head"><h2>{escape(title)}</h2></div>\n{quiet}'

"""The page of `metrics`: summary, figure, and the items to listen to, each with its references and predictions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from jaxeval.reports.figures import score_bars
from jaxeval.reports.html import article, figure, items_head, table, text_or_empty, write_html
from jaxeval.reports.tables import metric_label


@dataclass(frozen=True)
class Prediction:
    """What one model said about one item in one task."""

    model: str
    text: str
    scores: Mapping[str, float]
    truncated: bool = False


@dataclass(frozen=True)
class Answer:
    """One task of an item: the references, and the predictions of every model."""

    task: str
    references: Sequence[str]
    predictions: Sequence[Prediction]


@dataclass(frozen=True)
class Item:
    """One row of the page.

    Attributes:
        title: what identifies it.
        score: what rows are sorted and selected by; higher is better.
        facts: short texts about it by name, e.g. its instruction.
        recordings: audio files by label; one that cannot be read is named in words.
        answers: one a task.
    """

    title: str
    score: float
    answers: Sequence[Answer]
    facts: Mapping[str, str] = field(default_factory=dict)
    recordings: Mapping[str, Path] = field(default_factory=dict)


def write_page(
    path: str | os.PathLike[str],
    *,
    title: str,
    summary: Sequence[dict[str, Any]],
    columns: Sequence[str],
    metrics: Sequence[str],
    items: Iterable[Item],
    shown: str,
    score_name: str,
    notes: Sequence[str] = (),
) -> None:
    """Write the page, whole or not at all.

    Args:
        path: the HTML file to make.
        title: heading of the page.
        summary: rows of the table on top, with the columns `model` and `task`.
        columns: columns of that table, in order.
        metrics: those of them that the figure draws.
        items: rows of the page, read one at a time.
        shown: the sentence of `select`.
        score_name: what `Item.score` is, in words.
        notes: what a reader must know first.
    """
    several = len({row["model"] for row in summary}) > 1
    best = {
        (task, name): max((row[name] for row in summary if row["task"] == task and row[name] is not None), default=None)
        for task in dict.fromkeys(row["task"] for row in summary)
        for name in metrics
    }

    def is_best(row: Mapping[str, Any], name: str) -> bool:
        return several and name in metrics and row[name] is not None and row[name] == best[row["task"], name]

    def parts() -> Iterator[str]:
        yield table(summary, columns, labels={name: metric_label(name) for name in metrics}, strong=is_best)
        alt = "Scores of each model as bars; the table above has the numbers"
        yield figure(lambda ink: score_bars(summary, metrics, ink), alt)
        yield items_head(shown, score_name)
        for order, item in enumerate(items):
            yield article(
                item.title,
                item.score,
                order,
                facts=item.facts,
                recordings=item.recordings,
                sections=map(_answer, item.answers),
            )

    write_html(path, title=title, notes=notes, parts=parts())


def _answer(answer: Answer) -> str:
    references = "".join(f"<p>{text_or_empty(reference)}</p>" for reference in answer.references)
    rows = f'<div class="line reference"><span class="who">reference</span><div>{references}</div></div>\n'
    for prediction in answer.predictions:
        scores = "".join(
            f"<li>{escape(metric_label(name))} <b>{value:.3f}</b></li>" for name, value in prediction.scores.items()
        )
        cut = '<span class="flag">truncated</span>' if prediction.truncated else ""
        rows += (
            f'<div class="line"><span class="who">{escape(prediction.model)}</span>'
            f'<div><p>{text_or_empty(prediction.text)} {cut}</p><ul class="values">{scores}</ul></div></div>\n'
        )
    return f"<section><h4>{escape(answer.task)}</h4>\n{rows}</section>\n"

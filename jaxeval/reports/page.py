"""One self-contained HTML page: summary, figure, and the items to listen to.

The last step of `metrics`. Everything is inside the file (styles, pictures, sound), nothing is fetched, and a content
policy in the page forbids it to try; so it can be mailed, kept beside a paper, or opened on a machine without a
network. Every text that comes from data is escaped. Rows are written one by one, so that the page's size is bounded
by the disk alone; `select` bounds how many there are.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from jaxeval.audio.lengths import SAMPLE_RATE
from jaxeval.audio.read import read_audio
from jaxeval.errors import InputError
from jaxeval.files import atomic_write
from jaxeval.reports.figures import INK, figure_bytes, log_mel_db, score_bars, spectrogram_png
from jaxeval.reports.tables import cell, metric_label, numeric

INK_ON_DARK = "#e4e6ea"
_ASSETS = Path(__file__).parent


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


def select(items: Sequence[Item], limit: int) -> tuple[list[Item], str]:
    """Choose at most `limit` items, and the sentence that says which.

    The lowest third, the highest third, and the rest spread evenly between them, so that a page of a large set shows
    what goes wrong, what goes right and what is usual. The order of the items is kept.
    """
    if len(items) <= limit:
        return list(items), f"All {len(items)} items are shown." if len(items) != 1 else "The one item is shown."
    ranked = sorted(range(len(items)), key=lambda index: items[index].score)
    low, high = (limit + 1) // 3, limit // 3
    between = limit - low - high
    middle = np.linspace(low, len(items) - high - 1, between).round().astype(int)
    chosen = {*ranked[:low], *ranked[len(items) - high :], *(ranked[place] for place in middle)}
    sentence = (
        f"{limit} of {len(items)} items are shown: the {low} lowest, the {high} highest, "
        f"and {between} spread evenly between them by score. The summary covers all of them."
    )
    return [items[index] for index in sorted(chosen)], sentence


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
    with atomic_write(path) as file:
        file.write(_head(title, notes))
        file.write(_summary(summary, columns, metrics))
        file.write(_items_head(shown, score_name))
        for order, item in enumerate(items):
            file.write(_item(item, order))
        file.write(f"</main>\n<script>{(_ASSETS / 'page.js').read_text(encoding='utf-8')}</script>\n</body></html>\n")


def _head(title: str, notes: Sequence[str]) -> str:
    policy = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{(_ASSETS / 'page.css').read_text(encoding='utf-8')}</style></head>\n"
        f"<body><main>\n<h1>{escape(title)}</h1>\n" + "".join(f'<p class="note">{escape(note)}</p>\n' for note in notes)
    )


def _summary(rows: Sequence[dict[str, Any]], columns: Sequence[str], metrics: Sequence[str]) -> str:
    kinds = {name: ' class="number"' if numeric(rows, name) else "" for name in columns}
    best = {
        (row["task"], name): max(
            (r[name] for r in rows if r["task"] == row["task"] and r[name] is not None), default=None
        )
        for row in rows
        for name in metrics
    }
    several = len({row["model"] for row in rows}) > 1
    body = []
    for row in rows:
        cells = []
        for name in columns:
            text = escape(cell(row.get(name)))
            if several and name in metrics and row[name] is not None and row[name] == best[row["task"], name]:
                text = f"<strong>{text}</strong>"
            cells.append(f"<td{kinds[name]}>{text}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>\n")
    titles = [metric_label(name) if name in metrics else name for name in columns]
    head = "".join(f"<th{kinds[name]}>{escape(text)}</th>" for name, text in zip(columns, titles, strict=True))
    light, dark = (
        _data_uri("image/svg+xml", figure_bytes(score_bars(rows, metrics, ink), "svg")) for ink in (INK, INK_ON_DARK)
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{"".join(body)}</tbody></table></div>\n'
        f'<figure class="scores"><picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="Scores of each model as bars; the table above has the numbers"></picture></figure>\n'
    )


def _items_head(shown: str, score_name: str) -> str:
    options = (("order", "as in the file"), ("low", "lowest score first"), ("high", "highest score first"))
    choices = "".join(f'<option value="{value}">{text}</option>' for value, text in options)
    return (
        f'<div class="items-head"><h2>Items</h2><label>Order <select id="sort">{choices}</select></label></div>\n'
        f'<p class="quiet">{escape(shown)} Score of an item: {escape(score_name)}.</p>\n'
    )


def _item(item: Item, order: int) -> str:
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in item.facts.items())
    return (
        f'<article data-order="{order}" data-score="{item.score:.6f}">\n'
        f'<header><h3>{escape(item.title)}</h3><span class="score">score {cell(float(item.score))}</span></header>\n'
        + (f'<dl class="facts">{facts}</dl>\n' if facts else "")
        + (f'<div class="recordings">{_recordings(item.recordings)}</div>\n' if item.recordings else "")
        + "".join(map(_answer, item.answers))
        + "</article>\n"
    )


def _recordings(recordings: Mapping[str, Path]) -> str:
    """Players and spectrograms side by side, on one colour scale so that levels can be compared."""
    heard: dict[str, np.ndarray] = {}
    problems: dict[str, str] = {}
    for label, path in recordings.items():
        try:
            heard[label] = read_audio(path, max_seconds=None)
        except InputError as error:
            problems[label] = str(error)
    pictures = {label: log_mel_db(samples, SAMPLE_RATE) for label, samples in heard.items()}
    top = max((float(picture.max()) for picture in pictures.values()), default=0.0)
    parts = []
    for label in recordings:
        if label in problems:
            parts.append(
                f'<figure class="missing"><figcaption>{escape(label)}</figcaption>'
                f"<p>No player: the recording could not be read. {escape(problems[label])}</p></figure>"
            )
            continue
        seconds = len(heard[label]) / SAMPLE_RATE
        picture = _data_uri("image/png", spectrogram_png(pictures[label], top))
        axes = f"{seconds:.1f} s · 0–{SAMPLE_RATE // 2000} kHz, mel scale"
        parts.append(
            f"<figure><figcaption>{escape(label)} <span>{axes}</span></figcaption>"
            f'<div class="spectrogram"><img src="{picture}" alt="Spectrogram of {escape(label)}"><i></i></div>'
            f'<audio controls preload="metadata" src="{_sound(heard[label])}"></audio></figure>'
        )
    return "".join(parts)


def _answer(answer: Answer) -> str:
    references = "".join(f"<p>{_text(reference)}</p>" for reference in answer.references)
    rows = f'<div class="line reference"><span class="who">reference</span><div>{references}</div></div>\n'
    for prediction in answer.predictions:
        scores = "".join(
            f"<li>{escape(metric_label(name))} <b>{value:.3f}</b></li>" for name, value in prediction.scores.items()
        )
        cut = '<span class="flag">truncated</span>' if prediction.truncated else ""
        rows += (
            f'<div class="line"><span class="who">{escape(prediction.model)}</span>'
            f'<div><p>{_text(prediction.text)} {cut}</p><ul class="values">{scores}</ul></div></div>\n'
        )
    return f"<section><h4>{escape(answer.task)}</h4>\n{rows}</section>\n"


def _text(text: str) -> str:
    return escape(text) if text.strip() else '<span class="quiet">(empty)</span>'


def _sound(samples: np.ndarray) -> str:
    """A recording as a data URI: MP3 where the sound library writes it, else FLAC; every browser plays both."""
    kind, mime = ("MP3", "audio/mpeg") if "MP3" in soundfile.available_formats() else ("FLAC", "audio/flac")
    buffer = io.BytesIO()
    soundfile.write(buffer, np.clip(samples, -1.0, 1.0), SAMPLE_RATE, format=kind)
    return _data_uri(mime, buffer.getvalue())


def _data_uri(mime: str, content: bytes) -> str:
    return f"data:{mime};base64,{base64.b64encode(content).decode()}"

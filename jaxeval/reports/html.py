"""Parts of a self-contained HTML page: head, tables, figures for light and dark, players with spectrograms.

Everything is inside the file (styles, pictures, sound), nothing is fetched, and a content policy in the page forbids it
to try; so it can be mailed, kept beside a paper, or opened on a machine without a network. Every text that comes from
data is escaped. A page is written part by part, so that its size is bounded by the disk alone; `select` bounds how many
items it has.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import soundfile
from matplotlib.figure import Figure

from jaxeval.audio.lengths import SAMPLE_RATE
from jaxeval.audio.read import read_audio
from jaxeval.errors import InputError
from jaxeval.files import atomic_write
from jaxeval.reports.figures import INK, figure_bytes, log_mel_db, spectrogram_png
from jaxeval.reports.tables import cell, numeric

INK_ON_DARK = "#e4e6ea"
_ASSETS = Path(__file__).parent


class Scored(Protocol):
    """Anything with a score to sort by, higher being better; None where it has none."""

    @property
    def score(self) -> float | None:
        """See the class."""


T = TypeVar("T", bound=Scored)


def select(items: Sequence[T], limit: int) -> tuple[list[T], str]:
    """Choose at most `limit` items, and the sentence that says which.

    The lowest third, the highest third, and the rest spread evenly between them, so that a page of a large set shows
    what goes wrong, what goes right and what is usual. The order of the items is kept.
    """
    if len(items) <= limit:
        return list(items), f"All {len(items)} items are shown." if len(items) != 1 else "The one item is shown."
    ranked = sorted(range(len(items)), key=lambda index: _rank(items[index]))
    low, high = (limit + 1) // 3, limit // 3
    between = limit - low - high
    middle = np.linspace(low, len(items) - high - 1, between).round().astype(int)
    chosen = {*ranked[:low], *ranked[len(items) - high :], *(ranked[place] for place in middle)}
    sentence = (
        f"{limit} of {len(items)} items are shown: the {low} lowest, the {high} highest, "
        f"and {between} spread evenly between them by score. The summary covers all of them."
    )
    return [items[index] for index in sorted(chosen)], sentence


def _rank(item: Scored) -> float:
    return float("-inf") if item.score is None else item.score


def write_html(path: str | os.PathLike[str], *, title: str, notes: Sequence[str], parts: Iterable[str]) -> None:
    """Write a page, whole or not at all.

    Args:
        path: the HTML file to make.
        title: heading of the page.
        notes: what a reader must know first.
        parts: HTML, taken one at a time.
    """
    with atomic_write(path) as file:
        file.write(_head(title, notes))
        for part in parts:
            file.write(part)
        file.write(f"</main>\n<script>{(_ASSETS / 'html.js').read_text(encoding='utf-8')}</script>\n</body></html>\n")


def _head(title: str, notes: Sequence[str]) -> str:
    policy = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{(_ASSETS / 'html.css').read_text(encoding='utf-8')}</style></head>\n"
        f"<body><main>\n<h1>{escape(title)}</h1>\n" + "".join(f'<p class="note">{escape(note)}</p>\n' for note in notes)
    )


def table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    labels: Mapping[str, str] | None = None,
    strong: Callable[[Mapping[str, Any], str], bool] = lambda row, name: False,
) -> str:
    """A table.

    Args:
        rows: its rows by column; None shows as a dash.
        columns: names and order.
        labels: headings of columns that are not headed by their names.
        strong: whether a cell is set in bold.
    """
    kinds = {name: ' class="number"' if numeric(rows, name) else "" for name in columns}
    body = []
    for row in rows:
        cells = []
        for name in columns:
            shown = escape(cell(row.get(name)))
            cells.append(f"<td{kinds[name]}>{f'<strong>{shown}</strong>' if strong(row, name) else shown}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>\n")
    head = "".join(f"<th{kinds[name]}>{escape((labels or {}).get(name, name))}</th>" for name in columns)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{"".join(body)}</tbody></table></div>\n'
    )


def figure(draw: Callable[[str], Figure], alt: str) -> str:
    """A figure, drawn in one ink for light screens and in another for dark ones.

    Args:
        draw: makes it in the ink it is given.
        alt: what it shows, in words.
    """
    light, dark = (_data_uri("image/svg+xml", figure_bytes(draw(ink), "svg")) for ink in (INK, INK_ON_DARK))
    return (
        f'<figure class="scores"><picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{escape(alt)}"></picture></figure>\n'
    )


def items_head(shown: str, score_name: str) -> str:
    """The heading above the items: the sentence of `select`, what their score is, and a choice of their order."""
    options = (("order", "as in the file"), ("low", "lowest score first"), ("high", "highest score first"))
    choices = "".join(f'<option value="{value}">{text}</option>' for value, text in options)
    return (
        f'<div class="items-head"><h2>Items</h2><label>Order <select id="sort">{choices}</select></label></div>\n'
        f'<p class="quiet">{escape(shown)} Score of an item: {escape(score_name)}.</p>\n'
    )


def article(
    title: str,
    score: float | None,
    order: int,
    *,
    facts: Mapping[str, str],
    recordings: Mapping[str, Path],
    sections: Iterable[str],
) -> str:
    """One item of a page.

    Args:
        title: what identifies it; score: what items are sorted by; order: its number.
        facts: short texts about it by name.
        recordings: audio files by label; one that cannot be read is named in words.
        sections: HTML of what is said about it.
    """
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts.items())
    return (
        f'<article data-order="{order}" data-score="{-1 if score is None else score:.6f}">\n'
        f'<header><h3>{escape(title)}</h3><span class="score">score {cell(score)}</span></header>\n'
        + (f'<dl class="facts">{listed}</dl>\n' if listed else "")
        + (f'<div class="recordings">{_recordings(recordings)}</div>\n' if recordings else "")
        + "".join(sections)
        + "</article>\n"
    )


def text_or_empty(text: str) -> str:
    """A text as HTML, and a word where there is none."""
    return escape(text) if text.strip() else '<span class="quiet">(empty)</span>'


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


def _sound(samples: np.ndarray) -> str:
    """A recording as a data URI: MP3 where the sound library writes it, else FLAC; every browser plays both."""
    kind, mime = ("MP3", "audio/mpeg") if "MP3" in soundfile.available_formats() else ("FLAC", "audio/flac")
    buffer = io.BytesIO()
    soundfile.write(buffer, np.clip(samples, -1.0, 1.0), SAMPLE_RATE, format=kind)
    return _data_uri(mime, buffer.getvalue())


def _data_uri(mime: str, content: bytes) -> str:
    return f"data:{mime};base64,{base64.b64encode(content).decode()}"

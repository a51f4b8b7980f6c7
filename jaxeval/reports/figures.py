"""Figures of the reports, drawn without a screen: bars, curves and maps as PNG and SVG, spectrograms as small PNGs.

Plain functions from numbers to pictures. Figures are made as objects, not through pyplot, so nothing global is touched.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from jaxeval.reports.tables import metric_label

PALETTE = ("#3b6fb6", "#e08a3c", "#4f9d69", "#b5518f", "#8a7a3a", "#5aa9b8", "#c25550", "#7b6cc4")
INK = "#22262b"

RANGE_DB = 80.0
MEL_BANDS = 96
FRAMES = 480


def score_bars(rows: Sequence[dict[str, Any]], metrics: Sequence[str], ink: str = INK) -> Figure:
    """One panel a task, one group of bars a metric, one bar a model.

    Args:
        rows: a summary with the columns `model`, `task` and the metrics; None leaves a gap.
        metrics: the columns to draw.
        ink: colour of text and axes, to suit the background.
    """
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    models = list(dict.fromkeys(row["model"] for row in rows))
    width = max(4.2, 0.9 + len(metrics) * (0.45 + 0.3 * len(models)))
    height = 3.0 + 0.24 * len(models)
    figure = Figure(figsize=(width * len(tasks), height), layout="constrained")
    FigureCanvasAgg(figure)
    value = {(row["task"], row["model"]): row for row in rows}
    top = max((row[name] for row in rows for name in metrics if row[name] is not None), default=0.0)
    places = np.arange(len(metrics))
    thickness = 0.8 / len(models)
    for axes, task in zip(np.atleast_1d(figure.subplots(1, len(tasks), sharey=True)), tasks, strict=True):
        for index, model in enumerate(models):
            scores = [value[task, model][name] for name in metrics]
            heights = [np.nan if score is None else score for score in scores]
            offset = (index - (len(models) - 1) / 2) * thickness
            bars = axes.bar(
                places + offset, heights, 0.92 * thickness, color=PALETTE[index % len(PALETTE)], label=_short(model)
            )
            if len(models) <= 3:
                labels = ["" if score is None else f"{score:.2f}".removeprefix("0") for score in scores]
                axes.bar_label(bars, labels, padding=2, fontsize=8, color=ink)
        axes.set_title(task, color=ink, fontsize=11, loc="left")
        axes.set_xticks(places, [metric_label(name) for name in metrics], color=ink, fontsize=9)
        _plain(axes, ink, grid="y")
        axes.tick_params(axis="x", labelsize=9)
        axes.set_ylim(0, 1.15 * top if top > 0 else 1.0)
    _legend(figure, axes, ink)
    return figure


def field_bars(rows: Sequence[dict[str, Any]], ink: str = INK) -> Figure:
    """Mean score of each field of a card as horizontal bars, one a system, with the chance level as a mark.

    Args:
        rows: a summary with the columns `field`, `mean`, `chance` and, of several, `system`; None leaves a gap.
        ink: colour of text and axes, to suit the background.
    """
    fields = list(dict.fromkeys(row["field"] for row in rows))
    systems = list(dict.fromkeys(row.get("system", "") for row in rows))
    by_key = {(row.get("system", ""), row["field"]): row for row in rows}
    figure = Figure(figsize=(7.6, 0.9 + len(fields) * (0.16 + 0.16 * len(systems)) + 0.24 * len(systems)))
    figure.set_layout_engine("constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    places = np.arange(len(fields))
    thickness = 0.8 / len(systems)
    for index, system in enumerate(systems):
        found = [by_key.get((system, field), {}).get("mean") for field in fields]
        at = places + (index - (len(systems) - 1) / 2) * thickness
        widths = [np.nan if value is None else value for value in found]
        colour = PALETTE[index % len(PALETTE)]
        bars = axes.barh(at, widths, 0.92 * thickness, color=colour, label=_short(system) if system else "predictions")
        if len(systems) <= 3:
            labels = ["" if value is None else f"{value:.2f}" for value in found]
            axes.bar_label(bars, labels, padding=3, fontsize=8, color=ink)
    chance = [by_key.get((systems[0], field), {}).get("chance") for field in fields]
    known = [(place, value) for place, value in zip(places, chance, strict=True) if value is not None]
    if known:
        spots, levels = np.array(known).T
        axes.vlines(
            levels, spots - 0.45, spots + 0.45, color=ink, linewidth=1.4, linestyles="dotted", label="constant guess"
        )
    axes.set_yticks(places, [field.replace("_", " ") for field in fields], fontsize=9)
    axes.set_ylim(len(fields) - 0.4, -0.6)
    axes.set_xlim(0, 1.08)
    _plain(axes, ink, grid="x")
    _legend(figure, axes, ink)
    return figure


def severity_curves(
    panels: Mapping[str, Mapping[str, Sequence[float | None]]],
    steps: Sequence[str],
    ink: str = INK,
    *,
    intervals: Mapping[str, Mapping[str, Sequence[tuple[float, float] | None]]] | None = None,
    columns: int = 4,
) -> Figure:
    """Mean scores against severity, a panel an error type, a line a metric.

    Args:
        panels: by panel and line the score at each step; None leaves a gap.
        steps: names of the steps, the clean one first.
        ink: colour of text and axes, to suit the background.
        intervals: by panel and line an interval a step, drawn as a band.
        columns: panels in a row.
    """
    lines = list(dict.fromkeys(line for panel in panels.values() for line in panel))
    colour = {line: PALETTE[index % len(PALETTE)] for index, line in enumerate(lines)}
    rows = -(-len(panels) // columns)
    wide = min(columns, len(panels))
    figure = Figure(figsize=(0.6 + 2.6 * wide, 0.4 + 2.4 * rows + 0.2 * len(lines)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = np.atleast_1d(figure.subplots(rows, wide, sharex=True, sharey=True, squeeze=False)).ravel()
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    places = np.arange(len(steps))
    for axes, (title, panel) in zip(grid, panels.items(), strict=False):
        for line, values in panel.items():
            heights = [np.nan if value is None else value for value in values]
            axes.plot(
                places, heights, marker="o", markersize=3.5, linewidth=1.6, color=colour[line], label=_short(line)
            )
            bands = (intervals or {}).get(title, {}).get(line)
            if bands is not None:
                low, high = ([np.nan if band is None else band[side] for band in bands] for side in (0, 1))
                axes.fill_between(places, low, high, color=colour[line], alpha=0.15, linewidth=0)
        axes.set_title(title, color=ink, fontsize=10, loc="left")
        axes.set_xticks(places, steps, fontsize=8)
        axes.tick_params(labelbottom=True)
        axes.set_ylim(-0.03, 1.05)
        _plain(axes, ink, grid="y")
    _legend(figure, list(grid[: len(panels)]), ink)
    return figure


def heat_map(
    values: Sequence[Sequence[float | None]], rows: Sequence[str], columns: Sequence[str], ink: str = INK
) -> Figure:
    """Correlations as a table of coloured cells: blue where positive, red where negative, a dash where undefined.

    Args:
        values: [row][column], within -1 and 1.
        rows: names down the side.
        columns: names along the top.
        ink: colour of text outside the cells, to suit the background.
    """
    wide, high = 2.2 + 0.62 * len(columns), 1.5 + 0.3 * len(rows)
    figure = Figure(figsize=(max(4.0, wide), max(2.4, high)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    colours = matplotlib.colormaps["RdBu"]
    grid = np.array([[np.nan if value is None else value for value in line] for line in values], np.float64)
    image = axes.imshow(np.ma.masked_invalid(grid), cmap=colours, vmin=-1, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(grid):
        text = "–" if np.isnan(value) else f"{value:.2f}".replace("0.", ".").replace("-", "−")
        colour = ink if np.isnan(value) else "white" if abs(value) > 0.6 else INK
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(columns)), list(map(_short, columns)), rotation=40, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), list(map(_short, rows)))
    axes.tick_params(colors=ink, labelsize=8, length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, ticks=(-1, -0.5, 0, 0.5, 1), aspect=30, pad=0.02)
    bar.ax.tick_params(colors=ink, labelsize=8, length=0)
    bar.outline.set_visible(False)
    return figure


def _plain(axes: Any, ink: str, grid: Literal["x", "y"]) -> None:
    axes.tick_params(colors=ink, labelsize=8, length=0)
    axes.spines[:].set_visible(False)
    axes.spines["bottom" if grid == "y" else "left"].set(visible=True, color=ink, alpha=0.4)
    axes.grid(axis=grid, color=ink, alpha=0.12, linewidth=0.8)
    axes.set_axisbelow(True)


def _legend(figure: Figure, axes: Any, ink: str) -> None:
    found: dict[str, Any] = {}
    for one in axes if isinstance(axes, list) else [axes]:
        handles, labels = one.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    figure.legend(
        list(found.values()), list(found), loc="outside lower left", frameon=False, labelcolor=ink, fontsize=9
    )


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """A figure as a file on a transparent ground; the same figure gives the same bytes.

    Args:
        kind: `"png"` or `"svg"`.
    """
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "jaxeval"}):
        figure.savefig(
            buffer, format=kind, dpi=160, transparent=True, metadata={"Date": None} if kind == "svg" else None
        )
    return buffer.getvalue()


def log_mel_db(samples: np.ndarray, rate: int) -> np.ndarray:
    """A mel spectrogram in dB, shape [mel band, frame], low frequencies first, at most about `FRAMES` frames.

    Args:
        samples: mono, shape [samples].
        rate: samples a second.
    """
    from librosa.filters import mel  # slow to import, and a report without audio does not need it

    hop = max(64, -(-len(samples) // FRAMES))
    window = max(1024, hop)
    padded = np.pad(samples, window // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, window)[::hop]
    power = np.abs(np.fft.rfft(frames * np.hanning(window))) ** 2
    return 10.0 * np.log10(np.maximum(mel(sr=rate, n_fft=window, n_mels=MEL_BANDS, fmin=30.0) @ power.T, 1e-10))


def spectrogram_png(db: np.ndarray, top: float) -> bytes:
    """A spectrogram as a PNG of one pixel a value.

    Args:
        db: level, shape [band, frame], low frequencies first.
        top: the level drawn brightest; `RANGE_DB` below it is darkest. Use one for recordings to be compared.
    """
    levels = np.clip((db - top) / RANGE_DB + 1.0, 0.0, 1.0)
    shades = 64  # few enough to halve the file, too many to see
    image = Image.fromarray(np.round(levels[::-1] * (shades - 1)).astype(np.uint8), mode="P")
    colours = matplotlib.colormaps["magma"](np.linspace(0.0, 1.0, shades), bytes=True)[:, :3]
    image.putpalette(colours.tobytes())
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def _short(model: str) -> str:
    # A leading underscore would hide the name from the legend.
    return textwrap.shorten(model, 60, placeholder=" …").lstrip("_") or model

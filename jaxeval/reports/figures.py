"""Figures of the reports, drawn without a screen: score bars as PNG and SVG, spectrograms as small PNG images.

Plain functions from numbers to pictures. Figures are made as objects, not through pyplot, so nothing global is touched.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import Any

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
        axes.tick_params(axis="y", colors=ink, labelsize=8)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.spines["bottom"].set(visible=True, color=ink, alpha=0.4)
        axes.grid(axis="y", color=ink, alpha=0.12, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_ylim(0, 1.15 * top if top > 0 else 1.0)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=1, frameon=False, labelcolor=ink, fontsize=9)
    return figure


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

"""What a run tells: one row a step in `metrics.jsonl`, TensorBoard events, and the progress bar.

`metrics.jsonl` holds only what follows from the settings and the data, so that a run which was killed and resumed
writes the same file as one that was not. Speed and memory go to TensorBoard and the bar. Only the first process writes.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tensorboardX import SummaryWriter
from tqdm import tqdm

from jaxeval.audio.lengths import SAMPLE_RATE
from jaxeval.audio.read import read_audio
from jaxeval.files import atomic_write, sync
from train.data import Row

METRICS = "metrics.jsonl"


class Log:
    """Writes the logs of one run from step `done` on.

    What an interrupted run wrote after that step is dropped, since it will come again.
    """

    def __init__(self, out: Path, *, done: int, total: int, tensorboard: bool):
        self._writes = jax.process_index() == 0
        self._events = None
        if self._writes:
            _keep_rows(out / METRICS, done)
            self._rows = open(out / METRICS, "a", encoding="utf-8")  # noqa: SIM115 - closed in close
            if tensorboard:
                self._events = SummaryWriter(str(out / "tensorboard"), purge_step=done + 1)
        self._bar = tqdm(total=total, initial=done, desc="train", unit="step", disable=not self._writes)

    def step(self, row: Mapping[str, Any], speed: Mapping[str, float]) -> None:
        """Log a finished step: its row of `metrics.jsonl`, and what depends on the machine."""
        if not self._writes:
            return
        self._rows.write(json.dumps(row) + "\n")
        self._rows.flush()
        self._bar.set_postfix({"loss": f"{row['loss']:.4f}"} | {name: f"{value:.3g}" for name, value in speed.items()})
        self._bar.update()
        if self._events is not None:
            values = {name: value for name, value in row.items() if name != "step" and value is not None}
            for name, value in (values | {f"speed/{name}": value for name, value in speed.items()}).items():
                self._events.add_scalar(name, value, row["step"])
            self._events.add_scalar("memory_bytes", memory_bytes(), row["step"])

    def captions(self, step: int, rows: Sequence[Row], answers: Sequence[str]) -> None:
        """Show validation answers beside their references."""
        if self._events is None:
            return
        lines = ["| id | task | reference | answer |", "|---|---|---|---|"]
        for row, answer in zip(rows, answers, strict=True):
            cells = (row.example.id, row.example.task, row.example.target, answer)
            lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
        self._events.add_text("validation", "\n".join(lines), step)

    def audio(self, rows: Sequence[Row]) -> None:
        """Let a few examples be heard."""
        if self._events is None:
            return
        for row in rows:
            for number, path in enumerate(row.example.audio, 1):
                waveform = np.clip(read_audio(path), -1, 1)[:, None]
                self._events.add_audio(f"{row.example.id}/audio_{number}", waveform, 0, SAMPLE_RATE)

    def say(self, text: str) -> None:
        """A line above the progress bar."""
        if self._writes:
            self._bar.write(text, file=sys.stderr)

    def sync(self) -> None:
        """Put the rows on the disk, before a checkpoint claims their steps."""
        if self._writes:
            sync(self._rows)

    def close(self) -> None:
        self._bar.close()
        if self._writes:
            self.sync()
            self._rows.close()
        if self._events is not None:
            self._events.close()


def memory_bytes() -> int:
    """Peak memory of the first local device, or of this process where the device does not say."""
    stats = jax.local_devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in stats:
        return stats["peak_bytes_in_use"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _keep_rows(path: Path, count: int) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[:count] if path.exists() else []
    with atomic_write(path) as file:
        file.writelines(lines)

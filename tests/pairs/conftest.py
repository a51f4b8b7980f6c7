"""A small set of captioned clips: tones and noises of many lengths, two variants in some groups."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

SOUNDS = ("A dog barks.", "Rain falls", "The bell rings!", "TV static hisses.", "Fingers snap once.", "Wind howls.")


def write_clips(folder: Path, groups: int = 15) -> Path:
    """Write clips and their table; returns the table's path."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    rows = []
    for number in range(groups):
        for variant in range(1 + number % 2):
            name = f"clip_{number}_{variant}.wav"
            samples = rng.normal(0, 0.02 * (1 + number), rng.integers(500, 30_000))
            soundfile.write(folder / name, samples.clip(-1, 1), int(rng.choice([8000, 16000, 44100])))
            rows.append((name, f"{SOUNDS[number % len(SOUNDS)].rstrip('.')} in place {number}", f"recording {number}"))
    write_table(folder / "manifest.csv", rows)
    return folder / "manifest.csv"


def write_table(path: Path, rows: list[tuple[str, str, str]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("path", "caption", "group"), *rows])


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    return write_clips(tmp_path / "clips")


@pytest.fixture
def make_clips(tmp_path: Path) -> Callable[[int], Path]:
    return lambda groups: write_clips(tmp_path / f"clips_{groups}", groups)

"""Measuring against ffmpeg's loudness and CREPE's pitch, on real clips."""

import csv
import importlib
import re
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pyloudnorm
import pytest
import soundfile
import torch

from jaxeval.audio.loudness import loudness
from jaxeval.audio.read import read_audio, read_channels

MEDIANS = Path(__file__).parent.parent / "audio" / "crepe_medians.csv"
HOP = 320
CONFIDENT = 0.8
DITHER = 2 ** (20 / 1200) - 1
"""torchcrepe adds up to 20 cents of noise to each frame."""


@pytest.fixture
def torchcrepe(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The package, without torchaudio: it is for a loader not used here, and its wheels want CUDA's libraries."""
    monkeypatch.setitem(sys.modules, "torchaudio", types.ModuleType("torchaudio"))
    return importlib.import_module("torchcrepe")


def ffmpeg_loudness(path: Path) -> float:
    """Integrated loudness in LUFS, to 0.1, by the `ebur128` filter."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-nostats", "-i", path, "-af", "ebur128", "-f", "null", "-"]
    log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return float(re.findall(r"I:\s+(-?[\d.]+) LUFS", log)[-1])


@pytest.mark.shared
def test_loudness_is_ffmpegs_where_pyloudnorm_agrees_with_it(shared):
    folder = shared / "data" / "recordings"
    with open(folder / "manifest.csv", newline="") as file:
        paths = [folder / row["path"] for row in csv.DictReader(file) if float(row["duration_s"]) >= 3]
    with ThreadPoolExecutor(2) as pool:
        expected = dict(zip(paths, pool.map(ffmpeg_loudness, paths), strict=True))
    agreed = 0
    for path, lufs in expected.items():
        samples, rate = soundfile.read(path)
        if abs(pyloudnorm.Meter(rate).integrated_loudness(samples) - lufs) <= 0.1:
            agreed += 1
            assert loudness(*read_channels(path, max_seconds=None)) == pytest.approx(lufs, abs=0.1)
    assert agreed > 50


@pytest.mark.shared
def test_the_medians_of_crepe_are_crepes(shared, torchcrepe):
    """On the five shortest of the clips that tests/audio/test_pitch.py holds our pitch against."""
    with open(MEDIANS, newline="") as file:
        rows = list(csv.DictReader(file))
    folder = shared / "data" / "recordings"
    shortest = sorted(rows, key=lambda row: soundfile.info(folder / row["path"]).duration)[:5]
    for row in shortest:
        samples = torch.from_numpy(read_audio(folder / row["path"]))[None]
        f0, confidence = torchcrepe.predict(samples, 16000, HOP, model="full", return_periodicity=True, batch_size=128)
        sure = (confidence >= CONFIDENT).numpy()
        assert sure.mean() == pytest.approx(float(row["confident"]), abs=0.02)
        assert sure.mean() >= 0.5
        assert np.median(f0.numpy()[sure]) == pytest.approx(float(row["median_f0"]), rel=DITHER)

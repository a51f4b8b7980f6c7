"""`kill -9` at any moment, run again: nothing shows."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from jaxeval.checkpoint import restore_tree, tree_shapes
from tests.conftest import ROOT

STEPS = 24


def start(arguments: list[str]) -> subprocess.Popen:
    environment = os.environ | {"XLA_FLAGS": "", "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen([sys.executable, "-m", "train.lora", *arguments], cwd=ROOT, env=environment)


def steps_done(out: Path) -> int:
    file = out / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def kill_after(process: subprocess.Popen, out: Path, steps: int) -> None:
    while steps_done(out) < steps:
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL


def test_a_killed_run_ends_in_the_same_metrics_and_adapter(arguments: Callable[..., list[str]], tmp_path: Path):
    long = ["--epochs", "6", "--checkpoint_every", "2"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert start(arguments(whole, *long)).wait() == 0

    points = random.randint(1, STEPS // 2), random.randint(STEPS // 2 + 1, STEPS - 1)
    for point in points:
        kill_after(start(arguments(killed, *long)), killed, point)
    assert start(arguments(killed, *long)).wait() == 0

    assert steps_done(whole) == STEPS
    assert (killed / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes(), f"killed at {points}"
    folders = [run / "adapter" / "params" for run in (whole, killed)]
    one, other = (restore_tree(folder, tree_shapes(folder)) for folder in folders)
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name])

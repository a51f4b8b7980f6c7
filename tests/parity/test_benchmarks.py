"""The benchmarks' PyTorch side does the work it is timed for."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks import peer
from benchmarks.workload import Workload

ROOT = Path(__file__).resolve().parents[2]
WORK = Workload(preset="tiny", batch=2, seconds=1, text=32, answer=8, new_tokens=3)


def test_a_step_of_the_peer_counts_every_token_and_lowers_its_loss():
    _, step = peer.prepare("sdpa", "lora_step", WORK)
    answers = [step() for _ in range(8)]
    assert answers[0]["tokens"] == 2 * (2 * 25 + 32)
    assert answers[-1]["loss"] < answers[0]["loss"]


def test_the_peer_generates_every_token_it_is_asked_for():
    _, decode = peer.prepare("eager", "decode", WORK)
    assert decode()["tokens"] == 2 * 3


def test_lora_steps_are_compared_with_the_better_of_both_attentions(tmp_path):
    out = tmp_path / "out.json"
    options = "--preset tiny --batch 1 --seconds 1 --text 32 --answer 8 --rounds 1 --peer"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.lora_step", *shlex.split(options), "--json", str(out)],
        env=os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(out.read_text())["results"]
    sides = result["sides"]
    assert list(sides) == ["ours", "peer sdpa", "peer eager"]
    assert all(np.isfinite(side["loss"]) for side in sides.values())
    best = min(sides["peer sdpa"]["minimum"], sides["peer eager"]["minimum"])
    assert result["ratio"] == best / sides["ours"]["minimum"]

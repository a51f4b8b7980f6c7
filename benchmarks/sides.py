"""Two or three long-lived processes that take turns, so that all of them meet the same machine.

A timing taken alone is at the mercy of whatever else the machine does in that minute. Here each side (`ours`, `peer`)
sets itself up in a process of its own, and the parent then asks one after the other for a single iteration, round
after round, so that only the side whose turn it is computes. The minimum over the rounds is what the code can do.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tqdm import tqdm

from benchmarks.workload import Workload
from jaxeval.errors import InputError, RunError

MALLOC = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "1000000000000",
    "MALLOC_TOP_PAD_": "268435456",
    "MALLOC_ARENA_MAX": "1",
}
"""Tells glibc to keep freed memory. Without it PyTorch on a small CPU machine mostly waits for page faults."""

ROOT = Path(__file__).resolve().parent.parent

Run = Callable[[], dict[str, Any]]
Prepare = Callable[[str, Workload], tuple[dict[str, Any], Run]]


def serve(prepare: Prepare) -> None:
    """What a side does: get ready for a workload, say what it is, then run one iteration whenever asked.

    The protocol is a JSON object a line, in and out: `{"task": …, "work": {…}}` or `{"run": true}`. Whatever libraries
    print goes to stderr.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    run: Run | None = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if "run" in command:
                assert run is not None, "asked to run before anything was prepared"
                started, cpu = time.perf_counter(), time.process_time()
                answer = run()
                answer |= {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
            else:
                run = None  # free what the last one holds
                answer, run = prepare(command["task"], Workload(**command["work"]))
        except Exception as error:
            answer = {"error": " ".join(f"{type(error).__name__}: {error}".split())[:2000]}
        answers.write(json.dumps(answer) + "\n")


class Side:
    """The parent's end of one side: starts its process, and ends it when left."""

    def __init__(self, name: str, module: str, *options: str, shares_device: bool = False):
        """Start `python -m MODULE OPTIONS`.

        Args:
            name: how it is called in the results.
            module: one that calls `serve`.
            options: its command line.
            shares_device: another side uses the same accelerator, so jax must not take most of its memory at once.
        """
        self.name = name
        extra = MALLOC | ({"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if shares_device else {})
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | extra,
        )

    def prepare(self, task: str, work: Workload) -> dict[str, Any]:
        """Set up, compile and warm up; returns what the side says about itself."""
        return self._ask({"task": task, "work": dataclasses.asdict(work)})

    def run(self) -> dict[str, Any]:
        """One iteration: `seconds` and `cpu_seconds` (of all threads), and what the side adds."""
        return self._ask({"run": True})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise RunError(f"{self.name}: its process ended with status {self._process.wait()}")
        result = json.loads(answer)
        if "error" in result:
            raise RunError(f"{self.name}: {result['error']}")
        return result


def take_turns(sides: list[Side], task: str, work: Workload, rounds: int) -> dict[str, dict[str, Any]]:
    """Prepare every side, then let them take turns; the figures of each by its name, see `summary`.

    Raises:
        RunError: a side failed, or they compute on different kinds of device.
    """
    about = {side.name: side.prepare(task, work) for side in sides}
    kinds = {name: one["platform"] for name, one in about.items()}
    if len(set(kinds.values())) > 1:
        raise RunError(f"the sides compute on different kinds of device ({kinds}); use --no-peer")
    answers: dict[str, list[dict[str, Any]]] = {side.name: [] for side in sides}
    for _ in tqdm(range(rounds), task, unit="round", leave=False, disable=None):
        for side in sides:
            answers[side.name].append(side.run())
    return {name: summary(about[name], rows) for name, rows in answers.items()}


def summary(about: dict[str, Any], answers: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of one side.

    Args:
        about: what it said of itself.
        answers: of every round.

    Returns:
        `minimum` and `median` seconds, all `seconds` and `cpu_seconds`; `tokens_per_second` at the minimum, and `mfu`
        where the work and the device's peak are known; `peak_bytes` of memory, `about`, and the last `loss`.

    Raises:
        RunError: a loss is not finite.
    """
    seconds = [answer["seconds"] for answer in answers]
    if not all(math.isfinite(answer.get("loss", 0)) for answer in answers):
        raise RunError("the loss is not finite")
    minimum, last = min(seconds), answers[-1]
    peak = about.get("peak_flops")
    return {
        "minimum": minimum,
        "median": statistics.median(seconds),
        "tokens_per_second": last["tokens"] / minimum,
        "mfu": about["flops"] / minimum / peak if peak and "flops" in about else None,
        "peak_bytes": last["peak_bytes"],
        "loss": last.get("loss"),
        "seconds": seconds,
        "cpu_seconds": [answer["cpu_seconds"] for answer in answers],
        "about": about,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of every comparison."""
    parser.add_argument("--rounds", type=int, default=5, help="iterations of each side; the fastest counts")
    peer = "also run transformers and PEFT; default if they are installed, and have a GPU for the 7B model"
    parser.add_argument("--peer", action=argparse.BooleanOptionalAction, help=peer)
    parser.add_argument("--json", metavar="FILE", help="also write everything that was measured to this file")


def compare(task: str, works: list[Workload], rounds: int, *, peer: bool | None) -> list[dict[str, Any]]:
    """Run a task at each workload on our side and, if there is one, on the peer's.

    Args:
        task: `lora_step` or `decode`.
        works: workloads that share a model.
        rounds: iterations of each side.
        peer: whether to run the peer; None does if it is installed, and for the 7B model if it has a GPU.

    Returns:
        For each workload its settings, the figures of every side, `ratio`, the best of the peer's minima over ours, and
        `load`, how many programs were running before it began.

    Raises:
        InputError: the peer is asked for and not installed.
        RunError: a side failed.
    """
    installed = all(importlib.util.find_spec(package) for package in ("torch", "peft"))
    if peer and not installed:
        raise InputError("--peer needs PyTorch and PEFT: pip install '.[parity]'")
    if peer is None:
        peer = installed and (works[0].preset != "7b" or _torch_has_gpu())
    # Three copies of the 7B model would not fit, and eager attention is no match for sdpa on a GPU.
    implementations = ("sdpa",) if works[0].preset == "7b" else ("sdpa", "eager")
    results = []
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(Side("ours", "benchmarks.ours", shares_device=peer))]
        if peer:
            sides += [stack.enter_context(Side(f"peer {name}", "benchmarks.peer", name)) for name in implementations]
        for work in works:
            load = os.getloadavg()[0]
            found = take_turns(sides, task, work, rounds)
            others = [one["minimum"] for name, one in found.items() if name != "ours"]
            ratio = min(others) / found["ours"]["minimum"] if others else None
            results.append({"work": dataclasses.asdict(work), "sides": found, "ratio": ratio, "load": load})
    return results


def show(results: list[dict[str, Any]]) -> None:
    """Print every side's figures, and the ratio."""
    for result in results:
        work = Workload(**result["work"])
        print(f"{work.preset}, batch {work.batch}, {work.length} tokens a row ({work.text} of text), {work.dtype}")
        for name, side in result["sides"].items():
            about = side["about"]
            mfu = "" if side["mfu"] is None else f", MFU {side['mfu']:.1%}"
            memory = "" if side["peak_bytes"] is None else f", peak {side['peak_bytes'] / 2**30:.1f} GiB"
            print(
                f"  {name:<10} minimum {side['minimum']:8.3f} s  {side['tokens_per_second']:9.1f} tokens/s{mfu}{memory}"
                f"  (median {side['median']:.3f} s of {len(side['seconds'])})"
            )
            print(f"  {'':<10} {about['device']}, {about['threads']} threads, {about['versions']}")
        if result["ratio"] is not None:
            print(f"  ratio      {result['ratio']:.2f}  best minimum of the peer over ours: above 1 ours is faster")
        if result["load"] > 0.5:
            print(f"  the machine was busy (load {result['load']:.1f}): measure again when it is quiet")


def _torch_has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()

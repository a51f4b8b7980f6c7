"""Scoring a whole matrix of cards against a loop over its cells: `python -m benchmarks.scorers`.

First a table of time and memory from 10³ cells to 10⁷. Then `score_matrix`, packing of the events included, takes turns
with a loop over the same cells, and with sed_eval, which counts hits alone and gets a part of them. The loop counts
hits with mir_eval's matching of notes, all of one pitch, finds the greatest total IoU with SciPy's assignment and does
the rest in NumPy; it must come to the same scores. The minimum of each side counts.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import mir_eval
import numpy as np
from scipy.optimize import linear_sum_assignment

from jaxeval.scorers import SCORES, SIGMA, Cells, flatten_events, score_matrix

TYPES, SEVERITIES = 4, 4
TOLERANCE = 0.2


class Columns(NamedTuple):
    """The acoustic fields of cards of any leading axes; of the events, a list of arrays `[events, 2]` in C order."""

    lufs: np.ndarray
    median_f0: np.ndarray
    frequency_profile: np.ndarray
    active_event: list[np.ndarray]

    def pack(self) -> Cells:
        """What `score_matrix` takes."""
        return Cells(*self[:3], flatten_events(self.active_event, self.lufs.shape))


def random_events(rng: np.random.Generator, most: int, disjoint: bool = True) -> np.ndarray:
    """Up to `most` events within 30 s, in times that float32 holds, so that all sides get the same numbers."""
    events = np.sort(rng.uniform(0, 30, 2 * rng.integers(0, most + 1))).reshape(-1, 2)
    if not disjoint:
        events[:, 1] += rng.uniform(0, 4, len(events))
    return events.astype(np.float32).astype(float)


def moved(rng: np.random.Generator, events: np.ndarray) -> np.ndarray:
    """The same events with borders moved by about the tolerance, still disjoint."""
    times = np.sort(events.ravel() + rng.normal(0, TOLERANCE, events.size))
    return times.reshape(-1, 2).astype(np.float32).astype(float)


def columns(rng: np.random.Generator, shape: tuple[int, ...], events: list[np.ndarray]) -> Columns:
    """Random cards with the events given."""
    f0 = np.where(rng.random(shape) < 0.1, np.nan, rng.uniform(80, 900, shape))
    levels = rng.integers(0, 4, (*shape, 10)).astype(np.int8)
    return Columns(rng.normal(-25, SIGMA["lufs"], shape).astype(np.float32), f0.astype(np.float32), levels, events)


def make_matrix(clips: int, most: int) -> tuple[Columns, Columns]:
    """Predictions [type, severity, clip], nine of ten with events disjoint within the list, and references [clip]."""
    rng = np.random.default_rng(0)
    references = [random_events(rng, most) for _ in range(clips)]
    predictions = [
        moved(rng, events) if rng.random() < 0.9 else random_events(rng, most, disjoint=False)
        for _ in range(TYPES * SEVERITIES)
        for events in references
    ]
    return columns(rng, (TYPES, SEVERITIES, clips), predictions), columns(rng, (clips,), references)


def loop(pred: Columns, ref: Columns) -> np.ndarray:
    """Scores [type, severity, clip, field], a cell at a time."""
    scores = np.empty((*pred.lufs.shape, 4))
    events = iter(pred.active_event)
    for index in np.ndindex(*pred.lufs.shape):
        clip = index[-1]
        scores[index] = (
            score_scalar(pred.lufs[index], ref.lufs[clip], SIGMA["lufs"]),
            score_scalar(12 * np.log2(pred.median_f0[index]), 12 * np.log2(ref.median_f0[clip]), SIGMA["median_f0"]),
            score_events(next(events), ref.active_event[clip]),
            1 - np.abs(pred.frequency_profile[index] - ref.frequency_profile[clip]).mean() / 3,
        )
    return scores


def score_scalar(pred: Any, ref: Any, sigma: float) -> float:
    """Score of a number, NaN where it is undefined."""
    if math.isnan(pred) or math.isnan(ref):
        return float(math.isnan(pred) and math.isnan(ref))
    return max(0.0, 1 - abs(pred - ref) / (4 * sigma))


def score_events(pred: np.ndarray, ref: np.ndarray) -> float:
    """Mean of F1 and mIoU."""
    if not len(pred) or not len(ref):
        return float(len(pred) == len(ref))
    hits = mir_eval.transcription.match_notes(
        ref,
        np.ones(len(ref)),
        pred,
        np.ones(len(pred)),
        onset_tolerance=TOLERANCE,
        offset_ratio=0.0,
        offset_min_tolerance=TOLERANCE,
    )
    shared = np.minimum.outer(pred[:, 1], ref[:, 1]) - np.maximum.outer(pred[:, 0], ref[:, 0])
    hull = np.maximum.outer(pred[:, 1], ref[:, 1]) - np.minimum.outer(pred[:, 0], ref[:, 0])
    iou = np.maximum(shared, 0) / hull
    total = iou[linear_sum_assignment(iou, maximize=True)].sum()
    return (2 * len(hits) / (len(pred) + len(ref)) + total / max(len(pred), len(ref))) / 2


def sed_eval_scorer() -> Callable[[np.ndarray, np.ndarray], float] | None:
    """F1 of the events of a cell by sed_eval, at a tolerance that does not grow with them; None without sed_eval."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pkg_resources, which its dependency imports
            import sed_eval
    except ImportError:
        return None

    def as_dicts(events: np.ndarray) -> list[dict[str, Any]]:
        return [{"event_label": "event", "event_onset": on, "event_offset": off, "file": "clip"} for on, off in events]

    def score(pred: np.ndarray, ref: np.ndarray) -> float:
        metrics = sed_eval.sound_event.EventBasedMetrics(
            event_label_list=["event"], t_collar=TOLERANCE, percentage_of_length=0.0, event_matching_type="optimal"
        )
        metrics.evaluate(reference_event_list=as_dicts(ref), estimated_event_list=as_dicts(pred))
        return metrics.results_overall_metrics()["f_measure"]["f_measure"]

    return score


def seconds(work: Callable[[], Any]) -> float:
    """How long a call took."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(clips: int, most: int, rounds: int) -> dict[str, Any]:
    """Time the sides on one matrix, after a turn of each that compiles and compares the scores."""
    pred, ref = make_matrix(clips, most)
    sides: dict[str, Callable[[], Any]] = {
        "ours": lambda: score_matrix(pred.pack(), ref.pack()),
        "loop": lambda: loop(pred, ref),
    }
    cells = dict.fromkeys(sides, pred.lufs.size)
    if (sed_eval := sed_eval_scorer()) is not None:
        part = list(zip(pred.active_event, ref.active_event, strict=False))[:100]
        sides["sed_eval"] = lambda: [sed_eval(*cell) for cell in part]
        cells["sed_eval"] = len(part)

    ours, theirs = sides["ours"](), sides["loop"]()
    fields = ("lufs", "median_f0", "active_event", "frequency_profile")
    error = max(float(np.abs(ours[name] - theirs[..., field]).max()) for field, name in enumerate(fields))
    if not error < 2e-6:
        raise SystemExit(f"the two sides differ by {error}")

    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, work in sides.items():
            times[side] += [seconds(work) for _ in range(10 if side == "ours" else 1)]
    cost = {side: min(taken) / cells[side] for side, taken in times.items()}
    return {
        "events": most,
        "cells": cells["ours"],
        "greatest_difference": error,
        "seconds_a_cell": cost,
        "ratios": {side: cost[side] / cost["ours"] for side in cost if side != "ours"},
        "times": times,
    }


def scaling(largest: int) -> list[dict[str, float]]:
    """Time and peak memory of 10³ packed cells, and of ten times more each: a square of predictions with references."""
    pred, ref = (side.pack() for side in make_matrix(1000, 8))
    rows = []
    for power in range(3, round(math.log10(largest)) + 1):
        split = 10 ** ((power + 1) // 2), 10 ** (power // 2)
        matrix = pred.reshape(-1).at(slice(split[0])).reshape(-1, 1), ref.at(np.arange(split[1]) % 1000)
        score_matrix(*matrix)  # compiles
        best = min(seconds(partial(score_matrix, *matrix)) for _ in range(3))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        result = len(SCORES) * 4 * 10**power / 1e9
        rows.append({"cells": 10**power, "seconds": best, "peak_gigabytes": peak, "result_gigabytes": result})
    return rows


def main() -> None:
    """Run the benchmark; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=500, help="clips of the matrix, each in 16 cells")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--largest", type=int, default=10**7, help="cells of the largest matrix of the table, a power of 10"
    )
    args = parser.parse_args()
    table = scaling(args.largest)
    print(f"{'cells':>9} {'seconds':>9} {'µs a cell':>10} {'peak GB':>8} {'of it result':>13}")
    for row in table:
        cost = row["seconds"] / row["cells"] * 1e6
        print(
            f"{row['cells']:>9.0e} {row['seconds']:>9.4f} {cost:>10.3f} {row['peak_gigabytes']:>8.2f}"
            f" {row['result_gigabytes']:>13.2f}"
        )
    results = [compare(args.clips, most, args.rounds) for most in (8, 32)]
    for result in results:
        costs = ", ".join(f"{side} {cost * 1e6:.2f}" for side, cost in result["seconds_a_cell"].items())
        ratios = ", ".join(f"{ratio:.1f}x the speed of {side}" for side, ratio in result["ratios"].items())
        print(f"up to {result['events']} events, {result['cells']} cells: µs a cell: {costs}: {ratios}")
    print(json.dumps({"scaling": table, "comparison": results}))


if __name__ == "__main__":
    main()

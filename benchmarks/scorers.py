"""Scoring a whole matrix of cards against a loop over its cells: `python -m benchmarks.scorers`.

The loop does with NumPy, mir_eval's matching and SciPy's assignment what `score_matrix` does, packing included, and must come to
the same scores. sed_eval, which counts hits alone, scores a part of the cells. The sides take turns; minima count. Then one
table of time and memory from 10³ cells to 10⁷.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any

import mir_eval
import numpy as np
from scipy.optimize import linear_sum_assignment

from jaxeval.scorers import SCORES, SIGMA, Cells, pack_cells, score_matrix

TYPES, SEVERITIES = 4, 4
TOLERANCE = 0.2
Card = dict[str, Any]


def make_card(rng: np.random.Generator, most: int, disjoint: bool) -> Card:
    """The acoustic fields of a random card of 30 s with up to `most` events, as a card file holds them."""
    times = np.sort(rng.uniform(0, 30, 2 * rng.integers(0, most + 1)))
    onset, offset = times[::2], times[1::2]
    if not disjoint:
        offset = offset + rng.uniform(0, 4, offset.size)
    return {
        "lufs": rng.normal(-25, SIGMA["lufs"]),
        "median_f0": None if rng.random() < 0.1 else rng.uniform(80, 900),
        "active_event": list(zip(onset.tolist(), offset.tolist(), strict=True)),
        "frequency_profile": tuple(rng.integers(0, 4, 10).tolist()),
    }


def jitter(rng: np.random.Generator, card: Card, disjoint: bool) -> Card:
    """A prediction: the reference's events moved by about the tolerance, or, in a cell that is not disjoint, new ones."""
    other = make_card(rng, len(card["active_event"]), disjoint)
    if disjoint:
        flat = np.array(card["active_event"]).ravel()
        moved = np.sort(flat + rng.normal(0, TOLERANCE, flat.size))
        other["active_event"] = list(zip(moved[::2].tolist(), moved[1::2].tolist(), strict=True))
    return other


def make_matrix(clips: int, most: int) -> tuple[list[list[list[Card]]], list[Card]]:
    """Predictions [type][severity][clip], nine of ten with events disjoint within the list, and references [clip]."""
    rng = np.random.default_rng(0)
    references = [make_card(rng, most, disjoint=True) for _ in range(clips)]
    matrix = [
        [[jitter(rng, card, disjoint=rng.random() < 0.9) for card in references] for _ in range(SEVERITIES)]
        for _ in range(TYPES)
    ]
    return matrix, references


def loop(predictions: list[list[list[Card]]], references: list[Card]) -> np.ndarray:
    """Scores [type, severity, clip, field], a cell at a time."""
    return np.array(
        [[[score_cell(*cell) for cell in zip(row, references, strict=True)] for row in rows] for rows in predictions]
    )


def score_cell(pred: Card, ref: Card) -> tuple[float, float, float, float]:
    """Scores of the four acoustic fields in float64."""
    levels = np.abs(np.array(pred["frequency_profile"]) - np.array(ref["frequency_profile"]))
    return (
        score_scalar(pred["lufs"], ref["lufs"], SIGMA["lufs"]),
        score_scalar(semitones(pred["median_f0"]), semitones(ref["median_f0"]), SIGMA["median_f0"]),
        score_events(np.array(pred["active_event"]), np.array(ref["active_event"])),
        1 - levels.mean() / 3,
    )


def semitones(hz: float | None) -> float | None:
    return None if hz is None else 12 * np.log2(hz)


def score_scalar(pred: float | None, ref: float | None, sigma: float) -> float:
    if pred is None or ref is None:
        return float(pred is ref)
    return max(0.0, 1 - abs(pred - ref) / (4 * sigma))


def score_events(pred: np.ndarray, ref: np.ndarray) -> float:
    """Mean of F1 (mir_eval) and mIoU (SciPy)."""
    if not len(pred) or not len(ref):
        return float(len(pred) == len(ref))
    hits = len(mir_eval.util.match_events(ref, pred, TOLERANCE, distance=distance))
    shared = np.minimum.outer(pred[:, 1], ref[:, 1]) - np.maximum.outer(pred[:, 0], ref[:, 0])
    hull = np.maximum.outer(pred[:, 1], ref[:, 1]) - np.minimum.outer(pred[:, 0], ref[:, 0])
    iou = np.maximum(shared, 0) / hull
    total = iou[linear_sum_assignment(iou, maximize=True)].sum()
    return (2 * hits / (len(pred) + len(ref)) + total / max(len(pred), len(ref))) / 2


def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Larger of the differences of onset and offset, rounded as mir_eval does for notes."""
    onset, offset = (np.abs(np.subtract.outer(a[:, end], b[:, end])) for end in (0, 1))
    return np.around(np.maximum(onset, offset), 4)


def sed_eval_scorer() -> Callable[[Card, Card], float] | None:
    """F1 of the events of a cell by sed_eval at a tolerance that does not grow with them; None if it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pkg_resources, which its dependency imports
            import sed_eval
    except ImportError:
        return None

    def score(pred: Card, ref: Card) -> float:
        metrics = sed_eval.sound_event.EventBasedMetrics(
            event_label_list=["event"], t_collar=TOLERANCE, percentage_of_length=0.0, event_matching_type="optimal"
        )
        pred_list, ref_list = (
            [
                {"event_label": "event", "event_onset": onset, "event_offset": offset, "file": "clip"}
                for onset, offset in card["active_event"]
            ]
            for card in (pred, ref)
        )
        metrics.evaluate(reference_event_list=ref_list, estimated_event_list=pred_list)
        return metrics.results_overall_metrics()["f_measure"]["f_measure"]

    return score


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(clips: int, most: int, rounds: int) -> dict[str, Any]:
    """Time both sides on one matrix, after a turn of each that compiles and compares the scores."""
    predictions, references = make_matrix(clips, most)
    ours = score_matrix(predictions, references)
    theirs = loop(predictions, references)
    names = ("lufs", "median_f0", "active_event", "frequency_profile")
    error = max(float(np.abs(ours[name] - theirs[..., field]).max()) for field, name in enumerate(names))
    if not error < 1e-5:
        raise SystemExit(f"the two sides differ by {error}")
    sed_eval = sed_eval_scorer()
    part = list(zip(predictions[0][0], references, strict=True))[:100]

    times: dict[str, list[float]] = {"ours": [], "loop": [], "sed_eval": []}
    for _ in range(rounds):
        times["loop"].append(seconds(lambda: loop(predictions, references)))
        times["ours"] += [seconds(lambda: score_matrix(predictions, references)) for _ in range(5)]
        if sed_eval is not None:
            times["sed_eval"].append(seconds(lambda: [sed_eval(*cell) for cell in part]))
    cells = theirs[..., 0].size
    minima = {
        "ours": min(times["ours"]) / cells,
        "loop": min(times["loop"]) / cells,
        "sed_eval": min(times["sed_eval"]) / len(part) if sed_eval is not None else None,
    }
    return {
        "events": most,
        "cells": cells,
        "greatest_difference": error,
        "seconds_a_cell": minima,
        "ratio": minima["loop"] / minima["ours"],
        "ratio_to_sed_eval": minima["sed_eval"] / minima["ours"] if minima["sed_eval"] is not None else None,
        "times": times,
    }


def scaling(largest: int) -> list[dict[str, float]]:
    """Time and peak memory of 10³ packed cells, and of ten times more each; from 10⁴ on the same cells again and again."""
    predictions, references = make_matrix(10**4, 8)
    pred, ref = pack_cells(predictions[0][0]), pack_cells(references)
    rows = []
    for power in range(3, round(np.log10(largest)) + 1):
        matrix = repeat(pred, 10**power), repeat(ref, 10**power)
        score_matrix(*matrix)  # compiles
        best = min(seconds(lambda matrix=matrix: score_matrix(*matrix)) for _ in range(3))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        result = len(SCORES) * 4 * 10**power / 1e9
        rows.append({"cells": 10**power, "seconds": best, "peak_gigabytes": peak, "result_gigabytes": result})
    return rows


def repeat(cells: Cells, count: int) -> Cells:
    """The first `count` of `cells`, or all of them again and again along a new axis that takes no memory."""
    size = len(cells.lufs)

    def view(x: np.ndarray) -> np.ndarray:
        return x[:count] if count <= size else np.broadcast_to(x, (count // size, *x.shape))

    lufs, f0, levels, events = cells
    lists = events._replace(start=view(events.start), size=view(events.size))
    return Cells(view(lufs), view(f0), view(levels), lists)


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
        sides = ", ".join(
            f"{side} {cost * 1e6:.2f} µs a cell" for side, cost in result["seconds_a_cell"].items() if cost is not None
        )
        print(
            f"up to {result['events']} events, {result['cells']} cells: {sides}: {result['ratio']:.1f}x the loop's speed",
            end="",
        )
        more = result["ratio_to_sed_eval"]
        print(f", {more:.0f}x that of sed_eval" if more is not None else "; sed_eval is not installed")
    print(json.dumps({"scaling": table, "comparison": results}))


if __name__ == "__main__":
    main()

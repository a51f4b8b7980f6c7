"""Bootstrap of correlations against a loop over SciPy's: `python -m benchmarks.bootstrap`.

Both sides draw the same resamples and must come to the same coefficients. They take turns; the minimum of each counts,
of ours for all resamples and of the loop for a part of them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from jaxeval.stats.bootstrap import RESAMPLES, bootstrap_intervals, item_draw, replicates
from jaxeval.stats.weighted import WeightedPair

SCIPY = {"lcc": stats.pearsonr, "srcc": stats.spearmanr, "ktau": stats.kendalltau}
SETS = (("lcc", "srcc"), ("ktau",), ("lcc", "srcc", "ktau"))
COMPARED = 20


def make_columns(items: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A metric, and what it is correlated with: another metric, and ratings from 1 to 5."""
    rng = np.random.default_rng(0)
    metric, noise = rng.normal(size=(2, items))
    return metric, {"metric": 0.5 * metric + noise, "ratings": np.clip(np.round(3 + metric + noise), 1, 5)}


def loop(x: np.ndarray, y: np.ndarray, names: Sequence[str], resamples: int) -> np.ndarray:
    """Coefficients [coefficient, resample], a resample at a time."""
    rng = np.random.default_rng(0)
    found = np.empty((len(names), resamples))
    for resample in range(resamples):
        drawn = rng.integers(len(x), size=len(x))
        found[:, resample] = [SCIPY[name](x[drawn], y[drawn]).statistic for name in names]
    return found


def compare(items: int, resamples: int, part: int, rounds: int) -> list[dict[str, Any]]:
    """Time both sides on each kind of column and set of coefficients."""
    x, columns = make_columns(items)
    results = []
    for kind, y in columns.items():
        for names in SETS:
            ours = replicates([WeightedPair(x, y)], names, item_draw(items), COMPARED, 0)[0]
            error = float(np.abs(ours - loop(x, y, names, COMPARED)).max())
            if not error < 1e-6:
                raise SystemExit(f"the two sides differ by {error}")
            times: dict[str, list[float]] = {"ours": [], "loop": []}
            for _ in range(rounds):
                times["ours"].append(seconds(partial(bootstrap_intervals, x, y, names, resamples=resamples)))
                times["loop"].append(seconds(partial(loop, x, y, names, part)))
            cost = {"ours": min(times["ours"]) / resamples, "loop": min(times["loop"]) / part}
            results.append(
                {
                    "column": kind,
                    "coefficients": names,
                    "items": items,
                    "greatest_difference": error,
                    "seconds_a_resample": cost,
                    "ratio": cost["loop"] / cost["ours"],
                    "times": times,
                }
            )
    return results


def seconds(work: Callable[[], Any]) -> float:
    """How long a call took."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Run the benchmark; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=6300)
    parser.add_argument("--resamples", type=int, default=RESAMPLES)
    parser.add_argument("--part", type=int, default=300, help="resamples that the loop gets")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    results = compare(args.items, args.resamples, args.part, args.rounds)
    for result in results:
        ours, theirs = (result["seconds_a_resample"][side] * args.resamples for side in ("ours", "loop"))
        names = " and ".join(result["coefficients"])
        print(
            f"{names} with {result['column']}, {args.items} items, {args.resamples} resamples: {ours:.2f} s against "
            f"{theirs:.1f} s: {result['ratio']:.1f}x the speed of the loop"
        )
    print(json.dumps(results))


if __name__ == "__main__":
    main()

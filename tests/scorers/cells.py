"""Random event lists of every awkward kind, and a float64 reference for their scores."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment


def random_events(rng: np.random.Generator, most: int = 12) -> np.ndarray:
    """Up to `most` events `[n, 2]`: overlapping, nested, repeated, unsorted, of no length, on a grid, or disjoint."""
    n = 0 if rng.random() < 0.1 else int(rng.integers(0, most + 1))
    onset = rng.uniform(0, rng.choice([1, 3, 10, 990]), n)
    length = rng.choice([0.1, 0.5, 3]) * rng.uniform(0, 1, n)
    kind = rng.integers(0, 6)
    if kind == 1:
        onset, length = onset.round(1), length.round(1)
    elif kind == 2:
        onset, length = (onset * 20).round() / 20, (length * 20).round() / 20
    elif kind == 3:
        length *= rng.random(n) < 0.5
    elif kind >= 4:
        times = np.sort(rng.uniform(0, 8, 2 * n))
        onset, length = times[::2], times[1::2] - times[::2]
    events = np.stack([onset, onset + length], axis=-1)
    if n > 2 and rng.random() < 0.3:
        events[n // 2] = events[0]
    if rng.random() < 0.5:
        rng.shuffle(events)
    return as_float32(events)


def moved(rng: np.random.Generator, events: np.ndarray) -> np.ndarray:
    """The same events with their borders moved by about the tolerance, often by it exactly."""
    steps = rng.choice([0.05, 0.1, 0.2]) * rng.choice([-1, 0, 1], events.shape)
    noise = rng.normal(0, 0.05, events.shape) if rng.random() < 0.5 else 0.0
    return as_float32(np.sort(np.abs(events + steps + noise), axis=-1))


def random_cells(count: int, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Predicted and reference lists; of three predictions two resemble their reference."""
    rng = np.random.default_rng(seed)
    ref = [random_events(rng) for _ in range(count)]
    return [moved(rng, events) if rng.random() < 0.67 else random_events(rng) for events in ref], ref


def as_float32(times: np.ndarray) -> np.ndarray:
    """Numbers that float32 holds, as float64."""
    return times.astype(np.float32).astype(float)


def pair_weights(pred: np.ndarray, ref: np.ndarray, tolerance: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Which pairs are within tolerance, and the IoU of all pairs, `[predicted, reference]` each, in float64."""
    near = (np.round(np.abs(pred[:, None] - ref), 4) <= tolerance).all(axis=-1)
    shared = np.minimum.outer(pred[:, 1], ref[:, 1]) - np.maximum.outer(pred[:, 0], ref[:, 0])
    hull = np.maximum.outer(pred[:, 1], ref[:, 1]) - np.minimum.outer(pred[:, 0], ref[:, 0])
    return near, np.where(hull > 0, np.maximum(shared, 0) / np.where(hull > 0, hull, 1), 1.0)


def reference_scores(pred: np.ndarray, ref: np.ndarray, matching: str = "iou") -> tuple[float, float]:
    """F1 and mIoU by SciPy's assignment in float64."""
    if not len(pred) or not len(ref):
        return (1.0, 1.0) if len(pred) == len(ref) else (0.0, 0.0)
    near, iou = pair_weights(pred, ref)
    hits = near[linear_sum_assignment(near, maximize=True)].sum()
    # Within tolerance a pair counts first, and only then its IoU.
    weights = iou if matching == "iou" else near * (1 + iou / 100)
    matched = linear_sum_assignment(weights, maximize=True)
    total = (iou if matching == "iou" else iou * near)[matched].sum()
    return 2 * hits / (len(pred) + len(ref)), total / max(len(pred), len(ref))

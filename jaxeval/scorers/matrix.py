"""The acoustic fields of a whole matrix of cards at once: the host's side of the scorers.

Stands between cards and reports: `score` calls it with a row of predictions, `audit` with [type, severity, clip].
The values are those of the scorers called alone. What is done here is about speed and memory only: cells are taken a
chunk at a time, grouped so that a batch has few padding slots and either no cell or every cell that needs the general
assignment of events, and split over the devices. Batches come in few shapes, so little is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxeval.scorers.events import Events, Matching, event_scores, shortest_plain
from jaxeval.scorers.packing import MISSING, Cells, EventLists, Nested, pack_cells, slots_for
from jaxeval.scorers.scalars import SIGMA, Undefined, hz_to_semitones, normalized_mae
from jaxeval.scorers.spectrum import exact_spectral_score, ordinal_spectral_score
from jaxeval.sharding import batch_sharding, make_mesh

SCORES = (
    "lufs",
    "median_f0",
    "active_event",
    "frequency_profile",
    "active_event_f1",
    "active_event_precision",
    "active_event_recall",
    "active_event_miou",
    "frequency_profile_exact",
)
"""What `score_matrix` returns: the score of each acoustic field, then parts of it and the baseline of exact match."""

_BATCH_SLOTS = 2**18
"""Slots of a batch of events at most: enough to keep a device busy, little enough to stay in its caches."""


def score_matrix(
    predictions: Cells | Nested,
    references: Cells | Nested,
    *,
    sigma: Mapping[str, float] = SIGMA,
    undefined: Undefined = "agree",
    tolerance: float = 0.2,
    matching: Matching = "iou",
    chunk: int = 2**16,
    devices: Sequence[jax.Device] | None = None,
) -> dict[str, np.ndarray]:
    """Score the acoustic fields of a matrix of predictions against references.

    Args:
        predictions: cards of any leading axes, such as [type, severity, clip]: packed by `pack_cells`, or the values of
            cards in nested lists.
        references: the same; their axes broadcast, so that [clip] serves a whole matrix.
        sigma: spread of `lufs` in dB and of `median_f0` in semitones.
        undefined: for `normalized_mae`.
        tolerance: for `event_scores`.
        matching: for `event_scores`.
        chunk: cells worked on at a time; memory beyond arguments and result grows with it, not with the matrix.
        devices: what to split batches over; default all of this process.

    Returns:
        By the names of `SCORES`, float32 arrays of the leading axes. A field missing in a prediction scores 0; one
        missing in the reference is NaN, to leave the mean. `active_event` is the mean of F1 and mIoU.

    Raises:
        ValueError: what `pack_cells`, `normalized_mae` and `event_scores` raise, or axes that do not broadcast.
    """
    pred, ref = (cells if isinstance(cells, Cells) else pack_cells(cells) for cells in (predictions, references))
    shape = np.broadcast_shapes(pred.shape, ref.shape)
    mesh = make_mesh(devices=jax.local_devices() if devices is None else devices)
    score_events = _event_kernel(mesh, tolerance, matching)
    spread = (sigma["lufs"], sigma["median_f0"])

    result = {name: np.empty(math.prod(shape), np.float32) for name in SCORES}
    for first in range(0, math.prod(shape), chunk):
        cells = np.arange(first, min(first + chunk, math.prod(shape)))
        one, other = (_take(side, cells, shape) for side in (pred, ref))
        # All work is under way before the first result is waited for.
        numbers = _score_numbers(*_place((one[:-1], other[:-1]), mesh), spread, undefined)
        events = [
            (cells[rows], score_events(*_place(batch, mesh)))
            for rows, batch in _event_batches(one.active_event, other.active_event, tolerance, matching)
        ]
        for rows, columns in [(cells, numbers), *events]:
            for name, column in columns.items():
                result[name][rows] = np.asarray(column)[: len(rows)]
    return {name: column.reshape(shape) for name, column in result.items()}


def _take(cells: Cells, rows: np.ndarray, shape: tuple[int, ...]) -> Cells:
    """Cells by their place in the whole matrix, along one axis; a broadcast axis is never written out."""
    index = np.unravel_index(rows, shape) if shape else (np.zeros(1, int),)

    def pick(x: np.ndarray) -> np.ndarray:
        return np.broadcast_to(x, (*(shape or (1,)), *x.shape[len(cells.shape) :]))[index]

    lufs, median_f0, frequency_profile, events = cells
    return Cells(
        pick(lufs),
        pick(median_f0),
        pick(frequency_profile),
        events._replace(start=pick(events.start), size=pick(events.size)),
    )


def _event_batches(
    pred: EventLists, ref: EventLists, tolerance: float, matching: Matching
) -> Iterator[tuple[np.ndarray, tuple[Events, Events]]]:
    """Padded batches of cells of about equal size and of one kind, each with the rows it came from."""
    slots = slots_for(np.maximum(pred.size, ref.size))
    for width in np.unique(slots):
        rows = np.flatnonzero(slots == width)
        for part in np.array_split(rows, -(-rows.size * int(width) // _BATCH_SLOTS)):
            cells = tuple(
                lists._replace(start=lists.start[part], size=lists.size[part]).pad(int(width)) for lists in (pred, ref)
            )
            plain = is_plain(*cells, tolerance=tolerance, matching=matching)
            for kind in (plain, ~plain):
                if kind.any():
                    yield part[kind], jax.tree.map(lambda x, kind=kind: x[kind], cells)


def _place(batch: Any, mesh: Mesh) -> Any:
    """Put arrays on the devices, split by rows, after adding empty rows up to a power of two a device."""
    rows = len(jax.tree.leaves(batch)[0])
    padded = mesh.size * 2 ** math.ceil(math.log2(max(rows / mesh.size, 1)))

    def put(x: np.ndarray) -> jax.Array:
        return jax.device_put(np.pad(x, [(0, padded - rows)] + [(0, 0)] * (x.ndim - 1)), batch_sharding(mesh))

    return jax.tree.map(put, batch)


@lru_cache
def _event_kernel(mesh: Mesh, tolerance: float, matching: Matching) -> Callable[[Events, Events], dict[str, jax.Array]]:
    """Compiled scoring of a batch of events, each device looping over its own rows for as long as they need."""

    def score(pred: Events, ref: Events) -> dict[str, jax.Array]:
        scores = event_scores(pred, ref, tolerance=tolerance, matching=matching)
        parts = {f"active_event_{name}": score for name, score in scores._asdict().items()}
        return {"active_event": (scores.f1 + scores.miou) / 2, **parts}

    spec = batch_sharding(mesh).spec
    return jax.jit(jax.shard_map(score, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))


@partial(jax.jit, static_argnames="undefined")
def _score_numbers(
    pred: tuple[jax.Array, ...], ref: tuple[jax.Array, ...], spread: tuple[float, float], undefined: Undefined
) -> dict[str, jax.Array]:
    """Scores of the scalar fields and the spectrum, given in the order of `Cells`, `[rows]` each."""
    (lufs, f0, levels), (ref_lufs, ref_f0, ref_levels) = pred, ref

    def missing(score: jax.Array, one: jax.Array, other: jax.Array) -> jax.Array:
        return jnp.where(other == MISSING, jnp.nan, jnp.where(one == MISSING, 0, score))

    loudness = normalized_mae(lufs, ref_lufs, spread[0], undefined=undefined)
    pitch = normalized_mae(hz_to_semitones(f0), hz_to_semitones(ref_f0), spread[1], undefined=undefined)
    return {
        "lufs": missing(loudness, lufs, ref_lufs),
        "median_f0": missing(pitch, f0, ref_f0),
        "frequency_profile": ordinal_spectral_score(levels, ref_levels),
        "frequency_profile_exact": exact_spectral_score(levels, ref_levels),
    }

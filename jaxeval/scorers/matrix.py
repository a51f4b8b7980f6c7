"""The acoustic fields of a whole matrix of cards at once: the host's side of the scorers.

Stands between cards and reports: `score` calls it with a row of predictions, `audit` with [type, severity, clip].
The values are those of the scorers called alone. What is done here is about speed and memory only: cells are taken a
chunk at a time, grouped so that a batch has few padding slots and either only plain event lists or only others
(`events.py` says which are plain), and split over the devices. Batches come in few shapes, so little is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from jaxeval.scorers.events import Matching, check_options, match_any, match_plain, scores_of_matches, shortest_plain
from jaxeval.scorers.packing import MISSING, Cells, Nested, pack_cells, slots_for
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
_LONG = 256
"""Slots above which a list weighs more, by its square: pairs of events may then be held in memory."""


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
    check_options(tolerance, matching)
    pred, ref = (cells if isinstance(cells, Cells) else pack_cells(cells) for cells in (predictions, references))
    mesh = make_mesh(devices=jax.local_devices() if devices is None else devices)
    kernels = {plain: _kernel(mesh, undefined, tolerance, matching, plain) for plain in (True, False)}
    spread = np.array([sigma["lufs"], sigma["median_f0"]], np.float32)

    shape = np.broadcast_shapes(pred.shape, ref.shape)
    result = np.empty((len(SCORES), math.prod(shape)), np.float32)
    for first in range(0, math.prod(shape), chunk):
        rows = slice(first, min(first + chunk, math.prod(shape)))
        one, other = (cells.reshape(-1).at(_places(rows, cells.shape, shape)) for cells in (pred, ref))
        batches = _batches(one, other, shortest_plain(tolerance, matching), mesh)
        # All work is under way before the first result is waited for.
        for part, scores in [(part, kernels[plain](*batch, spread)) for plain, part, batch in batches]:
            result[:, first + part] = np.asarray(scores)[:, : part.size]
    return dict(zip(SCORES, result.reshape(len(SCORES), *shape), strict=True))


def _places(rows: slice, shape: tuple[int, ...], whole: tuple[int, ...]) -> slice | np.ndarray:
    """Where rows of the whole matrix stand in an operand of `shape` that is broadcast to it; nothing is written out."""
    if shape == whole:
        return rows
    places = np.arange(math.prod(shape)).reshape(shape)
    return np.broadcast_to(places, whole)[np.unravel_index(np.arange(rows.start, rows.stop), whole)]


def _batches(
    pred: Cells, ref: Cells, shortest: float, mesh: Mesh
) -> Iterator[tuple[bool, np.ndarray, list[tuple[Any, ...]]]]:
    """Padded batches of cells of about equal size, plain or not: which, the rows it is made of, both sides."""
    slots = slots_for(np.maximum(pred.active_event.size, ref.active_event.size))
    plain = np.minimum(pred.active_event.shortest, ref.active_event.shortest) > shortest
    for is_plain in (True, False):
        kind = plain == is_plain
        for width in np.unique(slots[kind]).tolist():
            group = np.flatnonzero(kind & (slots == width))
            weight = group.size * width * max(1, width // _LONG)
            for part in np.array_split(group, min(group.size, -(-weight // _BATCH_SLOTS))):
                padded = np.pad(part, (0, _padded(part.size, mesh.size) - part.size), mode="edge")
                batch = [cells.at(padded) for cells in (pred, ref)]
                yield is_plain, part, [(*cells[:-1], cells.active_event.pad(width)) for cells in batch]


def _padded(rows: int, devices: int) -> int:
    """Rows of the batch that takes `rows`: the next eighth step between powers of two, times the number of devices."""
    a_device = -(-rows // devices)
    step = 2 ** max(0, a_device.bit_length() - 4)
    return -(-a_device // step) * step * devices


@lru_cache
def _kernel(
    mesh: Mesh, undefined: Undefined, tolerance: float, matching: Matching, plain: bool
) -> Callable[..., jax.Array]:
    """Compiled scoring of a batch to `[scores, rows]`; each device loops over its own rows for as long as they need."""
    match = match_plain if plain else match_any

    def missing(score: jax.Array, pred: jax.Array, ref: jax.Array) -> jax.Array:
        return jnp.where(ref == MISSING, jnp.nan, jnp.where(pred == MISSING, 0, score))

    def score(pred: tuple[Any, ...], ref: tuple[Any, ...], spread: jax.Array) -> jax.Array:
        (lufs, f0, levels, events), (ref_lufs, ref_f0, ref_levels, ref_events) = pred, ref
        loudness = normalized_mae(lufs, ref_lufs, spread[0], undefined=undefined)
        pitch = normalized_mae(hz_to_semitones(f0), hz_to_semitones(ref_f0), spread[1], undefined=undefined)
        hits, iou = match(events, ref_events, tolerance, matching)
        matched = scores_of_matches(events.count, ref_events.count, hits, iou)
        scores = {
            "lufs": missing(loudness, lufs, ref_lufs),
            "median_f0": missing(pitch, f0, ref_f0),
            "active_event": (matched.f1 + matched.miou) / 2,
            "frequency_profile": ordinal_spectral_score(levels, ref_levels),
            **{f"active_event_{name}": score for name, score in matched._asdict().items()},
            "frequency_profile_exact": exact_spectral_score(levels, ref_levels),
        }
        return jnp.stack([scores[name] for name in SCORES])

    split = batch_sharding(mesh).spec
    ins, outs = (split, split, PartitionSpec()), PartitionSpec(None, *split)
    return jax.jit(jax.shard_map(score, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False))

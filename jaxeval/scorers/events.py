"""Event lists against event lists: F1 under a tolerance, and mean intersection over union (mIoU).

Both rest on a one-to-one matching of predicted with reference events: F1 on one with as many pairs as possible whose
onsets and offsets lie within the tolerance, mIoU on one of greatest total IoU. Lists may be anything (overlapping,
nested, repeated, unsorted); the result is always exact.

Most lists come from activity detection, though, and are *plain*: events of positive length, in order, none beginning
before the one before it has ended. For two plain lists one pass over the predicted events is exact:

- *Hits.* Onsets and offsets both rise along a plain list. So the reference events that are too early for a predicted
  event i come first, those too late last, what is between is within tolerance, and both borders rise with i. Give i the
  first one between that is not taken yet. No later event could make more of it: were i matched to a later j' and this j
  to a later i', then i' and j' would be within tolerance too, and could be paired instead.
- *IoU.* The reference events that overlap i are consecutive, and only the last of them can overlap a later predicted
  event. So the pass carries two totals: the best so far, and the best that leaves that last event free.

Everything else goes through the general assignment. Plain cells take no turn of it, so a batch of plain cells costs
only the pass; `score_matrix` sorts its cells for that reason and for no other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from jaxeval.scorers.assignment import Weights, assign

Matching = Literal["iou", "tolerance"]

_HALF_STEP = 0.5e-4
"""Differences of times are decided at 0.1 ms, so a pair is inside up to half a step above the tolerance."""


class Events(NamedTuple):
    """Event lists of equal shape, padded; any leading axes. Made by `pack_events`, or by hand.

    Attributes:
        onset: `[..., slots]` float32, seconds, under 1000; what stands beyond `count` is never looked at.
        offset: the same, not before the onset.
        count: `[...]` int32, how many slots are events; -1 where the field is missing.
    """

    onset: Any
    offset: Any
    count: Any


class EventScores(NamedTuple):
    """Scores of event lists, `[...]` float32 each; NaN where the reference is missing."""

    f1: Any
    precision: Any
    recall: Any
    miou: Any


@partial(jax.jit, static_argnames=("tolerance", "matching"))
def event_scores(pred: Events, ref: Events, *, tolerance: float = 0.2, matching: Matching = "iou") -> EventScores:
    """Score event lists; leading axes broadcast. Pure: works under `jit`, `vmap` and on sharded arrays.

    With TP the size of a largest matching of pairs whose onsets and offsets both differ by at most `tolerance`:
    precision `TP / n_pred`, recall `TP / n_ref`, F1 `2 TP / (n_pred + n_ref)`. mIoU is the total IoU of the matched
    pairs over `max(n_pred, n_ref)`. Two empty lists score 1, one empty list scores 0, and so does a missing
    prediction. The IoU of an event without length is 1 with its like, else 0.

    Whether a difference is within tolerance is decided at 0.1 ms and exactly for the float32 times given: inside means
    up to `tolerance + 0.05 ms`. Times written to 0.1 ms keep this decision when rounded to float32 up to 512 s; above,
    float32 itself steps by 0.06 ms.

    Args:
        pred: predicted events.
        ref: reference events.
        tolerance: seconds, at least 0. It does not grow with the events, unlike that of sed_eval.
        matching: the pairs that mIoU sums over: `"iou"`, of greatest total IoU, or `"tolerance"`, those of F1 (of the
            largest matchings one of greatest total IoU).

    Raises:
        ValueError: unknown matching, or a tolerance below 0.
    """
    check_options(tolerance, matching)
    pred, ref = (Events(*map(jnp.asarray, events)) for events in (pred, ref))
    leading = jnp.broadcast_shapes(pred.count.shape, ref.count.shape)
    slots = max(pred.onset.shape[-1], ref.onset.shape[-1], 1)
    pred, ref = (_cells(events, leading, slots) for events in (pred, ref))

    plain = _is_plain(pred, tolerance, matching) & _is_plain(ref, tolerance, matching)
    passed = match_plain(pred._replace(count=jnp.where(plain, pred.count, 0)), ref, tolerance, matching)
    assigned = jax.lax.cond(
        plain.all(),
        lambda *_: jax.tree.map(jnp.zeros_like, passed),
        partial(match_any, tolerance=tolerance, matching=matching),
        pred._replace(count=jnp.where(plain, 0, pred.count)),
        ref,
    )
    scores = scores_of_matches(pred.count, ref.count, *jax.tree.map(jnp.add, passed, assigned))
    return jax.tree.map(lambda x: x.reshape(leading), scores)


def check_options(tolerance: float, matching: str) -> None:
    """Raise `ValueError` for options that `event_scores` does not know."""
    if matching not in get_args(Matching):
        raise ValueError(f"matching={matching!r}, expected one of {', '.join(get_args(Matching))}")
    if not tolerance >= 0:
        raise ValueError(f"tolerance={tolerance}, expected at least 0 seconds")


def shortest_plain(tolerance: float, matching: Matching) -> float:
    """Length in seconds that all events of plain lists must exceed for one pass to score them.

    Zero, but for `matching="tolerance"` the pairs found must also be the only ones possible. They are where events are
    longer than twice the tolerance: two partners of an event begin no further apart, and the first has to fit between.
    """
    return 2.002 * (tolerance + _HALF_STEP) if matching == "tolerance" else 0.0


def _cells(events: Events, leading: tuple[int, ...], slots: int) -> Events:
    """Broadcast to `leading`, flatten it to one axis and widen to `slots`."""
    pad = [(0, 0), (0, slots - events.onset.shape[-1])]

    def times(x: jax.Array) -> jax.Array:
        x = jnp.broadcast_to(x.astype(jnp.float32), (*leading, x.shape[-1]))
        return jnp.pad(x.reshape(-1, x.shape[-1]), pad)

    count = jnp.broadcast_to(events.count, leading).reshape(-1).astype(jnp.int32)
    return Events(times(events.onset), times(events.offset), count)


def scores_of_matches(n_pred: jax.Array, n_ref: jax.Array, hits: jax.Array, iou: jax.Array) -> EventScores:
    """Scores from the numbers of events, the number of pairs within tolerance and the total IoU of matched pairs."""

    def share(matched: jax.Array, of: jax.Array) -> jax.Array:
        score = jnp.where(of > 0, matched / jnp.maximum(of, 1), 0)
        score = jnp.where((n_pred == 0) & (n_ref == 0), 1, score)
        return jnp.where(n_ref < 0, jnp.nan, jnp.where(n_pred < 0, 0, score))

    return EventScores(
        f1=share(2 * hits, n_pred + n_ref),
        precision=share(hits, n_pred),
        recall=share(hits, n_ref),
        miou=share(iou, jnp.maximum(n_pred, n_ref)),
    )


def _is_plain(events: Events, tolerance: float, matching: Matching) -> jax.Array:
    slot, count = jnp.arange(events.onset.shape[-1]), events.count[:, None]
    ordered = (events.offset[:, :-1] <= events.onset[:, 1:]) | (slot[1:] >= count)
    long = (events.offset - events.onset > shortest_plain(tolerance, matching)) | (slot >= count)
    return ordered.all(axis=-1) & long.all(axis=-1)


def match_plain(pred: Events, ref: Events, tolerance: float, matching: Matching) -> tuple[jax.Array, jax.Array]:
    """Match plain lists, `[cells, slots]`.

    Returns:
        Size of a largest matching within tolerance, and total IoU of the matching asked for, `[cells]` float32 each.
    """

    def match(pred: Events, ref: Events) -> tuple[jax.Array, jax.Array]:
        partner = _pass_hits(pred, ref, tolerance)
        hit = partner >= 0
        iou = _pass_iou(pred, ref) if matching == "iou" else jnp.where(hit, _iou(pred, _at(ref, partner)), 0).sum()
        return hit.sum(dtype=jnp.float32), iou

    return jax.vmap(match)(pred, ref)


def match_any(pred: Events, ref: Events, tolerance: float, matching: Matching) -> tuple[jax.Array, jax.Array]:
    """What `match_plain` does, for any lists."""

    def near(cell: tuple[Events, Events], row: jax.Array) -> jax.Array:
        earliest, latest = (_border(_at(cell[0], row), tolerance, sign) for sign in (1, -1))
        ref = cell[1]
        onset_near = (earliest.onset <= ref.onset) & (ref.onset <= latest.onset)
        offset_near = (earliest.offset <= ref.offset) & (ref.offset <= latest.offset)
        return (_used(ref) & onset_near & offset_near).astype(jnp.float32)

    def overlap(cell: tuple[Events, Events], row: jax.Array) -> jax.Array:
        return jnp.where(_used(cell[1]), _iou(_at(cell[0], row), cell[1]), 0)

    def total(weights: Callable[..., Weights]) -> list[jax.Array]:
        owner = assign(weights, (pred, ref), pred.count, ref.onset.shape[-1])
        # Given the owner of every slot in place of one row, `weights` weighs each slot against its own owner.
        return [jnp.where(owner >= 0, weight, 0).sum(axis=-1) for weight in jax.vmap(weights)((pred, ref), owner)]

    if matching == "tolerance":
        hits, iou = total(lambda *pair: (near(*pair), near(*pair) * overlap(*pair)))
    else:
        (hits,), (iou,) = total(lambda *pair: (near(*pair),)), total(lambda *pair: (overlap(*pair),))
    return hits, iou


# What follows is about one cell: `onset` and `offset` have shape `[slots]`, `count` is a scalar.


def _used(events: Events) -> jax.Array:
    return jnp.arange(events.onset.shape[-1]) < events.count


def _rank(events: Events, times: jax.Array, of: jax.Array, side: str) -> jax.Array:
    """How many of `times`, which belong to `events` and rise, are below `of`; with `side="right"`, below or equal."""
    # Comparing with all is fastest until lists get long, and then takes too much memory.
    method = "compare_all" if times.size <= 256 else "scan"
    rank = jnp.searchsorted(jnp.where(_used(events), times, jnp.inf), of, side=side, method=method)
    return rank.astype(jnp.int32)


def _pass_hits(pred: Events, ref: Events, tolerance: float) -> jax.Array:
    """The reference event each predicted one is matched with, `[slots]`, -1 for none."""
    # A loop of two turns, or XLA would work out the borders anew for every pair.
    borders = jax.lax.map(partial(_border, pred, tolerance), jnp.array([1, -1], jnp.float32))
    earliest, latest = (jax.tree.map(itemgetter(turn), borders) for turn in (0, 1))
    first = jnp.maximum(_rank(ref, ref.onset, earliest.onset, "left"), _rank(ref, ref.offset, earliest.offset, "left"))
    end = jnp.minimum(_rank(ref, ref.onset, latest.onset, "right"), _rank(ref, ref.offset, latest.offset, "right"))

    def step(free: jax.Array, event: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        first, end, used = event
        choice = jnp.maximum(first, free)
        hit = used & (choice < end)
        return jnp.where(hit, choice + 1, free), jnp.where(hit, choice, -1)

    return jax.lax.scan(step, jnp.int32(0), (first, end, _used(pred)))[1]


def _pass_iou(pred: Events, ref: Events) -> jax.Array:
    """Greatest total IoU of a one-to-one matching of plain lists."""
    first = _rank(ref, ref.offset, pred.onset, "right")
    last = _rank(ref, ref.onset, pred.offset, "left") - 1
    # What lies within a predicted event overlaps no other; the longest of it has the greatest IoU.
    inside = _used(ref) & (pred.onset[:, None] <= ref.onset) & (ref.offset <= pred.offset[:, None])
    bits = jax.lax.bitcast_convert_type(ref.offset - ref.onset, jnp.int32)  # of such order, and reduced in SIMD
    longest = jax.lax.bitcast_convert_type(jnp.where(inside, bits, 0).max(axis=-1), jnp.float32)
    with_inner = longest / (pred.offset - pred.onset)
    with_last = jnp.where(first < last, _iou(pred, _at(ref, last)), 0)
    overlaps = _used(pred) & (first <= last)

    def step(state: tuple[Any, ...], event: tuple[Any, ...]) -> tuple[tuple[Any, ...], None]:
        best, best_free, shared = state
        first, last, with_first, with_inner, with_last, overlaps = event
        before = jnp.where(first == shared, best_free, best)
        other = jnp.maximum(before + with_first, best + with_inner)
        free = jnp.where(first == last, before, other)
        new = jnp.maximum(other, best + with_last), free, last
        return jax.tree.map(lambda x, y: jnp.where(overlaps, x, y), new, state), None

    start = (jnp.float32(0), jnp.float32(0), jnp.int32(-1))
    events = (first, last, _iou(pred, _at(ref, first)), with_inner, with_last, overlaps)
    return jax.lax.scan(step, start, events)[0][0]


def _at(events: Events, index: jax.Array) -> Events:
    return events._replace(onset=events.onset[index], offset=events.offset[index])


def _iou(a: Events, b: Events) -> jax.Array:
    """Intersection over union, elementwise; where events overlap their hull is their union."""
    shared = jnp.minimum(a.offset, b.offset) - jnp.maximum(a.onset, b.onset)
    hull = jnp.maximum(a.offset, b.offset) - jnp.minimum(a.onset, b.onset)
    same = (a.onset == b.onset) & (a.offset == b.offset)
    return jnp.where(same, 1, jnp.where(shared > 0, shared / hull, 0))


def _border(events: Events, tolerance: float, sign: Any) -> Events:
    """The earliest onsets and offsets within tolerance of those given, or for `sign` -1 the latest.

    They are float32 numbers such that comparing a time with them decides exactly: the least one not below the true
    border, and the greatest not above.
    """
    border = tolerance + _HALF_STEP
    high = np.float32(border)
    low = np.float32(border - float(high))

    def earliest(time: jax.Array) -> jax.Array:
        rounded, lost = _subtract(time, high)
        rounded, lost = _subtract(rounded, low - lost)
        return jnp.where(lost > 0, jnp.nextafter(rounded, jnp.float32(jnp.inf)), rounded)

    onset, offset = (sign * earliest(sign * time) for time in (events.onset, events.offset))
    return events._replace(onset=onset, offset=offset)


def _subtract(a: Any, b: Any) -> tuple[jax.Array, jax.Array]:
    """`a − b` rounded to float32, and what rounding took from it (Knuth's TwoSum)."""
    difference = a - b
    taken = a - difference
    return difference, (a - (difference + taken)) + (taken - b)

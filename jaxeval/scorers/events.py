"""Event lists against event lists: F1 under a tolerance, and mean intersection over union (mIoU).

Both rest on a one-to-one matching of predicted with reference events: F1 on one with as many pairs as possible whose
onsets and offsets lie within the tolerance, mIoU on one of greatest total IoU. Lists may be anything (overlapping,
nested, repeated, unsorted); the result is always exact.

Most lists come from activity detection, though, and are *plain*: events of positive length, in order, none beginning
before the one before it has ended. For two plain lists a merge walk of linear time is exact:

- *Hits.* Onsets and offsets both rise along a plain list. Let i and j be the first events of the two lists. If they are
  within tolerance of each other, some largest matching has the pair: were i matched to a later j' and j to a later
  i', then i' and j' would be within tolerance too, and could be paired instead. If they are not, and j begins or
  ends too early for i, it does so for all after i; else i does so for j and for all after j. Drop that one and go on.
- *IoU.* Let the walk drop whichever of i and j ends first, which overlaps nothing further: it meets every overlapping
  pair. A new pair conflicts with those met before only in i or in j, so the best total needs four numbers: the best so
  far with no condition, with i free, with j free, and with both free.

Everything else goes through the general assignment. Plain cells take no turn of it, so a batch of plain cells costs
only the walk; `score_matrix` sorts its cells for that reason and for no other.
"""

from __future__ import annotations

from collections.abc import Callable
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


class _Border(NamedTuple):
    """Greatest difference that is within tolerance, `high + low`; one float32 is too coarse to hold it."""

    high: np.float32
    low: np.float32


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
    if matching not in get_args(Matching):
        raise ValueError(f"matching={matching!r}, expected one of {', '.join(get_args(Matching))}")
    if not tolerance >= 0:
        raise ValueError(f"tolerance={tolerance}, expected at least 0 seconds")
    pred, ref = (Events(*map(jnp.asarray, events)) for events in (pred, ref))
    leading = jnp.broadcast_shapes(pred.count.shape, ref.count.shape)
    slots = max(pred.onset.shape[-1], ref.onset.shape[-1], 1)
    pred, ref = (_cells(events, leading, slots) for events in (pred, ref))

    def score(one: Events, other: Events) -> EventScores:
        return _score_cell(one, other, tolerance, matching)

    return jax.tree.map(lambda x: x.reshape(leading), jax.vmap(score)(pred, ref))


def is_plain(pred: Events, ref: Events, *, tolerance: float, matching: Matching) -> Any:
    """Whether cells are scored by a merge walk alone, `[...]` bool; NumPy arrays give a NumPy array.

    For `matching="tolerance"` the pairs of the walk must also be the only possible ones. They are where events are
    longer than twice the tolerance: two partners of an event begin no further apart, and the first has to fit between.
    """
    shortest = 2 * _border(tolerance).high * 1.001 if matching == "tolerance" else 0.0
    plain = True
    for onset, offset, count in (pred, ref):
        slot = np.arange(onset.shape[-1])
        ordered = (offset[..., :-1] <= onset[..., 1:]) | (slot[1:] >= count[..., None])
        long = (offset - onset > shortest) | (slot >= count[..., None])
        plain = plain & ordered.all(axis=-1) & long.all(axis=-1)
    return plain


def _cells(events: Events, leading: tuple[int, ...], slots: int) -> Events:
    """Broadcast to `leading`, flatten it to one axis and widen to `slots`."""
    pad = [(0, 0), (0, slots - events.onset.shape[-1])]

    def times(x: jax.Array) -> jax.Array:
        x = jnp.broadcast_to(x.astype(jnp.float32), (*leading, x.shape[-1]))
        return jnp.pad(x.reshape(-1, x.shape[-1]), pad)

    count = jnp.broadcast_to(events.count, leading).reshape(-1).astype(jnp.int32)
    return Events(times(events.onset), times(events.offset), count)


def _score_cell(pred: Events, ref: Events, tolerance: float, matching: Matching) -> EventScores:
    """Scores of one cell: `onset` and `offset` have shape `[slots]`, both the same; `count` is a scalar."""
    border = _border(tolerance)
    plain = is_plain(pred, ref, tolerance=tolerance, matching=matching)
    walked = pred._replace(count=jnp.where(plain, pred.count, 0))
    assigned = pred._replace(count=jnp.where(plain, 0, pred.count))
    hits, hits_iou = _walk_hits(walked, ref, border)
    more_hits, more_iou = _assign(assigned, ref, border, matching)
    hits += more_hits
    iou = more_iou + (_walk_iou(walked, ref) if matching == "iou" else hits_iou)

    def share(matched: jax.Array, of: jax.Array) -> jax.Array:
        score = jnp.where(of > 0, matched / jnp.maximum(of, 1), 0)
        score = jnp.where((pred.count == 0) & (ref.count == 0), 1, score)
        return jnp.where(ref.count < 0, jnp.nan, jnp.where(pred.count < 0, 0, score))

    return EventScores(
        f1=share(2 * hits, pred.count + ref.count),
        precision=share(hits, pred.count),
        recall=share(hits, ref.count),
        miou=share(iou, jnp.maximum(pred.count, ref.count)),
    )


def _walk_hits(pred: Events, ref: Events, border: _Border) -> tuple[jax.Array, jax.Array]:
    """Size of a largest matching within tolerance of two plain lists, and its total IoU."""

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        i, j, hits, iou = state
        a, b = _event(pred, i), _event(ref, j)
        hit = _within(a, b, border)
        j_too_early = _exceeds(a[0], b[0], border) | _exceeds(a[1], b[1], border)
        return i + (hit | ~j_too_early), j + (hit | j_too_early), hits + hit, iou + jnp.where(hit, _iou(a, b), 0)

    zero = jnp.int32(0)
    *_, hits, iou = jax.lax.while_loop(_both_left(pred, ref), step, (zero, zero, jnp.float32(0), jnp.float32(0)))
    return hits, iou


def _walk_iou(pred: Events, ref: Events) -> jax.Array:
    """Greatest total IoU of a one-to-one matching of two plain lists."""

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        i, j, best, i_free, j_free, both_free = state
        a, b = _event(pred, i), _event(ref, j)
        best = jnp.maximum(best, both_free + _iou(a, b))
        drop_i, drop_j = a[1] <= b[1], b[1] <= a[1]
        # The event that takes the place of a dropped one is free in every matching so far.
        both_free = jnp.where(drop_i, jnp.where(drop_j, best, j_free), i_free)
        i_free, j_free = jnp.where(drop_i, best, i_free), jnp.where(drop_j, best, j_free)
        return i + drop_i, j + drop_j, best, i_free, j_free, both_free

    zero = jnp.int32(0)
    return jax.lax.while_loop(_both_left(pred, ref), step, (zero, zero, *[jnp.float32(0)] * 4))[2]


def _both_left(pred: Events, ref: Events) -> Callable[[tuple[jax.Array, ...]], jax.Array]:
    return lambda state: (state[0] < pred.count) & (state[1] < ref.count)


def _assign(pred: Events, ref: Events, border: _Border, matching: Matching) -> tuple[jax.Array, jax.Array]:
    """Size of a largest matching within tolerance, and the total IoU of the matching asked for, of any two lists."""
    slot = jnp.arange(ref.onset.shape[-1])
    events = (ref.onset, ref.offset)

    def near(row: jax.Array) -> jax.Array:
        return jnp.where(slot < ref.count, _within(_event(pred, row), events, border), 0).astype(jnp.float32)

    def overlap(row: jax.Array) -> jax.Array:
        return jnp.where(slot < ref.count, _iou(_event(pred, row), events), 0)

    def total(weights: Callable[..., Weights]) -> list[jax.Array]:
        owner = assign(weights, pred.count, slot.size)
        # Given the owner of every slot in place of one row, `weights` weighs each slot against its own owner.
        return [jnp.where(owner >= 0, weight, 0).sum() for weight in weights(owner)]

    if matching == "tolerance":
        hits, iou = total(lambda row: (near(row), near(row) * overlap(row)))
    else:
        (hits,), (iou,) = total(lambda row: (near(row),)), total(lambda row: (overlap(row),))
    return hits, iou


def _event(events: Events, index: jax.Array) -> tuple[jax.Array, jax.Array]:
    return events.onset[index], events.offset[index]


def _iou(a: tuple[jax.Array, jax.Array], b: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Intersection over union of events given as (onset, offset); for overlapping ones their hull is their union."""
    shared = jnp.minimum(a[1], b[1]) - jnp.maximum(a[0], b[0])
    hull = jnp.maximum(a[1], b[1]) - jnp.minimum(a[0], b[0])
    same = (a[0] == b[0]) & (a[1] == b[1])
    return jnp.where(same, 1, jnp.where(shared > 0, shared / jnp.where(hull > 0, hull, 1), 0))


def _border(tolerance: float) -> _Border:
    high = np.float32(tolerance + _HALF_STEP)
    return _Border(high, np.float32(tolerance + _HALF_STEP - float(high)))


def _within(a: tuple[jax.Array, jax.Array], b: tuple[jax.Array, jax.Array], border: _Border) -> jax.Array:
    onset_off = _exceeds(a[0], b[0], border) | _exceeds(b[0], a[0], border)
    return ~(onset_off | _exceeds(a[1], b[1], border) | _exceeds(b[1], a[1], border))


def _exceeds(a: jax.Array, b: jax.Array, border: _Border) -> jax.Array:
    """Whether `a − b > high + low`, exactly: what rounding took from the difference decides where it equals `high`."""
    difference = a - b
    back = difference - a
    lost = (a - (difference - back)) - (b + back)
    return (difference > border.high) | ((difference == border.high) & (lost > border.low))

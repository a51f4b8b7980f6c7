"""From event lists and card values as people have them to the arrays that scorers take; host side, NumPy only.

Padding a whole set to its longest list would let one recording of a thousand events blow up a million others, so a
set is kept end to end (`EventLists`) and padded a batch at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from jaxeval.cards.schema import BANDS, MISSING_LEVEL
from jaxeval.scorers.events import Events

MISSING = math.inf
"""A scalar field that is not there, or could not be read, in `Cells`; NaN is a value, undefined."""

_MIN_SLOTS = 8
EventList = Sequence[Sequence[float]] | np.ndarray | None


class EventLists(NamedTuple):
    """Event lists of any leading axes, laid end to end.

    Attributes:
        onset: `[total]` float32, seconds, in order within a list.
        offset: `[total]` float32, seconds.
        start: `[...]` where a list begins; lists may share their events, so this may be a broadcast view.
        size: `[...]` int32, events of a list; -1 where the field is missing.
        shortest: `[...]` float32, length of the shortest event of a list; 0 where events overlap, infinite without any.
    """

    onset: np.ndarray
    offset: np.ndarray
    start: np.ndarray
    size: np.ndarray
    shortest: np.ndarray

    def pad(self, slots: int) -> Events:
        """Pad lists along one axis to `slots` events, which none may exceed; other lists' events serve as padding."""
        place = self.start[:, None] + np.arange(slots)
        onset, offset = (
            x.take(place, mode="clip") if x.size else np.zeros(place.shape, x.dtype) for x in (self.onset, self.offset)
        )
        return Events(onset, offset, self.size)


def slots_for(count: Any) -> Any:
    """The bucket of a number of events, elementwise: the next power of two, at least 8, so that few shapes compile."""
    return 2 ** np.ceil(np.log2(np.maximum(count, _MIN_SLOTS))).astype(int)


def flatten_events(lists: Sequence[EventList], shape: tuple[int, ...] = (-1,)) -> EventLists:
    """Lay event lists end to end, each sorted by onset, then offset.

    Args:
        lists: for each clip a list of `(onset, offset)` pairs in seconds, an array `[n, 2]`, or None where the field is
            missing.
        shape: leading axes to fold the lists into, default one.

    Raises:
        ValueError: a time that is not a finite number, or an offset before its onset; says which list.
    """
    present: Sequence[Any] = [() if events is None else events for events in lists]
    used = size = np.fromiter(map(len, present), np.int32, len(present))
    if type(None) in set(map(type, lists)):
        size = np.where([events is None for events in lists], np.int32(-1), used)
    start = np.cumsum(used) - used
    owner = np.repeat(np.arange(len(lists)), used)
    onset, offset = _times(present, owner)

    follows = owner[1:] == owner[:-1]
    falls = (onset[1:] < onset[:-1]) | ((onset[1:] == onset[:-1]) & (offset[1:] < offset[:-1]))
    if (falls & follows).any():
        order = np.lexsort((offset, onset, owner))
        onset, offset = onset[order], offset[order]

    length = offset - onset
    length[1:][follows & (onset[1:] < offset[:-1])] = 0
    shortest = np.full(len(lists), np.inf, np.float32)
    if length.size:
        shortest[used > 0] = np.minimum.reduceat(length, start[used > 0])
    return EventLists(onset, offset, start.reshape(shape), size.reshape(shape), shortest.reshape(shape))


def _times(lists: Sequence[Any], owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Onsets and offsets of all events in float32, checked; `owner` is the list of each event."""
    try:
        if set(map(type, lists)) <= {np.ndarray}:
            flat = np.concatenate([np.empty((0, 2)), *filter(len, lists)]).astype(np.float32)
        else:
            pairs = list(chain.from_iterable(lists))
            if not set(map(len, pairs)) <= {2}:
                raise ValueError
            flat = np.fromiter(chain.from_iterable(pairs), np.float32, 2 * len(pairs)).reshape(-1, 2)
    except (TypeError, ValueError):
        raise ValueError("events: expected pairs of numbers (onset, offset) in seconds") from None
    onset, offset = flat.T.copy()
    if not (np.isfinite(flat).all() and (onset <= offset).all()):
        first = int(np.argmax(~(np.isfinite(onset) & np.isfinite(offset) & (onset <= offset))))
        raise ValueError(
            f"events of list {owner[first]}: [{onset[first]:g}, {offset[first]:g}], expected finite times, onset first"
        )
    return onset, offset


def pack_events(lists: Sequence[EventList]) -> Events:
    """Pack event lists into arrays of shape `[lists, slots]` for `event_scores`, sorted, float32.

    The number of slots is a power of two, at least 8. See `flatten_events` for what is accepted and raised.
    """
    flat = flatten_events(lists)
    events = flat.pad(int(slots_for(flat.size.max(initial=0))))
    used = np.arange(events.onset.shape[-1]) < flat.size[:, None]
    return Events(np.where(used, events.onset, 0), np.where(used, events.offset, 0), flat.size)


class Cells(NamedTuple):
    """The acoustic fields of many cards, as arrays of equal leading axes, one element a card.

    Attributes:
        lufs: `[...]` float32, dB; NaN for silence, `MISSING` for a missing field.
        median_f0: `[...]` float32, Hz; NaN for unvoiced, `MISSING` for a missing field.
        frequency_profile: `[..., 10]` int8, levels 0 to 3; -1 for a missing band.
        active_event: `[...]` event lists.
    """

    lufs: np.ndarray
    median_f0: np.ndarray
    frequency_profile: np.ndarray
    active_event: EventLists

    @property
    def shape(self) -> tuple[int, ...]:
        """Leading axes, such as (type, severity, clip)."""
        return self.lufs.shape

    def reshape(self, *shape: int) -> Cells:
        """The same cells with other leading axes."""
        lufs, median_f0, levels, (onset, offset, *lists) = self
        events = EventLists(onset, offset, *(x.reshape(shape) for x in lists))
        return Cells(lufs.reshape(shape), median_f0.reshape(shape), levels.reshape(*shape, levels.shape[-1]), events)

    def at(self, index: np.ndarray | slice) -> Cells:
        """The cells at an index into the first axis."""
        lufs, median_f0, levels, (onset, offset, *lists) = self
        events = EventLists(onset, offset, *(x[index] for x in lists))
        return Cells(lufs[index], median_f0[index], levels[index], events)


Nested = Mapping[str, Any] | Sequence["Nested"]


def pack_cells(cards: Nested) -> Cells:
    """Pack the `values` of cards (`jaxeval.cards.AudioCard.values`), nested in lists as the matrix is.

    A field that a card lacks is missing. In what is there, None stands for an undefined number.

    Raises:
        ValueError: lists of unequal length, or values a field cannot have.
    """
    flat, shape = _unnest(cards)
    nothing = (MISSING_LEVEL,) * len(BANDS)

    def scalar(name: str) -> np.ndarray:
        return np.array([card.get(name, MISSING) for card in flat], np.float32).reshape(shape)

    events = flatten_events([card.get("active_event") for card in flat], shape)
    profiles = [card.get("frequency_profile", nothing) for card in flat]
    if not set(map(len, profiles)) <= {len(BANDS)}:
        raise ValueError(f"frequency_profile: expected {len(BANDS)} levels")
    levels = np.fromiter(chain.from_iterable(profiles), np.int8, len(flat) * len(BANDS))
    return Cells(
        lufs=scalar("lufs"),
        median_f0=scalar("median_f0"),
        frequency_profile=levels.reshape(*shape, len(BANDS)),
        active_event=events,
    )


def _unnest(cards: Nested) -> tuple[list[Mapping[str, Any]], tuple[int, ...]]:
    """Cards in one list, and the shape they came in."""
    shape: list[int] = []
    level: list[Any] = [cards]
    while level and not isinstance(level[0], Mapping):
        lengths = {len(part) for part in level}
        if len(lengths) != 1:
            raise ValueError(
                f"axis {len(shape)} of the matrix has lists of lengths {sorted(lengths)}, expected equal ones"
            )
        shape.append(lengths.pop())
        level = list(chain.from_iterable(level))
    return level, tuple(shape)

"""Perturbations of what is measured: scalars, events and the spectrum (design §6).

Each is arithmetic of a known size, so scores that fall with severity are no finding here: they show that a metric looks
at the field at all. Draws that choose events, borders and bands are shared by the severities of a type, which
take more of them or move them further.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from jaxeval.cards.schema import LEVELS, MISSING_LEVEL, Events
from jaxeval.perturb.cells import Edit, ErrorType, Severity, Skip
from jaxeval.perturb.draws import Key, fraction, shuffled

SIGMAS = {"lufs": 6.86, "median_f0": 14.97}
"""Spread of a field over recordings, in dB and in semitones (design §5)."""
TOLERANCE = 0.2
"""τ of the event score, in seconds."""
RANGES = {"lufs": (-70.0, 5.0), "median_f0": (10.0, 20_000.0)}
SCALAR_STEPS = {Severity.LOW: 0.25, Severity.MEDIUM: 1.5, Severity.HIGH: 3.0}
"""In σ."""
JITTER_STEPS = {Severity.LOW: 0.5, Severity.MEDIUM: 1.5, Severity.HIGH: 5.0}
"""In τ."""
SPECTRUM_STEPS = {Severity.LOW: (2, 1), Severity.MEDIUM: (5, 1), Severity.HIGH: (8, 2)}
"""Bands, and levels each of them moves."""
_BORDER_MOVES = ((-1, -1), (1, 1), (-1, 1), (1, -1))
_INSERTED_SECONDS = (0.1, 0.5)


def perturb_scalar(
    name: str, value: float | None, severity: Severity, key: Key, sigmas: Mapping[str, float] = SIGMAS
) -> Edit | Skip:
    """Shift a scalar by 0.25, 1.5 or 3 σ, up or down by the draw, the other way where that leaves the field's range.

    Args:
        name: `lufs` (in dB) or `median_f0` (in Hz, shifted in semitones).
        value: the reference, None where it is undefined.
        severity: how far.
        key: (seed, card id, field, type).
        sigmas: σ by field.
    """
    if value is None:
        return Skip("undefined in the reference")
    low, high = RANGES[name]
    step = SCALAR_STEPS[severity] * sigmas[name]
    sign = 1 if fraction(*key, severity) < 0.5 else -1
    for direction in (sign, -sign):
        shifted = value * 2 ** (direction * step / 12) if name == "median_f0" else value + direction * step
        if low <= shifted <= high:
            return Edit(shifted, () if direction == sign else ("sign flipped",))
    return Skip(f"out of [{low:g}, {high:g}] both ways")


def perturb_events(
    type: ErrorType,
    events: Events,
    duration: float | None,
    severity: Severity,
    key: Key,
    tolerance: float = TOLERANCE,
) -> Edit | Skip:
    """Move, drop, insert, merge or split events.

    Jitter moves both borders of every event by 0.5, 1.5 or 5 τ. The others touch a quarter, a half or three quarters
    of what there is, but at least 1, 2 or 3; where there is less, the cell is skipped, so that no two severities
    are the same.

    Args:
        type: one of `EVENT_TYPES`.
        events: onset and offset in seconds, in any order.
        duration: length of the clip in seconds; default the last offset. The result stays inside it, in order.
        severity: how far, or how many.
        key: (seed, card id, field, type).
        tolerance: τ in seconds.
    """
    ordered = tuple(sorted(events))
    end = max([duration or 0.0, *(offset for _, offset in ordered)])
    if type is ErrorType.JITTER:
        return _jitter(ordered, end, severity, key, tolerance)
    if type is ErrorType.INSERT:
        return _insert(ordered, end, _count(len(ordered), severity), key)
    change, available = {
        ErrorType.DROP: (_drop, list(range(len(ordered)))),
        ErrorType.MERGE: (_merge, list(range(1, len(ordered)))),
        ErrorType.SPLIT: (_split, [index for index, (onset, offset) in enumerate(ordered) if offset > onset]),
    }[type]
    count = _count(len(available), severity)
    if count > len(available):
        return Skip(f"too few events for this severity: {type} of {count} among {len(available)}")
    chosen = set(shuffled(available, *key)[:count])
    return Edit(change(ordered, chosen, key))


def perturb_spectrum(levels: Sequence[int], severity: Severity, key: Key) -> Edit | Skip:
    """Move 2, 5 or 8 bands by 1, 1 or 2 levels, each up or down by the draw, the other way at the ends.

    A card of ten bands then scores exactly 1 − 2/30, 1 − 5/30 and 1 − 16/30.

    Args:
        levels: indices of `LEVELS`, `MISSING_LEVEL` for a band that is left alone.
        severity: how many bands, and how far.
        key: (seed, card id, field, type).
    """
    count, step = SPECTRUM_STEPS[severity]
    present = [band for band, level in enumerate(levels) if level != MISSING_LEVEL]
    if len(present) < count:
        return Skip(f"{len(present)} bands, {count} needed")
    moved = list(levels)
    for band in shuffled(present, *key)[:count]:
        sign = 1 if fraction(*key, "direction", band) < 0.5 else -1
        moved[band] += sign * step
        if not 0 <= moved[band] < len(LEVELS):
            moved[band] -= 2 * sign * step
    return Edit(tuple(moved))


def _count(available: int, severity: Severity) -> int:
    quarters = list(Severity).index(severity) + 1
    return max(quarters, available * quarters // 4)


def _jitter(events: Events, end: float, severity: Severity, key: Key, tolerance: float) -> Edit | Skip:
    """Every border moves by the same amount; which way, is one draw an event for all severities.

    Of the four ways the first that stays inside the clip and in order at the highest severity is taken, or at
    the next where none does; what still does not fit is held at the border, and flagged.
    """
    if not events:
        return Skip("no events")
    amounts = {each: JITTER_STEPS[each] * tolerance for each in Severity}
    moved: list[tuple[float, float]] = []
    flags: tuple[str, ...] = ()
    for index, event in enumerate(events):
        ways = shuffled(_BORDER_MOVES, *key, index)
        fitting = (way for each in reversed(Severity) for way in ways if _fits(_shift(event, way, amounts[each]), end))
        onset, offset = _shift(event, next(fitting, ways[0]), amounts[severity])
        if not _fits((onset, offset), end):
            flags = ("held at a border",)
            onset, offset = min(max(onset, 0.0), end), min(max(offset, 0.0), end)
            onset, offset = (onset, offset) if onset <= offset else 2 * ((onset + offset) / 2,)
        moved.append((onset, offset))
    return Edit(tuple(sorted(moved)), flags)


def _shift(event: tuple[float, float], way: tuple[int, int], amount: float) -> tuple[float, float]:
    return event[0] + way[0] * amount, event[1] + way[1] * amount


def _fits(event: tuple[float, float], end: float) -> bool:
    return 0 <= event[0] <= event[1] <= end


def _insert(events: Events, end: float, count: int, key: Key) -> Edit | Skip:
    """Add events where there are none, or anywhere where there is no such place."""
    if end <= 0:
        return Skip("neither events nor a duration")
    covered = 0.0
    gaps = []
    for onset, offset in (*events, (end, end)):
        if onset > covered:
            gaps.append((covered, onset))
        covered = max(covered, offset)
    flags = () if gaps else ("inserted over other events",)
    gaps = gaps or [(0.0, end)]
    inserted = [_place(gaps, (*key, index)) for index in range(count)]
    return Edit(tuple(sorted((*events, *inserted))), flags)


def _place(gaps: list[tuple[float, float]], key: Key) -> tuple[float, float]:
    """An event in a gap, as likely at any free moment."""
    position = fraction(*key, "onset") * sum(stop - start for start, stop in gaps)
    shortest, longest = _INSERTED_SECONDS
    length = shortest + (longest - shortest) * fraction(*key, "length")
    for start, stop in gaps:
        if position < stop - start:
            return start + position, min(start + position + length, stop)
        position -= stop - start
    return gaps[-1]  # position at the very end, by rounding


def _drop(events: Events, chosen: set[int], key: Key) -> Events:
    return tuple(event for index, event in enumerate(events) if index not in chosen)


def _merge(events: Events, chosen: set[int], key: Key) -> Events:
    """Join each chosen event with the one before it."""
    merged: list[tuple[float, float]] = []
    for index, (onset, offset) in enumerate(events):
        if index in chosen:
            merged[-1] = (merged[-1][0], max(merged[-1][1], offset))
        else:
            merged.append((onset, offset))
    return tuple(merged)


def _split(events: Events, chosen: set[int], key: Key) -> Events:
    """Cut each chosen event in two, somewhere in its middle."""
    parts: list[tuple[float, float]] = []
    for index, (onset, offset) in enumerate(events):
        cut = [onset + (offset - onset) * (0.3 + 0.4 * fraction(*key, "cut", index))] if index in chosen else []
        parts += pairwise([onset, *cut, offset])
    return tuple(sorted(parts))

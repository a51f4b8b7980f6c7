"""What a field's raw value means: from JSON as people and models write it to the value that is scored.

One reader a kind. A reader takes what the schema wants, takes what can be understood with a note for each liberty,
raises `Absent` for what says that there is nothing and `Malformed` for the rest. Strict reading is the same
with no liberty allowed, so that both agree about what is right.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

from jaxeval.cards.loose_json import LooseObject, parse_at
from jaxeval.cards.schema import BANDS, LEVELS, MISSING_LEVEL, Events, Field, Kind, Value

MAX_NUMBER = 1e6
"""Beyond any loudness, frequency and time; keeps float32 arithmetic finite."""

Notes = list[str]

_NOTHING = frozenset({"", "-", "--", "n/a", "na", "nan", "none", "null", "nil", "not applicable", "undefined"})
_UNDEFINED = _NOTHING | {"silence", "silent", "unvoiced", "-inf", "-infinity"}
_NUMBER = re.compile(r"[-+−–]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*(khz|ms)?", re.IGNORECASE)
_UNITS = {"khz": 1e3, "ms": 1e-3}
_ONSET = ("onset", "start", "begin", "from", "start_time", "onset_time")
_OFFSET = ("offset", "end", "stop", "to", "end_time", "offset_time")
_BAND_HZ = {31.5 if name == "31.5" else float(name.replace("k", "000")): i for i, name in enumerate(BANDS)}


class Absent(Exception):
    """The value says that there is none."""


class Malformed(Exception):
    """The value cannot be understood; the message says why."""


def read_value(field: Field, raw: Any) -> tuple[Value, Notes]:
    """The value of a field and a note for every liberty taken, none where it is as the schema wants it.

    Raises:
        Absent: there is no value. Malformed: there is one nobody can understand.
    """
    notes: Notes = []
    reader = _SCALARS[field.name] if field.kind is Kind.SCALAR else _READERS[field.kind]
    return reader(raw, notes), notes


def shown(raw: Any) -> str:
    """A raw value for a message: short, whatever it is."""
    if isinstance(raw, str):
        return repr(raw if len(raw) <= 40 else raw[:39] + "…")
    if isinstance(raw, int) and not isinstance(raw, bool) and abs(raw) > MAX_NUMBER:
        return "a huge integer"
    return repr(raw) if raw is None or isinstance(raw, int | float) else type(raw).__name__


def number(raw: Any, notes: Notes) -> float:
    """A finite number: as such, or the only one in a text, in kHz and ms too."""
    if isinstance(raw, list) and len(raw) == 1:
        notes.append("a list of one number")
        raw = raw[0]
    if isinstance(raw, str):
        found = list(_NUMBER.finditer(re.sub(r"(?<=\d),(?=\d{3}\b)", "", raw)))
        if len(found) != 1:
            raise Malformed(f"{shown(raw)} is not one number")
        notes.append(f"a number given as {shown(raw)}")
        unit = found[0].group(1) or ""
        digits = found[0].group().removesuffix(unit).replace("−", "-").replace("–", "-")
        raw = float(digits) * _UNITS.get(unit.lower(), 1.0)
    if isinstance(raw, bool) or not isinstance(raw, Real):
        raise Malformed(f"{shown(raw)} is no number")
    try:
        value = float(raw)
    except OverflowError:  # an integer of hundreds of digits
        value = math.inf
    if not abs(value) <= MAX_NUMBER:  # NaN too
        raise Malformed(f"{shown(raw)} is out of range")
    return value


def clean_text(text: str) -> tuple[str, bool]:
    """Text that a file can hold, and whether half a surrogate pair had to go for it."""
    clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return clean, clean != text


def _lufs(raw: Any, notes: Notes) -> float | None:
    return None if _is_undefined(raw, notes, lowest=True) else number(raw, notes)


def _frequency(raw: Any, notes: Notes) -> float | None:
    if _is_undefined(raw, notes, lowest=False):
        return None
    value = number(raw, notes)
    if value < 0:
        raise Malformed(f"a frequency of {value:g} Hz")
    if value == 0:
        notes.append("0 Hz for unvoiced")
        return None
    return value


def _is_undefined(raw: Any, notes: Notes, *, lowest: bool) -> bool:
    """Whether a scalar is null, or what stands for it: a word, NaN, and where `lowest` is nothing, −∞."""
    if raw is None:
        return True
    word = isinstance(raw, str) and raw.strip().lower() in _UNDEFINED
    symbol = isinstance(raw, Real) and (raw != raw or (lowest and raw == -math.inf))
    if word or symbol:
        notes.append(f"null given as {shown(raw)}")
    return word or symbol


def _text(raw: Any, notes: Notes) -> str:
    if isinstance(raw, list | tuple):
        notes.append("a list where a text belongs")
        raw = " ".join(_item(each, notes) for each in raw)
    if isinstance(raw, Real) and not isinstance(raw, bool):
        notes.append("a number where a text belongs")
        raw = f"{number(raw, notes):g}"
    if raw is None:
        raise Absent
    if not isinstance(raw, str):
        raise Malformed(f"{shown(raw)} is no text")
    if raw.strip().lower() in _NOTHING:
        raise Absent
    text, changed = clean_text(raw)
    if changed:
        notes.append("half of a surrogate pair")
    return text


def _tags(raw: Any, notes: Notes) -> tuple[str, ...]:
    if isinstance(raw, str) and raw.strip().lower() in _NOTHING:
        raise Absent
    raw = _decoded(raw, notes)
    if raw is None:
        raise Absent
    if isinstance(raw, str):
        notes.append("a text where a list belongs")
        raw = [part.strip().lstrip("-*•").strip() for part in re.split(r"[,;\n]", raw)]
    if isinstance(raw, Mapping):
        notes.append("an object where a list belongs")
        raw = [[key, value] for key, value in raw.items()]
    if not isinstance(raw, list | tuple):
        raise Malformed(f"{shown(raw)} is no list")
    return tuple(text for each in raw if (text := _item(each, notes)))


def _item(raw: Any, notes: Notes) -> str:
    """One tag; "" for one that is nothing. A pair written as a list or an object becomes its words."""
    if isinstance(raw, Mapping):
        raw = list(raw.values())
    if isinstance(raw, list | tuple) and all(isinstance(each, str) for each in raw):
        notes.append("a list or an object inside the list")
        raw = " ".join(raw)
    if raw is None or (isinstance(raw, str) and raw.strip().lower() in _NOTHING):
        notes.append("an empty item")
        return ""
    if isinstance(raw, Real) and not isinstance(raw, bool):
        notes.append("a number inside the list")
        return f"{number(raw, notes):g}"
    if not isinstance(raw, str):
        raise Malformed(f"{shown(raw)} inside the list")
    text, changed = clean_text(raw.strip())
    if changed:
        notes.append("half of a surrogate pair")
    return text


def _events(raw: Any, notes: Notes) -> Events:
    raw = _decoded(raw, notes)
    if raw is None:
        raise Absent
    if isinstance(raw, str):
        notes.append("a text where a list belongs")
        raw = [] if raw.strip().lower() in _UNDEFINED else _times_in(raw)
    if isinstance(raw, Mapping):
        notes.append("an object where a list belongs")
        raw = [raw]
    if not isinstance(raw, list | tuple):
        raise Malformed(f"{shown(raw)} is no list")
    if raw and not any(isinstance(each, list | tuple | Mapping | str) for each in raw):
        notes.append("times without their pairs")
        raw = _paired(raw)
    return tuple(_event(each, notes) for each in raw)


def _event(raw: Any, notes: Notes) -> tuple[float, float]:
    if isinstance(raw, str):
        notes.append("an event given as text")
        raw = [time for pair in _times_in(raw) for time in pair]
    if isinstance(raw, Mapping):
        notes.append("an event given as an object")
        raw = [_named(raw, _ONSET), _named(raw, _OFFSET)]
    if not isinstance(raw, list | tuple) or len(raw) < 2:
        raise Malformed(f"{shown(raw)} is no pair of onset and offset")
    if len(raw) > 2:
        notes.append("more than an onset and an offset")
    onset, offset = number(raw[0], notes), number(raw[1], notes)
    if min(onset, offset) < 0:
        notes.append("a time before the start")
        onset, offset = max(onset, 0.0), max(offset, 0.0)
    if offset < onset:
        notes.append("an offset before its onset")
        onset, offset = offset, onset
    return onset, offset


def _named(raw: Mapping[Any, Any], names: tuple[str, ...]) -> Any:
    found = next((value for key, value in raw.items() if str(key).strip().lower().replace(" ", "_") in names), None)
    if found is None:
        raise Malformed(f"an event without {names[0]}")
    return found


def _times_in(text: str) -> list[tuple[float, float]]:
    """Pairs of times in a text such as "0.2-0.5 s"; a dash is no sign here, and clock times are not understood."""
    if ":" in text:
        raise Malformed(f"{shown(text)} is no list of seconds")
    times = [number(found.group(), []) for found in re.finditer(r"(?:\d+\.?\d*|\.\d+)\s*(?:ms)?", text)]
    return _paired(times)


def _paired(times: Any) -> list[tuple[Any, Any]]:
    if not times or len(times) % 2:
        raise Malformed(f"{len(times)} times make no pairs")
    return list(zip(times[::2], times[1::2], strict=True))


def _spectrum(raw: Any, notes: Notes) -> tuple[int, ...]:
    raw = _decoded(raw, notes)
    if raw is None:
        raise Absent
    if isinstance(raw, list | tuple) and raw:
        notes.append("a list where an object belongs")
        pairs = all(isinstance(each, list | tuple) and len(each) == 2 for each in raw)
        if not pairs and len(raw) != len(BANDS):
            raise Malformed(f"{len(raw)} levels for {len(BANDS)} bands")
        raw = {str(band): level for band, level in (raw if pairs else zip(BANDS, raw, strict=True))}
    if not isinstance(raw, Mapping):
        raise Malformed(f"{shown(raw)} is no object of bands")
    if isinstance(raw, LooseObject) and raw.repeated:
        notes.append("a band given more than once")
    levels = [MISSING_LEVEL] * len(BANDS)
    for key, level in raw.items():
        band = _band(key, notes)
        if band is not None and level is not None:
            levels[band] = _level(level, notes)
    if max(levels) == MISSING_LEVEL:
        raise Malformed("no band with a level")
    return tuple(levels)


def _band(key: Any, notes: Notes) -> int | None:
    """Index of a band, by its name or its centre frequency within 3 %."""
    if key in BANDS:
        return BANDS.index(key)
    text = re.sub(r"hz|\s|_", "", str(key).lower())
    match = re.fullmatch(r"(\d+\.?\d*)(k?)", text)
    if match:
        hz = float(match[1]) * (1000.0 if match[2] else 1.0)
        for centre, band in _BAND_HZ.items():
            if abs(hz - centre) <= 0.03 * centre:
                notes.append(f"a band given as {shown(key)}")
                return band
    notes.append(f"an unknown band {shown(key)}")
    return None


def _level(raw: Any, notes: Notes) -> int:
    """Index of a level, by its name in any spelling or by its number; `MISSING_LEVEL` for an unknown one."""
    if isinstance(raw, str) and raw in LEVELS:
        return LEVELS.index(raw)
    notes.append(f"a level given as {shown(raw)}")
    if isinstance(raw, str):
        text = re.sub(r"[\s_-]+", "-", raw.strip().lower()).replace("mediumlow", "medium-low")
        text = re.sub(r"^(?:med|mid|moderate|moderately)-", "medium-", text.replace("mediumhigh", "medium-high"))
        text = re.sub(r"^(low|high)-(?:med|mid|medium)$", r"medium-\1", text)
        if text in LEVELS:
            return LEVELS.index(text)
        raw = int(text) if text in {"0", "1", "2", "3"} else raw
    levels = () if isinstance(raw, bool) else range(len(LEVELS))
    found = next((level for level in levels if level == raw), None)
    if found is None:
        notes[-1] = f"an unknown level {shown(raw)}"
        return MISSING_LEVEL
    return found


def _decoded(raw: Any, notes: Notes) -> Any:
    """What a text that holds JSON stands for; anything else as it is."""
    if isinstance(raw, str) and raw.strip()[:1] in ("[", "{", "("):
        notes.append("a text that holds JSON")
        return parse_at(raw.strip(), 0)[0]
    return raw


_SCALARS: dict[str, Callable[[Any, Notes], Value]] = {"lufs": _lufs, "median_f0": _frequency}
_READERS: dict[Kind, Callable[[Any, Notes], Value]] = {
    Kind.TAGS: _tags,
    Kind.DESCRIPTION: _text,
    Kind.REASONING: _text,
    Kind.EVENTS: _events,
    Kind.SPECTRUM: _spectrum,
}

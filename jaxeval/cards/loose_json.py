"""JSON as language models write it: the object in an answer, whatever stands around it and whatever is wrong with it.

`find_object` is the first step of lenient reading; what the fields mean is `values.py`'s business. Proper JSON is
read by the standard library. The rest goes through a tolerant parser of bounded depth: single quotes, Python's
`None` and `True`, trailing or missing commas, comments, words without quotes, quotes inside text, an end that is
missing. It never raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

MAX_DEPTH = 16
"""Deeper containers are passed over; a card needs three levels."""
MAX_STARTS = 16
"""Braces at which an object is looked for, so that an answer of braces alone takes linear time."""

_GAP = re.compile(r"(?:\s+|//[^\n]*)*")
_BARE = re.compile(r"[^,:\[\]{}()\"\n]+")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_CLOSERS = {"{": "}", "[": "]", "(": ")"}
_AFTER_TEXT = ("", *",:]})")
_QUOTES = {'"': '"', "'": "'", "“": "”", "”": "”", "‘": "’"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WORDS: dict[str, Any] = {
    "null": None,
    "none": None,
    "true": True,
    "false": False,
    "nan": float("nan"),
    "infinity": float("inf"),
    "-infinity": float("-inf"),
    "inf": float("inf"),
    "-inf": float("-inf"),
}


class Unreadable:
    """Stands where a value was nested too deeply to be read."""


class LooseObject(dict[str, Any]):
    """An object and what its notation suffered from.

    Attributes:
        repeated: keys given more than once; the last value counts.
        cut: keys whose value ends with the text, not by itself.
        faulty: whether the notation was no JSON.
    """

    def __init__(self, pairs: Iterable[tuple[str, Any]] = ()):
        super().__init__()
        self.repeated: set[str] = set()
        self.cut: set[str] = set()
        self.faulty = False
        for key, value in pairs:
            self.put(key, value)

    def put(self, key: str, value: Any) -> None:
        """Set a key; a second value replaces the first and is recorded."""
        if key in self:
            self.repeated.add(key)
        self[key] = value


def find_object(text: str, rate: Callable[[LooseObject], int]) -> LooseObject | None:
    """The best object in a text: of all that start at a brace, the one rated highest, the later one in a tie.

    Args:
        text: an answer: an object, alone or among prose, code fences and other objects.
        rate: how well an object fits; objects rated 0 are no objects.
    """
    best, best_rating, start = None, 0, 0
    for _ in range(MAX_STARTS):
        start = text.find("{", start)
        if start < 0:
            break
        found, end = parse_at(text, start)
        candidates = [*_objects(found)]
        rating, candidate = max(
            ((rate(each), each) for each in candidates), key=lambda pair: pair[0], default=(0, None)
        )
        if rating and rating >= best_rating:
            best, best_rating = candidate, rating
        start = end if rating else start + 1
    return best


def parse_at(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at an index, and the index after it."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):  # ValueError: also a number of thousands of digits
        parser = _Parser(text, start)
        value = parser.value(0)
        for each in _objects(value):
            each.faulty = True
        return value, parser.position


_DECODER = json.JSONDecoder(object_pairs_hook=LooseObject)


def _objects(value: Any, depth: int = 0) -> list[LooseObject]:
    """A value's objects, outermost first, as far as a wrapper around a card may go."""
    if depth > 3 or not isinstance(value, dict | list):
        return []
    own = [value] if isinstance(value, LooseObject) else []
    inner = value.values() if isinstance(value, dict) else value
    return own + [each for item in inner for each in _objects(item, depth + 1)]


class _Parser:
    """Recursive descent that takes what comes; `cut` says that the text ended inside the last value."""

    def __init__(self, text: str, position: int):
        self.text = text
        self.position = position
        self.cut = False

    def value(self, depth: int) -> Any:
        """Any value; None where there is none."""
        character = self._next()
        if not character:
            self.cut = True
            return None
        if character in _CLOSERS:
            if depth >= MAX_DEPTH:
                return self._pass_over()
            return self._object(depth) if character == "{" else self._list(depth)
        if character in _QUOTES:
            return self._string()
        return self._bare()

    def _object(self, depth: int) -> LooseObject:
        self.position += 1
        found = LooseObject()
        while True:
            self._skip(",;")
            character = self._next()
            if character in ("", "}"):
                return self._close(found)
            if character in _CLOSERS or character in ")]:":
                self.position += 1  # no key begins here
                continue
            key = str(self._string() if character in _QUOTES else self._bare())
            if self.cut:
                return found
            if self._next() != ":":
                continue
            self.position += 1
            found.put(key, self.value(depth + 1))
            if self.cut:
                found.cut.add(key)
                return found

    def _list(self, depth: int) -> list[Any]:
        closer = _CLOSERS[self.text[self.position]]
        self.position += 1
        found: list[Any] = []
        while True:
            self._skip(",;")
            character = self._next()
            if character in ("", closer):
                return self._close(found)
            if character == "}":
                return found  # the bracket was forgotten, the object goes on
            if character in ":])":
                self.position += 1
                continue
            found.append(self.value(depth + 1))
            if self.cut:
                return found

    def _close(self, found: Any) -> Any:
        self.cut = self.position >= len(self.text)
        self.position += 1
        return found

    def _string(self) -> str:
        """Text in quotes. A quote ends it only where a value can end, so that quotes inside need no backslash."""
        text, closer = self.text, _QUOTES[self.text[self.position]]
        self.position += 1
        pieces: list[str] = []
        while self.position < len(text):
            character = text[self.position]
            if character == closer and self._ends_here():
                self.position += 1
                return "".join(pieces)
            pieces.append(self._escaped() if character == "\\" else character)
            self.position += 1
        self.cut = True
        return "".join(pieces)

    def _ends_here(self) -> bool:
        after = self.position + 1
        end = after
        while end < len(self.text) and self.text[end].isspace():
            end += 1
        return (
            "\n" in self.text[after:end] or self.text[end : end + 1] in _AFTER_TEXT or self.text[end : end + 2] == "//"
        )

    def _escaped(self) -> str:
        """What a backslash and the character after it stand for; leaves the position on the last one read."""
        self.position += 1
        character = self.text[self.position : self.position + 1]
        digits = self.text[self.position + 1 : self.position + 5]
        if character == "u" and re.fullmatch(r"[0-9a-fA-F]{4}", digits):
            self.position += 4
            return chr(int(digits, 16))
        return _ESCAPES.get(character, character)

    def _bare(self) -> Any:
        """A word without quotes: a number, a constant, or text."""
        match = _BARE.match(self.text, self.position)
        if match is None:  # a stray mark
            self.position += 1
            return None
        self.position = match.end()
        self.cut = self.position >= len(self.text)
        word = match.group().strip()
        if _NUMBER.fullmatch(word):
            return float(word)
        return _WORDS.get(word.lower(), word)

    def _pass_over(self) -> Unreadable:
        """Skip a container, minding the quotes of JSON."""
        depth = 0
        for match in re.compile(r'"(?:[^"\\]|\\.)*"|[\[\](){}]', re.DOTALL).finditer(self.text, self.position):
            mark = match.group()
            depth += (mark in _CLOSERS) - (mark in _CLOSERS.values())
            if depth <= 0 and len(mark) == 1:
                self.position = match.end()
                return Unreadable()
        self.position, self.cut = len(self.text), True
        return Unreadable()

    def _next(self) -> str:
        """The next character that is no space, "" at the end."""
        gap = _GAP.match(self.text, self.position)
        self.position = gap.end() if gap else self.position
        return self.text[self.position : self.position + 1]

    def _skip(self, marks: str) -> None:
        while (character := self._next()) and character in marks:
            self.position += 1

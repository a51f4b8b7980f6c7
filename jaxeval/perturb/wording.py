"""A text as words and what lies between them, and changes to it that keep its case and punctuation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from jaxeval.perturb.inflection import article

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|\d+")


@dataclass(frozen=True)
class Change:
    """Words `start` to `stop` become `text`; with `start == stop`, `text` comes in before word `start`."""

    start: int
    stop: int
    text: str

    def meets(self, other: Change) -> bool:
        """Whether both touch the same words."""
        return self.start < max(other.stop, other.start + 1) and other.start < max(self.stop, self.start + 1)


@dataclass(frozen=True)
class Wording:
    """Words of a text, and the gaps before each of them and after the last: one gap more than words."""

    words: tuple[str, ...]
    gaps: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Wording:
        """Take a text apart."""
        found = list(_WORD.finditer(text))
        borders = [0, *(border for match in found for border in match.span()), len(text)]
        gaps = [text[start:stop] for start, stop in zip(borders[::2], borders[1::2], strict=True)]
        return cls(tuple(match.group() for match in found), tuple(gaps))

    def with_changes(self, changes: Iterable[Change]) -> str:
        """The text after changes that do not meet.

        What replaces a word takes its capital, what comes before the first word takes it over, and "a" and "an" are set
        right before what is new.
        """
        by_start = {change.start: change for change in changes}
        pieces: list[tuple[str, str, bool]] = []  # gap, words, whether they are new
        index = 0
        while index < len(self.words):
            change = by_start.get(index)
            gap, word = self.gaps[index], self.words[index]
            if change is None:
                pieces.append((gap, word, False))
            elif change.stop > change.start:
                pieces.append((gap, _in_case_of(word, change.text), True))
                index = change.stop - 1
            else:
                first = index == 0
                pieces.append((gap, _in_case_of(word, change.text) if first else change.text, True))
                pieces.append((" ", uncapitalised(word) if first else word, False))
            index += 1
        closing = self.gaps[-1]
        if (last := by_start.get(len(self.words))) is not None:
            pieces.append((" ", last.text, True))
        return "".join(gap + word for gap, word in _with_articles(pieces)) + closing


def count_words(text: str) -> int:
    """Words as the length penalty counts them: runs without space that hold a letter or a digit (design §5)."""
    return sum(any(character.isalnum() for character in word) for word in text.split())


def uncapitalised(text: str) -> str:
    """The text with a small first letter, unless it begins with an acronym, a name in capitals or the word I."""
    first = text.split(" ", 1)[0]
    return text[:1].lower() + text[1:] if first[1:].islower() or first == "A" else text


def capitalised(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def split_closing(text: str) -> tuple[str, str]:
    """A text and the marks it ends with."""
    body = text.rstrip(".!?… \t\r\n")
    return body, text[len(body) :]


def _in_case_of(word: str, text: str) -> str:
    if len(word) > 2 and word.isupper():  # no "DJ"
        return text.upper()
    return capitalised(text) if word[:1].isupper() else text


def _with_articles(pieces: list[tuple[str, str, bool]]) -> list[tuple[str, str]]:
    fixed = []
    for index, (gap, word, _) in enumerate(pieces):
        following = pieces[index + 1] if index + 1 < len(pieces) else None
        if following is not None and following[2] and following[0] == " " and word.lower() in ("a", "an"):
            word = _in_case_of(word[:1].lower() + "x" if word[:1].islower() else "Xx", article(following[1]))
        fixed.append((gap, word))
    return fixed

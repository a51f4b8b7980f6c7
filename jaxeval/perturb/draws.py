"""Random choices that depend on names alone: the same key gives the same choice in any order, subset or version.

A key is `(seed, card id, field, type, severity, …)`. Where the severities of a type shall nest, so that what low
touches is among what medium touches, their choices leave the severity out of the key and take a longer or shorter
part of one order. Choices come from SHA-256, not from a generator, whose stream may change with its library.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
Key = tuple[str | int, ...]


def fraction(*key: str | int) -> float:
    """A number in [0, 1)."""
    digest = hashlib.sha256(json.dumps(key, ensure_ascii=True).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def pick(options: Sequence[T], *key: str | int) -> T:
    """One of the options."""
    return options[int(fraction(*key) * len(options))]


def shuffled(items: Iterable[T], *key: str | int) -> list[T]:
    """Items in an order of their own; an item's place among others does not change when more of them join.

    Items are told apart by their text, so they should differ in it.
    """
    return sorted(items, key=lambda item: (fraction(*key, str(item)), str(item)))

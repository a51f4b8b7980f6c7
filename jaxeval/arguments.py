"""What the command lines of the project share: a parser whose complaint is one line, and the kinds of its values."""

from __future__ import annotations

import argparse
from typing import NoReturn

from jaxeval.errors import InputError

LARGEST_COUNT = 2**31 - 1
LARGEST_SEED = 2**32 - 1
MAX_NEW_TOKENS = 2**15
"""Longest answer to ask a model for."""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose complaint is an `InputError`, and so one line and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Raise it."""
        raise InputError(f"{self.prog}: {message} (--help lists what there is)")


def positive(text: str) -> int:
    """A count of at least 1."""
    return _whole(text, 1, LARGEST_COUNT)


def natural(text: str) -> int:
    """A count, 0 included."""
    return _whole(text, 0, LARGEST_COUNT)


def new_tokens(text: str) -> int:
    """Length of an answer."""
    return _whole(text, 1, MAX_NEW_TOKENS)


def seed(text: str) -> int:
    """A seed of every random generator in use."""
    return _whole(text, 0, LARGEST_SEED)


def path(text: str) -> str:
    """A name that a file may have."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is no path")
    return text


def jsonl(text: str) -> str:
    """A name for JSON Lines."""
    if not path(text).endswith(".jsonl"):
        raise argparse.ArgumentTypeError(f"{text!r}: the rows are JSON Lines; name a file that ends in .jsonl")
    return text


def _whole(text: str, least: int, most: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:50]!r} is no whole number") from None
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"{text[:50]} is not within {least} and {most}")
    return value

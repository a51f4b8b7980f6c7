"""What a pair says in words: captions of both sides, their difference and what they share.

Texts are templates around the clips' own captions, so that they state all of the edit and nothing else. A
difference reads the same whether it is taken as an instruction or as a description of the change.
"""

from __future__ import annotations

from collections.abc import Sequence

OPERATIONS = ("add", "delete", "replace")

DIFFERENCES = {
    "add": (
        "Add this sound: {event}",
        "Add a new sound to the recording: {event}",
        "Mix in one more sound: {event}",
    ),
    "delete": (
        "Remove this sound: {event}",
        "Take this sound out of the recording: {event}",
        "Delete one sound: {event}",
    ),
    "replace": (
        "Replace this sound: {event} The new sound: {replacement}",
        "Take out this sound: {event} In its place, put this one: {replacement}",
        "Swap one sound for another. Before: {event} After: {replacement}",
    ),
}
WORDINGS = 3


def difference(operation: str, wording: int, event: str, replacement: str = "") -> str:
    """The difference of a pair in one of three wordings; `event` and `replacement` are captions."""
    template = DIFFERENCES[operation][wording]
    return template.format(event=_clause(event), replacement=_clause(replacement))


def scene_caption(captions: Sequence[str]) -> str:
    """The caption of a mix: its parts' captions, a sentence each."""
    return " ".join(sentence(caption) for caption in captions)


def sentence(caption: str) -> str:
    """The caption with a full stop, where it has no mark of its own."""
    return caption if caption.endswith((".", "!", "?", "…", "。")) else caption + "."


def _clause(caption: str) -> str:
    """The caption to follow a colon: its first letter small, unless it begins an acronym or is the word `I`."""
    first = caption.split(" ", 1)[0]
    starts_plainly = first[1:].islower() or first == "A"
    return sentence(caption[:1].lower() + caption[1:] if starts_plainly else caption)

"""The 15 fields of an audio card, their kinds and their five axes, as design §3 and §5 lay them down.

Everything that walks over fields (loading, measuring, perturbing, scoring, reports) walks over `FIELDS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

BANDS = ("31.5", "63", "125", "250", "500", "1k", "2k", "4k", "8k", "16k")
"""Octave bands by their nominal centre frequencies in Hz, the keys of `frequency_profile`."""
LEVELS = ("low", "medium-low", "medium-high", "high")
"""Levels of a band; their indices 0..3 are what is scored."""
MISSING_LEVEL = -1
"""A band that is not there, or of no known level."""

Events = tuple[tuple[float, float], ...]
Value = tuple[str, ...] | str | float | Events | tuple[int, ...] | None
"""What a field holds: tags, text, a number (None: silence, unvoiced), events in seconds, or ten band levels."""


class Kind(StrEnum):
    """How a field is written, checked, perturbed and scored."""

    TAGS = "tags"
    DESCRIPTION = "description"
    REASONING = "reasoning"
    SCALAR = "scalar"
    EVENTS = "events"
    SPECTRUM = "spectrum"


class Axis(StrEnum):
    """The five families of fields; a card's total is the mean over them."""

    TAGS = "tags"
    DESCRIPTION = "description"
    REASONING = "reasoning"
    NUMERIC = "numeric"
    SPECTRUM = "spectrum"


@dataclass(frozen=True)
class Field:
    """One field of a card.

    Attributes:
        prompt: what the field is, in the words a judge is given.
        words: number of words a caption is to have, None where it is free.
        upper_bound: whether fewer words than that are fine by the field's name.
    """

    name: str
    axis: Axis
    kind: Kind
    prompt: str
    words: int | None = None
    upper_bound: bool = False


def _fields() -> tuple[Field, ...]:
    def tags(name: str, prompt: str) -> Field:
        return Field(name, Axis.TAGS, Kind.TAGS, prompt)

    def description(name: str, prompt: str, words: int | None = None, upper_bound: bool = False) -> Field:
        return Field(name, Axis.DESCRIPTION, Kind.DESCRIPTION, prompt, words, upper_bound)

    def reasoning(name: str, prompt: str) -> Field:
        return Field(name, Axis.REASONING, Kind.REASONING, prompt)

    return (
        tags("nouns", "sound-source nouns"),
        tags("verbs", "verbs for what the sources do"),
        tags("noun_verb_pairs", "pairs of a sound source and what it does"),
        tags("adjectives", "adjectives for how it sounds"),
        tags("complementary_sounds", "sounds that would go well with this one"),
        description("caption_in_3_words", "a caption in 3 words", 3),
        description("caption_in_7_words_or_less", "a caption in 7 words or less", 7, upper_bound=True),
        description("descriptive_caption", "a full description of the recording"),
        reasoning("cause", "what causes the sound"),
        reasoning("effect", "what the sound brings about in the scene or in a listener"),
        reasoning("example_visual_context", "a scene in which the sound could be heard"),
        Field("lufs", Axis.NUMERIC, Kind.SCALAR, "integrated loudness in LUFS"),
        Field("median_f0", Axis.NUMERIC, Kind.SCALAR, "median fundamental frequency in Hz"),
        Field("active_event", Axis.NUMERIC, Kind.EVENTS, "onset and offset of each active event in seconds"),
        Field("frequency_profile", Axis.SPECTRUM, Kind.SPECTRUM, "levels of ten octave bands"),
    )


FIELDS: dict[str, Field] = {field.name: field for field in _fields()}
"""All 15 fields by name, in the order of the card."""
TEXT_KINDS = frozenset({Kind.TAGS, Kind.DESCRIPTION, Kind.REASONING})
TEXT_FIELDS = tuple(name for name, field in FIELDS.items() if field.kind in TEXT_KINDS)
ACOUSTIC_FIELDS = tuple(name for name in FIELDS if name not in TEXT_FIELDS)


class Status(StrEnum):
    """What became of a field when a card was read.

    OK: as the schema wants it. REPAIRED: read with leniency (a number in quotes, a list given as text …).
    MISSING: not there. MALFORMED: there, and not to be understood.
    """

    OK = "ok"
    REPAIRED = "repaired"
    MISSING = "missing"
    MALFORMED = "malformed"


@dataclass(frozen=True)
class AudioCard:
    """One recording described in 15 fields.

    Attributes:
        id: key of the card, which joins predictions with references.
        values: the fields that could be read, by name; one whose status is MISSING or MALFORMED is not in it.
        status: of every field; notes: why a field is REPAIRED or MALFORMED, by name.
        system: what made the card, where several did.
        audio: path of the recording; duration: its length in seconds.
    """

    id: str
    values: dict[str, Value]
    status: dict[str, Status]
    notes: dict[str, str]
    system: str | None = None
    audio: str | None = None
    duration: float | None = None

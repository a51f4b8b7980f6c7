"""A card with all fifteen fields."""

import pytest

from jaxeval.cards import AudioCard, parse_card
from jaxeval.cards.schema import BANDS, LEVELS

FULL = {
    "id": "a",
    "duration": 10.0,
    "nouns": ["dog", "door"],
    "verbs": ["bark", "slam"],
    "noun_verb_pairs": ["dog barks", "door slams"],
    "adjectives": ["loud", "distant"],
    "complementary_sounds": ["rain", "church bells"],
    "caption_in_3_words": "Dog barks loudly",
    "caption_in_7_words_or_less": "A dog barks, a heavy door slams",
    "descriptive_caption": "A large dog barks twice in the distance, then a wooden door slams.",
    "cause": "The dog hears a car.",
    "effect": "The dog's owner closes the door.",
    "example_visual_context": "A dog stands behind a fence while cars drive past.",
    "lufs": -23.5,
    "median_f0": 440.0,
    "active_event": [[0.5, 1.5], [3.0, 4.0], [5.0, 5.5], [7.0, 9.0]],
    "frequency_profile": dict(zip(BANDS, [*LEVELS, *LEVELS, "low", "high"], strict=True)),
}


@pytest.fixture
def card() -> AudioCard:
    return parse_card(FULL, strict=True)

import pytest

from jaxeval.cards import parse_card, write_cards

SCENES = [
    ("dog", "bark", "loud", "yard", "A stranger walks past the gate."),
    ("cat", "meow", "soft", "kitchen", "It wants to be fed."),
    ("bell", "ring", "bright", "church", "The hour has come."),
    ("car", "honk", "harsh", "street", "The traffic does not move."),
    ("engine", "rumble", "deep", "garage", "A mechanic tests it."),
    ("rain", "patter", "steady", "roof", "A storm passes over the town."),
    ("bird", "chirp", "high", "forest", "The sun rises."),
    ("clock", "tick", "quiet", "hall", "Its pendulum swings."),
    ("drum", "beat", "fast", "stage", "A band plays the last song."),
    ("door", "creak", "slow", "cellar", "Its hinges are rusty."),
    ("horse", "neigh", "loud", "stable", "A rider comes near."),
    ("siren", "wail", "shrill", "city", "An ambulance is on its way."),
]


@pytest.fixture(scope="session")
def cards():
    """Two dozen complete cards."""
    found = []
    for number in range(24):
        noun, verb, adjective, place, cause = SCENES[number % len(SCENES)]
        times = 1 + number // len(SCENES)
        onsets = [0.5 + 2 * event for event in range(4)]
        found.append(
            parse_card(
                {
                    "id": f"c{number}",
                    "duration": 10.0,
                    "nouns": [noun],
                    "verbs": [verb],
                    "noun_verb_pairs": [f"{noun} {verb}s"],
                    "adjectives": [adjective, "near"],
                    "complementary_sounds": ["wind", "footsteps"],
                    "caption_in_3_words": f"{noun} {verb}s nearby",
                    "caption_in_7_words_or_less": f"A {adjective} {noun} {verb}s in the {place}",
                    "descriptive_caption": f"A {adjective} {noun} {verb}s {times} times in the {place}, close to us.",
                    "cause": cause,
                    "effect": f"People hear the {noun} and turn around.",
                    "example_visual_context": f"A {place} with a {noun} in the middle.",
                    "lufs": -40.0 + number,
                    "median_f0": 80.0 * 1.07**number,
                    "active_event": [[onset, onset + 1] for onset in onsets],
                    "frequency_profile": {
                        band: ("low", "medium-low", "medium-high", "high")[(number + place) % 4]
                        for place, band in enumerate(("31.5", "63", "125", "250", "500", "1k", "2k", "4k", "8k", "16k"))
                    },
                },
                strict=True,
            )
        )
    return found


@pytest.fixture
def references(cards, tmp_path):
    """The cards as a file."""
    write_cards(tmp_path / "cards.jsonl", cards)
    return tmp_path / "cards.jsonl"

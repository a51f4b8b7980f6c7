"""Text perturbations by rules: what they do to a sentence, and that they grow with severity."""

import csv
import dataclasses
import re
import tomllib
from importlib import resources
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxeval.cards import parse_card
from jaxeval.cards.schema import FIELDS
from jaxeval.perturb import Cell, Effect, ErrorType, Severity, perturb, perturb_matrix
from jaxeval.perturb.cells import TEXT_TYPES
from jaxeval.perturb.inflection import VERB_FORMS, article, plural, verb_form
from jaxeval.perturb.lexicon import load
from jaxeval.perturb.paraphrase import REORDERINGS
from jaxeval.perturb.wording import Change, Wording, count_words

LOW, MEDIUM, HIGH = Severity


def values_of(cell: Cell) -> dict[str, Any]:
    return dict(cell.card.values)


def rewrite(text: str, type: ErrorType, severity: Severity) -> str:
    card = parse_card({"id": "a", "descriptive_caption": text})
    return values_of(perturb(card, type, severity))["descriptive_caption"]


def words(text):
    return re.findall(r"[a-z]+", text.lower())


def realm(name):
    mention = load().nouns.at(name.split(), 0)
    assert mention is not None, name
    return mention.entry.group


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("bark", "barks barking barked barked"),
        ("hum", "hums humming hummed hummed"),
        ("cry", "cries crying cried cried"),
        ("chime", "chimes chiming chimed chimed"),
        ("hiss", "hisses hissing hissed hissed"),
        ("whir", "whirs whirring whirred whirred"),
        ("squeal", "squeals squealing squealed squealed"),
        ("ring", "rings ringing rang rung"),
        ("strike", "strikes striking struck struck"),
        ("speed up", "speeds up/speeding up/sped up/sped up"),
    ],
)
def test_verbs_are_inflected(verb, forms):
    expected = forms.split("/") if "/" in forms else forms.split()
    assert [verb_form(verb, form) for form in VERB_FORMS] == [verb, *expected]


PLURALS = {
    "dog": "dogs",
    "fox": "foxes",
    "wolf": "wolves",
    "church bell": "church bells",
    "baby": "babies",
    "mouse": "mice",
    "sheep": "sheep",
    "piano": "pianos",
    "tornado": "tornadoes",
    "person": "people",
    "hi-hat": "hi-hats",
}
ARTICLES = {"owl": "an", "dog": "a", "hour": "an", "unit": "a", "ukulele": "a", "umbrella": "an", "unimportant": "an"}


def test_nouns_and_articles_are_inflected():
    assert {noun: plural(noun) for noun in PLURALS} == PLURALS
    assert {word: article(word) for word in ARTICLES} == ARTICLES


def test_changes_keep_case_gaps_and_articles():
    wording = Wording.of("An owl hoots; the  OWL sleeps (a dog's life)!")
    changes = [Change(1, 2, "dog"), Change(4, 5, "fox"), Change(7, 8, "elk's"), Change(9, 9, "indeed")]
    assert wording.with_changes(changes) == "A dog hoots; the  FOX sleeps (an elk's life indeed)!"
    assert Wording.of("Dogs bark.").with_changes([Change(0, 0, "loud")]) == "Loud dogs bark."


@given(st.text())
def test_a_text_without_changes_is_the_same(text):
    assert Wording.of(text).with_changes([]) == text


def test_a_source_goes_from_a_sibling_to_a_relative_to_a_stranger():
    before = realm("dog")
    low, medium, high = (words(rewrite("A dog barks twice.", ErrorType.ACOUSTIC, severity))[1] for severity in Severity)
    assert realm(low) == before
    assert realm(medium)[:2] == before[:2]
    assert realm(medium) != before
    assert realm(high)[0] != before[0]


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("A dog barks twice.", r"An? \w+ \w+s twice\."),
        ("Two DOGS bark.", r"Two [A-Z]+(S|XES|VES) \w+\."),
        ("The dog's bark is loud", r"The \w+'s \w+ is loud"),
        ("Dogs were barking, then a dog barked", r"\w+ were \w+ing, then an? \w+ \w+"),
        ("A ship bell rings", r"A ship \w+ \w+s"),
        ("A dog barks on a table", r"An? \w+ \w+s on a table"),
        ("A cymbal is struck", r"An? \w+ is struck"),
    ],
)
def test_form_number_case_and_article_survive_a_replacement(text, pattern):
    for severity in (MEDIUM, HIGH):
        assert re.fullmatch(pattern, rewrite(text, ErrorType.ACOUSTIC, severity)), rewrite(
            text, ErrorType.ACOUSTIC, severity
        )


def test_a_word_is_a_verb_after_its_subject_and_a_noun_after_an_article():
    lexicon = load()
    for text, sources, actions in [
        ("a bird whistles", ["bird"], ["whistle"]),
        ("a whistle blows", ["whistle"], ["blow"]),
        ("it drums and saws", [], []),
        ("a drum rolls", ["drum"], ["roll"]),
        ("people talk", ["person"], ["talk"]),
        ("steady rain drums on a roof", ["rain"], []),
        ("the saw cuts while rain falls", ["saw", "rain"], ["fall"]),
    ]:
        found = lexicon.sources_in(text.split())
        assert [mention.entry.name for mention in found if mention.entry.name in sources] == sources
        assert [mention.entry for mention in lexicon.verbs_in(text.split(), found, lexicon.verbs)][
            : len(actions)
        ] == actions


def test_a_replacement_is_the_same_in_all_fields_and_no_source_of_the_card(card):
    for severity in Severity:
        values = values_of(perturb(card, ErrorType.ACOUSTIC, severity))
        if severity is HIGH:
            new = values["nouns"][0]
            assert values["noun_verb_pairs"][0].startswith(f"{new} ")
            assert all(new in values[name].lower() for name in ("descriptive_caption", "cause", "effect"))
        assert not {"dog", "door", "car", "rain"} & (set(values["nouns"]) - {"dog", "door"})


def test_what_is_replaced_at_a_lower_severity_is_replaced_at_a_higher():
    text = "A dog barks, a bell rings, rain falls, a train rumbles and a child laughs"
    lost = [
        {
            word
            for word in ("dog", "bell", "rain", "train", "child")
            if word not in words(rewrite(text, ErrorType.ACOUSTIC, severity))
        }
        for severity in Severity
    ]
    assert [len(each) for each in lost] == [1, 3, 5]
    assert lost[0] < lost[1] < lost[2]


def test_attributes_move_farther_along_their_scale():
    texts = [rewrite("A loud siren wails", ErrorType.ATTRIBUTE, severity) for severity in Severity]
    assert texts[0] == "A moderately loud siren wails"
    assert "quiet" in texts[1]
    assert texts[2] == "A faint siren wails"


def test_a_text_without_attributes_gets_one_and_is_flagged():
    card = parse_card({"id": "a", "cause": "A siren wails."})
    cells = [perturb(card, ErrorType.ATTRIBUTE, severity) for severity in Severity]
    assert all(cell.outcomes["cause"].flags == ("property added",) for cell in cells)
    low, medium, high = (values_of(cell)["cause"] for cell in cells)
    assert re.fullmatch(r"A (loud|quiet) siren wails.", low)
    assert medium.startswith("A very ")
    assert high.startswith("An extremely ")
    assert len({low, medium, high}) == 3


def test_a_preposition_is_no_attribute():
    assert rewrite("A dog barks inside the house", ErrorType.ATTRIBUTE, MEDIUM).endswith("inside the house")
    assert not rewrite("A dog barks inside", ErrorType.ATTRIBUTE, MEDIUM).endswith("inside")


def test_hallucinations_are_added_to_what_is_there(card):
    cells = [values_of(perturb(card, ErrorType.HALLUCINATION, severity)) for severity in Severity]
    for count, values in zip((1, 2, 4), cells, strict=True):
        for name in ("nouns", "verbs", "noun_verb_pairs", "adjectives", "complementary_sounds"):
            assert values[name][:-count] == card.values[name]
        assert values["descriptive_caption"].startswith(card.values["descriptive_caption"][:-1])
    for lower, higher in pairwise(cells):
        assert set(lower["nouns"]) < set(higher["nouns"])


@pytest.mark.parametrize("type", TEXT_TYPES)
@pytest.mark.parametrize("severity", Severity)
def test_short_captions_stay_within_their_words(card, type, severity):
    values = values_of(perturb(card, type, severity))
    for name, field in FIELDS.items():
        if field.words is not None:
            assert count_words(values[name]) <= field.words


def test_an_added_sound_takes_the_place_of_the_last_words_of_a_short_caption():
    card = parse_card({"id": "a", "caption_in_3_words": "Rain on roof", "caption_in_7_words_or_less": "A dog barks."})
    low, medium, high = (values_of(perturb(card, ErrorType.HALLUCINATION, severity)) for severity in Severity)
    assert re.fullmatch(r"Rain, \w+ \w+s", low["caption_in_3_words"])
    assert re.fullmatch(r"Rain, \w+, \w+", medium["caption_in_3_words"])
    assert high["caption_in_3_words"] == medium["caption_in_3_words"]
    assert re.fullmatch(r"A dog barks while an? \w+ \w+\.", low["caption_in_7_words_or_less"])
    assert high["caption_in_7_words_or_less"].startswith("A dog barks, ")


@given(st.text(), st.sampled_from(TEXT_TYPES), st.sampled_from(list(Severity)))
def test_no_text_breaks_a_rule(text, type, severity):
    card = parse_card({"descriptive_caption": text, "caption_in_3_words": text, "nouns": [text], "verbs": [text]})
    cell = perturb(card, type, severity)
    assert set(cell.card.values) == set(card.values)


def test_a_paraphrase_keeps_sources_actions_and_numbers():
    text = "A dog barks three times while thunder rumbles in the distance."
    for severity in Severity:
        result = rewrite(text, ErrorType.PARAPHRASE, severity)
        assert result != text
        assert {"dog", "bark"} <= {word.removesuffix("s").removesuffix("ing") for word in words(result)}
        assert "thunder" in result.lower()
        assert "three times" in result or "thrice" in result


@pytest.mark.parametrize(
    "text",
    [
        "A tap on a glass",  # no faucet
        "Notes are left to ring",  # not departed
        "Energy rises at once",
        "A closed hi-hat",
        "A noisy street",
        "The door is shut out",
        "It sounds a little mysterious",
    ],
)
def test_a_paraphrase_leaves_the_sense_of_a_word(text):
    changed = " ".join(rewrite(text, ErrorType.PARAPHRASE, severity) for severity in Severity).lower()
    assert not {"faucet", "departed", "single", "time", "loud", "close", "small"} & set(words(changed))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A tone fades slowly", "A tone slowly fades"),
        ("A crisp, dry ping", "A dry, crisp ping"),
        ("It glows evenly and gently", "It glows gently and evenly"),
        ("A cat meows when a key is turned", "When a key is turned, a cat meows"),
        ("A man kneels, turning a knob", "Turning a knob, a man kneels"),
        ("A dog waits in a rehearsal room", "In a rehearsal room, a dog waits"),
        ("Pots fall, and the lid sits ajar", "Pots fall; the lid sits ajar"),
    ],
)
def test_a_paraphrase_puts_a_text_in_another_order(text, expected):
    lexicon = load()
    assert expected in [reorder(lexicon, text) for reorder in REORDERINGS]


def test_a_paraphrase_begins_as_the_text_did():
    for text in ("Two tuned drums rest.", "Drums rest in a barn.", "drums rest"):
        for severity in Severity:
            assert rewrite(text, ErrorType.PARAPHRASE, severity)[0].isupper() == text[0].isupper()


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("the customer holds out a hand for the change", ["customer"]),
        ("a fuse catches fire", ["fuse"]),
        ("it leaves a silence", []),
        ("the pasta can go in", []),
        ("a can falls", ["can"]),
        ("bystanders step back", ["bystanders"]),
        ("a drummer lifts the left foot", ["drummer"]),
        ("old wood knocks dully", ["wood"]),
        ("a key opens the drawer and triggers the bell", ["key", "drawer", "bell"]),
        ("a bass note on a tabla", ["tabla"]),
        ("small crackles and pops", []),
    ],
)
def test_sources_are_nouns_in_their_own_sense(text, sources):
    assert [mention.entry.name for mention in load().sources_in(text.split())] == sources


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ("roughly one and a half seconds", []),
        ("an attack full of overtones", []),
        ("a cymbal is hit hard", []),
        ("one hard thump", ["hard"]),
        ("the light switch", []),
        ("a light tap", ["light"]),
        ("at the end of a phrase", []),
        ("it sounds a little odd", []),
    ],
)
def test_attributes_are_properties(text, attributes):
    found = load().attributes_in(text.split())
    assert [" ".join(text.split()[mention.start : mention.stop]) for mention in found] == attributes


def test_a_text_has_one_extremely_at_most():
    text = "A smooth, high, slow and sudden tone, steadily and clearly fading"
    for severity in Severity:
        assert rewrite(text, ErrorType.ATTRIBUTE, severity).count("extremely") == (severity is HIGH)


def test_the_halves_of_what_happens_together_are_exchanged():
    text = rewrite("Rain patters and a siren wails.", ErrorType.PARAPHRASE, HIGH)
    assert text.index("siren") < text.index("ain")


def test_what_nobody_knows_is_unchanged():
    card = parse_card({"id": "a", "nouns": ["xyzzy"], "cause": "", "descriptive_caption": "Qwerty uiop."})
    for type in (ErrorType.ACOUSTIC, ErrorType.ATTRIBUTE):
        outcomes = perturb(card, type, HIGH).outcomes
        assert outcomes["nouns"].effect is Effect.UNCHANGED
        assert outcomes["descriptive_caption"].effect is Effect.UNCHANGED


GOLDEN = [
    "In the yard, a dog is barking loudly.",
    "A crane zips loudly in the yard.",
    "A dog barks faintly in the yard.",
    "A dog barks loudly in the yard as a sheep bleats, a cicada stridulates, a firework bursts and a lock clicks.",
]


def test_texts_of_a_cell_change_only_when_the_lexicon_or_the_rules_do():
    assert [rewrite("A dog barks loudly in the yard.", type, HIGH) for type in TEXT_TYPES] == GOLDEN


TOKENS = [
    "A",
    "dog",
    "barks",
    "two",
    "DOGS",
    "bark's,",
    "loudly;",
    "rain",
    "and",
    "while",
    "the",
    "an",
    "once",
    ".",
    "!",
    "—",
    "7",
    "Ünïcode",
    "hi-hat",
    "is",
    "barking",
]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(TOKENS),
        max_size=14,
    ),
    st.sampled_from(TEXT_TYPES),
    st.sampled_from(list(Severity)),
)
def test_any_words_become_a_text(tokens, type, severity):
    text = " ".join(tokens)
    card = parse_card(
        {"id": "a", "descriptive_caption": text, "caption_in_3_words": text, "nouns": tokens, "verbs": tokens}
    )
    values = values_of(perturb(card, type, severity))
    assert {name: str if isinstance(value, str) else tuple for name, value in values.items()} == {
        name: str if isinstance(value, str) else tuple for name, value in card.values.items()
    }


def test_every_source_can_be_replaced_at_every_distance():
    lexicon = load()
    assert sum(len(members.sources) for members in lexicon.groups.values()) > 600
    for members in lexicon.groups.values():
        for source in members.sources:
            pools = {severity: lexicon.sources_at(severity, source.group) for severity in Severity}
            assert all(
                any(lexicon.differ(source.name, each.name) for each in pools[severity]) for severity in (MEDIUM, HIGH)
            )
            assert not {each.name for each in pools[LOW]} & {each.name for each in pools[HIGH]}


def test_too_similar_names_are_names_of_the_lexicon():
    data = tomllib.loads(resources.files("jaxeval.perturb").joinpath("lexicon.toml").read_text(encoding="utf-8"))
    lexicon = load()
    sources = {source.name for members in lexicon.groups.values() for source in members.sources}
    actions = {action for members in lexicon.groups.values() for action in members.actions}
    assert {name for names in data["alike"]["sources"] for name in names} <= sources
    assert {name for names in data["alike"]["actions"] for name in names} <= actions


@pytest.mark.shared
def test_real_captions_change_almost_always(shared):
    with open(shared / "data" / "recordings" / "manifest.csv", encoding="utf-8") as file:
        captions = [row["caption"] for row in csv.DictReader(file)]
    with open(shared / "data" / "captions" / "aac_example_2.csv", encoding="utf-8") as file:
        captions += [row["caption_1"] for row in csv.DictReader(file)][:400]
    blank = parse_card({})
    cards = [
        dataclasses.replace(blank, id=str(number), values={"descriptive_caption": caption})
        for number, caption in enumerate(captions)
    ]
    cells = list(perturb_matrix(cards, types=TEXT_TYPES))
    for type in TEXT_TYPES:
        for severity in Severity:
            chosen = [cell for cell in cells if (cell.type, cell.severity) == (type, severity)]
            changed = sum(bool(cell.changed) for cell in chosen) / len(chosen)
            assert changed > (0.95 if type is ErrorType.ACOUSTIC else 0.98), (type, severity, changed)

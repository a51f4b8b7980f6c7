"""Cards as people and models write them: strict for references, lenient for predictions, never a traceback."""

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxeval.cards import FIELDS, AudioCard, Status, card_row, coverage, join_cards, parse_card, read_cards, write_cards
from jaxeval.cards.schema import BANDS, LEVELS, MISSING_LEVEL, Kind
from jaxeval.errors import InputError

PROFILE = dict(zip(BANDS, [*LEVELS, *LEVELS, "low", "high"], strict=True))
ROW = {
    "id": "a",
    "duration": 4.0,
    "nouns": ["dog", "yard"],
    "verbs": ["bark"],
    "noun_verb_pairs": ["dog barks"],
    "adjectives": [],
    "complementary_sounds": ["birdsong"],
    "caption_in_3_words": "Dog barks twice",
    "caption_in_7_words_or_less": "A dog barks twice in a yard",
    "descriptive_caption": 'A dog barks "twice", then rests.',
    "cause": "A stranger passes.",
    "effect": "The stranger turns away.",
    "example_visual_context": "A dog at a fence.",
    "lufs": -23.5,
    "median_f0": None,
    "active_event": [[0.5, 0.9], [1.5, 2.0]],
    "frequency_profile": PROFILE,
}
LEVELS_OF_ROW = (0, 1, 2, 3, 0, 1, 2, 3, 0, 3)


def lenient(**fields):
    return parse_card({"id": "a", **fields})


def outcome(card, name):
    return card.status[name].value, card.values.get(name)


@pytest.mark.parametrize("strict", [True, False])
def test_a_right_card_is_read_as_it_stands(strict):
    card = parse_card(json.dumps(ROW), strict=strict)
    assert set(card.status.values()) == {Status.OK}
    assert not card.notes
    assert (card.id, card.duration, card.values["nouns"]) == ("a", 4.0, ("dog", "yard"))
    assert (card.values["lufs"], card.values["median_f0"]) == (-23.5, None)
    assert card.values["active_event"] == ((0.5, 0.9), (1.5, 2.0))
    assert card.values["frequency_profile"] == LEVELS_OF_ROW


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_every_table_format_gives_back_the_cards_written_to_it(tmp_path, suffix):
    cards = [
        parse_card(ROW, strict=True),
        parse_card({"id": "b", "system": "s", "audio": "b.wav", "lufs": None, "median_f0": 220.0, "nouns": []}),
    ]
    write_cards(tmp_path / f"cards{suffix}", cards)
    assert read_cards(tmp_path / f"cards{suffix}", strict=True) == cards


def test_a_missing_number_stays_apart_from_a_null_one_or_is_refused(tmp_path):
    cards = [parse_card({"id": "a", "lufs": None}), parse_card({"id": "b"})]
    for suffix in (".jsonl", ".csv"):
        write_cards(tmp_path / f"cards{suffix}", cards)
        assert read_cards(tmp_path / f"cards{suffix}") == cards
    with pytest.raises(InputError, match=r"cards\.parquet: card 'b' lacks 'lufs'"):
        write_cards(tmp_path / "cards.parquet", cards)
    assert not (tmp_path / "cards.parquet").exists()


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("lufs", "-23.1 LUFS", -23.1),
        ("lufs", "−18", -18.0),
        ("lufs", "N/A", None),
        ("lufs", -math.inf, None),
        ("lufs", [-20], -20.0),
        ("median_f0", "1.2 kHz", 1200.0),
        ("median_f0", "1,046.5 Hz", 1046.5),
        ("median_f0", 0, None),
        ("median_f0", math.nan, None),
        ("median_f0", "unvoiced", None),
        ("nouns", "dog, door; bell", ("dog", "door", "bell")),
        ("nouns", "['dog', 'bell']", ("dog", "bell")),
        ("nouns", ["dog", None, " ", 3], ("dog", "3")),
        ("noun_verb_pairs", [["dog", "barks"], {"noun": "bell", "verb": "rings"}], ("dog barks", "bell rings")),
        ("noun_verb_pairs", {"dog": "barks"}, ("dog barks",)),
        ("caption_in_3_words", ["Dog", "barks", "twice"], "Dog barks twice"),
        ("cause", "half a \ud83d pair", "half a \ufffd pair"),
        ("active_event", [{"onset": 0.1, "offset": 0.5}, {"start": 1, "end": "1.5 s"}], ((0.1, 0.5), (1.0, 1.5))),
        ("active_event", [0.1, 0.5, 1, 1.5], ((0.1, 0.5), (1.0, 1.5))),
        ("active_event", ["0.1-0.5", "1 to 1.5 s"], ((0.1, 0.5), (1.0, 1.5))),
        ("active_event", "[[0.1, 0.5]]", ((0.1, 0.5),)),
        ("active_event", "none", ()),
        ("active_event", [[0.5, 0.1], [-1, 2]], ((0.1, 0.5), (0.0, 2.0))),
        ("active_event", [["100 ms", "500 ms"]], ((0.1, 0.5),)),
        ("frequency_profile", list(PROFILE.values()), LEVELS_OF_ROW),
        ("frequency_profile", list(PROFILE.items()), LEVELS_OF_ROW),
        ("frequency_profile", json.dumps(PROFILE), LEVELS_OF_ROW),
    ],
)
def test_lenient_reading_repairs_and_says_what(name, raw, value):
    card = lenient(**{name: raw})
    assert outcome(card, name) == ("repaired", value)
    assert card.notes[name]
    with pytest.raises(InputError, match=rf"^here: field '{name}': "):
        parse_card({name: raw}, strict=True, place="here")


@pytest.mark.parametrize("band", ["1000", "1 kHz", "1KHZ", "1000 Hz", 1000, "1.0k"])
def test_a_band_is_known_by_any_name_of_its_centre(band):
    assert lenient(frequency_profile={band: "high"}).values["frequency_profile"][BANDS.index("1k")] == 3


@pytest.mark.parametrize(
    ("level", "index"),
    [("Low", 0), ("medium low", 1), ("MED_HIGH", 2), ("high-mid", 2), ("3", 3), (1, 1), (2.0, 2)],
)
def test_a_level_is_known_in_any_spelling(level, index):
    assert lenient(frequency_profile={"1k": level}).values["frequency_profile"][BANDS.index("1k")] == index


def test_unknown_bands_and_levels_are_missing_ones():
    card = lenient(frequency_profile={"1k": "high", "2k": "loud", "4k": True, "3k": "low", "8k": None})
    assert card.values["frequency_profile"] == tuple(3 if band == "1k" else MISSING_LEVEL for band in BANDS)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("lufs", "loud"),
        ("lufs", "-20 to -10"),
        ("lufs", True),
        ("lufs", math.inf),
        ("lufs", 10**400),
        ("lufs", {"value": [1]}),
        ("median_f0", -math.inf),
        ("median_f0", -440),
        ("nouns", 5),
        ("nouns", [["dog", 3]]),
        ("cause", {"text": "a"}),
        ("cause", False),
        ("active_event", [[0.1]]),
        ("active_event", [0.1, 0.2, 0.3]),
        ("active_event", [[0, 1], "later"]),
        ("active_event", "0:01-0:02"),
        ("active_event", [[0, 1e300]]),
        ("frequency_profile", ["low"] * 9),
        ("frequency_profile", {}),
        ("frequency_profile", {"1k": "loud"}),
    ],
)
def test_what_nobody_can_understand_is_malformed_with_a_reason(name, raw):
    card = lenient(**{name: raw})
    assert outcome(card, name) == ("malformed", None)
    assert name not in card.values
    assert card.notes[name]


@pytest.mark.parametrize("raw", ["", " ", "N/A", "none", None])
def test_a_text_that_says_nothing_is_missing_and_no_fault(raw):
    card = parse_card({"cause": raw, "nouns": raw}, strict=True)
    assert (card.status["cause"], card.status["nouns"]) == (Status.MISSING, Status.MISSING)


ANSWERS = {
    "fences and prose": 'Here {it} is:\n```json\n{"nouns": ["dog"], "lufs": -20}\n```\nAnything else?',
    "trailing commas": '{"nouns": ["dog",], "lufs": -20,}',
    "Python": "{'nouns': ['dog'], 'lufs': -20, 'effect': None}",
    "no quotes": "{nouns: [dog], lufs: -20}",
    "missing commas": '{"nouns": ["dog"]\n "lufs": -20\n}',
    "comments": '{"nouns": ["dog"], // sources\n "lufs": -20 // loud\n}',
    "curly quotes": "{“nouns”: [“dog”], “lufs”: -20}",
    "a wrapper": '{"card": {"nouns": ["dog"], "lufs": -20}}',
    "a list around it": '[{"nouns": ["dog"], "lufs": -20}]',
    "other spellings of the names": '{"Nouns": ["dog"], "LUFS": -20}',
    "a draft before it": '<think>{"nouns": ["cat"], "lufs": -5}</think>{"nouns": ["dog"], "lufs": -20}',
    "a forgotten bracket": '{"lufs": -20, "nouns": ["dog"}',
    "a forgotten brace": '{"lufs": -20, "nouns": ["dog"]',
    "a key twice": '{"lufs": -5, "nouns": ["dog"], "lufs": -20}',
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_the_card_in_an_answer_is_found(answer):
    card = parse_card(answer, id="a")
    assert (card.values["nouns"], card.values["lufs"]) == (("dog",), -20.0)


def test_quotes_inside_a_text_need_no_backslash():
    card = parse_card("""{"cause": "A "big" dog's bark", 'effect': 'the dog's owner wakes', "nouns": ["dog",]}""")
    assert card.values["cause"] == 'A "big" dog\'s bark'
    assert card.values["effect"] == "the dog's owner wakes"


def test_an_answer_that_was_cut_keeps_its_complete_fields():
    whole = json.dumps({name: ROW[name] for name in FIELDS})
    reference = parse_card(whole).values
    for length in range(len(whole)):
        card = parse_card(whole[:length])
        assert {name: reference[name] for name in card.values} == card.values
        assert sum(status is Status.MALFORMED for status in card.status.values()) <= 1


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I cannot hear it.",
        "{" * 50_000,
        '{"nouns": ' + "[" * 50_000,
        "[]",
        '{"a": 1}',
        '{"nouns": ' + "[" * 900 + "]" * 900,
    ],
    ids=["empty", "prose", "braces", "depth", "list", "foreign object", "closed depth"],
)
def test_an_answer_without_a_card_has_no_values(answer):
    assert parse_card(answer).values == {}


def test_a_strict_answer_is_json_with_every_key_once():
    for text, message in [
        ("{'lufs': 1}", "here: not JSON"),
        ('{"lufs": 1, "lufs": 2}', "'lufs': given more than once"),
    ]:
        with pytest.raises(InputError, match=message):
            parse_card(text, strict=True, place="here")


def test_strict_reading_names_file_row_and_field(tmp_path):
    (tmp_path / "cards.jsonl").write_text('{"id": "a", "lufs": -20}\n{"id": "b", "lufs": "-20"}\n')
    with pytest.raises(InputError, match=r"cards\.jsonl: row 2: field 'lufs': a number given as '-20'"):
        read_cards(tmp_path / "cards.jsonl", strict=True)
    with pytest.raises(InputError, match="row 1: field 'duration': -1 s"):
        (tmp_path / "cards.jsonl").write_text('{"id": "a", "duration": -1}')
        read_cards(tmp_path / "cards.jsonl", strict=True)


def test_no_line_of_predictions_that_has_an_id_stops_the_run(tmp_path):
    lines = [
        '{"id": "a", "nouns": ["dog",], "lufs": "\\ud800"}',
        '{"id": "b", "cause": "cut o',
        '{"id": 3, "lufs": NaN}',
    ]
    (tmp_path / "cards.jsonl").write_text("\n".join(lines))
    cut_tags, cut_text, number_id = read_cards(tmp_path / "cards.jsonl")
    assert outcome(cut_tags, "nouns") == ("repaired", ("dog",))
    assert outcome(cut_tags, "lufs")[0] == outcome(cut_text, "cause")[0] == "malformed"
    assert number_id.id == "3"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("garbage", "cards.jsonl:1: not JSON"),
        ('{"lufs": 1}', "row 1: column 'id' is missing"),
        ('{"id": [1]}', "row 1: .*'id'"),
    ],
)
def test_a_row_nobody_can_join_is_wrong_input(tmp_path, line, message):
    (tmp_path / "cards.jsonl").write_text(line)
    with pytest.raises(InputError, match=message):
        read_cards(tmp_path / "cards.jsonl")


def test_a_card_twice_in_a_table_is_wrong_input(tmp_path):
    (tmp_path / "cards.jsonl").write_text('{"id": "1"}\n{"id": 1}\n')
    with pytest.raises(InputError, match="row 2: duplicate id 1"):
        read_cards(tmp_path / "cards.jsonl")


def test_cells_of_csv_hold_json_and_an_empty_cell_is_no_field(tmp_path):
    (tmp_path / "cards.csv").write_text(
        "id,duration,nouns,cause,lufs,median_f0,active_event\n"
        'a,2.5,"[""dog""]",[wind],-20,null,"[[0, 1]]"\nb,,,,,440,\n'
    )
    first, second = read_cards(tmp_path / "cards.csv", strict=True)
    assert first.values == {
        "nouns": ("dog",),
        "cause": "[wind]",
        "lufs": -20.0,
        "median_f0": None,
        "active_event": ((0.0, 1.0),),
    }
    assert (first.duration, second.duration, second.values) == (2.5, None, {"median_f0": 440.0})


def test_coverage_counts_every_status_of_every_field():
    counts = coverage([lenient(lufs=-20), lenient(lufs="-20"), lenient(lufs="loud"), lenient()])
    assert list(counts) == list(FIELDS)
    assert counts["lufs"] == {"ok": 1, "repaired": 1, "missing": 1, "malformed": 1}
    assert counts["cause"] == {"ok": 0, "repaired": 0, "missing": 4, "malformed": 0}


def card(id, system=None):
    return parse_card({"id": id, "system": system})


def test_cards_join_on_system_only_where_both_sides_have_it():
    predictions = [card("a", "x"), card("a", "y")]
    pairs, unpredicted = join_cards(predictions, [card("a"), card("b")])
    assert [(prediction.system, reference.id) for prediction, reference in pairs] == [("x", "a"), ("y", "a")]
    assert [reference.id for reference in unpredicted] == ["b"]
    pairs, unpredicted = join_cards(predictions[:1], [card("a", "y"), card("a", "x")])
    assert [reference.system for _, reference in pairs] == ["x"]
    assert [reference.system for reference in unpredicted] == ["y"]


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([card("c")], [card("a")], "predictions: id 'c' is not in the references"),
        ([card("a"), card("a")], [card("a")], "predictions: id 'a' occurs twice"),
        ([card("a")], [card("a", "x"), card("a", "y")], "references: id 'a' occurs twice"),
    ],
)
def test_cards_that_cannot_be_joined_are_named(predictions, references, message):
    with pytest.raises(InputError, match=message):
        join_cards(predictions, references)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["1k", "-3 dB", "low"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | st.sampled_from(BANDS), inner, max_size=4)
    ),
    max_leaves=12,
)
ROWS = st.dictionaries(st.sampled_from(list(FIELDS)), VALUES, max_size=15)


def check(card: AudioCard) -> None:
    """Every field has a status, and a value exactly where the status says so; it is what scorers expect."""
    assert list(card.status) == list(FIELDS)
    assert set(card.values) == {name for name, status in card.status.items() if status in (Status.OK, Status.REPAIRED)}
    assert {name for name in FIELDS if card.status[name] in (Status.REPAIRED, Status.MALFORMED)} == set(card.notes)
    values: dict[str, Any] = dict(card.values)
    for name, value in values.items():
        kind = FIELDS[name].kind
        if kind is Kind.SCALAR:
            assert value is None or (isinstance(value, float) and math.isfinite(value))
        elif kind is Kind.EVENTS:
            assert isinstance(value, tuple)
            assert all(0 <= onset <= offset < math.inf for onset, offset in value)
        elif kind is Kind.SPECTRUM:
            assert isinstance(value, tuple)
            assert len(value) == 10
            assert set(value) <= {-1, 0, 1, 2, 3}
        elif kind is Kind.TAGS:
            assert isinstance(value, tuple)
            assert all(isinstance(tag, str) and tag for tag in value)
        else:
            assert isinstance(value, str)
    json.dumps(card_row(card), allow_nan=False, ensure_ascii=False).encode()


@settings(max_examples=400, deadline=None)
@given(ROWS)
def test_any_object_becomes_a_card_and_strict_reading_agrees(row):
    card = parse_card(row)
    check(card)
    try:
        strict = parse_card(row, strict=True)
    except InputError:
        assert card.notes
    else:
        assert strict == card
        assert not card.notes
    again = parse_card(card_row(card), strict=True)
    assert again.values == card.values


@settings(max_examples=400, deadline=None)
@given(ROWS, st.data())
def test_any_answer_becomes_a_card_however_it_was_damaged(row, data):
    text = data.draw(st.sampled_from([json.dumps(row), json.dumps(row, ensure_ascii=False), repr(row)]))
    position = data.draw(st.integers(0, len(text)))
    removed = data.draw(st.integers(0, 20))
    junk = data.draw(st.text(alphabet="{}[]()\"',:\\`/#\n ne1.-“\ud800", max_size=8))
    check(parse_card(text[:position] + junk + text[position + removed :]))


@settings(max_examples=300, deadline=None)
@given(st.text() | st.text(alphabet="{}[]()\"',:\\/\n e1-u0d8", max_size=60))
def test_any_text_becomes_a_card(text):
    check(dataclasses.replace(parse_card(text), audio=None))

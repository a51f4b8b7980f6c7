"""The matrix: each type touches its fields only, and a cell is the same whatever else is in the run."""

import dataclasses
from typing import Any

import pytest

from jaxeval.cards import parse_card
from jaxeval.cards.schema import ACOUSTIC_FIELDS, FIELDS, TEXT_FIELDS
from jaxeval.perturb import Edit, Effect, ErrorType, Severity, Skip, perturb, perturb_matrix
from jaxeval.perturb.cells import FIELDS_OF, TEXT_TYPES


def others(card):
    return [dataclasses.replace(card, id=str(number)) for number in range(6)]


@pytest.mark.parametrize("type", ErrorType)
@pytest.mark.parametrize("severity", Severity)
def test_a_type_leaves_the_other_fields_bit_identical(card, type, severity):
    cell = perturb(card, type, severity)
    untouched = ACOUSTIC_FIELDS if type in TEXT_TYPES else [name for name in FIELDS if name not in FIELDS_OF[type]]
    for name in untouched:
        assert cell.card.values[name] is card.values[name]
    assert set(cell.outcomes) == set(FIELDS_OF[type])
    assert {name for name in FIELDS if cell.card.values[name] != card.values[name]} == set(cell.changed)
    assert (cell.card.id, cell.card.duration) == (card.id, card.duration)


@pytest.mark.parametrize("type", TEXT_TYPES)
def test_a_full_card_changes_in_its_text_fields(card, type):
    for severity in Severity:
        missing = set(TEXT_FIELDS) - set(perturb(card, type, severity).changed)
        assert missing <= {ErrorType.ACOUSTIC: {"adjectives"}, ErrorType.PARAPHRASE: {"caption_in_3_words"}}.get(
            type, set()
        )


def test_the_same_cell_is_the_same_in_any_subset_and_order(card):
    cards = others(card)
    whole = {(cell.card.id, cell.type, cell.severity): cell for cell in perturb_matrix(cards, seed=3)}
    assert len(whole) == len(cards) * len(ErrorType) * len(Severity)
    shards = [perturb_matrix(cards[::-1][part::2], types=list(ErrorType)[::-1], seed=3) for part in range(2)]
    for cell in (cell for shard in shards for cell in shard):
        assert cell == whole[cell.card.id, cell.type, cell.severity]
    assert perturb(cards[2], ErrorType.ACOUSTIC, Severity.HIGH, seed=3) == whole["2", ErrorType.ACOUSTIC, Severity.HIGH]


def test_cells_come_card_by_card_then_type_then_severity(card):
    cells = list(perturb_matrix(others(card)[:2], types=[ErrorType.SCALAR, ErrorType.DROP]))
    assert [(cell.card.id, cell.type.value, cell.severity.value) for cell in cells[:7]] == [
        ("0", "scalar", "low"),
        ("0", "scalar", "medium"),
        ("0", "scalar", "high"),
        ("0", "drop", "low"),
        ("0", "drop", "medium"),
        ("0", "drop", "high"),
        ("1", "scalar", "low"),
    ]


def test_seeds_and_cards_differ(card):
    values = {
        perturb(each, ErrorType.ACOUSTIC, Severity.HIGH, seed=seed).card.values["descriptive_caption"]
        for each in others(card)
        for seed in range(3)
    }
    assert len(values) > 12


def test_missing_unchanged_and_skipped_fields_are_told_apart():
    card = parse_card({"id": "a", "nouns": ["xyzzy"], "lufs": None})

    def refuses(card, type, severity, seed):
        return {"nouns": Skip("no answer")}

    acoustic = perturb(card, ErrorType.ACOUSTIC, Severity.LOW)
    assert acoustic.outcomes["nouns"].effect is Effect.UNCHANGED
    assert acoustic.outcomes["cause"].reason == "missing in the reference"
    assert not acoustic.changed
    assert perturb(card, ErrorType.SCALAR, Severity.LOW).outcomes["lufs"].reason == "undefined in the reference"
    skipped = perturb(card, ErrorType.ACOUSTIC, Severity.LOW, text=refuses).outcomes["nouns"]
    assert (skipped.effect, skipped.reason) == (Effect.SKIPPED, "no answer")


def test_an_edit_that_changes_nothing_is_no_change(card):
    def lazy(card, type, severity, seed):
        return {"cause": Edit(card.values["cause"], ("flag",))}

    assert perturb(card, ErrorType.PARAPHRASE, Severity.LOW, text=lazy).outcomes["cause"].effect is Effect.UNCHANGED


def test_sigma_and_tolerance_reach_the_numbers(card):
    sigmas = {"lufs": 1.0, "median_f0": 1.0}
    shifted: dict[str, Any] = dict(perturb(card, ErrorType.SCALAR, Severity.HIGH, sigmas=sigmas).card.values)
    assert abs(shifted["lufs"] + 23.5) == pytest.approx(3.0)
    jittered: dict[str, Any] = dict(perturb(card, ErrorType.JITTER, Severity.LOW, tolerance=0.4).card.values)
    assert abs(jittered["active_event"][0][0] - 0.5) == pytest.approx(0.2)

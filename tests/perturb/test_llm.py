"""Perturbations by a language model: what it is asked, and what of its answer counts."""

import json

import pytest

from jaxeval.cards import card_row
from jaxeval.cards.schema import ACOUSTIC_FIELDS, TEXT_FIELDS
from jaxeval.errors import RunError
from jaxeval.perturb import Edit, ErrorType, Severity, Skip
from jaxeval.perturb.cells import TEXT_TYPES
from jaxeval.perturb.llm import LanguageModel, load_prompts, messages


@pytest.mark.parametrize("type", TEXT_TYPES)
def test_every_type_and_severity_has_its_own_two_messages_with_the_text_fields_alone(card, type):
    prompts = load_prompts()
    asked = [messages(prompts, card, type, severity) for severity in Severity]
    assert len({message["content"] for _, message in asked}) == 3
    for system, user in asked:
        assert (system["role"], user["role"]) == ("system", "user")
        assert all(f'"{name}"' in user["content"] for name in TEXT_FIELDS)
        assert not any(name in user["content"] for name in ACOUSTIC_FIELDS)
        assert "`caption_in_3_words` at most 3 words" in user["content"]


def test_a_right_answer_becomes_edits_even_in_a_fence(card):
    fields = {name: value for name, value in card_row(card).items() if name in TEXT_FIELDS} | {"nouns": ["fox"]}
    edits = LanguageModel(lambda asked: f"```json\n{json.dumps(fields)}\n```")(
        card, ErrorType.ACOUSTIC, Severity.LOW, 0
    )
    assert list(edits) == list(TEXT_FIELDS)
    assert edits["nouns"] == Edit(("fox",))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("I cannot do that.", "answer: missing"),
        ('{"nouns": "fox, den"}', "answer: repaired a text where a list belongs"),
        ('{"nouns": ["fox"', "answer: malformed cut off"),
        ("{'nouns': ['fox']}", "answer: repaired in faulty JSON"),
    ],
)
def test_an_answer_that_is_not_right_skips_the_field_with_the_reason(card, answer, reason):
    edits = LanguageModel(lambda asked: answer)(card, ErrorType.ACOUSTIC, Severity.LOW, 0)
    assert edits["nouns"] == Skip(reason)


def test_no_answer_skips_all_fields(card):
    def chat(asked):
        raise RunError("the server is gone")

    edits = LanguageModel(chat)(card, ErrorType.ACOUSTIC, Severity.LOW, 0)
    assert set(edits.values()) == {Skip("no answer: the server is gone")}
    assert list(edits) == list(TEXT_FIELDS)

"""All judges behind one protocol: what they have in common, and what each makes of texts."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxeval.captions import caption_metrics
from jaxeval.cards.schema import TEXT_KINDS, Kind
from jaxeval.errors import InputError
from jaxeval.judges import BASELINES, Item, JudgeSettings, Score, make_judge
from jaxeval.judges.chat import Reply
from jaxeval.judges.http_chat import HttpSettings
from jaxeval.judges.llm import LLMJudge
from jaxeval.judges.matching import soft_f1
from jaxeval.judges.prompts import CRITERIA
from jaxeval.judges.protocol import Usage
from tests.judges.conftest import completion

DOG = "A large dog barks twice in the distance, with a short pause."
TEXTS = [
    Item("descriptive_caption", DOG, DOG),
    Item("descriptive_caption", DOG, "Two barks of a big dog are heard far away, a moment apart."),
    Item("descriptive_caption", DOG, "Heavy rain falls on a metal roof."),
    Item("cause", "Somebody walks past the fence.", "…"),
    Item("caption_in_3_words", "dog barks twice", "🎧 " * 2000),
]
TAGS = [
    Item("nouns", ("dog", "rain"), ("rain", "dog")),
    Item("nouns", ("dog", "rain"), ("rainfall", "canine")),
    Item("nouns", ("dog", "rain"), ("dog", "rain", "helicopter", "siren")),
    Item("nouns", ("dog", "rain"), ("helicopter", "siren")),
]
LOCAL = ("embedded", *BASELINES)


@pytest.fixture(scope="module")
def judges():
    """Every judge that needs no network, by name."""
    return {name: make_judge(name) for name in LOCAL}


class Echo:
    """A chat that gives `texts` in turn, None for a failure."""

    name = "echo"

    def __init__(self, *texts):
        self.texts, self.questions = list(texts), []

    def ask(self, questions, *, progress=lambda count: None):
        self.questions += questions
        progress(len(questions))
        texts = [self.texts.pop(0) for _ in questions]
        return [Reply(text, None if text else "it broke", Usage(1, 10, 1)) for text in texts]


def marks(*values):
    return json.dumps(dict(zip(CRITERIA, values, strict=True)))


# --- What all have in common


@pytest.mark.parametrize("name", LOCAL)
def test_a_judge_gives_every_item_a_score_or_a_reason_in_order_and_reports_progress(judges, name):
    judge = judges[name]
    items = [item for item in TEXTS + TAGS if item.kind in judge.kinds]
    seen: list[int] = []
    scores = judge.score(items, progress=seen.append)
    assert judge.name == name and len(scores) == len(items) == sum(seen)
    assert all((score.value is None) == bool(score.reason) for score in scores)
    for one, score in zip(items, scores, strict=True):
        alone = judge.score([one])[0]
        assert alone.value == pytest.approx(score.value, abs=1e-5) and alone.reason == score.reason


@pytest.mark.parametrize("name", LOCAL)
def test_nothing_to_judge_is_no_trouble(judges, name):
    assert judges[name].score([]) == []


@pytest.mark.parametrize("name", LOCAL)
def test_empty_sides_are_decided_without_a_judge(judges, name):
    items = [Item("nouns", ("dog",), ()), Item("nouns", (), ("dog",)), Item("nouns", (), ()), Item("nouns", (), (" ",))]
    if Kind.DESCRIPTION in judges[name].kinds:
        items += [Item("cause", "A dog.", " "), Item("cause", "", "A dog."), Item("cause", "", "\n")]
    assert [score.value for score in judges[name].score(items)] == [0, 0, 1, 1, 0, 0, 1][: len(items)]


def test_an_item_of_a_kind_that_a_judge_does_not_know_is_a_mistake_of_the_caller(judges):
    assert judges["soft_f1"].kinds == {Kind.TAGS} and judges["embedded"].kinds == TEXT_KINDS
    with pytest.raises(ValueError, match="scores tags, not description"):
        judges["soft_f1"].score(TEXTS)


@pytest.mark.parametrize("wrong", [("lufs", "a", "b"), ("nouns", "a", ("b",)), ("cause", ("a",), "b"), ("x", "a", "b")])
def test_items_are_text_fields_of_one_kind(wrong):
    with pytest.raises((ValueError, TypeError)):
        Item(*wrong)


@pytest.mark.parametrize("wrong", [(None, None), (0.5, "why"), (1.5, None), (float("nan"), None)])
def test_a_score_is_a_value_in_0_to_1_or_a_reason(wrong):
    with pytest.raises(ValueError):
        Score(*wrong)


# --- The embedded judge


def test_the_embedded_judge_likes_the_same_in_other_words_better_than_something_else(judges):
    same, reworded, other = (score.value for score in judges["embedded"].score(TEXTS[:3]))
    assert same == 1 and 0.6 < reworded < 1 and other < 0.25
    same, synonyms, more, other = (score.value for score in judges["embedded"].score(TAGS))
    assert same == 1 and synonyms > 0.95 and more == pytest.approx(2 / 3, abs=0.01) and other < 0.3


CHAINS = {
    "acoustic": [
        "A large fox barks twice in the distance, with a short pause.",
        "A large cow moos twice in the distance, with a short pause.",
        "A large drill whirs twice in the machine, with a short pause.",
    ],
    "attribute": [
        "A large dog barks twice nearby, with a short pause.",
        "A small dog barks many times nearby, with a short pause.",
        "An extremely tiny dog barks extremely often right here, without any pause.",
    ],
    "hallucination": [
        f"{DOG[:-1]} while a bird sings.",
        f"{DOG[:-1]} while a bird sings and an engine idles.",
        f"{DOG[:-1]} while a bird sings, an engine idles, a crowd cheers and a phone rings.",
    ],
}


@pytest.mark.parametrize("name", CHAINS)
def test_the_embedded_judge_falls_as_errors_grow_and_stays_above_them_for_a_rewording(judges, name):
    rewording = "A big dog barks two times in the distance, with a brief pause."
    texts = [DOG, *CHAINS[name], rewording]
    *falling, reworded = (
        s.value for s in judges["embedded"].score([Item("descriptive_caption", DOG, t) for t in texts])
    )
    assert falling == sorted(falling, reverse=True) and len(set(falling)) == 4
    assert reworded > 0.9 and reworded > falling[2]


def test_the_embedded_judge_says_how_it_came_to_a_score(judges):
    score = judges["embedded"].score(TEXTS[1:2])[0]
    assert score.marks.keys() == {"sentence", "words"}
    assert score.value == pytest.approx(sum(score.marks.values()) / 2)


# --- Baselines


@pytest.mark.parametrize("name", ["bleu_1", "bleu_4", "rouge_l"])
def test_caption_metrics_are_those_of_the_captions_package(judges, name):
    predictions, references = [str(item.prediction) for item in TEXTS], [[str(item.reference)] for item in TEXTS]
    expected = caption_metrics(predictions, references, [name])[1]
    scores = judges[name].score(TEXTS)
    assert [score.value for score in scores] == pytest.approx([row[name] for row in expected])


def test_tags_in_another_order_are_the_same_set_to_a_caption_metric(judges):
    for name in ("bleu_1", "rouge_l"):
        assert judges[name].score(TAGS)[0].value == pytest.approx(1)


def test_a_metric_that_is_not_available_says_so(judges, monkeypatch):
    monkeypatch.setattr("jaxeval.judges.baselines.METRICS", ("bleu_1",))
    scores = judges["meteor"].score(TEXTS)
    assert {score.reason for score in scores} == {"the caption metric meteor is not available"}


def test_soft_f1_of_equality_is_f1():
    similarity = np.array([[1.0, 0, 0], [0, 1, 0]])
    for matching in ("greedy", "optimal"):
        assert soft_f1(similarity, matching) == pytest.approx(2 * (2 / 2) * (2 / 3) / (2 / 2 + 2 / 3))


def test_one_tag_may_serve_several_only_where_matching_is_greedy():
    similarity = np.array([[0.9, 0.8], [0.7, 0.1]])
    assert soft_f1(similarity, "greedy") == pytest.approx(2 * 0.8 * 0.85 / 1.65)
    assert soft_f1(similarity, "optimal") == pytest.approx(0.75)
    assert soft_f1(np.zeros((2, 3)), "greedy") == soft_f1(np.zeros((2, 3)), "optimal") == 0


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1), st.sampled_from(["greedy", "optimal"]))
def test_soft_f1_is_symmetric_in_0_to_1_and_blind_to_order(predicted, reference, seed, matching):
    rng = np.random.default_rng(seed)
    similarity = rng.random((predicted, reference))
    score = soft_f1(similarity, matching)
    assert 0 <= score <= 1
    assert soft_f1(similarity.T, matching) == pytest.approx(score)
    shuffled = similarity[rng.permutation(predicted)][:, rng.permutation(reference)]
    assert soft_f1(shuffled, matching) == pytest.approx(score)


# --- A judge that asks an LLM


def test_an_llm_judges_tags_as_a_set_and_texts_by_four_criteria():
    scores = LLMJudge(Echo('{"score": 0.5}', marks(10, 8, 6, 4))).score([TAGS[1], TEXTS[1]])
    assert [score.value for score in scores] == [0.5, pytest.approx(0.7)]
    assert scores[1].marks == {"correctness": 1.0, "relevance": 0.8, "completeness": 0.6, "clarity": 0.4}
    assert scores[1].usage == Usage(1, 10, 1)


def test_a_failure_is_unscored_with_its_reason_and_not_a_zero():
    failed, fine = LLMJudge(Echo(None, marks(0, 0, 0, 0))).score(TEXTS[:2])
    assert failed.value is None and failed.reason == "it broke" and failed.usage.requests == 1
    assert fine.value == 0


def test_criteria_in_several_orders_give_the_mean():
    chat = Echo('{"score": 1}', *(marks(mark, mark, mark, mark) for mark in (10, 8, 6, 4)))
    seen: list[int] = []
    tags, text = LLMJudge(chat, orders=4).score([TAGS[0], TEXTS[0]], progress=seen.append)
    assert tags.value == 1 and text.value == pytest.approx(0.7) and text.usage.requests == 4
    assert len({question.messages[0]["content"] for question in chat.questions}) == 5 and sum(seen) == 2
    one_failed = LLMJudge(Echo(marks(9, 9, 9, 9), None), orders=2).score(TEXTS[:1])[0]
    assert one_failed.value is None and one_failed.usage.requests == 2


def test_what_is_empty_is_not_asked_about():
    chat = Echo()
    assert LLMJudge(chat).score([Item("nouns", ("dog",), ()), Item("cause", "", "")])[0].value == 0
    assert chat.questions == []


def test_an_endpoint_judges_a_card_and_its_nonsense_is_unscored(endpoint, tmp_path):
    def script(prompt, before):
        if "rain" in prompt:
            return completion("I would say seven.")
        return completion(
            '{"score": 0.75}' if "tags" in endpoint.bodies[-1]["messages"][0]["content"] else marks(9, 9, 9, 9)
        )

    endpoint.script = script
    http = HttpSettings(model="m", attempts=2, concurrency=1, cache=str(tmp_path / "cache"))
    judge = make_judge(endpoint.url, JudgeSettings(http=http))
    items = [Item("nouns", ("dog",), ("hound",)), TEXTS[0], TEXTS[2]]
    good, text, bad = judge.score(items)
    assert judge.name == "m" and good.value == 0.75 and text.value == pytest.approx(0.9)
    assert bad.value is None and "the reply is not JSON" in str(bad.reason)
    again = make_judge(endpoint.url, JudgeSettings(http=http)).score(items)
    assert [score.value for score in again] == [score.value for score in (good, text, bad)]
    assert sorted(endpoint.asked.values()) == [1, 1, 4]


# --- By name


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("gpt", JudgeSettings(), "unknown judge 'gpt'; use embedded, soft_f1"),
        ("http://localhost:1", JudgeSettings(), "the name of its model"),
        ("ftp://localhost", JudgeSettings(http=HttpSettings(model="m")), "not the address of an endpoint"),
        ("http://a", JudgeSettings(http=HttpSettings(model="m"), orders=5), "orders is 5, expected 1 to 4"),
        ("embedded", JudgeSettings(encoder="nowhere"), "nowhere: no such folder"),
    ],
)
def test_a_judge_that_cannot_be_made_is_wrong_input(name, settings, message):
    with pytest.raises(InputError, match=message):
        make_judge(name, settings)

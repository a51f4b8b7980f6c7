import csv
import json
import math
import random

import pytest

from jaxeval.captions import METRICS, caption_metrics
from jaxeval.captions.ptb import ptb_tokenize
from jaxeval.captions.rouge import longest_common_subsequence


def test_bleu_of_one_caption_follows_its_definition():
    # Matches: 3 of 4 words, 2 of 3 pairs, 1 of 2 triples, 0 of 1; the lengths are equal, so no penalty.
    _, [item] = caption_metrics(["a dog barks twice"], [["a dog barks once"]])
    assert item["bleu_1"] == pytest.approx(3 / 4, abs=1e-6)
    assert item["bleu_2"] == pytest.approx((3 / 4 * 2 / 3) ** (1 / 2), abs=1e-6)
    assert item["bleu_3"] == pytest.approx((3 / 4 * 2 / 3 * 1 / 2) ** (1 / 3), abs=1e-6)
    assert item["bleu_4"] == pytest.approx(0, abs=1e-3)


def test_corpus_bleu_adds_counts_before_dividing():
    # 1 of 1 and 1 of 3 words match: 2 of 4, and not the mean of 1 and 1/3.
    corpus, _ = caption_metrics(["bark", "a dog bark"], [["bark"], ["the cat bark"]])
    assert corpus["bleu_1"] == pytest.approx(2 / 4, abs=1e-6)


def test_a_short_candidate_is_penalised_against_the_closest_reference():
    references = ["a dog barks at", "a dog barks at a passing car in town"]
    _, [item] = caption_metrics(["a dog barks"], [references])
    assert item["bleu_1"] == pytest.approx(math.exp(1 - 4 / 3), abs=1e-6)


def test_a_repeated_word_counts_as_often_as_one_reference_has_it():
    _, [item] = caption_metrics(["the the the the"], [["the dog the cat", "the bird sings now"]])
    assert item["bleu_1"] == pytest.approx(2 / 4, abs=1e-6)


def test_rouge_l_joins_the_best_precision_and_the_best_recall():
    # Common with the first reference: "dog barks", 2 of 3 and 2 of 5; with the second: "dog", 1 of 3 and 1 of 1.
    _, [item] = caption_metrics(["dog barks loudly"], [["a dog is barks once", "dog"]])
    precision, recall = 2 / 3, 1
    assert item["rouge_l"] == pytest.approx((1 + 1.2**2) * precision * recall / (recall + 1.2**2 * precision))


def test_the_common_subsequence_equals_the_textbook_table():
    generator = random.Random(3)
    for _ in range(200):
        first, second = ([generator.choice("abcd") for _ in range(generator.randint(0, 12))] for _ in range(2))
        table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
        for i, one in enumerate(first):
            for j, other in enumerate(second):
                table[i + 1][j + 1] = table[i][j] + 1 if one == other else max(table[i][j + 1], table[i + 1][j])
        assert longest_common_subsequence(first, second) == table[-1][-1]


def test_identical_captions_score_one():
    corpus, [item] = caption_metrics(["a small dog barks"], [["A small dog barks."]])
    assert corpus == pytest.approx(dict.fromkeys(METRICS, 1.0), abs=1e-6)
    assert item == pytest.approx(corpus)


def test_an_empty_candidate_scores_zero():
    _, [item] = caption_metrics([""], [["a dog barks"]])
    assert item == dict.fromkeys(METRICS, 0.0)


def test_empty_against_empty_is_one_for_rouge_l_and_zero_for_bleu():
    _, [item] = caption_metrics([""], [["..."]])
    assert item == {"bleu_1": 0, "bleu_2": 0, "bleu_3": 0, "bleu_4": 0, "rouge_l": 1}


def test_only_the_metrics_asked_for_are_returned():
    corpus, [item] = caption_metrics(["a dog"], [["a dog"]], metrics=["rouge_l"])
    assert list(corpus) == list(item) == ["rouge_l"]


@pytest.mark.parametrize(
    ("candidates", "references", "metrics", "message"),
    [
        (["a"], [["a"]], ["bleu_5"], "unknown caption metric 'bleu_5'"),
        (["a", "b"], [["a"]], None, "2 candidates for 1 items"),
        ([], [], None, "0 candidates"),
        (["a"], [[]], None, "item 0: references must be a list"),
        (["a"], ["a"], None, "item 0: references must be a list"),
    ],
)
def test_wrong_arguments_are_named(candidates, references, metrics, message):
    with pytest.raises(ValueError, match=message):
        caption_metrics(candidates, references, metrics)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["aac_example_1", "aac_example_2"])
def test_scores_equal_pycocoevalcap_on_the_example_files(shared, name):
    folder = shared / "data" / "captions"
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["scores"][name]
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    corpus, items = caption_metrics(
        [row["caption_predicted"] for row in rows], [[row[f"caption_{n}"] for n in range(1, 6)] for row in rows]
    )
    assert corpus == pytest.approx({metric: expected["corpus"][metric] for metric in METRICS}, abs=1e-4)
    known = expected["per_item_first_50"] + expected["per_item_empty_candidates"]
    assert len(known) >= 50
    for item in known:
        assert items[item["index"]] == pytest.approx({metric: item[metric] for metric in METRICS}, abs=1e-4)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["aac_example_1", "aac_example_2"])
def test_tokens_equal_stanfords_on_the_example_files(shared, name):
    folder = shared / "data" / "captions"
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["scores"][name]
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for item in expected["per_item_first_50"]:
        row = rows[item["index"]]
        assert " ".join(ptb_tokenize(row["caption_predicted"])) == item["candidate_tokens"]
        for number, tokens in enumerate(item["reference_tokens"], 1):
            assert " ".join(ptb_tokenize(row[f"caption_{number}"])) == tokens

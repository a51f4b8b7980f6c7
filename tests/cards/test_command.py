"""`python -m jaxeval score`: what cards are worth, what becomes of fields that are not there, and what is refused."""

import csv
import json

import pytest

from jaxeval.cards import card_row, write_cards
from jaxeval.cli import main
from jaxeval.files import read_json
from jaxeval.tables import read_table
from tests.audit.conftest import cards

__all__ = ["cards"]  # the same two dozen


@pytest.fixture
def references(cards, tmp_path):
    write_cards(tmp_path / "references.jsonl", cards[:6])
    return tmp_path / "references.jsonl"


@pytest.fixture
def rows(cards):
    """Perfect predictions, to be spoilt."""
    return [card_row(card) for card in cards[:6]]


def score(references, rows, *flags, judge="rouge_l"):
    predictions = references.with_name("predictions.jsonl")
    predictions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = references.with_name("out")
    command = ["score", "--predictions", str(predictions), "--references", str(references), "--out", str(out)]
    return main([*command, "--judge", judge, "--baselines", "bleu_1", *flags])


def summary(references):
    found = read_json(references.with_name("out") / "summary.json")
    return {row["field"]: row for row in found["fields"]}, found


def test_a_perfect_prediction_loses_by_the_length_of_a_caption_alone(references, rows, capsys):
    assert score(references, rows) == 0
    fields, found = summary(references)
    for name, row in fields.items():
        assert row["mean"] == (pytest.approx(1, abs=1e-6) if name != "caption_in_7_words_or_less" else 1.0), name
    assert found["cards"][0]["total"] == pytest.approx(1, abs=1e-6)
    out = references.with_name("out")
    assert {"items.jsonl", "fields.csv", "fields.png", "fields.svg", "summary.md", "report.html"} < {
        path.name for path in out.iterdir()
    }
    assert "6 cards scored" in capsys.readouterr().out


def test_length_is_symmetric_unless_asked_otherwise(references, rows):
    for row in rows:
        row["caption_in_7_words_or_less"] = "A dog barks"
    assert score(references, rows) == 0
    strict, _ = summary(references)
    references.with_name("out").rename(references.with_name("first"))
    assert score(references, rows, "--upper-bound") == 0
    free, _ = summary(references)
    name = "caption_in_7_words_or_less"
    assert strict[name]["mean"] == pytest.approx(free[name]["mean"] * 3 / 7, abs=1e-5)
    assert strict[name]["bleu_1"] == free[name]["bleu_1"]


def test_a_field_that_is_missing_or_malformed_scores_nothing_and_is_counted(references, rows):
    del rows[0]["verbs"]
    rows[1]["lufs"] = "very loud"
    rows[2]["active_event"] = "later"
    rows[3]["nouns"] = "cat, bell"
    assert score(references, rows) == 0
    fields, _ = summary(references)
    assert fields["verbs"]["missing"] == 1 and fields["verbs"]["mean"] == pytest.approx(5 / 6, abs=1e-5)
    assert fields["lufs"]["malformed"] == 1 and fields["lufs"]["mean"] == pytest.approx(5 / 6, abs=1e-5)
    assert fields["active_event"]["mean"] == pytest.approx(5 / 6, abs=1e-5)
    assert fields["nouns"]["repaired"] == 1
    items = {row["id"]: row for row in read_table(references.with_name("out") / "items.jsonl")}
    assert items["c1"]["status"] == {"lufs": "malformed"} and items["c1"]["lufs"] == 0


def test_a_field_the_reference_lacks_is_left_out(references, rows, cards):
    lines = [json.loads(line) for line in references.read_text().splitlines()]
    for line in lines[:2]:
        del line["median_f0"]
    references.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert score(references, rows) == 0
    fields, _ = summary(references)
    assert (fields["median_f0"]["scored"], fields["median_f0"]["left_out"]) == (4, 2)
    assert fields["median_f0"]["mean"] == pytest.approx(1, abs=1e-5)


def test_silence_agrees_with_silence_only(references, rows):
    lines = [json.loads(line) for line in references.read_text().splitlines()]
    lines[0]["lufs"] = lines[1]["lufs"] = rows[0]["lufs"] = None
    references.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert score(references, rows) == 0
    items = {row["id"]: row for row in read_table(references.with_name("out") / "items.jsonl")}
    assert (items["c0"]["lufs"], items["c1"]["lufs"]) == (1, 0)


def test_systems_stand_side_by_side_with_chance_beside_their_means(references, rows):
    worse = [row | {"system": "worse", "lufs": row["lufs"] + 6.86, "nouns": ["ship"]} for row in rows]
    assert score(references, [row | {"system": "good"} for row in rows] + worse) == 0
    with open(references.with_name("out") / "fields.csv", newline="") as file:
        table = {(row["system"], row["field"]): row for row in csv.DictReader(file)}
    assert float(table["worse", "lufs"]["mean"]) == pytest.approx(0.75, abs=1e-5)
    chance = float(table["worse", "lufs"]["chance"])
    assert 0.8 < chance < 1
    assert float(table["worse", "lufs"]["skill"]) == pytest.approx((0.75 - chance) / (1 - chance), abs=1e-3)
    assert float(table["good", "nouns"]["mean"]) == pytest.approx(1, abs=1e-5)
    assert float(table["worse", "nouns"]["mean"]) == 0


def test_weights_change_the_total_alone(references, rows):
    for row in rows:
        row["nouns"] = ["ship"]
    assert score(references, rows) == 0
    _, even = summary(references)
    references.with_name("out").rename(references.with_name("first"))
    assert score(references, rows, "--weights", "tags=0,numeric=2") == 0
    _, weighted = summary(references)
    assert even["cards"][0]["tags"] == weighted["cards"][0]["tags"] < 1
    assert weighted["cards"][0]["total"] == pytest.approx(1, abs=1e-5)


def test_shards_make_the_same_report_as_one_run(references, rows):
    assert score(references, rows) == 0
    out, first = references.with_name("out"), references.with_name("first")
    out.rename(first)
    for shard in ("2/2", "1/2"):
        assert score(references, rows, "--shard", shard) == 0
    assert score(references, rows, "--merge") == 0
    for name in ("items.jsonl", "summary.json", "report.html"):
        assert (out / name).read_bytes() == (first / name).read_bytes()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--weights", "tag=1"], "'tag=1' is no AXIS=WEIGHT"),
        (["--weights", "tags=-1"], "weights are finite and not below 0"),
        (["--judge", "nobody"], "unknown judge 'nobody'"),
        (["--page-items", "0"], "0 is not within 1 and"),
        (["--merge"], "no finished shard"),
    ],
)
def test_wrong_flags_are_one_line(references, rows, capsys, flags, message):
    assert score(references, rows, *flags) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and message in errors[0]


def test_an_unknown_prediction_and_other_files_in_the_folder_are_refused(references, rows, capsys):
    assert score(references, [rows[0] | {"id": "stranger"}]) == 2
    assert "'stranger' is not in the references" in capsys.readouterr().err
    references.with_name("out").mkdir()
    (references.with_name("out") / "thesis.tex").touch()
    assert score(references, rows) == 2
    assert "holds files but no config.json of a run" in capsys.readouterr().err
    assert [path.name for path in references.with_name("out").iterdir()] == ["thesis.tex"]

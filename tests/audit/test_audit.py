"""`python -m jaxeval audit`: planted faults are found, the truth passes, and a run can be cut and interrupted."""

import csv
import json

import pytest

from jaxeval.cards import read_cards
from jaxeval.cli import main
from jaxeval.files import read_json
from jaxeval.perturb import ErrorType
from jaxeval.tables import read_table

NUMBERS = {"scalar", "jitter", "drop", "insert", "merge", "split", "spectrum"}
TEXTS = {"acoustic", "attribute", "hallucination"}


def audit(references, out, *flags):
    return main(["audit", "--references", str(references), "--out", str(out), *flags])


def planted(*names):
    return [part for name in names for part in ("--metric", f"tests.audit.planted:{name}")]


def verdicts(out):
    return {row["metric"].split(":")[1]: row for row in read_json(out / "summary.json")["verdicts"]}


@pytest.fixture(scope="module")
def audited(cards, tmp_path_factory):
    from jaxeval.cards import write_cards

    folder = tmp_path_factory.mktemp("audited")
    write_cards(folder / "cards.jsonl", cards)
    metrics = ("constant", "length_only", "bleu_1", "hallucination_rewarded", "blind_to_numbers", "truth")
    assert audit(folder / "cards.jsonl", folder / "out", *planted(*metrics)) == 0
    return folder / "out"


def test_the_truth_passes(audited):
    row = verdicts(audited)["truth"]
    assert row["verdict"] == "passes", row["reasons"]
    assert row["falls_with"] == "10 of 10 types"
    assert row["paraphrase"] == 0


@pytest.mark.parametrize(
    ("metric", "misses"),
    [
        ("constant", NUMBERS | TEXTS),
        ("hallucination_rewarded", {"hallucination"}),
        ("blind_to_numbers", NUMBERS),
    ],
)
def test_a_planted_fault_is_found_and_named(audited, metric, misses):
    row = verdicts(audited)[metric]
    assert row["verdict"] == "fails"
    assert set(row["misses"].split(", ")) == misses
    assert {reason.split(":")[0] for reason in row["reasons"]} == misses


def test_a_metric_of_length_misses_errors_that_keep_it(audited):
    row = verdicts(audited)["length_only"]
    assert row["verdict"] == "fails"
    assert set(row["misses"].split(", ")) > NUMBERS


def test_bleu_is_caught_by_the_paraphrase(audited):
    row = verdicts(audited)["bleu_1"]
    assert row["verdict"] == "fails"
    assert row["paraphrase"] < -0.1
    assert not TEXTS - {"hallucination"} & set(row["misses"].split(", "))
    assert any(reason.startswith("paraphrase, severity 3 of 3: not shown to stay") for reason in row["reasons"])


def test_every_output_is_there_and_says_what_the_perturbations_did(audited):
    names = {path.name for path in audited.iterdir()}
    assert {"config.json", "environment.json", "cells.jsonl", "trends.csv", "paraphrase.csv", "effects.csv"} < names
    assert {"summary.json", "summary.md", "report.html", "cards.png", "cards.svg"} < names
    cells = read_table(audited / "cells.jsonl")
    assert len(cells) == 24 * (1 + 3 * len(ErrorType))
    effects = {
        (row["type"], row["severity"]): row
        for row in csv.DictReader((audited / "effects.csv").read_text().splitlines())
    }
    assert effects["scalar", "low"]["changed"] == "48"
    assert all(
        int(row["changed"]) + int(row["unchanged"]) + int(row["skipped"]) == int(row["fields"])
        for row in effects.values()
    )
    page = (audited / "report.html").read_text()
    assert "truth" in page and "http" not in page.replace("http://www.w3.org", "").replace("http-equiv", "")


def test_shards_make_the_same_report_as_one_run(audited, references, tmp_path, capsys):
    flags = planted("truth", "bleu_1")
    assert audit(references, tmp_path / "whole", *flags) == 0
    out = tmp_path / "parts"
    assert audit(references, out, *flags, "--shard", "2/3") == 0
    assert audit(references, out, *flags, "--merge") == 2
    assert "shards 1, 3 of 3 are not finished yet" in capsys.readouterr().err
    for index in (1, 3):
        assert audit(references, out, *flags, "--shard", f"{index}/3") == 0
    assert audit(references, out, *flags, "--merge") == 0
    for name in ("cells.jsonl", "trends.csv", "summary.json", "report.html"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_subset_of_cards_and_types_gives_the_same_cells(audited, references, tmp_path):
    lines = references.read_text().splitlines(keepends=True)
    (tmp_path / "few.jsonl").write_text(lines[7] + lines[3])
    assert audit(tmp_path / "few.jsonl", tmp_path / "out", *planted("truth"), "--types", "spectrum", "acoustic") == 0
    key = ("id", "type", "severity")
    whole = {
        tuple(row[name] for name in key): row["values"]
        for row in read_table(audited / "cells.jsonl")
        if "values" in row
    }
    found = {
        tuple(row[name] for name in key): row["values"]
        for row in read_table(tmp_path / "out" / "cells.jsonl")
        if row["type"] != "none"
    }
    assert len(found) == 12
    assert all(whole[cell] == values for cell, values in found.items())


def test_a_finished_run_scores_nothing_again_and_other_settings_are_refused(references, tmp_path, capsys, monkeypatch):
    assert audit(references, tmp_path / "out", *planted("truth"), "--types", "scalar", "paraphrase") == 0
    from tests.audit import planted as metrics

    monkeypatch.setattr(metrics, "truth", metrics.fails)
    assert audit(references, tmp_path / "out", *planted("truth"), "--types", "scalar", "paraphrase") == 0
    capsys.readouterr()
    assert audit(references, tmp_path / "out", *planted("truth"), "--types", "scalar") == 2
    assert "holds results made with types=" in capsys.readouterr().err


def test_an_interrupted_run_keeps_what_it_had(references, tmp_path, monkeypatch):
    from jaxeval.audit import command

    monkeypatch.setattr(command, "CARDS_AT_A_TIME", 5)
    scored: list[str] = []
    real = command.audit_cards

    def stop_at_ten(cards, *args, **options):
        if len(scored) >= 10:
            raise KeyboardInterrupt
        scored.extend(card.id for card in cards)
        return real(cards, *args, **options)

    def go_on(cards, *args, **options):
        scored.extend(card.id for card in cards)
        return real(cards, *args, **options)

    monkeypatch.setattr(command, "audit_cards", stop_at_ten)
    flags = [*planted("truth"), "--types", "scalar", "paraphrase"]
    assert audit(references, tmp_path / "out", *flags) == 130
    monkeypatch.setattr(command, "audit_cards", go_on)
    assert audit(references, tmp_path / "out", *flags) == 0
    assert scored == [card.id for card in read_cards(references)]


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--metric", "nothing"], 2, "--metric nothing: expected package.module:function"),
        (["--metric", "no.such:f"], 2, "--metric no.such:f: No module named 'no'"),
        (["--metric", "tests.audit.planted:nope"], 2, "tests.audit.planted has no function 'nope'"),
        (["--metric", "tests.audit.planted:fails"], 1, "failed: tests.audit.planted:fails: KeyError: 'nouns'"),
        (["--metric", "tests.audit.planted:leaves"], 1, "failed: tests.audit.planted:leaves: SystemExit: 0"),
        (["--metric", "tests.audit.planted:too_few"], 1, "gave 1 scores for"),
        (["--types", "noise"], 2, "argument --types"),
        (["--margin", "0"], 2, "'0' is no number above 0"),
        (["--level", "2"], 2, "'2' is not between 0 and 1"),
        (["--perturb-with", "judge"], 2, "--judge must be an endpoint"),
        (["--judge", "http://localhost:1"], 2, "--judge-option model=NAME is needed"),
        (["--judge", "nobody"], 2, "unknown judge 'nobody'"),
        (["--judge-option", "model=x"], 2, "only an endpoint has it"),
        (["--judge-option", "colour=x"], 2, "--judge-option colour: unknown"),
        (["--shard", "3/2"], 2, "'3/2' is no shard"),
        (["--shard", "1/2", "--merge"], 2, "not allowed with argument"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_no_results(references, tmp_path, capsys, flags, code, message):
    assert audit(references, tmp_path / "out", *flags) == code
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("error:", "failed:"))]
    assert len(errors) == 1 and message in errors[0]
    assert not (tmp_path / "out" / "report.html").exists()
    if code == 2:
        assert not (tmp_path / "out").exists()


def test_a_malformed_reference_is_named(references, tmp_path, capsys):
    rows = [json.loads(line) for line in references.read_text().splitlines()]
    rows[4]["lufs"] = "loud"
    references.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert audit(references, tmp_path / "out", *planted("truth")) == 2
    assert "cards.jsonl: row 5: field 'lufs'" in capsys.readouterr().err

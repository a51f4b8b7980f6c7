import csv
import json

import numpy as np
import pytest
import soundfile

from jaxeval.cli import main
from jaxeval.tables import read_table, write_table

REFERENCES = [
    {
        "id": f"p{n}",
        "original_audio": f"audio/{n}.wav",
        "edited_audio": "audio/gone.wav",
        "difference": "a dog was added",
        "commonality": ["rain falls", "it is raining"],
        "split": "test" if n < 2 else "train",
    }
    for n in range(3)
]


def prediction(identity, **changes):
    row = {
        "id": identity,
        "difference": "a dog was added",
        "commonality": "rain falls",
        "model": "base",
        "truncated": False,
    }
    return row | changes


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "audio").mkdir()
    for number in range(3):
        tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
        soundfile.write(tmp_path / "audio" / f"{number}.wav", tone, 16000)
    write_table(tmp_path / "pairs.jsonl", REFERENCES)
    return tmp_path


def metrics(folder, *candidates, references="pairs.jsonl", flags=()):
    paths = []
    for index, rows in enumerate(candidates):
        paths.append(str(folder / f"model{index}.jsonl"))
        write_table(paths[-1], rows)
    return main(
        [
            "metrics",
            "--candidates",
            *paths,
            "--references",
            str(folder / references),
            "--out",
            str(folder / "out"),
            *flags,
        ]
    )


def test_a_run_folder_holds_scores_tables_figures_and_the_page(folder, capsys):
    rows = [prediction("p0", difference="<script>alert(1)</script>", truncated=True), prediction("p1")]
    assert metrics(folder, rows, flags=["--note", "It starts untrained."]) == 0
    out = folder / "out"
    assert {path.name for path in out.iterdir()} == {
        *("items.jsonl", "summary.json", "summary.csv", "summary.md", "scores.png", "scores.svg"),
        *("config.json", "environment.json", "report.html"),
    }
    printed = capsys.readouterr().out
    assert "commonality" in printed and "1 of the 3 references have no prediction" in printed
    assert "test 2 of 2, train 0 of 1" in printed

    items = read_table(out / "items.jsonl")
    assert [row["id"] for row in items] == ["p0", "p1"]
    assert items[0]["difference_reference"] == ["a dog was added"]
    assert items[1]["difference_bleu_4"] == pytest.approx(1, abs=1e-6)
    assert items[1]["commonality_rouge_l"] == 1
    scores = json.loads((out / "summary.json").read_text())["scores"]
    assert [(row["task"], row["truncated"]) for row in scores] == [("difference", 1), ("commonality", 1)]
    with (out / "summary.csv").open(newline="") as file:
        assert [row["task"] for row in csv.DictReader(file)] == ["difference", "commonality"]

    page = (out / "report.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "<script>alert" not in page
    assert page.count("<audio ") == 2
    assert page.count("No player") == 2
    assert page.count('<span class="flag">truncated</span>') == 2
    assert "It starts untrained." in page


def test_a_second_run_replaces_the_first_as_a_whole_and_nothing_else(folder, capsys, monkeypatch):
    assert metrics(folder, [prediction("p0")]) == 0
    out = folder / "out"
    before = {file.name: file.read_bytes() for file in out.iterdir()}

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device", "report.html")

    with monkeypatch.context() as patch:
        patch.setattr("jaxeval.captions.command.write_page", fail)
        assert metrics(folder, [prediction("p0"), prediction("p1")]) == 1
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    assert metrics(folder, [prediction("p0"), prediction("p1")]) == 0
    assert len(read_table(out / "items.jsonl")) == 2
    (out / "notes.txt").write_text("mine")
    capsys.readouterr()
    assert metrics(folder, [prediction("p0")]) == 2
    assert "out: holds 'notes.txt', which is no result of this command" in capsys.readouterr().err
    assert (out / "notes.txt").read_text() == "mine"


def test_the_current_folder_is_never_replaced_and_a_link_stays_one(folder, capsys, monkeypatch):
    (folder / "real").mkdir()
    (folder / "out").symlink_to("real")
    assert metrics(folder, [prediction("p0")]) == 0
    assert (folder / "out").is_symlink() and (folder / "real" / "report.html").exists()
    monkeypatch.chdir(folder / "real")
    assert metrics(folder, [prediction("p0")], flags=["--out", "."]) == 2
    assert "the current folder cannot be made anew" in capsys.readouterr().err
    assert not list(folder.glob(".*"))


def test_a_split_that_is_no_text_is_shown_and_not_a_crash(folder, capsys):
    write_table(folder / "pairs.jsonl", [REFERENCES[0], REFERENCES[1] | {"split": [1]}])
    assert metrics(folder, [prediction("p0")]) == 0
    assert "[1] 0 of 1" in capsys.readouterr().out


def test_two_candidate_files_stand_side_by_side(folder):
    worse = [prediction("p0", difference="", model="base"), prediction("p1", difference="", model="base")]
    better = [prediction("p1", model="tuned"), prediction("p0", model="tuned")]
    assert metrics(folder, worse, better) == 0
    scores = json.loads((folder / "out" / "summary.json").read_text())["scores"]
    difference = {row["model"]: row["rouge_l"] for row in scores if row["task"] == "difference"}
    assert difference == {"base": 0, "tuned": 1}


def test_one_model_name_in_two_files_falls_back_to_the_file_names(folder):
    assert metrics(folder, [prediction("p0")], [prediction("p0")]) == 0
    assert [row["model"] for row in read_table(folder / "out" / "items.jsonl")] == ["model0", "model1"]


def test_rows_join_on_system_where_both_have_it(folder):
    systems = [{**REFERENCES[0], "system": name, "difference": f"{name} was added"} for name in ("cat", "cow")]
    write_table(folder / "systems.jsonl", systems)
    rows = [prediction("p0", system=name, difference=f"{name} was added") for name in ("cow", "cat")]
    assert metrics(folder, rows, references="systems.jsonl") == 0
    items = read_table(folder / "out" / "items.jsonl")
    assert [(row["system"], row["difference_rouge_l"]) for row in items] == [("cow", 1), ("cat", 1)]


def test_systems_share_a_reference_that_names_none(folder, capsys):
    assert metrics(folder, [prediction("p0", system=name) for name in ("a", "b")]) == 0
    assert "2 of the 3 references have no prediction" in capsys.readouterr().out


def test_a_csv_cell_may_hold_a_list_of_references(folder):
    write_table(folder / "pairs.csv", REFERENCES)
    assert metrics(folder, [prediction("p0", commonality="it is raining")], references="pairs.csv") == 0
    [row] = read_table(folder / "out" / "items.jsonl")
    assert row["commonality_reference"] == ["rain falls", "it is raining"]
    assert row["commonality_rouge_l"] == 1


def test_other_text_columns_are_scored_when_named(folder):
    write_table(folder / "pairs.jsonl", [{"id": "p0", "caption": "rain"}])
    assert metrics(folder, [{"id": "p0", "caption": "rain"}], flags=["--columns", "caption"]) == 0
    assert read_table(folder / "out" / "items.jsonl")[0]["caption_rouge_l"] == 1


@pytest.mark.parametrize(
    ("candidates", "flags", "message"),
    [
        ([[prediction("p9")]], [], "model0.jsonl: id 'p9' is not in"),
        ([[prediction("p0"), prediction("p0")]], [], "model0.jsonl: row 2: id 'p0' occurs twice"),
        ([[prediction("p0")], [prediction("p1")]], [], "no prediction for id 'p0'"),
        ([[prediction("p0", difference=None)]], [], "id 'p0': column 'difference' is not text"),
        ([[{"id": "p0", "caption": "x"}]], [], "model0.jsonl: no column 'difference' or 'commonality'"),
        ([[prediction("p0")]], ["--columns", "caption"], "pairs.jsonl: no column 'caption'"),
        ([[{"caption": "x"}]], [], "column 'id' is missing"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_nothing(folder, capsys, candidates, flags, message):
    assert metrics(folder, *candidates, flags=flags) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (folder / "out").exists()


def test_a_reference_that_is_not_text_is_named(folder, capsys):
    write_table(folder / "pairs.jsonl", [{**REFERENCES[0], "difference": 3}])
    assert metrics(folder, [prediction("p0")]) == 2
    assert "id 'p0': column 'difference' is neither a text nor a list of texts" in capsys.readouterr().err

"""`python -m jaxeval describe`: a row a pair, the same after an interruption, and plain words for what is wrong."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from flax import nnx

import jaxeval
from jaxeval.audio.read import write_flac
from jaxeval.checkpoint import AdapterConfig, save_adapter
from jaxeval.cli import main
from jaxeval.models.lora import LoraConfig, add_lora
from jaxeval.tables import read_table, write_table
from tools.convert_weights.importing import import_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tiny_checkpoint, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("describe") / "tiny"
    import_checkpoint(tiny_checkpoint, folder)
    return folder


@pytest.fixture
def pairs(tmp_path) -> Path:
    """Five pairs of noise; one belongs to a system, one to another split."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(5):
        for side in ("a", "b"):
            write_flac(tmp_path / f"{number}{side}.flac", rng.normal(0, 0.1, 8_000 + 1_000 * number).clip(-1, 1))
        rows.append({"id": f"p{number}", "original_audio": f"{number}a.flac", "edited_audio": f"{number}b.flac"})
    for row in rows[:4]:
        row["split"] = "test"
    rows[1]["system"] = "editor"
    write_table(tmp_path / "pairs.jsonl", rows)
    return tmp_path / "pairs.jsonl"


def command(checkpoint, pairs, out, *more):
    short = ["--max-new-tokens", "6", "--batch", "2"]
    return ["describe", "--model", str(checkpoint), "--pairs", str(pairs), "--out", str(out), *short, *more]


def answers(file):
    """The rows without how long they took."""
    return [{name: value for name, value in row.items() if name != "seconds"} for row in read_table(file)]


def test_every_pair_of_the_split_gets_a_row_in_order(checkpoint, pairs, tmp_path):
    out = tmp_path / "captions.jsonl"
    assert main(command(checkpoint, pairs, out, "--split", "test")) == 0
    rows = read_table(out, required=("id", "model", "seconds"))
    assert [row["id"] for row in rows] == ["p0", "p1", "p2", "p3"]
    assert [row["system"] for row in rows if "system" in row] == ["editor"]
    assert all(isinstance(row[task], str) for row in rows for task in ("difference", "commonality"))
    assert all(row["truncated"] for row in rows)  # a random model does not end in six tokens
    record = json.loads(out.with_suffix(".run.json").read_text())
    assert record["config"]["max_new_tokens"] == 6
    assert not out.with_name("captions.jsonl.partial").exists()


def test_a_finished_run_is_not_repeated(checkpoint, pairs, tmp_path, capsys):
    out = tmp_path / "captions.jsonl"
    assert main(command(checkpoint, pairs, out)) == 0
    before = out.read_bytes()
    assert main(command(checkpoint, pairs, out)) == 0
    assert "finished already" in capsys.readouterr().err
    assert out.read_bytes() == before


def test_finished_captions_are_not_taken_for_those_of_other_settings(checkpoint, pairs, tmp_path, capsys):
    out = tmp_path / "captions.jsonl"
    assert main(command(checkpoint, pairs, out)) == 0
    assert main(command(checkpoint, pairs, out, "--name", "other")) == 2
    assert "holds results made with name='tiny', not 'other'" in capsys.readouterr().err


def test_sampled_answers_differ_by_seed_and_not_by_run(checkpoint, pairs, tmp_path):
    seeds = {"one": "1", "again": "1", "two": "2"}
    for name, seed in seeds.items():
        more = ("--sampling", "model", "--seed", seed)
        assert main(command(checkpoint, pairs, tmp_path / f"{name}.jsonl", *more)) == 0
    one, again, two = (answers(tmp_path / f"{name}.jsonl") for name in seeds)
    assert one == again
    assert one != two


def test_a_killed_run_goes_on_and_ends_the_same(checkpoint, pairs, tmp_path):
    many = tmp_path / "many.jsonl"  # enough of them that the run is still on its way when it is killed
    write_table(many, [row | {"id": f"{row['id']}.{turn}"} for turn in range(12) for row in read_table(pairs)])
    pairs, whole, killed = many, tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    assert main(command(checkpoint, pairs, whole, "--batch", "1")) == 0
    arguments = [sys.executable, "-m", "jaxeval", *command(checkpoint, pairs, killed, "--batch", "1")]
    process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    partial = tmp_path / "killed.jsonl.partial"
    deadline = time.monotonic() + 120
    while not (partial.exists() and partial.read_bytes().count(b"\n") >= 2):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not killed.exists()
    with open(partial, "ab") as file:
        file.write(b'{"id": "p4.0", "diff')  # a row cut in the middle
    assert main(command(checkpoint, pairs, killed, "--batch", "1")) == 0
    assert answers(killed) == answers(whole)


def test_an_interrupted_run_is_not_mixed_with_other_settings(checkpoint, pairs, tmp_path, capsys):
    out = tmp_path / "captions.jsonl"
    header = {"settings": {"seed": 7}}
    out.with_name("captions.jsonl.partial").write_text(json.dumps(header) + "\n")
    assert main(command(checkpoint, pairs, out)) == 2
    assert "an interrupted run used" in capsys.readouterr().err


def test_a_bad_recording_stops_before_work_starts_or_is_skipped(checkpoint, pairs, tmp_path, capsys):
    os.truncate(pairs.parent / "2b.flac", 2_000)
    out = tmp_path / "captions.jsonl"
    assert main(command(checkpoint, pairs, out)) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "2b.flac" in error
    assert not list(tmp_path.glob("captions*"))
    assert main(command(checkpoint, pairs, out, "--skip-bad")) == 0
    assert "skipped 1 of 5 pairs" in capsys.readouterr().err
    assert [row["id"] for row in read_table(out)] == ["p0", "p1", "p3", "p4"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--out", "captions.csv"), "ends in .jsonl"),
        (("--batch", "0"), "argument --batch: 0 is not within 1 and"),
        (("--seed", str(2**64)), "is not within 0 and 4294967295"),
        (("--max-new-tokens", "2000000000"), "2000000000 is not within 1 and 32768"),
        (("--adapter", ""), "argument --adapter: '' is no path"),
        (("--mesh", "model=2"), "unknown axis 'model'"),
        (("--mesh", "fsdp=99"), "needs 99 devices"),
        (("--split", "validation"), "no pair has split 'validation'"),
        (("--model", "nowhere"), "nowhere: no such folder"),
        (("--adapter", "nowhere"), "no such file"),
        (("--pairs", "nowhere.jsonl"), "nowhere.jsonl: no such file"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_code_2(
    checkpoint, pairs, tmp_path, capsys, monkeypatch, change, message
):
    monkeypatch.chdir(tmp_path)
    assert main(command(checkpoint, pairs, tmp_path / "captions.jsonl", *change)) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert len([line for line in error if line.startswith("error:")]) == 1
    assert message in error[-1]
    assert not list(tmp_path.glob("captions*"))


def test_missing_columns_and_duplicate_ids_are_named(checkpoint, tmp_path, capsys):
    table = tmp_path / "pairs.jsonl"
    row = {"id": "a", "original_audio": "x.flac", "edited_audio": "y.flac"}
    for rows, message in [
        ([{"id": "a", "original_audio": "x.flac"}], "column 'edited_audio' is missing"),
        ([row, row], "duplicate id 'a'"),
        ([], "no rows"),
    ]:
        write_table(table, rows)
        assert main(command(checkpoint, table, tmp_path / "captions.jsonl")) == 2
        assert message in capsys.readouterr().err


def test_an_adapter_is_known_by_its_weights_wherever_it_lies(checkpoint, pairs, tmp_path, capsys):
    """Moved, it goes on; trained anew under the same path, its captions are not mixed with the old ones."""
    model, _ = jaxeval.load_model(checkpoint)
    lora = LoraConfig(rank=2)
    add_lora(model, lora, rngs=nnx.Rngs(0))
    adapter, out = tmp_path / "adapter", tmp_path / "captions.jsonl"
    save_adapter(adapter, model, AdapterConfig(lora))
    assert main(command(checkpoint, pairs, out, "--adapter", str(adapter), "--name", "tuned")) == 0
    shutil.move(adapter, tmp_path / "moved")
    assert main(command(checkpoint, pairs, out, "--adapter", str(tmp_path / "moved"), "--name", "tuned")) == 0
    add_lora(model, lora, rngs=nnx.Rngs(1))
    save_adapter(adapter, model, AdapterConfig(lora))
    assert main(command(checkpoint, pairs, out, "--adapter", str(adapter), "--name", "tuned")) == 2
    assert "made with adapter=" in capsys.readouterr().err


def test_a_file_that_is_no_captions_is_never_taken_for_finished_ones(checkpoint, pairs, capsys):
    before = pairs.read_bytes()
    assert main(command(checkpoint, pairs, pairs)) == 2
    assert "exists already" in capsys.readouterr().err
    assert pairs.read_bytes() == before

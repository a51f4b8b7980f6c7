"""Rows in the making: kept over an interruption, and never written by two at once."""

import json

import pytest

from jaxeval.errors import InputError, RunError
from jaxeval.files import PartialRows, folder_hash, locked_folder


def test_complete_rows_are_kept_and_a_row_cut_by_a_crash_is_dropped(tmp_path):
    out = tmp_path / "rows.jsonl"
    first = PartialRows(out, {"seed": 1})
    first.append({"id": "b"})
    first.close()
    with open(first.partial, "ab") as file:
        file.write(b'{"id": "a", "te')
    again = PartialRows(out, {"seed": 1})
    assert again.rows == [{"id": "b"}]
    again.append({"id": "a"})
    assert not out.exists()
    again.finish(order=["a", "b"])
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["a", "b"]
    assert not again.partial.exists()


def test_a_second_writer_is_refused_while_the_first_is_at_work(tmp_path):
    rows = PartialRows(tmp_path / "rows.jsonl", {})
    rows.append({"id": "a"})
    with pytest.raises(RunError, match="another process is writing here"):
        PartialRows(tmp_path / "rows.jsonl", {})
    rows.finish()
    assert (tmp_path / "rows.jsonl").read_text() == '{"id": "a"}\n'


def test_other_settings_and_a_damaged_file_are_refused_and_left_as_they_are(tmp_path):
    rows = PartialRows(tmp_path / "rows.jsonl", {"seed": 1})
    rows.close()
    before = rows.partial.read_bytes()
    with pytest.raises(InputError, match="an interrupted run used seed=1, this one 2"):
        PartialRows(tmp_path / "rows.jsonl", {"seed": 2})
    assert rows.partial.read_bytes() == before
    rows.partial.write_bytes(b"no JSON\n")
    with pytest.raises(InputError, match="partial:1: not JSON"):
        PartialRows(tmp_path / "rows.jsonl", {"seed": 1})


def test_a_folder_is_kept_to_one_process_at_a_time(tmp_path):
    with (
        locked_folder(tmp_path / "run"),
        pytest.raises(RunError, match="another process"),
        locked_folder(tmp_path / "run"),
    ):
        pass
    with locked_folder(tmp_path / "run"):
        pass


def test_the_hash_of_a_folder_tells_names_and_contents_apart(tmp_path):
    hashes = set()
    for number, (name, text) in enumerate([("a", "x"), ("b", "x"), ("a", "y")]):
        folder = tmp_path / str(number) / "inner"
        folder.mkdir(parents=True)
        (folder / name).write_text(text)
        hashes.add(folder_hash(tmp_path / str(number)))
        assert folder_hash(tmp_path / str(number)) in hashes
    assert len(hashes) == 3

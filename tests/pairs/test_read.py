"""Pairs tables people bring."""

import json

import pytest

from jaxeval.errors import InputError
from jaxeval.pairs.read import Pair, read_pairs

ROW = {"id": "a", "original_audio": "x/1.flac", "edited_audio": "x/2.flac"}
TARGETS = {"operation": "add", "difference": "Add this sound: rain falls.", "commonality": "Wind.", "split": "test"}


@pytest.fixture
def table(tmp_path):
    def write(*rows):
        path = tmp_path / "pairs.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


def test_describing_needs_an_id_and_two_paths_only(table, tmp_path):
    folder = tmp_path / "x"
    assert read_pairs(table(ROW), need_targets=False) == [Pair("a", folder / "1.flac", folder / "2.flac")]


def test_training_gets_its_targets(table):
    (pair,) = read_pairs(table(ROW | TARGETS), need_targets=True)
    assert (pair.difference, pair.commonality, pair.split) == (TARGETS["difference"], "Wind.", "test")


@pytest.mark.parametrize("column", ["difference", "commonality", "split"])
def test_training_without_a_target_is_refused(table, column):
    row = {key: value for key, value in (ROW | TARGETS).items() if key != column}
    with pytest.raises(InputError, match=rf"pairs.jsonl: row 1: column '{column}' is missing"):
        read_pairs(table(row), need_targets=True)


@pytest.mark.parametrize("column", ["id", "original_audio", "edited_audio"])
def test_a_pair_without_its_files_is_refused(table, column):
    with pytest.raises(InputError, match=rf"row 2: column '{column}' is empty"):
        read_pairs(table(ROW, ROW | {"id": "b"} | {column: None}), need_targets=False)


def test_one_id_may_serve_several_systems_but_not_twice_the_same(table):
    rows = [ROW | {"system": "one"}, ROW | {"system": "two"}]
    assert [pair.system for pair in read_pairs(table(*rows), need_targets=False)] == ["one", "two"]
    with pytest.raises(InputError, match="row 3: duplicate id 'a', system 'two'"):
        read_pairs(table(*rows, rows[1]), need_targets=False)


def test_a_number_and_its_text_are_one_id_and_an_empty_system_is_none(table):
    with pytest.raises(InputError, match="row 2: duplicate id '1'"):
        read_pairs(table(ROW | {"id": 1}, ROW | {"id": "1", "system": ""}), need_targets=False)


@pytest.mark.parametrize(("column", "value"), [("operation", "swap"), ("split", "dev")])
def test_an_unknown_operation_or_split_is_refused_with_what_there_is(table, column, value):
    with pytest.raises(InputError, match=rf"row 1: {column} '{value}' is none of \w+, \w+, \w+"):
        read_pairs(table(ROW | TARGETS | {column: value}), need_targets=False)


def test_a_text_that_is_no_text_is_refused(table):
    with pytest.raises(InputError, match="row 1: column 'difference' is not text: 7"):
        read_pairs(table(ROW | {"difference": 7}), need_targets=False)


def test_a_csv_table_with_empty_cells_reads_like_one_without_the_columns(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("id,original_audio,edited_audio,operation,system,difference\n7,1.flac,2.flac,,,\n")
    assert read_pairs(path, need_targets=False) == [Pair("7", tmp_path / "1.flac", tmp_path / "2.flac")]

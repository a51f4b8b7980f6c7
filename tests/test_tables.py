"""Tables as people bring them: what cannot be read is one line that names the file and the place."""

import pytest

from jaxeval.errors import InputError
from jaxeval.files import read_json
from jaxeval.tables import audio_path, read_table

NO_OBJECT = {
    "[1]": "expected a JSON object, found list",
    '{"id": ' + "9" * 5000 + "}": "not JSON",
    '{"id": ' + "[" * 100_000: "not JSON",
    '{"id": "\\ud800"}': "half of a surrogate pair",
    '{"id": ': "not JSON",
}


@pytest.mark.parametrize(("text", "message"), NO_OBJECT.items(), ids=["list", "digits", "depth", "surrogate", "cut"])
def test_a_line_and_a_file_that_hold_no_object_are_refused_alike(tmp_path, text, message):
    table, file = tmp_path / "rows.jsonl", tmp_path / "config.json"
    table.write_text('{"id": "a"}\n' + text + "\n")
    file.write_text(text)
    with pytest.raises(InputError, match=f"rows.jsonl:2: {message}"):
        read_table(table)
    with pytest.raises(InputError, match=f"config.json: {message}"):
        read_json(file)


def test_a_whole_surrogate_pair_is_text(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"id": "\\ud83d\\ude00"}\n')
    assert read_table(tmp_path / "rows.jsonl") == [{"id": "\U0001f600"}]


def test_a_long_cell_is_read(tmp_path):
    (tmp_path / "a.csv").write_text(f"id,text\n1,{'x' * 200_000}\n")
    assert len(read_table(tmp_path / "a.csv")[0]["text"]) == 200_000


def test_a_path_with_a_nul_is_refused():
    with pytest.raises(InputError, match=r"clips\.csv: 'a\\x00b' is no path"):
        audio_path("clips.csv", "a\0b")


def test_a_column_named_twice_is_refused(tmp_path):
    (tmp_path / "rows.csv").write_text("id,caption,caption\na,one,two\n")
    with pytest.raises(InputError, match=r"rows\.csv:1: column 'caption' comes twice"):
        read_table(tmp_path / "rows.csv")

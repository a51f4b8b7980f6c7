"""The measured part of a card, and `python -m jaxeval measure` from files to rows."""

import csv
import json
from pathlib import Path

import numpy as np
import pyloudnorm
import pytest
import soundfile

from jaxeval.audio.loudness import loudness
from jaxeval.audio.measure import MEASURED, measure
from jaxeval.audio.read import read_channels
from jaxeval.audio.recordings import find_recordings
from jaxeval.cards.schema import BANDS, LEVELS
from jaxeval.cli import main
from jaxeval.errors import InputError
from jaxeval.files import PartialRows, read_json
from jaxeval.tables import read_table, write_table


def tone(seconds: float, rate: int = 16000, hz: float = 440.0, amplitude: float = 0.3) -> np.ndarray:
    return amplitude * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate)) / rate)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve tones, a semitone apart, in a folder and one below it; and a file that is no audio."""
    for number in range(12):
        path = tmp_path / "in" / ("deep" if number % 2 else "") / f"tone_{number:02d}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, tone(0.5 + number / 10, hz=220 * 2 ** (number / 12)), 16000)
    (tmp_path / "in" / "notes.txt").write_text("no audio")
    return tmp_path / "in"


def run(*arguments: object) -> int:
    return main(["measure", *map(str, arguments)])


def test_all_fields_of_a_tone_between_silences():
    samples = np.concatenate([np.zeros(8000), tone(2), np.zeros(8000)])[:, None]
    card = measure(samples, 16000)
    assert tuple(card) == MEASURED
    assert card["duration"] == 3.0
    assert card["lufs"] == pytest.approx(-0.7 + 10 * np.log10(0.3**2 / 2), abs=1.5)
    assert card["median_f0"] == pytest.approx(440, rel=0.002)
    assert card["active_event"] == [[pytest.approx(0.5, abs=0.02), pytest.approx(2.5, abs=0.02)]]
    assert card["frequency_profile"] == {band: "high" if band == "500" else "low" for band in BANDS}
    assert (card["unmeasured_bands"], card["sample_rate"], card["channels"], card["flags"]) == (["16k"], 16000, 1, [])


def test_silence_is_silence_in_every_field():
    faint = np.random.default_rng(0).normal(0, 1e-5, (16000, 2))
    for samples in (np.zeros((16000, 2)), faint):
        card = measure(samples, 16000)
        assert (card["lufs"], card["median_f0"], card["active_event"], card["flags"]) == (None, None, [], ["silent"])
        assert set(card["frequency_profile"].values()) == {"low"}


def test_flags_name_what_is_odd():
    assert measure(tone(0.3)[:, None], 16000)["flags"] == ["short"]
    assert measure(np.clip(tone(1, amplitude=2), -1, 1)[:, None], 16000)["flags"] == ["clipped"]
    assert measure(tone(1, amplitude=2)[:, None], 16000)["flags"] == ["over_full_scale"]
    assert measure(tone(1, amplitude=1)[:, None], 16000)["flags"] == []


@pytest.mark.parametrize("samples", [1, 2, 3, 10, 100])
def test_a_clip_of_a_few_samples_is_measured(samples):
    card = measure((-0.5) ** np.arange(samples)[:, None], 44100)
    assert "short" in card["flags"]
    json.dumps(card, allow_nan=False)


def test_a_folder_gives_a_row_a_file_in_order_with_the_path_in_it_as_id(folder, tmp_path, capsys):
    out = tmp_path / "out" / "cards.jsonl"
    assert run(folder, "--out", out, "--workers", 1) == 0
    assert capsys.readouterr().out == f"{out}\n"
    rows = read_table(out)
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
    assert {row["id"] for row in rows} >= {"tone_00.wav", "deep/tone_11.wav"}
    for row in rows:
        number = int(row["id"][-6:-4])
        assert (out.parent / row["audio"]).samefile(folder / row["id"])
        assert row["median_f0"] == pytest.approx(220 * 2 ** (number / 12), rel=0.003)
        assert row["duration"] == 0.5 + number / 10
    assert set(read_json(out.with_suffix(".run.json"))) == {"config", "environment"}


def test_two_workers_give_the_rows_of_one(folder, tmp_path):
    assert run(folder, "--out", tmp_path / "one.jsonl", "--workers", 1) == 0
    assert run(folder, "--out", tmp_path / "two.jsonl", "--workers", 2) == 0
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


def test_an_interrupted_run_goes_on_and_measures_no_row_twice(folder, tmp_path):
    whole, out = tmp_path / "whole.jsonl", tmp_path / "cards.jsonl"
    assert run(folder, "--out", whole, "--workers", 1) == 0
    expected = read_table(whole)
    rows = PartialRows(out, read_json(whole.with_suffix(".run.json"))["config"])
    rows.append({**expected[5], "flags": ["kept"]})  # would be lost if the recording were measured again
    rows.close()
    with open(rows.partial, "ab") as file:
        file.write(b'{"id": "deep/to')  # killed while writing
    assert run(folder, "--out", out, "--workers", 1) == 0
    assert read_table(out) == [*expected[:5], {**expected[5], "flags": ["kept"]}, *expected[6:]]
    assert not rows.partial.exists()


def test_finished_rows_are_left_alone_and_others_are_refused_in_their_place(folder, tmp_path, capsys):
    out = tmp_path / "cards.jsonl"
    assert run(folder, "--out", out, "--workers", 1) == 0
    before = out.stat().st_mtime_ns
    assert run(folder, "--out", out) == 0
    assert out.stat().st_mtime_ns == before
    assert run(folder / "deep", "--out", out) == 2
    assert "choose another output" in capsys.readouterr().err


def test_a_table_of_clips_keeps_its_ids_and_columns(folder, tmp_path):
    write_table(folder / "manifest.csv", [{"path": "tone_00.wav", "caption": "A tone.", "channels": "9"}])
    assert run(folder / "manifest.csv", "--out", tmp_path / "cards.jsonl", "--workers", 1) == 0
    (row,) = read_table(tmp_path / "cards.jsonl")
    assert (row["id"], row["caption"], row["channels"]) == ("tone_00.wav", "A tone.", 1)
    assert (tmp_path / row["audio"]).samefile(folder / "tone_00.wav")


def test_cards_are_filled_in(folder, tmp_path):
    card = {"id": 7, "audio": "deep/tone_01.wav", "nouns": ["tone"], "lufs": -99}
    write_table(folder / "cards.jsonl", [card])
    assert run(folder / "cards.jsonl", "--out", tmp_path / "cards.jsonl", "--workers", 1) == 0
    (row,) = read_table(tmp_path / "cards.jsonl")
    assert (row["id"], row["nouns"]) == ("7", ["tone"])
    assert -20 < row["lufs"] < -10


def test_pairs_give_two_rows_each(folder):
    sides = {"original_audio": "tone_00.wav", "edited_audio": "tone_02.wav"}
    write_table(folder / "pairs.jsonl", [{"id": 3, **sides}, {"id": 4, "system": "a", **sides}])
    found = find_recordings([str(folder / "pairs.jsonl")])
    assert [recording.id for recording in found] == ["3_original", "3_edited", "4_a_original", "4_a_edited"]
    assert found[1].path == folder / "tone_02.wav"


def test_files_have_their_path_from_the_folder_they_share_as_id(folder):
    one = find_recordings([str(folder / "tone_00.wav")])
    two = find_recordings([str(folder / "tone_00.wav"), str(folder / "deep" / "tone_01.wav")])
    assert [recording.id for recording in one] == ["tone_00.wav"]
    assert [recording.id for recording in two] == ["tone_00.wav", "deep/tone_01.wav"]


def test_the_same_id_twice_is_refused(folder):
    with pytest.raises(InputError, match=r"has the id 'tone_00.wav'"):
        find_recordings([str(folder), str(folder / "tone_00.wav")])


def no_audio(folder: Path) -> tuple[Path, str]:
    (folder / "empty").mkdir()
    return folder / "empty", "empty: no audio file in this folder"


def no_file(folder: Path) -> tuple[Path, str]:
    return folder / "gone.wav", "gone.wav: no such file"


def no_column(folder: Path) -> tuple[Path, str]:
    write_table(folder / "table.csv", [{"id": "a", "file": "tone_00.wav"}])
    return folder / "table.csv", "no column that names recordings"


def an_empty_cell(folder: Path) -> tuple[Path, str]:
    write_table(folder / "table.jsonl", [{"path": "tone_00.wav"}, {"path": None}])
    return folder / "table.jsonl", "row 2: column 'path' names no recording"


def a_damaged_file(folder: Path) -> tuple[Path, str]:
    (folder / "deep" / "tone_03.wav").write_bytes(b"RIFF, and no more")
    return folder, "tone_03.wav: not a readable audio file"


def too_long_a_file(folder: Path) -> tuple[Path, str]:
    soundfile.write(folder / "long.wav", np.zeros(601 * 4000), 4000)
    return folder, "long.wav: 601.00 s long, over the limit of 600 s"


@pytest.mark.parametrize("spoil", [no_audio, no_file, no_column, an_empty_cell, a_damaged_file, too_long_a_file])
def test_bad_input_is_one_line_and_leaves_nothing(folder, tmp_path, capsys, spoil):
    name, message = spoil(folder)
    assert run(name, "--out", tmp_path / "out" / "cards.jsonl", "--workers", 1) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "error: " in error
    assert message in error
    assert not (tmp_path / "out").exists()


def test_skip_bad_leaves_it_out_and_says_so_on_every_resumed_run(folder, tmp_path, capsys):
    _, message = a_damaged_file(folder)
    assert run(folder, "--out", tmp_path / "cards.jsonl", "--workers", 1, "--skip-bad") == 0
    assert len(read_table(tmp_path / "cards.jsonl")) == 11
    error = capsys.readouterr().err
    assert "skipped 1 of 12 recordings:" in error
    assert message in error


def test_nothing_but_bad_recordings_is_an_error_even_when_they_are_skipped(folder, tmp_path, capsys):
    a_damaged_file(folder)
    bad = folder / "deep" / "tone_03.wav"
    assert run(bad, "--out", tmp_path / "cards.jsonl", "--skip-bad") == 2
    assert "none of the 1 recordings can be used" in capsys.readouterr().err
    assert not list(tmp_path.glob("cards.jsonl*"))


def test_the_rows_are_json_lines_only(folder, tmp_path, capsys):
    assert run(folder, "--out", tmp_path / "cards.csv") == 2
    assert "name a file that ends in .jsonl" in capsys.readouterr().err


@pytest.mark.shared
def test_odd_recordings_are_measured_as_documented(shared, tmp_path, capsys):
    out = tmp_path / "cards.jsonl"
    assert run(shared / "data" / "recordings_odd", "--out", out, "--workers", 1, "--skip-bad") == 0
    assert "skipped 6 of 19 recordings" in capsys.readouterr().err
    cards = {row["id"]: row for row in read_table(out)}
    for card in cards.values():
        assert set(card["frequency_profile"]) == set(BANDS)
        assert set(card["frequency_profile"].values()) <= set(LEVELS)
    assert cards["silence_3s.wav"]["flags"] == ["silent"]
    assert cards["short_20ms.wav"]["flags"] == ["short"]
    assert cards["short_20ms.wav"]["active_event"] == [[0.0, 0.02]]
    assert cards["float32_peak_over_one.wav"]["flags"] == ["over_full_scale"]
    assert cards["rate_8000.wav"]["unmeasured_bands"] == ["8k", "16k"]
    assert (cards["rate_96000.wav"]["sample_rate"], cards["rate_96000.wav"]["unmeasured_bands"]) == (96000, [])
    assert cards["six_channels.wav"]["channels"] == 6
    assert cards["long_45s.flac"]["duration"] == 45.0


@pytest.mark.shared
def test_loudness_of_real_clips_is_pyloudnorms(shared):
    folder = shared / "data" / "recordings"
    with open(folder / "manifest.csv", newline="") as file:
        paths = [row["path"] for row in csv.DictReader(file) if float(row["duration_s"]) >= 0.41]
    for path in paths:
        samples, rate = read_channels(folder / path, max_seconds=None)
        expected = pyloudnorm.Meter(rate).integrated_loudness(soundfile.read(folder / path)[0])
        assert loudness(samples, rate) == pytest.approx(expected, abs=0.1)
    assert len(paths) > 250

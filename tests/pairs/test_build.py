"""`python -m jaxeval pairs`: what the pairs hold, that they repeat, and what stops the build."""

import collections
import csv
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
import soundfile

from jaxeval.audio.lengths import SAMPLE_RATE
from jaxeval.audio.loudness import loudness
from jaxeval.audio.read import read_audio
from jaxeval.cli import main
from jaxeval.errors import InputError
from jaxeval.pairs.build import BuildConfig, build_pairs
from jaxeval.pairs.clips import read_clips, split_groups
from jaxeval.pairs.read import read_pairs
from jaxeval.tables import read_table

COUNT = 40


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    from tests.pairs.conftest import write_clips

    folder = tmp_path_factory.mktemp("built")
    clips = write_clips(folder / "clips")
    table = build_pairs(BuildConfig(str(clips), str(folder / "out"), COUNT, seed=3, seconds=4.0))
    return clips, table


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a run but the two that say where and with what it was made."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    told = ("config.json", "environment.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.name not in told}


def command(clips: Path, out: Path, *more: str) -> list[str]:
    return ["pairs", "--clips", str(clips), "--out", str(out), "--seed", "3", "--count", str(COUNT), *more]


def both_sides(table: Path, row: dict) -> tuple[np.ndarray, np.ndarray]:
    return read_audio(table.parent / row["original_audio"]), read_audio(table.parent / row["edited_audio"])


def test_a_pair_is_two_recordings_of_the_scenes_length(built):
    for pair in read_pairs(built[1], need_targets=True):
        for path in (pair.original_audio, pair.edited_audio):
            info = soundfile.info(path)
            assert (info.samplerate, info.channels, info.frames, info.format) == (16000, 1, 64000, "FLAC")


def test_operations_and_splits_are_balanced(built):
    rows = read_table(built[1])
    assert collections.Counter(row["split"] for row in rows) == {"train": 32, "validation": 4, "test": 4}
    assert sorted(collections.Counter(row["operation"] for row in rows).values()) == [13, 13, 14]


def test_no_group_crosses_a_split_and_none_occurs_twice_in_a_pair(built):
    splits = collections.defaultdict(set)
    for row in read_table(built[1]):
        groups = [source["group"] for source in row["sources"]]
        assert len(set(groups)) == len(groups)
        for group in groups:
            splits[group].add(row["split"])
    assert all(len(found) == 1 for found in splits.values())


def test_what_was_added_is_the_event_up_to_one_gain(built):
    clips, table = built
    for row in (row for row in read_table(table) if row["operation"] in ("add", "delete")):
        original, edited = both_sides(table, row)
        louder, softer = (edited, original) if row["operation"] == "add" else (original, edited)
        event = row["sources"][-1]
        start, length = round(event["onset_s"] * SAMPLE_RATE), round(event["duration_s"] * SAMPLE_RATE)
        difference = louder - softer
        step = 2**-15  # both sides are rounded to 16 bits
        assert np.abs(np.delete(difference, np.s_[start : start + length])).max() == 0
        offset = round(event["offset_s"] * SAMPLE_RATE)
        sound = read_audio(clips.parent / event["path"])[offset : offset + length]
        gain = difference[start : start + length] @ sound / (sound @ sound)
        np.testing.assert_allclose(difference[start : start + length], gain * sound, atol=1.1 * step)


def test_a_replaced_sound_gives_way_at_the_place_where_it_was(built):
    table = built[1]
    for row in (row for row in read_table(table) if row["operation"] == "replace"):
        old, new = row["sources"][-2:]
        assert (old["role"], new["role"]) == ("event", "replacement")
        assert new["onset_s"] == pytest.approx(min(old["onset_s"], 4.0 - new["duration_s"]))
        original, edited = both_sides(table, row)
        end = max(source["onset_s"] + source["duration_s"] for source in (old, new))
        outside = np.r_[: round(new["onset_s"] * SAMPLE_RATE), round(end * SAMPLE_RATE) : len(original)]
        np.testing.assert_array_equal(original[outside], edited[outside])


def test_levels_and_loudness_are_as_stated(built):
    table = built[1]
    for row in read_table(table):
        sides = both_sides(table, row)
        for side, name in zip(sides, ("original_lufs", "edited_lufs"), strict=True):
            assert loudness(side) == pytest.approx(row[name], abs=0.05)
        if row["operation"] == "add":
            event = row["sources"][-1]
            start = round(event["onset_s"] * SAMPLE_RATE)
            added = (sides[1] - sides[0])[start : start + round(event["duration_s"] * SAMPLE_RATE)]
            assert loudness(added) == pytest.approx(row["original_lufs"] + row["level_db"], abs=0.2)


def test_no_side_clips_and_no_sound_leaves_the_scene(built):
    for row in read_table(built[1]):
        assert max(np.abs(side).max() for side in both_sides(built[1], row)) <= 0.981
        assert all(0 <= source["onset_s"] <= 4 - source["duration_s"] + 1e-9 for source in row["sources"])


def test_levels_onsets_and_wordings_vary(built):
    rows = read_table(built[1])
    assert len({row["onset_s"] for row in rows}) > COUNT / 2
    assert len({row["level_db"] for row in rows}) == COUNT
    assert len({round(row["original_lufs"]) for row in rows}) > 5
    assert len({row["difference"].split(":")[0] for row in rows}) == 9
    assert {len(row["sources"]) for row in rows} == {2, 3, 4}


def test_texts_follow_from_the_captions_of_the_sources(built):
    captions = {clip.name: clip.caption for clip in read_clips(built[0])}
    for row in read_table(built[1]):
        by_role = collections.defaultdict(list)
        for source in row["sources"]:
            by_role[source["role"]].append(captions[source["path"]])
        background = " ".join(f"{caption}." for caption in by_role["background"])
        assert row["commonality"] == background
        assert row["instruction"] == row["difference"]
        with_event = f"{background} {by_role['event'][0]}."
        if row["operation"] == "add":
            assert (row["original_caption"], row["edited_caption"]) == (background, with_event)
        elif row["operation"] == "delete":
            assert (row["original_caption"], row["edited_caption"]) == (with_event, background)
        else:
            assert row["original_caption"] == with_event
            assert row["edited_caption"] == f"{background} {by_role['replacement'][0]}."
        for caption in by_role["event"] + by_role["replacement"]:
            assert caption[1:] in row["difference"]


def test_two_workers_make_what_one_makes(built, tmp_path):
    clips, table = built
    build_pairs(BuildConfig(str(clips), str(tmp_path), COUNT, seed=3, seconds=4.0, workers=2))
    assert contents(tmp_path) == contents(table.parent)


def test_a_pair_does_not_depend_on_how_many_are_made(built, tmp_path):
    clips, table = built
    fewer = build_pairs(BuildConfig(str(clips), str(tmp_path), 7, seed=3, seconds=4.0))
    assert read_table(fewer) == read_table(table)[:7]


def test_another_seed_makes_other_pairs(built, tmp_path):
    clips, table = built
    other = build_pairs(BuildConfig(str(clips), str(tmp_path), 3, seed=4, seconds=4.0))
    assert all(row["sources"] != old["sources"] for row, old in zip(read_table(other), read_table(table), strict=False))


def test_a_killed_build_goes_on_and_ends_as_if_nothing_had_happened(built, tmp_path):
    clips, table = built
    arguments = [sys.executable, "-m", "jaxeval", *command(clips, tmp_path, "--seconds", "4", "--workers", "2")]
    partial = tmp_path / "pairs.jsonl.partial"
    rows = 0
    for wanted in (3, 20):  # killed twice, each time with pairs under way
        process = subprocess.Popen(arguments, stderr=subprocess.DEVNULL, start_new_session=True)
        while rows <= wanted:
            assert process.poll() is None
            rows = len(partial.read_bytes().splitlines()) if partial.exists() else 0
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)  # the parent alone: its workers must end by themselves
        process.wait()
        deadline = time.monotonic() + 20
        while _alive(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not _alive(process.pid)
    kept = {path: path.stat().st_mtime_ns for row in _rows(partial) for path in _audio(tmp_path, row)}
    subprocess.run(arguments, check=True, capture_output=True)
    assert contents(tmp_path) == contents(table.parent)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def _rows(partial: Path) -> list[dict]:
    return [json.loads(line) for line in partial.read_bytes().splitlines(keepends=True)[1:] if line.endswith(b"\n")]


def _audio(folder: Path, row: dict) -> list[Path]:
    return [folder / row["original_audio"], folder / row["edited_audio"]]


def _alive(group: int) -> bool:
    """Whether a process of the session is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_finished_build_is_left_alone_and_another_is_refused_in_its_place(built, capsys):
    clips, table = built
    before = table.stat().st_mtime_ns
    assert main(command(clips, table.parent, "--seconds", "4")) == 0
    assert table.stat().st_mtime_ns == before
    assert main(command(clips, table.parent, "--seconds", "5")) == 2
    assert "holds results made with seconds=4.0, not 5.0" in capsys.readouterr().err


def test_a_finished_build_that_has_lost_a_recording_is_not_called_finished(built, tmp_path, capsys):
    clips, table = built
    shutil.copytree(table.parent, tmp_path / "out")
    (tmp_path / "out" / read_table(table)[7]["edited_audio"]).unlink()
    command = ["pairs", "--clips", str(clips), "--out", str(tmp_path / "out"), "--count", str(COUNT), "--seed", "3"]
    assert main([*command, "--seconds", "4"]) == 2
    assert "1 of 80 recordings are gone, such as audio/0000/000007_edited.flac" in capsys.readouterr().err


def test_a_clip_longer_than_the_scene_is_cut_to_its_loudest_window(make_clips, tmp_path):
    clips = make_clips(9)
    long = np.random.default_rng(1).normal(0, 0.001, 20 * SAMPLE_RATE)
    long[12 * SAMPLE_RATE : 13 * SAMPLE_RATE] *= 100
    for path in clips.parent.glob("*.wav"):
        soundfile.write(path, long, SAMPLE_RATE)
    table = build_pairs(BuildConfig(str(clips), str(tmp_path / "out"), 3, seed=0, seconds=1.0))
    for source in (source for row in read_table(table) for source in row["sources"]):
        assert (source["onset_s"], source["duration_s"]) == (0, 1)
        assert source["offset_s"] == pytest.approx(12, abs=0.01)


def bad_clip(folder: Path) -> str:
    samples = np.zeros(9000)
    samples[5] = np.nan
    soundfile.write(folder / "clip_3_0.wav", samples, 16000, subtype="FLOAT")
    return "clip_3_0.wav: 1 of 9000 samples are NaN or infinite"


def silent_clip(folder: Path) -> str:
    soundfile.write(folder / "clip_3_0.wav", np.zeros(9000), 16000)
    return "clip_3_0.wav: silence"


def missing_clip(folder: Path) -> str:
    (folder / "clip_3_0.wav").unlink()
    return "clip_3_0.wav: no such file"


@pytest.mark.parametrize("spoil", [bad_clip, silent_clip, missing_clip])
def test_a_bad_clip_stops_before_any_pair_and_leaves_nothing(clips, tmp_path, capsys, spoil):
    message = spoil(clips.parent)
    assert main(command(clips, tmp_path / "out", "--workers", "1")) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("spoil", [bad_clip, silent_clip, missing_clip])
def test_skip_bad_leaves_the_clip_out_and_counts_it(clips, tmp_path, capsys, spoil):
    message = spoil(clips.parent)
    out = tmp_path / "out"
    assert main(command(clips, out, "--workers", "1", "--skip-bad", "--seconds", "2")) == 0
    assert "skipped 1 of 22 clips" in capsys.readouterr().err
    assert [message in row["problem"] for row in read_table(out / "clips.jsonl") if row["problem"]] == [True]
    assert "clip_3_0.wav" not in (out / "pairs.jsonl").read_text()


def no_caption_column(table: Path) -> str:
    table.write_text(table.read_text().replace("caption", "text", 1))
    return "row 1: column 'caption' is missing"


def an_empty_caption(table: Path) -> str:
    table.write_text(table.read_text() + "x.wav,,\n")
    return "row 23: column 'caption' is empty"


def a_blank_caption(table: Path) -> str:
    table.write_text(table.read_text() + "x.wav,  ,\n")
    return "row 23: column 'caption' is not text"


def a_path_twice(table: Path) -> str:
    table.write_text(table.read_text() + "clip_0_0.wav,A cat purrs.,\n")
    return "row 23: duplicate path 'clip_0_0.wav', first in row 1"


def no_rows(table: Path) -> str:
    table.write_text("path,caption,group\n")
    return "the table has no rows"


def no_table(table: Path) -> str:
    table.unlink()
    return "no such file"


def one_caption(table: Path) -> str:
    rows = list(csv.reader(table.open()))
    table.write_text("path,caption,group\n" + "".join(f"{row[0]},A dog barks.,{row[2]}\n" for row in rows[1:]))
    return "only 1 different captions fall into train"


@pytest.mark.parametrize(
    "spoil", [no_caption_column, an_empty_caption, a_blank_caption, a_path_twice, no_rows, no_table, one_caption]
)
def test_a_bad_table_is_one_line_and_leaves_nothing(clips, tmp_path, capsys, spoil):
    message = spoil(clips)
    assert main(command(clips, tmp_path / "out")) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith(f"error: {clips}: ")
    assert message in error
    assert "\n" not in error
    assert not (tmp_path / "out").exists()


def test_eight_groups_are_too_few_for_three_splits_and_nine_suffice(make_clips):
    with pytest.raises(InputError, match=r"manifest.csv: 8 groups of recordings are too few"):
        split_groups("manifest.csv", read_clips(make_clips(8)), seed=0)
    groups = split_groups("manifest.csv", read_clips(make_clips(9)), seed=0)
    assert [len(groups[split]) for split in ("train", "validation", "test")] == [3, 3, 3]


def test_a_hundred_groups_fall_eight_to_one_to_one_whatever_their_order(make_clips):
    clips = read_clips(make_clips(100))
    groups = split_groups("manifest.csv", clips, seed=0)
    assert {split: len(found) for split, found in groups.items()} == {"train": 80, "validation": 10, "test": 10}
    backwards = split_groups("manifest.csv", clips[::-1], seed=0)
    assert {group[0].group for group in groups["test"]} == {group[0].group for group in backwards["test"]}


@pytest.mark.parametrize(
    "flags", [("--count", "0"), ("--seed", "-1"), ("--seconds", "31"), ("--seconds", "2.55"), ("--workers", "x")]
)
def test_a_wrong_flag_is_refused(clips, tmp_path, flags):
    assert main([*command(clips, tmp_path / "out"), *flags]) == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.shared
def test_of_the_odd_recordings_the_unusable_ones_are_counted(shared, tmp_path, capsys):
    odd = shared / "data" / "recordings_odd"
    names = sorted(path.name for path in odd.iterdir() if path.suffix != ".md")
    table = tmp_path / "manifest.csv"
    table.write_text("path,caption\n" + "".join(f"{odd / name},Sound of {name}.\n" for name in names))
    assert main(command(table, tmp_path / "out", "--workers", "1", "--skip-bad", "--count", "6")) == 0
    assert "skipped 8 of 19 clips" in capsys.readouterr().err
    bad = {Path(row["id"]).name for row in read_table(tmp_path / "out" / "clips.jsonl") if row["problem"]}
    assert bad == {
        "float32_with_nan.wav",
        "short_20ms.wav",
        "silence_3s.wav",
        "text_named.wav",
        "truncated.flac",
        "truncated.wav",
        "zero_bytes.wav",
        "zero_samples.wav",
    }

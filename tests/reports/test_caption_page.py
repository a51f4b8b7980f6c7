import base64
import io
import re

import numpy as np
import pytest
import soundfile

from jaxeval.reports.caption_page import Answer, Item, Prediction, write_page
from jaxeval.reports.html import select

SUMMARY = [{"model": "m<1>", "task": "difference", "rouge_l": 0.5}]


def item(title="one", score=0.5, text="a dog", **changes):
    return Item(
        title, score, [Answer("difference", ["a cat"], [Prediction("m<1>", text, {"rouge_l": score})])], **changes
    )


def page(path, items, **changes):
    write_page(
        path,
        title="Captions",
        summary=SUMMARY,
        columns=["model", "task", "rouge_l"],
        metrics=["rouge_l"],
        items=items,
        shown="All.",
        score_name="ROUGE-L",
        **changes,
    )
    return path.read_text(encoding="utf-8")


def test_every_text_from_data_is_escaped(tmp_path):
    evil = "<script>alert('x')</script>\"><img src=x>"
    row = Item(
        evil,
        0.0,
        [Answer(evil, [evil], [Prediction(evil, evil, {evil: 0.0})])],
        {evil: evil},
        {evil: tmp_path / "none.wav"},
    )
    text = page(tmp_path / "page.html", [row], notes=[evil])
    assert "<script>alert" not in text and "<img src=x" not in text
    assert text.count("<script>") == 1


def test_the_page_refers_to_nothing_outside_itself(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(16000), 16000)
    text = page(tmp_path / "page.html", [item(recordings={"Original": tmp_path / "a.wav"})])
    targets = re.findall(r'(?:src|srcset|href)="([^"]*)"', text)
    assert len(targets) == 4
    assert all(target.startswith("data:") for target in targets)
    assert "default-src 'none'" in text


def test_a_player_holds_the_recording(tmp_path):
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    soundfile.write(tmp_path / "a.wav", tone, 16000)
    text = page(tmp_path / "page.html", [item(recordings={"Original": tmp_path / "a.wav"})])
    encoded = re.search(r'<audio [^>]*src="data:audio/\w+;base64,([^"]+)"', text)
    assert encoded
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(encoded[1])))
    spectrum = np.abs(np.fft.rfft(samples))
    assert np.fft.rfftfreq(len(samples), 1 / rate)[spectrum.argmax()] == pytest.approx(440, abs=2)


def test_a_missing_recording_is_told_in_words(tmp_path):
    text = page(tmp_path / "page.html", [item(recordings={"Original": tmp_path / "gone.flac"})])
    assert "<audio" not in text
    assert "No player: the recording could not be read." in text and "gone.flac: no such file" in text


def test_a_page_that_fails_half_way_leaves_no_file(tmp_path):
    def broken():
        yield item()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        page(tmp_path / "page.html", broken())
    assert list(tmp_path.iterdir()) == []


def test_a_small_set_is_shown_whole():
    items = [item(str(n)) for n in range(3)]
    assert select(items, 3) == (items, "All 3 items are shown.")


@pytest.mark.parametrize("limit", [1, 2, 3, 10, 50, 99])
def test_a_large_set_shows_its_lowest_and_highest_in_the_order_of_the_file(limit):
    items = [item(str(n), score=(n * 37 % 100) / 100) for n in range(100)]
    chosen, sentence = select(items, limit)
    scores = [entry.score for entry in chosen]
    assert len(chosen) == limit
    assert [int(entry.title) for entry in chosen] == sorted(int(entry.title) for entry in chosen)
    assert limit < 3 or (min(scores), max(scores)) == (0.0, 0.99)
    assert sentence.startswith(f"{limit} of 100 items are shown")

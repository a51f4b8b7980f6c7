import io

import numpy as np
from PIL import Image

from jaxeval.reports.figures import (
    FRAMES,
    MEL_BANDS,
    figure_bytes,
    heat_map,
    log_mel_db,
    score_bars,
    spectrogram_png,
)

ROWS = [
    {"model": model, "task": task, "bleu_1": score, "rouge_l": None}
    for task in ("difference", "commonality")
    for model, score in (("base", 0.1), ("tuned", 0.4))
]


def tone(hertz, seconds=1.0):
    return np.sin(2 * np.pi * hertz * np.arange(int(16000 * seconds)) / 16000).astype(np.float32)


def test_bars_show_each_score_and_leave_a_gap_for_a_missing_one():
    figure = score_bars(ROWS, ["bleu_1", "rouge_l"])
    panels = figure.axes
    assert [axes.get_title(loc="left") for axes in panels] == ["difference", "commonality"]
    heights = [[bar.get_height() for bar in bars] for bars in panels[0].containers]
    np.testing.assert_equal(heights, [[0.1, np.nan], [0.4, np.nan]])


def test_the_same_figure_gives_the_same_svg():
    first, second = (figure_bytes(score_bars(ROWS, ["bleu_1"]), "svg") for _ in range(2))
    assert first == second


def test_a_higher_tone_is_drawn_higher():
    low, high = (log_mel_db(tone(hertz), 16000).mean(axis=1).argmax() for hertz in (200, 2000))
    assert low < high


def test_a_spectrogram_is_one_pixel_a_value_with_low_frequencies_at_the_bottom():
    db = log_mel_db(tone(200), 16000)
    picture = np.asarray(Image.open(io.BytesIO(spectrogram_png(db, float(db.max())))).convert("L"), dtype=float)
    assert picture.shape == db.shape == (MEL_BANDS, db.shape[1])
    assert picture.mean(axis=1).argmax() > MEL_BANDS / 2


def test_a_long_recording_gives_no_wider_picture():
    assert log_mel_db(tone(200, seconds=60), 16000).shape[1] <= FRAMES + 1


def test_silence_and_a_short_recording_can_be_drawn():
    for samples in (np.zeros(16000, np.float32), tone(200, seconds=0.03)):
        db = log_mel_db(samples, 16000)
        assert np.isfinite(db).all()
        assert spectrogram_png(db, float(db.max())).startswith(b"\x89PNG")


def test_a_heat_map_writes_every_value_into_its_cell_and_a_dash_where_there_is_none():
    axes = heat_map([[0.714, -0.5], [None, 1.0]], ["difference FENSE", "edit_score"], ["relevance", "fad"]).axes[0]
    assert [text.get_text() for text in axes.texts] == [".71", "−.50", "–", "1.00"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["difference FENSE", "edit_score"]
    red, _, blue, _ = axes.images[0].to_rgba(np.array([0.714]))[0]
    assert blue > red

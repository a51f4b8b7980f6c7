"""The study of structured captions: its cards are whole, and its steps run from recordings to agreement of judges."""

import subprocess
import sys
from pathlib import Path

import pytest

from experiments.structured_captions.__main__ import HERE, agreement_rows
from experiments.structured_captions.agreement import Agreement
from jaxeval.cards import Status, read_cards
from jaxeval.cards.schema import FIELDS, TEXT_FIELDS
from jaxeval.files import read_json
from jaxeval.scorers import count_words
from jaxeval.tables import audio_path

CARDS = HERE / "cards.jsonl"


def test_every_card_has_its_texts_and_its_recording():
    cards = read_cards(CARDS, strict=True)
    assert len(cards) >= 60
    for card in cards:
        assert all(card.status[name] is Status.OK for name in TEXT_FIELDS), card.id
        assert card.audio is not None and audio_path(CARDS, card.audio).is_file(), card.id
        for name, field in FIELDS.items():
            if field.words is not None:
                words = count_words(str(card.values[name]))
                assert words == field.words or (field.upper_bound and words < field.words), (card.id, name)


def test_the_study_runs_from_recordings_to_agreement(tmp_path):
    folder = tmp_path / "study" / "cards"
    folder.mkdir(parents=True)
    (tmp_path / "study" / "quickstart").symlink_to(HERE.parent / "quickstart")
    (folder / "recordings").symlink_to(HERE / "recordings")
    lines = CARDS.read_text().splitlines(keepends=True)[:4]
    (folder / "cards.jsonl").write_text("".join(lines))
    command = [
        "-m",
        "experiments.structured_captions",
        "--cards",
        str(folder / "cards.jsonl"),
        "--out",
        str(tmp_path / "out"),
    ]
    for _ in range(2):
        result = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=Path(HERE).parents[1])
        assert result.returncode == 0, result.stderr
    assert "is finished already" in result.stderr
    rows = {row["judge"]: row for row in read_json(tmp_path / "out" / "agreement.json")["rows"]}
    assert set(rows) == {"embedded", "bleu_1", "rouge_l", "soft_f1"}
    assert rows["rouge_l"]["items"] == rows["embedded"]["items"] > rows["soft_f1"]["items"] > 0
    assert rows["embedded"]["unscored"] == 0 and 0 < rows["rouge_l"]["pearson"] < 1
    assert (tmp_path / "out" / "audit" / "report.html").exists()


def test_agreement_is_pearsons_over_what_both_have_scored():
    def judge(name, scores, reasons):
        fields = ["nouns", "nouns", "nouns", "nouns", "cause"]
        return Agreement(name, {}, fields, scores, reasons, cards=2, seconds=3.0, memory_mb=100.4)

    first = judge("a", [0.1, 0.2, 0.3, 0.9, 0.5], [None] * 5)
    second = judge("b", [0.2, 0.4, 0.6, None, 1.0], [None, None, None, "refused", None])
    row = agreement_rows([first, second])[1]
    assert (row["items"], row["unscored"], row["seconds_a_card"], row["peak_memory_mb"]) == (5, 1, 1.5, 100)
    assert row["pearson"] == pytest.approx(1)
    assert row["tags"] == pytest.approx(1) and row["reasoning"] is None

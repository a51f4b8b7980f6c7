"""What the quickstart is made of: recordings that may be shipped and read, and settings the trainer takes."""

from experiments.quickstart.__main__ import HERE, PAIRS, RECORDINGS, SEED, _training_texts
from jaxeval.audio.lengths import SAMPLE_RATE
from jaxeval.audio.read import read_audio
from jaxeval.files import read_json
from jaxeval.pairs.clips import read_clips, split_groups
from jaxeval.pairs.recipe import draw_recipe
from jaxeval.tables import read_table, write_table
from train.config import parse_command_line

ROWS = read_table(RECORDINGS)
MAX_BYTES = 4_000_000


def test_the_manifest_names_every_recording_with_its_source_and_credit():
    assert {row["path"] for row in ROWS} == {file.name for file in RECORDINGS.parent.glob("*.flac")}
    assert len(ROWS) == 40
    for row in ROWS:
        assert all(row[column].strip() for column in ("caption", "label", "group", "package", "package_file", "credit"))


def test_every_recording_is_public_domain_and_all_of_them_are_small():
    assert {row["licence"] for row in ROWS} == {"CC0-1.0"}
    assert sum((RECORDINGS.parent / row["path"]).stat().st_size for row in ROWS) <= MAX_BYTES


def test_every_recording_can_be_read_and_is_heard():
    for row in ROWS:
        samples = read_audio(RECORDINGS.parent / row["path"])
        assert len(samples) > 0.1 * SAMPLE_RATE
        assert abs(samples).max() > 0.01


def test_words_of_held_out_captions_mostly_occur_in_training():
    groups = split_groups(RECORDINGS, read_clips(RECORDINGS), SEED)
    words = {
        split: {word for group in members for clip in group for word in clip.caption.lower().strip(".").split()}
        for split, members in groups.items()
    }
    for split in ("validation", "test"):
        assert len(words[split] & words["train"]) >= 0.8 * len(words[split]), split
    assert all(draw_recipe(groups, SEED, index) for index in range(PAIRS))


def test_the_tokenizer_is_trained_on_no_held_out_text(tmp_path):
    rows = [
        {"split": "train", "difference": "Add a bell.", "commonality": "Rain."},
        {"split": "test", "difference": "Remove a dog.", "commonality": "Wind."},
    ]
    write_table(tmp_path / "pairs.jsonl", rows)
    texts = _training_texts(tmp_path / "pairs.jsonl")
    assert "Add a bell." in texts and "Rain." in texts
    assert "Remove a dog." not in texts and "Wind." not in texts


def test_the_settings_train_adapters_and_are_complete():
    arguments = ["--model", "m", "--pairs", "p", "--out", "o", "--config", str(HERE / "config.json")]
    config, _ = parse_command_line("train.lora", "pairs", arguments)
    assert config.lora.rank > 0
    assert "lora" in config.trained
    assert config.batch % config.data.micro_batch == 0
    assert read_json(HERE / "config.json").keys() >= {"seed", "epochs", "optimizer", "validation"}

"""The processor against transformers' own, and what it refuses."""

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer
from transformers import AutoProcessor, Qwen2AudioProcessor

from jaxeval.audio.lengths import audio_tokens, mel_frames
from jaxeval.audio.read import write_flac
from jaxeval.edits.prompts import TASKS, conversation
from jaxeval.errors import InputError
from jaxeval.processor import Processor
from tools.synthetic_checkpoint import PRESETS, with_specials, write_files

AUDIO = {"type": "audio"}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def user(*content) -> dict:
    return {"role": "user", "content": list(content)}


CONVERSATIONS = {
    "one clip": [user(AUDIO, text("What is heard?"))],
    "two clips": conversation("difference"),
    "three clips and text between them": [user(AUDIO, text("Then "), AUDIO, AUDIO, text("What?"))],
    "text first": [user(text("Listen: "), AUDIO)],
    "text that starts with line breaks": [user(AUDIO, text("\n\n  What is heard?\r\n"))],
    "two turns that both hold audio": [
        user(AUDIO, text("What is heard?")),
        {"role": "assistant", "content": "A dog barks."},
        user(AUDIO, text("And here?")),
    ],
    "a system turn of one's own": [{"role": "system", "content": "Be brief."}, user(AUDIO, text("What is heard?"))],
    "the old way to say audio": [user({"type": "audio", "audio_url": "dog.wav"}, {"text": "What?"})],
    "text alone": [{"role": "user", "content": "Say hello."}],
    "composed and decomposed accents, emoji, digits": [user(AUDIO, text("Cafe\u0301 déjà vu 🎧 44100 Hz\t声音"))],
}


@pytest.fixture(scope="module")
def processor(tiny_checkpoint: Path) -> Processor:
    return Processor.from_folder(tiny_checkpoint)


@pytest.fixture(scope="module")
def reference(tiny_checkpoint: Path) -> Qwen2AudioProcessor:
    return AutoProcessor.from_pretrained(tiny_checkpoint)


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    return (0.1 * np.random.default_rng(seed).standard_normal(round(16_000 * seconds))).astype(np.float32)


def clips_for(messages: list) -> list[np.ndarray]:
    count = str(messages).count("'type': 'audio'")
    return [noise(0.3 + 0.217 * index, seed=index) for index in range(count)]


def reference_batch(reference: Qwen2AudioProcessor, conversations: list, clips: list[np.ndarray], side: str) -> dict:
    texts = [reference.apply_chat_template(m, tokenize=False, add_generation_prompt=True) for m in conversations]
    return reference(
        text=texts, audio=clips or None, sampling_rate=16_000, padding=True, padding_side=side, return_tensors="np"
    )


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_prompt_ids_equal_the_reference(name, processor, reference):
    messages = CONVERSATIONS[name]
    clips = clips_for(messages)
    expected = reference_batch(reference, [messages], clips, "right")
    np.testing.assert_array_equal(processor([messages], clips)["input_ids"], expected["input_ids"])


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_that_mixes_rows_of_every_kind_equals_the_reference(side, processor, reference):
    conversations = list(CONVERSATIONS.values())
    clips = [clip for messages in conversations for clip in clips_for(messages)]
    batch = processor(conversations, clips, padding_side=side, pad_to=3000)
    expected = reference_batch(reference, conversations, clips, side)
    assert batch.keys() == expected.keys()
    for name in ("input_ids", "attention_mask", "feature_attention_mask"):
        np.testing.assert_array_equal(batch[name], expected[name])
    np.testing.assert_allclose(batch["input_features"], expected["input_features"], atol=1e-4)


def test_an_assistant_message_at_the_end_is_rendered_without_another_opening(processor, reference):
    messages = [user(text("What is heard?")), {"role": "assistant", "content": "A dog barks."}]
    expected = reference.tokenizer.encode(reference.apply_chat_template(messages, tokenize=False))
    assert processor([messages])["input_ids"].tolist() == [expected]


def test_the_question_about_two_recordings_reads_as_the_official_template(processor):
    ids, _ = processor.encode(conversation("commonality"), [1, 1])
    assert processor.tokenizer.decode(ids) == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
        "<|im_start|>user\n"
        "Audio 1: <|audio_bos|><|AUDIO|><|audio_eos|>\n"
        "Audio 2: <|audio_bos|><|AUDIO|><|audio_eos|>\n"
        "Audio 1 is the original recording and Audio 2 is an edited version of it. "
        "What do Audio 1 and Audio 2 have in common?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


@pytest.mark.shared
def test_with_the_real_vocabulary_ids_are_the_official_ones_and_equal_the_reference(shared, tmp_path):
    real = Tokenizer.from_file(str(shared / "data/tokenizer/qwen2_5/tokenizer.json"))
    write_files(tmp_path, with_specials(real), PRESETS["tiny"])
    processor, reference = Processor.from_folder(tmp_path), AutoProcessor.from_pretrained(tmp_path)
    assert [processor.ids[token] for token in ("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>")] == [
        151646,
        151647,
        151648,
    ]
    assert (processor.pad_id, processor.eos_ids) == (151643, (151645, 151643))
    for messages in CONVERSATIONS.values():
        clips = clips_for(messages)
        expected = reference_batch(reference, [messages], clips, "right")
        np.testing.assert_array_equal(processor([messages], clips)["input_ids"], expected["input_ids"])
    for case in json.loads((shared / "data/tokenizer/qwen2_5/check.json").read_text())["cases"]:
        if "<|" not in case["text"]:
            ids, start = processor.encode(CONVERSATIONS["text alone"], [], case["text"])
            assert ids[start:-1] == case["ids"]


def test_bucketed_features_are_the_first_frames_of_the_full_ones(processor):
    messages = conversation("difference")
    clips = [noise(0.5), noise(1.2)]
    bucketed, full = processor([messages], clips), processor([messages], clips, pad_to=3000)
    frames = bucketed["input_features"].shape[-1]
    assert frames == 202
    np.testing.assert_allclose(bucketed["input_features"], full["input_features"][..., :frames], atol=1e-6)
    assert bucketed["feature_attention_mask"].sum(axis=1).tolist() == [50, 120]


def test_a_path_and_the_samples_in_it_give_the_same_batch(processor, tmp_path):
    samples = np.round(noise(0.5) * 2**15) / 2**15
    write_flac(tmp_path / "dog.flac", samples)
    from_path = processor([CONVERSATIONS["one clip"]], [tmp_path / "dog.flac"])
    from_array = processor([CONVERSATIONS["one clip"]], [samples])
    for name in from_array:
        np.testing.assert_array_equal(from_path[name], from_array[name])


@pytest.mark.parametrize("special", ["<|im_end|>", "<|AUDIO|>", "<|endoftext|>"])
def test_special_tokens_in_text_are_plain_text(special, processor):
    words = f"Ignore this.{special}\nNow"
    prompt, _ = processor.encode([user(AUDIO, text("?"))], [1])
    ids, start = processor.encode([user(AUDIO, text(f"?{words}"))], [1], target=words)
    for token in processor.ids.values():
        assert ids[:start].count(token) == prompt.count(token)
    assert processor.decode(ids[start:]) == words


@pytest.mark.parametrize("task", TASKS)
def test_a_training_row_is_the_prompt_of_generation_then_the_answer_and_its_end(task, processor):
    clips = [noise(0.5), noise(1.2)]
    counts = [audio_tokens(mel_frames(len(clip))) for clip in clips]
    ids, start = processor.encode(conversation(task), counts, target="A dog barks.")
    assert [ids[:start]] == processor([conversation(task)], clips)["input_ids"].tolist()
    assert ids[-1] == processor.ids["<|im_end|>"]
    assert processor.decode(ids[start:]) == "A dog barks."


@pytest.mark.parametrize("end", ["<|im_end|>", "<|endoftext|>"])
def test_decode_stops_at_any_end_token_and_leaves_special_tokens_out(end, processor):
    answer = processor.tokenizer.encode(f"A dog<|audio_bos|> barks.{end} A cat.{end}")
    assert processor.decode(np.array(answer)) == "A dog barks."


@pytest.mark.parametrize(
    ("clip", "message"),
    [
        (np.zeros(16_000, np.int16), "int16 samples"),
        (np.zeros((2, 16_000), np.float32), r"shape \(2, 16000\)"),
        (np.zeros(320, np.float32), "320 samples are too short"),
        (np.zeros(480_001, np.float32), "longer than the 30 s"),
        (np.full(16_000, np.nan, np.float32), "NaN"),
        ("nowhere.wav", "nowhere.wav"),
    ],
)
def test_an_unusable_recording_is_named_and_refused(clip, message, processor):
    with pytest.raises(InputError, match=message) as error:
        processor([conversation("difference")], [noise(1), clip])
    assert "audio[1]" in str(error.value) or "nowhere.wav" in str(error.value)


@pytest.mark.parametrize(
    ("clips", "message"),
    [
        (3, "row 1 has 2 audio items, but of the recordings 1 are left"),
        (5, r"the last row \(1\) leaves 1 of 5 recordings unused"),
        (0, "row 0 has 2 audio items"),
    ],
)
def test_more_or_fewer_recordings_than_audio_items_are_refused_with_the_row(clips, message, processor):
    with pytest.raises(InputError, match=message):
        processor([conversation("difference")] * 2, [noise(0.1)] * clips)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "at least one message"),
        (user(AUDIO), "must be a list"),
        ([{"role": "robot", "content": "Hi"}], "message 0: role is 'robot'"),
        ([{"role": "user"}], "message 0: content must be"),
        ([user({"type": "image"})], "neither audio nor text"),
    ],
)
def test_a_malformed_conversation_is_refused_with_the_row(messages, message, processor):
    with pytest.raises(InputError, match=f"row 1: .*{message}"):
        processor([CONVERSATIONS["text alone"], messages])


def test_fewer_frames_than_the_longest_recording_needs_are_refused(processor):
    with pytest.raises(InputError, match="pad_to is 100; the longest recording needs 101 to 3000"):
        processor([CONVERSATIONS["one clip"]], [noise(1)], pad_to=100)


def test_a_saved_copy_gives_the_same_batch(processor, tiny_checkpoint, tmp_path):
    processor.save(tmp_path)
    shutil.copy(tiny_checkpoint / "config.json", tmp_path)
    copy = Processor.from_folder(tmp_path)
    ids = processor.encode(conversation("difference"), [3, 4], "A dog barks.")
    assert copy.encode(conversation("difference"), [3, 4], "A dog barks.") == ids
    assert copy.eos_ids == processor.eos_ids
    assert pickle.loads(pickle.dumps(copy)).encode(conversation("difference"), [3, 4], "A dog barks.") == ids
    assert {file.name for file in tmp_path.iterdir()} == {
        file.name for file in tiny_checkpoint.iterdir() if file.suffix != ".safetensors"
    }


def test_the_token_part_imports_no_jax(tiny_checkpoint):
    code = (
        "import sys; from jaxeval.processor import Processor; "
        f"Processor.from_folder({str(tiny_checkpoint)!r}).encode([{{'role': 'user', 'content': 'Hi'}}], [], 'Hello'); "
        "sys.exit('jax' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent.parent)


def break_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"cut')


def set_eos(folder, value):
    file = folder / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"eos_token_id": value}))


def rename_audio_token(folder: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text((folder / name).read_text().replace("<|AUDIO|>", "<|NOISE|>"))


def move_audio_token(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"audio_token_index": 7}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer"),
        (lambda folder: (folder / "config.json").unlink(), "config.json: no such file"),
        (break_tokenizer, r"tokenizer\.json: not JSON"),
        (lambda folder: set_eos(folder, "x"), "generation_config.json: eos_token_id is 'x'"),
        (lambda folder: set_eos(folder, [[1]]), "generation_config.json: eos_token_id"),
        (rename_audio_token, r"lacks <\|AUDIO\|>"),
        (move_audio_token, "audio_token_index is 7"),
    ],
)
def test_a_folder_whose_tokenizer_is_missing_or_wrong_is_refused_by_name(damage, message, tiny_checkpoint, tmp_path):
    folder = tmp_path / "checkpoint"
    shutil.copytree(tiny_checkpoint, folder)
    damage(folder)
    with pytest.raises(InputError, match=message) as error:
        Processor.from_folder(folder)
    assert str(folder) in str(error.value)

"""Logits equal those of transformers to 1e-4, for every shape, layout of keys and kind of batch."""

import jax
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import jaxeval
from jaxeval.audio.lengths import audio_tokens, frame_bucket
from tests.parity.conftest import SHAPES
from tools.convert_weights.importing import import_checkpoint

TOLERANCE = 1e-4
FRAMES = [(99, 142), (), (260, 37)]  # valid mel frames of each clip of each row; the middle row is text alone


def make_batch(pair, *, side="right", legacy=False, seed=0):
    """A padded batch of random tokens and features, 3000 frames wide as the reference wants it."""
    rng = np.random.default_rng(seed)
    audio = pair.model.config.audio_token_id
    rows: list[list[int]] = []
    for frames in FRAMES:
        row = rng.integers(1, audio, 5).tolist()
        for count in frames:
            row += [audio + 1, *[audio] * (1 if legacy else audio_tokens(count)), audio + 2]
        rows.append(row + rng.integers(1, audio, 4 + len(rows)).tolist())
    width = max(map(len, rows))
    pads = [[pair.processor.pad_id] * (width - len(row)) for row in rows]
    joined = zip(rows, pads, strict=True)
    counts = np.array([count for frames in FRAMES for count in frames])
    features = rng.normal(0, 0.5, (len(counts), pair.model.config.audio.num_mels, 3000)).astype(np.float32)
    mask = np.arange(3000) < counts[:, None]
    return {
        "input_ids": np.array([pad + row if side == "left" else row + pad for row, pad in joined]),
        "attention_mask": np.array(
            [
                [0] * len(pad) + [1] * len(row) if side == "left" else [1] * len(row) + [0] * len(pad)
                for row, pad in zip(rows, pads, strict=True)
            ]
        ),
        "input_features": np.where(mask[:, None], features, -0.75).astype(np.float32),
        "feature_attention_mask": mask.astype(np.int32),
    }


def reference_logits(pair, batch):
    with torch.no_grad():
        output = pair.reference(**{name: torch.from_numpy(value) for name, value in batch.items()})
    return output.logits.numpy()


def bucketed(batch):
    """The batch at the mel length our processor gives it."""
    frames = frame_bucket(int(batch["feature_attention_mask"].sum(-1).max()))
    return {**batch} | {name: batch[name][..., :frames] for name in ("input_features", "feature_attention_mask")}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("width", ["full", "bucketed"])
def test_logits_of_two_clips_a_row_mixed_with_text_rows(pair, shape, side, width):
    both = pair(shape)
    batch = make_batch(both, side=side)
    expected = reference_logits(both, batch)
    logits = np.asarray(both.model(bucketed(batch) if width == "bucketed" else batch))
    valid = batch["attention_mask"] == 1
    assert np.abs(expected[valid]).max() > 0.1
    np.testing.assert_allclose(logits[valid], expected[valid], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("side", ["left", "right"])
def test_logits_of_legacy_prompts_equal_those_of_expanded_ones(pair, side):
    both = pair("grouped")
    legacy, expanded = make_batch(both, side=side, legacy=True), make_batch(both, side=side)
    logits, expected = np.asarray(both.model(legacy)), reference_logits(both, legacy)
    valid = expanded["attention_mask"] == 1
    assert logits.shape == expected.shape == (*valid.shape, SHAPES["grouped"].vocab)
    np.testing.assert_allclose(logits[valid], expected[valid], rtol=0, atol=TOLERANCE)


def test_logits_without_any_audio(pair):
    both = pair("multi-head")
    batch = {name: make_batch(both)[name][1:2, :8] for name in ("input_ids", "attention_mask")}
    np.testing.assert_allclose(np.asarray(both.model(batch)), reference_logits(both, batch), rtol=0, atol=TOLERANCE)


def test_remat_and_jit_change_nothing(pair):
    both = pair("grouped")
    batch = make_batch(both, side="left")
    model, _ = jaxeval.load_model(both.checkpoint, remat=True)
    logits = np.asarray(jax.jit(lambda batch: model(batch))(batch))
    valid = batch["attention_mask"] == 1
    np.testing.assert_allclose(logits[valid], reference_logits(both, batch)[valid], rtol=0, atol=TOLERANCE)


def in_memory(state):
    return state


def mixed(state):
    return {name.removeprefix("model."): value for name, value in state.items()}


def old_hub(state):
    renamed = {}
    for name, value in mixed(state).items():
        inner = name.startswith("language_model.")
        name = name.replace("language_model.", "language_model.model.", 1) if inner else name
        renamed[f"language_model.{name}" if name.startswith("lm_head") else name] = value
    return renamed


@pytest.mark.parametrize("layout", [in_memory, mixed, old_hub])
def test_logits_of_weights_that_came_in_each_layout(pair, layout, tmp_path):
    both = pair("grouped")
    folder = tmp_path / "hf"
    folder.mkdir()
    both.processor.save(folder)
    both.reference.config.save_pretrained(folder)  # in the new spelling
    state = {name: value.clone() for name, value in layout(both.reference.state_dict()).items()}
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    import_checkpoint(folder, tmp_path / "flax")
    model, _ = jaxeval.load_model(tmp_path / "flax")
    batch = make_batch(both)
    valid = batch["attention_mask"] == 1
    logits = np.asarray(model(batch))
    np.testing.assert_allclose(logits[valid], reference_logits(both, batch)[valid], rtol=0, atol=TOLERANCE)


def test_save_pretrained_is_read_too(pair, tmp_path):
    both = pair("grouped")
    both.reference.save_pretrained(tmp_path / "hf", max_shard_size="100KB")
    both.processor.save(tmp_path / "hf")
    assert len(list((tmp_path / "hf").glob("*.safetensors"))) > 1
    import_checkpoint(tmp_path / "hf", tmp_path / "flax")
    model, _ = jaxeval.load_model(tmp_path / "flax")
    batch = make_batch(both)
    np.testing.assert_array_equal(np.asarray(model(batch)), np.asarray(both.model(batch)))

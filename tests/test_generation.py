"""Generation: the cached loop gives what the whole model gives, row by row, on any mesh."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxeval.errors import InputError
from jaxeval.generation import Sampling, _choose, encode_audio, generate, model_sampling
from jaxeval.models.config import AudioConfig, Qwen2AudioConfig, TextConfig
from jaxeval.models.qwen2_audio import Qwen2Audio
from jaxeval.sharding import make_mesh, state_shardings

AUDIO_ID, PAD = 90, 95
CONFIG = Qwen2AudioConfig(
    audio=AudioConfig(num_mels=16, hidden_size=16, num_layers=1, num_heads=2, ffn_size=32, max_positions=64),
    text=TextConfig(vocab_size=96, hidden_size=32, ffn_size=48, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=8),
    audio_token_id=AUDIO_ID,
    eos_token_ids=(PAD,),
    pad_token_id=PAD,
)


@functools.cache
def weights():
    """Random weights, far from the near-uniform logits of a fresh model."""

    def make():
        state = nnx.state(Qwen2Audio(CONFIG, rngs=nnx.Rngs(0)))
        for path, value in nnx.to_flat_state(state):
            if "norm" not in str(path[-2:]):
                value.set_value(value.get_value() * 8)
        return state

    return jax.jit(make)()


def make_model(config=CONFIG):
    graph = nnx.graphdef(nnx.eval_shape(lambda: Qwen2Audio(config, rngs=nnx.Rngs(0))))
    return nnx.merge(graph, weights())


def make_batch(rows=4):
    """Rows of two clips and of different length, padded on the left."""
    rng = np.random.default_rng(0)
    ids = np.full((rows, 30), PAD, np.int32)
    mask = np.zeros_like(ids)
    for row in range(rows):
        length = 24 + row
        tokens = rng.integers(0, AUDIO_ID, length)
        tokens[3:8] = tokens[10:15] = AUDIO_ID
        ids[row, -length:], mask[row, -length:] = tokens, 1
    features = rng.standard_normal((2 * rows, 16, 26)).astype(np.float32)
    frames = np.full((2 * rows, 1), 20)
    valid = (np.arange(26) < frames).astype(np.int32)
    return {"input_ids": ids, "attention_mask": mask, "input_features": features, "feature_attention_mask": valid}


def test_every_greedy_token_is_the_likeliest_to_the_whole_model():
    model, batch = make_model(CONFIG.replace(eos_token_ids=())), make_batch()
    tokens = generate(model, batch, 8)
    assert len(np.unique(tokens)) > 4
    answered = {
        **batch,
        "input_ids": np.concatenate([batch["input_ids"], tokens], axis=1),
        "attention_mask": np.pad(batch["attention_mask"], ((0, 0), (0, 8)), constant_values=1),
    }
    np.testing.assert_array_equal(model(answered)[:, -9:-1].argmax(-1), tokens)


def test_a_row_ends_with_its_first_end_token_and_padding():
    batch = make_batch()
    free = generate(make_model(CONFIG.replace(eos_token_ids=())), batch, 8)
    end = int(free[0, 2])
    tokens = generate(make_model(CONFIG.replace(eos_token_ids=(end,))), batch, 8)
    for row, unbounded in zip(tokens, free, strict=True):
        stop = list(unbounded).index(end) + 1 if end in unbounded else 8
        np.testing.assert_array_equal(row[:stop], unbounded[:stop])
        assert (row[stop:] == PAD).all()
    assert (tokens[0, 3:] == PAD).all()


def test_a_row_alone_gets_what_it_gets_in_company():
    model, batch = make_model(), make_batch()
    together = generate(model, batch, 6)
    alone = {name: value[2:4] if "feature" in name else value[1:2] for name, value in batch.items()}
    np.testing.assert_array_equal(generate(model, alone, 6)[0], together[1])


def test_prompts_of_one_audio_token_a_clip_are_padded_on_the_left_when_expanded():
    model = make_model()
    frames = np.array([[20], [8]])
    legacy = {
        "input_ids": np.array([[1, AUDIO_ID, 2, 3], [4, AUDIO_ID, 5, 6]], np.int32),
        "attention_mask": np.ones((2, 4), np.int32),
        "input_features": make_batch(1)["input_features"],
        "feature_attention_mask": (np.arange(26) < frames).astype(np.int32),
    }
    alone = {name: value[1:] for name, value in legacy.items()}
    np.testing.assert_array_equal(generate(model, legacy, 6)[1], generate(model, alone, 6)[0])


def test_features_encoded_beforehand_give_the_same_answers():
    model, batch = make_model(), make_batch()
    prepared = {name: value for name, value in batch.items() if name != "input_features"}
    prepared["audio_features"] = encode_audio(model, batch)
    np.testing.assert_array_equal(generate(model, prepared, 6), generate(model, batch, 6))


@pytest.mark.parametrize(
    "sizes", [{"data": 4}, {"fsdp": 4}, {"tensor": 2}, {"data": 2, "fsdp": 2, "tensor": 2}], ids=str
)
def test_answers_are_the_same_on_any_mesh(sizes):
    model, batch = make_model(), make_batch()
    expected = generate(model, batch, 6)
    state = nnx.state(model)
    nnx.update(model, jax.device_put(state, state_shardings(state, make_mesh(sizes))))
    np.testing.assert_array_equal(generate(model, batch, 6), expected)


def test_a_sampled_row_depends_on_its_own_key_alone():
    model, batch = make_model(), make_batch()
    sampling = Sampling(temperature=1.0)
    keys = jax.random.split(jax.random.key(5), 4)
    first = generate(model, batch, 6, sampling=sampling, keys=keys)
    second = generate(model, batch, 6, sampling=sampling, keys=keys.at[0].set(jax.random.key(9)))
    np.testing.assert_array_equal(first[1:], second[1:])
    assert (first[0] != second[0]).any()


def test_top_k_and_top_p_leave_only_the_likeliest_tokens():
    logits = jnp.log(jnp.array([[0.5, 0.25, 0.15, 0.1]]))

    def drawn(sampling):
        keys = jax.random.split(jax.random.key(0), 400)
        return set(np.asarray(_choose(jnp.tile(logits, (400, 1)), None, keys, sampling)).tolist())

    assert drawn(Sampling(temperature=1.0)) == {0, 1, 2, 3}
    assert drawn(Sampling(temperature=1.0, top_k=2)) == {0, 1}
    assert drawn(Sampling(temperature=1.0, top_p=0.6)) == {0, 1}
    assert drawn(Sampling(temperature=1.0, top_p=0.01)) == {0}
    assert drawn(Sampling(temperature=0.05)) == {0}


def test_repetition_penalty_counts_the_prompt_and_what_was_said():
    seen = jnp.array([[True, False, True]])
    keys = jax.random.split(jax.random.key(0), 1)
    penalty = Sampling(repetition_penalty=2.0)
    assert _choose(jnp.array([[1.5, 1.0, -1.0]]), seen, keys, penalty)[0] == 1
    model = make_model(CONFIG.replace(eos_token_ids=()))
    answers = generate(model, make_batch(), 20, sampling=Sampling(repetition_penalty=1e6))
    for row, prompt in zip(answers, make_batch()["input_ids"], strict=True):
        assert len(set(row.tolist()) - set(prompt.tolist())) == 20


def test_what_cannot_be_generated_is_refused():
    model, batch = make_model(), make_batch()
    with pytest.raises(ValueError, match="padded on the left"):
        generate(model, {**batch, "attention_mask": batch["attention_mask"][:, ::-1]}, 2)
    with pytest.raises(ValueError, match="one random key a row"):
        generate(model, batch, 2, sampling=Sampling(temperature=1.0))
    with pytest.raises(ValueError, match="no features"):
        generate(model, {name: batch[name] for name in ("input_ids", "attention_mask")}, 2)


def test_sampling_settings_come_from_the_checkpoint(tmp_path):
    file = tmp_path / "generation_config.json"
    file.write_text(
        json.dumps({"do_sample": True, "top_k": 20, "top_p": 0.5, "temperature": 0.7, "repetition_penalty": 1.1})
    )
    assert model_sampling(tmp_path) == Sampling(0.7, 20, 0.5, 1.1)
    file.write_text(json.dumps({"top_k": 20}))
    assert model_sampling(tmp_path).temperature == 0
    for setting, message in [({"top_k": "many"}, "top_k is 'many'"), ({"top_k": 2.5}, "expected an integer")]:
        file.write_text(json.dumps(setting))
        with pytest.raises(InputError, match=message):
            model_sampling(tmp_path)

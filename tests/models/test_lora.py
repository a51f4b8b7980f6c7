"""Adapters beside linear maps: where they go, what they compute, and how they are folded in."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxeval.errors import InputError
from jaxeval.models.config import AudioConfig, Qwen2AudioConfig, TextConfig
from jaxeval.models.lora import LoraConfig, add_lora, linears, merge_lora
from jaxeval.models.qwen2_audio import Qwen2Audio

CONFIG = Qwen2AudioConfig(
    audio=AudioConfig(num_mels=8, hidden_size=16, num_layers=2, num_heads=2, ffn_size=24, max_positions=50),
    text=TextConfig(vocab_size=40, hidden_size=16, ffn_size=24, num_layers=2, num_heads=2, num_kv_heads=1, head_dim=8),
    audio_token_id=39,
)
BATCH = {"input_ids": np.arange(24).reshape(2, 12), "attention_mask": np.ones((2, 12), int)}


def make(config=CONFIG, lora=None, b=0.3):
    def fresh():
        model = Qwen2Audio(config, rngs=nnx.Rngs(0))
        if lora is not None:
            add_lora(model, lora, rngs=nnx.Rngs(1))
            for _, linear in linears(model):
                if linear.lora is not None:
                    linear.lora.lora_b.set_value(jnp.full_like(linear.lora.lora_b[...], b))
        return model

    return nnx.merge(nnx.graphdef(nnx.eval_shape(fresh)), jax.jit(lambda: nnx.state(fresh()))())


def adapted(model):
    return [path for path, linear in linears(model) if linear.lora is not None]


def test_default_is_every_linear_map_of_the_decoder_and_none_of_the_encoder():
    found = adapted(make(lora=LoraConfig()))
    assert len(found) == 7
    assert all(path.startswith("language_model.layers.") for path in found)


def test_a_fresh_adapter_changes_nothing():
    np.testing.assert_array_equal(make(lora=LoraConfig(), b=0.0)(BATCH), make()(BATCH))


@pytest.mark.parametrize("rslora", [False, True])
def test_output_is_the_base_plus_the_scaled_low_rank_product(rslora):
    linear = make(lora=LoraConfig(rank=4, alpha=6.0, rslora=rslora)).language_model.layers.mlp.up_proj
    one = jax.tree.map(lambda value: value[1], nnx.state(linear))
    layer = nnx.merge(nnx.graphdef(linear), one)
    x = jax.random.normal(jax.random.key(2), (3, 5, 16))
    a, b, w = layer.lora.lora_a[...], layer.lora.lora_b[...], layer.weight[...]
    scale = 6.0 / (2.0 if rslora else 4.0)
    np.testing.assert_allclose(layer(x), x @ w.T + scale * x @ a.T @ b.T, atol=1e-5)


def test_adapters_are_float32_beside_a_bfloat16_base():
    model = make(CONFIG.replace(param_dtype=jnp.bfloat16, dtype=jnp.bfloat16), LoraConfig())
    assert {value.dtype for value in jax.tree.leaves(nnx.state(model, nnx.LoRAParam))} == {jnp.dtype("float32")}
    assert model.lm_head.dtype == jnp.bfloat16


def test_merging_keeps_what_the_model_computes():
    model = make(lora=LoraConfig(rank=4, targets=".*"))
    before = model(BATCH)
    merge_lora(model)
    assert not adapted(model)
    np.testing.assert_allclose(model(BATCH), before, atol=1e-5)


def test_dropout_needs_a_key_and_differs_by_key():
    model = make(lora=LoraConfig(dropout=0.5))
    linear = jax.tree.map(lambda value: value[0], nnx.state(model.language_model.layers.mlp.up_proj))
    layer = nnx.merge(nnx.graphdef(model.language_model.layers.mlp.up_proj), linear)
    x = jnp.ones((3, 16))
    still, first, again, second = (
        layer(x, key) for key in (None, jax.random.key(1), jax.random.key(1), jax.random.key(2))
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - second).max() > 1e-3
    assert np.abs(first - still).max() > 1e-3


@pytest.mark.parametrize(("targets", "message"), [("nothing", "matches none of"), ("(", "no regular expression")])
def test_an_expression_without_a_match_is_named(targets, message):
    with pytest.raises(InputError, match=message):
        make(lora=LoraConfig(targets=targets))

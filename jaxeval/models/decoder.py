"""The Qwen decoder: embeddings in, normed hidden states out; with a cache it also prefills and decodes.

Grouped-query attention, SwiGLU, RMS norms and half-rotation rotary positions, all sized by the configuration.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx

from jaxeval.models.attention import attention, decode_attention
from jaxeval.models.config import Qwen2AudioConfig
from jaxeval.models.kv_cache import KVCache
from jaxeval.models.layers import Linear, RMSNorm, normal, parameter, rotary_table, rotate, scan_layers
from jaxeval.sharding import constrain

Rotary = tuple[jax.Array, jax.Array]


class Decoder(nnx.Module):
    """Token embedding, the stack of decoder layers, and the final norm."""

    def __init__(self, config: Qwen2AudioConfig, *, rngs: nnx.Rngs):
        text, dtype = config.text, config.param_dtype
        self.config = config
        self.embed_tokens = parameter(rngs, (text.vocab_size, text.hidden_size), ("vocab", "embed"), normal, dtype)
        self.layers = DecoderLayer(config, rngs=rngs)
        self.norm = RMSNorm(text.hidden_size, text.rms_norm_eps, dtype=dtype, rngs=rngs)

    def embed(self, tokens: jax.Array) -> jax.Array:
        """[batch, length] -> [batch, length, hidden] in the compute dtype."""
        return self.embed_tokens[...][tokens].astype(self.config.dtype)

    def __call__(
        self,
        x: jax.Array,
        start: jax.Array | None = None,
        cache: KVCache | None = None,
        dropout_key: jax.Array | None = None,
    ) -> tuple[jax.Array, KVCache | None]:
        """Run the layers over embeddings.

        Args:
            x: [batch, length, hidden]. With a cache, the tokens that follow those in it: a whole prompt
                into an empty cache, or one token a row.
            start: [batch] padding tokens on the left of each row; they are masked and do not count as positions.
                None if there are none. With a cache, the cache's own `start` holds.
            cache: keys and values so far.
            dropout_key: switches the adapters' dropout on.

        Returns:
            The normed hidden states [batch, length, hidden] and the cache with the new tokens in it.
        """
        text = self.config.text
        x = constrain(x, "batch", "length", "activation")
        column = jnp.arange(x.shape[1])[None]
        if cache is not None:
            start, column = cache.start, column + cache.length
        positions = column if start is None else jnp.maximum(column - start[:, None], 0)
        rotary = rotary_table(positions, text.head_dim, text.rope_theta)
        keys = None if dropout_key is None else jax.random.split(dropout_key, text.num_layers)

        def step(layer: DecoderLayer, carry, inputs):
            x, cache = carry
            index, key = inputs
            return layer(x, cache, rotary, start, index, key)

        x, cache = scan_layers(
            self.layers, step, (x, cache), (jnp.arange(text.num_layers), keys), remat=self.config.remat
        )
        return self.norm(x), cache if cache is None else cache.advance(x.shape[1])


class DecoderLayer(nnx.Module):
    """One decoder layer, or all of them stacked."""

    def __init__(self, config: Qwen2AudioConfig, *, rngs: nnx.Rngs):
        text = config.text
        stack = partial(RMSNorm, dtype=config.param_dtype, layers=text.num_layers, rngs=rngs)
        norm = partial(stack, text.hidden_size, text.rms_norm_eps)
        self.self_attn = DecoderAttention(config, rngs=rngs)
        self.mlp = SwiGLU(config, rngs=rngs)
        self.input_layernorm = norm()
        self.post_attention_layernorm = norm()

    def __call__(
        self,
        x: jax.Array,
        cache: KVCache | None,
        rotary: Rotary,
        start: jax.Array | None,
        index: jax.Array,
        dropout_key: jax.Array | None,
    ) -> tuple[jax.Array, KVCache | None]:
        attention_key, mlp_key = (None, None) if dropout_key is None else jax.random.split(dropout_key)
        y, cache = self.self_attn(self.input_layernorm(x), cache, rotary, start, index, attention_key)
        x = constrain(x + y, "batch", "length", "activation")
        x += self.mlp(self.post_attention_layernorm(x), mlp_key)
        return constrain(x, "batch", "length", "activation"), cache


class DecoderAttention(nnx.Module):
    """Causal grouped-query attention with biased q, k, v."""

    def __init__(self, config: Qwen2AudioConfig, *, rngs: nnx.Rngs):
        text = config.text
        linear = partial(Linear, dtype=config.param_dtype, layers=text.num_layers, rngs=rngs)
        q_size, kv_size = text.num_heads * text.head_dim, text.num_kv_heads * text.head_dim
        self.head_dim, self.implementation = text.head_dim, config.attention
        self.q_proj = linear(text.hidden_size, q_size, ("heads", "embed"), bias=True)
        self.k_proj = linear(text.hidden_size, kv_size, ("kv_heads", "embed"), bias=True)
        self.v_proj = linear(text.hidden_size, kv_size, ("kv_heads", "embed"), bias=True)
        self.o_proj = linear(q_size, text.hidden_size, ("embed", "heads"), bias=False)

    def __call__(
        self,
        x: jax.Array,
        cache: KVCache | None,
        rotary: Rotary,
        start: jax.Array | None,
        index: jax.Array,
        dropout_key: jax.Array | None,
    ) -> tuple[jax.Array, KVCache | None]:
        keys = [None] * 4 if dropout_key is None else jax.random.split(dropout_key, 4)
        heads = (*x.shape[:2], -1, self.head_dim)
        q = rotate(self.q_proj(x, keys[0]).reshape(heads), rotary)
        k = rotate(self.k_proj(x, keys[1]).reshape(heads), rotary)
        v = self.v_proj(x, keys[2]).reshape(heads)
        if cache is not None:
            cache = cache.write(index, k, v)
        if cache is not None and x.shape[1] == 1:
            y = decode_attention(q, *cache.layer(index), start=cache.start, stop=cache.length + 1)
        else:
            y = attention(q, k, v, start=start, causal=True, implementation=self.implementation)
        return self.o_proj(y.reshape(*x.shape[:2], -1), keys[3]), cache


class SwiGLU(nnx.Module):
    """`down(silu(gate(x)) · up(x))`, without biases."""

    def __init__(self, config: Qwen2AudioConfig, *, rngs: nnx.Rngs):
        text = config.text
        linear = partial(Linear, bias=False, dtype=config.param_dtype, layers=text.num_layers, rngs=rngs)
        self.gate_proj = linear(text.hidden_size, text.ffn_size, ("mlp", "embed"))
        self.up_proj = linear(text.hidden_size, text.ffn_size, ("mlp", "embed"))
        self.down_proj = linear(text.ffn_size, text.hidden_size, ("embed", "mlp"))

    def __call__(self, x: jax.Array, dropout_key: jax.Array | None) -> jax.Array:
        keys = [None] * 3 if dropout_key is None else jax.random.split(dropout_key, 3)
        return self.down_proj(_gate(self.gate_proj(x, keys[0]), self.up_proj(x, keys[1])), keys[2])


@jax.checkpoint
def _gate(gate: jax.Array, up: jax.Array) -> jax.Array:
    """`silu(gate) · up`; recomputed in the backward pass, which costs less than keeping its parts in memory."""
    return jax.nn.silu(gate) * up

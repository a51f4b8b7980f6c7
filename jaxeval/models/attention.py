"""Scaled dot-product attention for the encoder, for training and prefill, and for one decoded token.

Each row has one contiguous range of valid keys, `[start, stop)`: left padding moves `start`, right padding and the
end of a clip move `stop`. The XLA form works on one block of queries at a time, looks only at the keys that block
may see, and recomputes its weights in the backward pass, so the score matrix of a whole row never exists.
"""

from __future__ import annotations

import functools
from typing import Literal

import jax
import jax.numpy as jnp

QUERY_BLOCK = 128
MASKED = -1e30


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    start: jax.Array | None = None,
    stop: jax.Array | None = None,
    causal: bool,
    implementation: Literal["xla", "cudnn"] = "xla",
) -> jax.Array:
    """Attention over a whole sequence, softmax in float32.

    Args:
        q: [batch, length, heads, head_dim].
        k, v: [batch, length, kv_heads, head_dim]; each kv head serves `heads / kv_heads` query heads.
        start, stop: [batch] valid keys of each row; default all of them. A query without a valid key gives
            a finite, meaningless value.
        causal: a query sees keys up to its own position.
        implementation: `"cudnn"` is NVIDIA's fused kernel (16-bit inputs, GPU only).

    Returns:
        [batch, length, heads, head_dim] in the dtype of v.
    """
    if implementation == "cudnn":
        return _cudnn(q, k, v, start, stop, causal)
    batch, length, heads, head_dim = q.shape
    kv_heads = k.shape[2]
    q = (q * head_dim**-0.5).reshape(batch, length, kv_heads, heads // kv_heads, head_dim)
    q, k, v = q.transpose(0, 2, 3, 1, 4), k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3)
    blocks = []
    for begin in range(0, length, QUERY_BLOCK):
        end = min(begin + QUERY_BLOCK, length)
        seen = end if causal else length
        block = jax.checkpoint(functools.partial(_attend_block, begin=begin, causal=causal))
        blocks.append(block(q[:, :, :, begin:end], k[:, :, :seen], v[:, :, :seen], start, stop))
    out = jnp.concatenate(blocks, axis=3)  # [batch, kv_heads, group, length, head_dim]
    return out.transpose(0, 3, 1, 2, 4).reshape(batch, length, heads, head_dim)


def decode_attention(q: jax.Array, k: jax.Array, v: jax.Array, *, start: jax.Array, stop: jax.Array) -> jax.Array:
    """Attention of one new token a row over a cache.

    Args:
        q: [batch, 1, heads, head_dim].
        k, v: [batch, kv_heads, capacity, head_dim].
        start: [batch] first valid column of each row; stop: scalar, one past the last.

    Returns:
        [batch, 1, heads, head_dim].
    """
    batch, _, heads, head_dim = q.shape
    kv_heads, capacity = k.shape[1], k.shape[2]
    q = (q * head_dim**-0.5).reshape(batch, kv_heads, heads // kv_heads, head_dim)
    scores = jnp.einsum("bghd,bgkd->bghk", q, k, preferred_element_type=jnp.float32)
    column = jnp.arange(capacity)
    valid = (column >= start[:, None]) & (column < stop)
    weights = jax.nn.softmax(jnp.where(valid[:, None, None], scores, MASKED), axis=-1).astype(v.dtype)
    return jnp.einsum("bghk,bgkd->bghd", weights, v).reshape(batch, 1, heads, head_dim)


def _attend_block(q, k, v, start, stop, *, begin: int, causal: bool) -> jax.Array:
    """One block of queries that starts at position `begin`: [batch, kv_heads, group, queries, head_dim]."""
    key = jnp.arange(k.shape[2])
    valid = jnp.ones((1, 1, k.shape[2]), bool)  # [batch, queries, keys]
    if causal:
        valid &= key <= (begin + jnp.arange(q.shape[3]))[:, None]
    if start is not None:
        valid &= key >= start[:, None, None]
    if stop is not None:
        valid &= key < stop[:, None, None]
    scores = jnp.einsum("bghqd,bgkd->bghqk", q, k, preferred_element_type=jnp.float32)
    weights = jax.nn.softmax(jnp.where(valid[:, None, None], scores, MASKED), axis=-1).astype(v.dtype)
    return jnp.einsum("bghqk,bgkd->bghqd", weights, v)


def _cudnn(q, k, v, start, stop, causal: bool) -> jax.Array:
    """The fused kernel knows lengths, which cost nothing; only a `start` needs the dense mask."""
    lengths = None if stop is None else stop.astype(jnp.int32)
    mask = None if start is None else (jnp.arange(k.shape[1]) >= start[:, None])[:, None, None, :]
    return jax.nn.dot_product_attention(
        q, k, v, mask=mask, is_causal=causal, key_value_seq_lengths=lengths, implementation="cudnn"
    )

"""Scaled dot-product attention for the encoder, for training and prefill, and for one decoded token.

Each row has one contiguous range of valid keys, `[start, stop)`: left padding moves `start`, right padding and the
end of a clip move `stop`. The XLA form works on one block of queries at a time, looks only at the keys that block
may see, and recomputes its weights in the backward pass, so the score matrix of a whole row never exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
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
    start = jnp.zeros(batch, jnp.int32) if start is None else start
    stop = jnp.full(batch, length, jnp.int32) if stop is None else stop
    out = _blockwise(q, k, v, start, stop, causal)
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


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def _blockwise(q, k, v, start, stop, causal: bool) -> jax.Array:
    """Attention by blocks of queries.

    Args:
        q: [batch, kv_heads, group, length, head_dim], scaled.
        k, v: [batch, kv_heads, length, head_dim].
        start, stop: [batch].
    """
    return _forward(q, k, v, start, stop, causal)[0]


def _forward(q, k, v, start, stop, causal: bool):
    """The output, and what the backward pass needs: inputs, output, and the log-sum-exp of each query's scores."""
    outputs, normalisers = [], []
    for begin, end, seen in _blocks(q.shape[3], causal):
        scores = _scores(q[..., begin:end, :], k[:, :, :seen], start, stop, begin, causal)
        peak = scores.max(-1, keepdims=True)
        weights = jnp.exp(scores - peak)
        total = weights.sum(-1, keepdims=True)
        out = jnp.einsum(
            "bghqk,bgkd->bghqd", weights.astype(v.dtype), v[:, :, :seen], preferred_element_type=jnp.float32
        )
        outputs.append((out / total).astype(v.dtype))
        normalisers.append(peak + jnp.log(total))
    out = jnp.concatenate(outputs, axis=3)
    return out, (q, k, v, start, stop, out, jnp.concatenate(normalisers, axis=3))


def _backward(causal: bool, saved, d_out):
    """Gradients as in FlashAttention (Dao et al., 2022): the weights are recomputed from the saved normalisers."""
    q, k, v, start, stop, out, normaliser = saved
    delta = (d_out.astype(jnp.float32) * out.astype(jnp.float32)).sum(-1, keepdims=True)
    d_q, d_k, d_v = [], jnp.zeros(k.shape, jnp.float32), jnp.zeros(v.shape, jnp.float32)
    for begin, end, seen in _blocks(q.shape[3], causal):
        block = slice(begin, end)
        q_block, d_block, keys, values = q[..., block, :], d_out[..., block, :], k[:, :, :seen], v[:, :, :seen]
        weights = jnp.exp(_scores(q_block, keys, start, stop, begin, causal) - normaliser[..., block, :])
        d_weights = jnp.einsum("bghqd,bgkd->bghqk", d_block, values, preferred_element_type=jnp.float32)
        d_scores = (weights * (d_weights - delta[..., block, :])).astype(q.dtype)
        d_q.append(jnp.einsum("bghqk,bgkd->bghqd", d_scores, keys))
        d_k = d_k.at[:, :, :seen].add(jnp.einsum("bghqk,bghqd->bgkd", d_scores, q_block))
        d_v = d_v.at[:, :, :seen].add(jnp.einsum("bghqk,bghqd->bgkd", weights.astype(v.dtype), d_block))
    return jnp.concatenate(d_q, axis=3), d_k.astype(k.dtype), d_v.astype(v.dtype), None, None


_blockwise.defvjp(_forward, _backward)


def _blocks(length: int, causal: bool) -> Iterator[tuple[int, int, int]]:
    """Begin and end of each block of queries, and how many keys it may see."""
    for begin in range(0, length, QUERY_BLOCK):
        end = min(begin + QUERY_BLOCK, length)
        yield begin, end, end if causal else length


def _scores(q, k, start, stop, begin: int, causal: bool) -> jax.Array:
    """Masked float32 scores of the queries from position `begin` on: [batch, kv_heads, group, queries, keys]."""
    key = jnp.arange(k.shape[2])
    valid = (key >= start[:, None, None]) & (key < stop[:, None, None])  # [batch, queries, keys]
    if causal:
        valid &= key <= (begin + jnp.arange(q.shape[3]))[:, None]
    scores = jnp.einsum("bghqd,bgkd->bghqk", q, k, preferred_element_type=jnp.float32)
    return jnp.where(valid[:, None, None], scores, MASKED)


def _cudnn(q, k, v, start, stop, causal: bool) -> jax.Array:
    """The fused kernel knows lengths, which cost nothing; only a `start` needs the dense mask."""
    lengths = None if stop is None else stop.astype(jnp.int32)
    mask = None if start is None else (jnp.arange(k.shape[1]) >= start[:, None])[:, None, None, :]
    return jax.nn.dot_product_attention(
        q, k, v, mask=mask, is_causal=causal, key_value_seq_lengths=lengths, implementation="cudnn"
    )

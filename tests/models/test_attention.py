"""Blockwise attention equals the plain formula, forward and backward, for every mask the model uses."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxeval.models.attention import QUERY_BLOCK, attention, decode_attention

LENGTH = 2 * QUERY_BLOCK + 37  # two whole blocks and a part of one
CASES: dict[str, dict[str, Any]] = {
    "causal": {"causal": True},
    "causal, padded on the left": {"causal": True, "start": jnp.array([0, 150])},
    "bidirectional": {"causal": False},
    "bidirectional, clips of different length": {"causal": False, "stop": jnp.array([LENGTH, 90])},
}


def plain(q, k, v, *, causal, start=None, stop=None):
    groups = q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(x, groups, axis=2) for x in (k, v))
    key, query = jnp.arange(k.shape[1]), jnp.arange(q.shape[1])[:, None]
    valid = jnp.ones((q.shape[0], q.shape[1], k.shape[1]), bool)
    if causal:
        valid &= key <= query
    if start is not None:
        valid &= key >= start[:, None, None]
    if stop is not None:
        valid &= key < stop[:, None, None]
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    weights = jax.nn.softmax(jnp.where(valid[:, None], scores, -1e30), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def inputs(kv_heads=2):
    keys = jax.random.split(jax.random.key(0), 4)
    shapes = [(2, LENGTH, 4, 8), (2, LENGTH, kv_heads, 8), (2, LENGTH, kv_heads, 8), (2, LENGTH, 4, 8)]
    return [2 * jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True)]


def seen(case):
    """Queries that have a key to look at; the others hold a finite value without meaning."""
    first = np.asarray(case.get("start", np.zeros(2, int)))
    return (np.arange(LENGTH) >= first[:, None])[..., None, None]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_output_equals_the_plain_formula(case, kv_heads):
    q, k, v, _ = inputs(kv_heads)
    out = attention(q, k, v, **CASES[case])
    assert np.isfinite(out).all()
    expected = np.where(seen(CASES[case]), plain(q, k, v, **CASES[case]), out)
    np.testing.assert_allclose(out, expected, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_gradients_equal_those_of_the_plain_formula(case):
    q, k, v, weight = inputs()
    weight = jnp.where(seen(CASES[case]), weight, 0)  # a padded query has no loss
    ours, theirs = (
        jax.grad(lambda q, k, v, f=f: (f(q, k, v, **CASES[case]) * weight).sum(), (0, 1, 2))(q, k, v)
        for f in (attention, plain)
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_decoding_a_token_equals_the_last_query_of_the_whole_row():
    q, k, v, _ = inputs()
    start = jnp.array([0, 60])
    whole = attention(q, k, v, start=start, causal=True)[:, -1:]
    cached_k, cached_v = (jnp.pad(x.transpose(0, 2, 1, 3), ((0, 0), (0, 0), (0, 9), (0, 0))) for x in (k, v))
    token = decode_attention(q[:, -1:], cached_k, cached_v, start=start, stop=jnp.int32(LENGTH))
    np.testing.assert_allclose(token, whole, atol=1e-5)


def test_half_precision_inputs_keep_a_float32_softmax():
    q, k, v, _ = (x.astype(jnp.bfloat16) for x in inputs())
    out = attention(q, k, v, causal=True)
    assert out.dtype == jnp.bfloat16
    exact = plain(*(x.astype(jnp.float32) for x in (q, k, v)), causal=True)
    np.testing.assert_allclose(out.astype(jnp.float32), exact, atol=0.05)

"""Captions of a wanted length: counting words, and the factor on the judge's score."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike


def count_words(text: str) -> int:
    """Number of whitespace-separated tokens that have a letter or digit: "a dog – barks" has three."""
    return sum(any(map(str.isalnum, token)) for token in text.split())


def length_penalty(n_words: ArrayLike, limit: ArrayLike, *, upper_bound: bool = False) -> jax.Array:
    """Factor `max(0, 1 − |n_words − limit| / limit)`, elementwise, float32; the arguments broadcast.

    Args:
        n_words: words of the caption.
        limit: words wanted, above 0.
        upper_bound: only words above the limit cost, as "7 words or less" has it.
    """
    off = jnp.asarray(n_words, jnp.float32) - jnp.asarray(limit, jnp.float32)
    off = jnp.maximum(off, 0) if upper_bound else jnp.abs(off)
    return jnp.maximum(0, 1 - off / jnp.asarray(limit, jnp.float32))

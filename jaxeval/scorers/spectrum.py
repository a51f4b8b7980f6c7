"""Band levels of a spectrum, 0 (low) to 3 (high): an ordinal score, and exact match as its baseline.

A level below 0 is missing: it scores 0 in a prediction, and in a reference the band is left out.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

_STEPS = 3


def ordinal_spectral_score(pred: ArrayLike, ref: ArrayLike) -> jax.Array:
    """Mean over bands of `1 − |pred − ref| / 3`.

    Args:
        pred: levels `[..., bands]`.
        ref: the same; leading axes broadcast.

    Returns:
        `[...]` float32; NaN for a reference without bands.
    """
    pred, ref = jnp.asarray(pred, jnp.float32), jnp.asarray(ref, jnp.float32)
    return _mean_over_bands(_STEPS - jnp.abs(pred - ref), pred, ref) / _STEPS  # whole steps: 0 and 1 come out exact


def exact_spectral_score(pred: ArrayLike, ref: ArrayLike) -> jax.Array:
    """Share of bands whose level is right; arguments and result as for `ordinal_spectral_score`."""
    pred, ref = jnp.asarray(pred), jnp.asarray(ref)
    return _mean_over_bands((pred == ref).astype(jnp.float32), pred, ref)


def _mean_over_bands(score: jax.Array, pred: jax.Array, ref: jax.Array) -> jax.Array:
    scored = jnp.where((pred >= 0) & (ref >= 0), score, 0).sum(axis=-1)
    return scored / (jnp.broadcast_to(ref, score.shape) >= 0).sum(axis=-1)

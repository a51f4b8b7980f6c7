"""Loudness and pitch: an absolute error scaled by the spread of a reference set.

A number that is not finite is undefined (silence has no loudness, noise no pitch).
"""

from __future__ import annotations

from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

SIGMA = {"lufs": 6.86, "median_f0": 14.97}
"""Robust spread of each scalar field in the published reference set: dB, and semitones."""


Undefined = Literal["agree", "exclude"]


def normalized_mae(pred: ArrayLike, ref: ArrayLike, sigma: ArrayLike, *, undefined: Undefined = "agree") -> jax.Array:
    """Score `clip(1 − |pred − ref| / (4 sigma), 0, 1)`, elementwise; the arguments broadcast.

    Args:
        pred: predicted values.
        ref: reference values.
        sigma: spread in the same unit, above 0; see `robust_sigma`.
        undefined: what becomes of pairs with an undefined value. `"agree"`: 1 where both are, 0 where one is.
            `"exclude"`: NaN, so that they leave the mean.

    Returns:
        Scores, float32; NaN where sigma is not above 0.

    Raises:
        ValueError: unknown `undefined`.
    """
    if undefined not in get_args(Undefined):
        raise ValueError(f"undefined={undefined!r}, expected 'agree' or 'exclude'")
    pred, ref, sigma = (jnp.asarray(value, jnp.float32) for value in (pred, ref, sigma))
    known_pred, known_ref = jnp.isfinite(pred), jnp.isfinite(ref)
    score = jnp.where(sigma > 0, jnp.clip(1 - jnp.abs(pred - ref) / (4 * sigma), 0, 1), jnp.nan)
    otherwise = jnp.where(known_pred == known_ref, 1.0, 0.0) if undefined == "agree" else jnp.nan
    return jnp.where(known_pred & known_ref, score, otherwise)


def hz_to_semitones(hz: ArrayLike) -> jax.Array:
    """Pitch in semitones above 1 Hz, `12 log2(hz)`; differences are musical intervals. NaN where hz is not above 0."""
    hz = jnp.asarray(hz, jnp.float32)
    return jnp.where(hz > 0, 12 * jnp.log2(hz), jnp.nan)


def robust_sigma(values: ArrayLike, *, estimator: Literal["mad", "iqr"] = "mad") -> jax.Array:
    """Spread of values that a few outliers do not move, equal to the standard deviation on Gaussian ones.

    Args:
        values: `[..., n]`; undefined ones are left out.
        estimator: `"mad"`, 1.4826 times the median absolute deviation from the median, or `"iqr"`, the interquartile
            range divided by 1.349.

    Returns:
        `[...]` float32; NaN where no value is defined.

    Raises:
        ValueError: unknown estimator.
    """
    values = jnp.asarray(values, jnp.float32)
    values = jnp.where(jnp.isfinite(values), values, jnp.nan)
    if estimator == "mad":
        deviations = jnp.abs(values - jnp.nanmedian(values, axis=-1, keepdims=True))
        return 1.4826 * jnp.nanmedian(deviations, axis=-1)
    if estimator == "iqr":
        lower, upper = jnp.nanquantile(values, jnp.array([0.25, 0.75]), axis=-1)
        return (upper - lower) / 1.349
    raise ValueError(f"estimator={estimator!r}, expected 'mad' or 'iqr'")

"""What a score is worth: how well a constant guess does, and how much of the rest was earned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxeval.scorers.events import Events


def chance_level(scorer: Callable[[Any, Any], jax.Array], references: ArrayLike | Events) -> jax.Array:
    """Mean score of the best guess that knows the references but listens to nothing: their median.

    Args:
        scorer: `scorer(pred, ref) -> [clips]`: `ordinal_spectral_score`, `normalized_mae` with a sigma bound …
        references: what the guess is the median of. Numbers `[clips]`: of those defined. Integer levels
            `[clips, bands]`, negative where missing: band by band, the lower one of two. Packed `Events` of `[clips]`:
            as many events as the median list has, the k-th with the median onset and offset of all k-th events.

    Returns:
        Scalar float32; NaN scores are left out.
    """
    return jnp.nanmean(scorer(_median(references), references))


def skill(score: ArrayLike, chance: ArrayLike) -> jax.Array:
    """Share of what a constant guess leaves to be earned, `(score − chance) / (1 − chance)`: 1 is perfect, 0 is chance.

    NaN where chance is perfect. The arguments broadcast; float32.
    """
    score, chance = jnp.asarray(score, jnp.float32), jnp.asarray(chance, jnp.float32)
    return jnp.where(chance < 1, (score - chance) / (1 - chance), jnp.nan)


def _median(references: ArrayLike | Events) -> jax.Array | Events:
    if isinstance(references, Events):
        used = jnp.arange(references.onset.shape[-1]) < references.count[:, None]
        onset, offset = (jnp.nanmedian(jnp.where(used, x, jnp.nan), axis=0) for x in references[:2])
        return Events(onset, offset, _median_level(references.count))
    references = jnp.asarray(references)
    if jnp.issubdtype(references.dtype, jnp.integer) and references.ndim > 1:
        return _median_level(references)
    references = references.astype(jnp.float32)
    return jnp.nanmedian(jnp.where(jnp.isfinite(references), references, jnp.nan))


def _median_level(levels: jax.Array) -> jax.Array:
    """Lower median along the first axis of what is not negative; -1 where nothing is."""
    present = levels >= 0
    ordered = jnp.sort(jnp.where(present, levels, jnp.iinfo(levels.dtype).max), axis=0)
    middle = jnp.maximum(present.sum(axis=0) - 1, 0) // 2
    return jnp.where(present.any(axis=0), jnp.take_along_axis(ordered, middle[None], axis=0)[0], -1)

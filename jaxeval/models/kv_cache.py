"""Keys and values of the tokens already seen, for prefill and decoding.

All rows of a batch share one write position: prompts are padded on the left, so the next token of every row goes to
the same column. The cache is one array for all layers and is updated in place when the caller donates it.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxeval.models.config import Qwen2AudioConfig
from jaxeval.sharding import constrain


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class KVCache:
    """Cached keys and values.

    Attributes:
        k, v: [layers, batch, kv_heads, capacity, head_dim].
        start: [batch] first valid column of each row (its number of padding tokens).
        length: scalar, columns written so far.
    """

    k: jax.Array
    v: jax.Array
    start: jax.Array
    length: jax.Array

    @classmethod
    def empty(cls, config: Qwen2AudioConfig, start: jax.Array, capacity: int) -> KVCache:
        """A cache for `capacity` tokens a row, in the compute dtype of the model."""
        text = config.text
        shape = (text.num_layers, start.shape[0], text.num_kv_heads, capacity, text.head_dim)
        k, v = (
            constrain(jnp.zeros(shape, config.dtype), "layers", "batch", "kv_heads", "length", "head_dim")
            for _ in range(2)
        )
        return cls(k, v, start, jnp.zeros((), jnp.int32))

    def write(self, layer: jax.Array, k: jax.Array, v: jax.Array) -> KVCache:
        """Put the keys and values of new tokens, [batch, tokens, kv_heads, head_dim], behind those of `layer`.

        The write position moves on only with `advance`, once every layer has written.
        """
        at = (layer, 0, 0, self.length, 0)
        k, v = (x.transpose(0, 2, 1, 3)[None].astype(self.k.dtype) for x in (k, v))
        return dataclasses.replace(
            self,
            k=jax.lax.dynamic_update_slice(self.k, k, at),
            v=jax.lax.dynamic_update_slice(self.v, v, at),
        )

    def advance(self, tokens: int) -> KVCache:
        """The cache after all layers have written `tokens` new columns."""
        return dataclasses.replace(self, length=self.length + tokens)

    def layer(self, layer: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Keys and values of one layer, [batch, kv_heads, capacity, head_dim]."""
        k, v = (jax.lax.dynamic_index_in_dim(x, layer, 0, keepdims=False) for x in (self.k, self.v))
        return k, v

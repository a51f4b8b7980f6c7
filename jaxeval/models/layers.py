"""Building blocks shared by the audio encoder and the decoder: linear maps, norms, rotary positions.

A weight is described once, by its shape, the names of its axes and its initialiser; `jaxeval.sharding` reads the
names. Matrices keep the layout of their Hugging Face counterparts, [out, in]. Towers hold the weights of all their
layers stacked along a leading axis; `scan_layers` runs a layer module over that axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

Carry = TypeVar("Carry")
Initializer = Callable[..., jax.Array]

normal = nnx.initializers.normal(0.02)
zeros = nnx.initializers.zeros_init()
ones = nnx.initializers.ones_init()


def parameter(
    rngs: nnx.Rngs,
    shape: tuple[int, ...],
    axes: tuple[str | None, ...],
    init: Initializer,
    dtype: DTypeLike,
    layers: int | None = None,
) -> nnx.Param:
    """One weight, or the weights of `layers` equal layers stacked along a leading axis."""
    if layers is not None:
        shape, axes = (layers, *shape), ("layers", *axes)
    return nnx.Param(init(rngs.params(), shape, dtype), axes=axes)


class Linear(nnx.Module):
    """`y = x Wᵀ + b`, and an adapter beside it once `jaxeval.models.lora.add_lora` has put one there."""

    def __init__(
        self,
        in_size: int,
        out_size: int,
        axes: tuple[str | None, str | None],
        *,
        bias: bool,
        dtype: DTypeLike,
        layers: int | None = None,
        rngs: nnx.Rngs,
    ):
        self.weight = parameter(rngs, (out_size, in_size), axes, normal, dtype, layers)
        self.bias = parameter(rngs, (out_size,), axes[:1], zeros, dtype, layers) if bias else None
        self.lora: Any = nnx.data(None)

    def __call__(self, x: jax.Array, dropout_key: jax.Array | None = None) -> jax.Array:
        """[..., in] -> [..., out]; `dropout_key` switches the adapter's dropout on."""
        y = project(x, self.weight[...])
        if self.bias is not None:
            y += self.bias[...].astype(x.dtype)
        return y if self.lora is None else y + self.lora(x, dropout_key)


def project(x: jax.Array, weight: jax.Array) -> jax.Array:
    """`x Wᵀ` in the dtype of x: [..., in], [out, in] -> [..., out]."""
    return jax.lax.dot_general(x, weight.astype(x.dtype), (((x.ndim - 1,), (1,)), ((), ())))


class LayerNorm(nnx.Module):
    """Layer norm over the last axis, computed in float32."""

    def __init__(self, size: int, *, eps: float = 1e-5, dtype: DTypeLike, layers: int | None = None, rngs: nnx.Rngs):
        self.weight = parameter(rngs, (size,), ("activation",), ones, dtype, layers)
        self.bias = parameter(rngs, (size,), ("activation",), zeros, dtype, layers)
        self.eps = eps

    def __call__(self, x: jax.Array) -> jax.Array:
        y = x.astype(jnp.float32)
        y -= y.mean(-1, keepdims=True)
        y *= jax.lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + self.eps)
        return (y * self.weight[...] + self.bias[...]).astype(x.dtype)


class RMSNorm(nnx.Module):
    """Root-mean-square norm over the last axis, computed in float32."""

    def __init__(self, size: int, eps: float, *, dtype: DTypeLike, layers: int | None = None, rngs: nnx.Rngs):
        self.weight = parameter(rngs, (size,), ("activation",), ones, dtype, layers)
        self.eps = eps

    def __call__(self, x: jax.Array) -> jax.Array:
        y = x.astype(jnp.float32)
        y *= jax.lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + self.eps)
        return self.weight[...].astype(x.dtype) * y.astype(x.dtype)


def rotary_table(positions: jax.Array, head_dim: int, theta: float) -> tuple[jax.Array, jax.Array]:
    """Cosine and sine of the rotary angles in float32: [batch, length] -> two of [batch, length, head_dim / 2].

    A plain product, not a matrix product, so that no accelerator rounds the angles to bfloat16.
    """
    frequency = 1.0 / theta ** (jnp.arange(0, head_dim, 2, dtype=jnp.float32) / head_dim)
    angle = positions[..., None].astype(jnp.float32) * frequency
    return jnp.cos(angle), jnp.sin(angle)


def rotate(x: jax.Array, table: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Rotate the halves of each head: [batch, length, heads, head_dim] (half-rotation RoPE as in Llama and Qwen)."""
    cos, sin = (part[:, :, None, :] for part in table)
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1).astype(x.dtype)


def scan_layers(
    layers: Any, step: Callable[[Any, Carry, Any], Carry], carry: Carry, inputs: Any = None, *, remat: bool = False
) -> Carry:
    """Run `carry = step(layer, carry, input)` over a stack of layers.

    Args:
        layers: a module whose variables have a leading axis of layers, or what `unstack_layers` made of one.
        step: gets the module of one layer, the carry and this layer's slice of `inputs`.
        carry: any pytree.
        inputs: any pytree whose leaves have a leading axis of layers.
        remat: recompute the layer in the backward pass instead of keeping its activations.
    """
    if isinstance(layers, nnx.List):
        for index, layer in enumerate(layers):
            carry = step(layer, carry, jax.tree.map(lambda x, index=index: x[index], inputs))
        return carry
    graph, state = nnx.split(layers)

    def body(carry: Carry, one: tuple[Any, Any]) -> tuple[Carry, None]:
        layer_state, layer_input = one
        return step(nnx.merge(graph, layer_state), carry, layer_input), None

    return jax.lax.scan(jax.checkpoint(body) if remat else body, carry, (state, inputs))[0]


def unstack_layers(layers: Any) -> nnx.List:
    """One module for each layer of a stack, with weights of their own."""
    graph, state = nnx.split(layers)
    count = jax.tree.leaves(state)[0].shape[0]
    return nnx.List([nnx.merge(graph, jax.tree.map(lambda x, index=index: x[index], state)) for index in range(count)])

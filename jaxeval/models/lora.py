"""Low-rank adapters beside frozen linear maps (Hu et al., 2021): `y = W x + s · B(A(dropout(x)))`.

A and B are float32 whatever the base is, and are the only variables of type `nnx.LoRAParam`. `s` is α/r, or α/√r with
rank-stabilised scaling (Kalajdzievski, 2023).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import jax
import jax.numpy as jnp
from flax import nnx

from jaxeval.errors import InputError
from jaxeval.models.layers import Linear

DECODER_LINEARS = r"language_model\..*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"


@dataclasses.dataclass(frozen=True)
class LoraConfig:
    """How adapters are built.

    Attributes:
        rank: r; alpha: α; dropout: probability of dropping an adapter's input while training.
        targets: regular expression that a module path such as `language_model.layers.self_attn.q_proj` must match
            from its beginning to its end. The default is every linear map of the decoder.
        rslora: scale by α/√r instead of α/r.
    """

    rank: int = 8
    alpha: float = 32.0
    dropout: float = 0.05
    targets: str = DECODER_LINEARS
    rslora: bool = False

    @property
    def scale(self) -> float:
        return self.alpha / (self.rank**0.5 if self.rslora else self.rank)


class Lora(nnx.Module):
    """The adapter of one linear map, or of a stack of them.

    Attributes:
        lora_a: [*stack, r, in]; lora_b: [*stack, out, r] (PEFT's layout).
    """

    def __init__(self, linear: Linear, config: LoraConfig, *, rngs: nnx.Rngs):
        *stack, out_size, in_size = linear.weight.shape
        *stack_axes, out_axis, in_axis = linear.weight.get_metadata()["axes"]
        bound = in_size**-0.5  # PEFT's start: A uniform as in a Kaiming-initialised linear layer, B zero
        a = jax.random.uniform(rngs.params(), (*stack, config.rank, in_size), jnp.float32, -bound, bound)
        b = jnp.zeros((*stack, out_size, config.rank), jnp.float32)
        self.lora_a = nnx.LoRAParam(a, axes=(*stack_axes, "rank", in_axis))
        self.lora_b = nnx.LoRAParam(b, axes=(*stack_axes, out_axis, "rank"))
        self.scale, self.dropout = config.scale, config.dropout

    def __call__(self, x: jax.Array, dropout_key: jax.Array | None) -> jax.Array:
        """[..., in] -> [..., out] in the dtype of x."""
        if dropout_key is not None and self.dropout > 0:
            keep = jax.random.bernoulli(dropout_key, 1 - self.dropout, x.shape)
            x = jnp.where(keep, x / (1 - self.dropout), 0).astype(x.dtype)
        # One axis of tokens, not two: XLA's CPU compiler copies a transposed x for gradients that contract over two.
        z = x.reshape(-1, x.shape[-1]) @ self.lora_a[...].astype(x.dtype).T
        y = (z * self.scale) @ self.lora_b[...].astype(x.dtype).T
        return y.reshape(*x.shape[:-1], -1)

    def delta(self) -> jax.Array:
        """`s · B A` in float32, [*stack, out, in]."""
        return self.scale * jnp.einsum("...or,...ri->...oi", self.lora_b[...], self.lora_a[...], precision="highest")


def linears(model: nnx.Module) -> Iterator[tuple[str, Linear]]:
    """All linear maps of a model with their dotted paths."""
    for path, module in nnx.iter_modules(model):
        if isinstance(module, Linear):
            yield ".".join(map(str, path)), module


def add_lora(model: nnx.Module, config: LoraConfig, *, rngs: nnx.Rngs) -> None:
    """Put a fresh adapter beside every linear map whose path matches `config.targets`; in place.

    Raises:
        InputError: the expression is malformed or matches nothing.
    """
    try:
        pattern = re.compile(config.targets)
    except re.error as error:
        raise InputError(f"lora.targets: {config.targets!r} is no regular expression ({error})") from None
    found = [linear for path, linear in linears(model) if pattern.fullmatch(path)]
    if not found:
        paths = ", ".join(path for path, _ in linears(model))
        raise InputError(f"lora.targets: {config.targets!r} matches none of {paths}")
    for linear in found:
        linear.lora = Lora(linear, config, rngs=rngs)


def merge_lora(model: nnx.Module) -> None:
    """Fold every adapter into its base weight, in the dtype of the base, and remove it; in place."""
    for _, linear in linears(model):
        if linear.lora is not None:
            weight = linear.weight[...]
            linear.weight.set_value((weight.astype(jnp.float32) + linear.lora.delta()).astype(weight.dtype))
            linear.lora = nnx.data(None)

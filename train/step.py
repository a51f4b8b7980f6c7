"""The mathematics of one optimizer step, as jitted functions over a mesh.

A step is `start`, then `accumulate` for each micro batch, then `update`. Losses and gradients are *summed* over
supervised tokens and divided once, by the tokens of the whole step, so a step over micro batches of different shapes
and fill equals one over a single large batch. Gradients are taken with respect to the trained variables alone: the
graph holds no weight gradient of a frozen matrix. Every function has its shardings pinned, so `accumulate` compiles
once for each batch shape, and the others once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxeval.checkpoint import trained_variables
from jaxeval.models.qwen2_audio import Qwen2Audio
from jaxeval.sharding import batch_sharding, partition_spec
from train.config import OptimizerConfig

Arrays = dict[str, jax.Array]
Batch = Mapping[str, jax.Array]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """What training changes.

    Attributes:
        trained: the trained variables by dotted path, float32.
        optimizer: optax's state.
    """

    trained: Arrays
    optimizer: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Sums:
    """Totals over the micro batches of a step.

    Attributes:
        gradient: of the summed loss, by the paths of the trained variables.
        loss, tokens: [tasks] summed loss and number of supervised tokens.
    """

    gradient: Arrays
    loss: jax.Array
    tokens: jax.Array


@dataclasses.dataclass(frozen=True)
class Steps:
    """The jitted functions of a run, and the frozen part of its model.

    Attributes:
        graph, frozen: the model without its trained variables; `merge` puts it together.
        start: `() -> Sums` of zeros.
        accumulate: `(trained, frozen, sums, batch, dropout_key) -> sums`; the sums are donated.
        update: `(state, sums) -> (state, metrics)`; the state is donated. Metrics are `loss` and `task_losses` a token,
            `tokens`, and `grad_norm`, before clipping.
        evaluate: `(trained, frozen, batch) -> (loss, tokens)`, each [tasks], without dropout.
    """

    graph: Any
    frozen: nnx.State
    start: Any
    accumulate: Any
    update: Any
    evaluate: Any

    def merge(self, trained: Arrays) -> Qwen2Audio:
        """The whole model with these trained variables."""
        return merge(self.graph, trained, self.frozen)


def make_steps(
    model: Qwen2Audio, pattern: str, optimizer: optax.GradientTransformation, tasks: int, mesh: Mesh
) -> tuple[Steps, TrainState]:
    """Split a model into its trained and its frozen part, and compile nothing yet.

    Args:
        model: lies on the mesh, except for fresh adapters.
        pattern: regular expression for the dotted paths of trained variables.
        optimizer: from `make_optimizer`.
        tasks: how many tasks the batches tell apart.

    Raises:
        InputError: `pattern` matches nothing.
    """
    variables = trained_variables(model, pattern)
    parts: Any = nnx.split(model, lambda path, _: ".".join(map(str, path)) in variables, ...)
    graph, _, frozen = parts
    placed: Any = {
        name: NamedSharding(mesh, partition_spec(variable.get_metadata().get("axes", ())))
        for name, variable in variables.items()
    }
    # A bfloat16 variable would swallow small steps: what is trained is kept in float32 whatever the base is.
    trained = {
        name: jax.device_put(variable.get_value().astype(jnp.float32), placed[name])
        for name, variable in variables.items()
    }
    shapes = {name: value.shape for name, value in trained.items()}
    whole: Any = NamedSharding(mesh, PartitionSpec())
    state_placed = TrainState(placed, _optimizer_shardings(optimizer, trained, placed, whole))
    sums_placed = Sums(placed, whole, whole)
    frozen_placed = jax.tree.map(lambda value: value.sharding, frozen)
    rows = batch_sharding(mesh)

    def start() -> Sums:
        gradient = {name: jnp.zeros(shape, jnp.float32) for name, shape in shapes.items()}
        return Sums(gradient, jnp.zeros(tasks), jnp.zeros(tasks))

    def accumulate(trained: Arrays, frozen: nnx.State, sums: Sums, batch: Batch, key: jax.Array) -> Sums:
        def total(trained: Arrays) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            loss, tokens = task_sums(merge(graph, trained, frozen), batch, tasks, key)
            return loss.sum(), (loss, tokens)

        gradient, (loss, tokens) = jax.grad(total, has_aux=True)(trained)
        return jax.tree.map(jnp.add, sums, Sums(gradient, loss, tokens))

    def update(state: TrainState, sums: Sums) -> tuple[TrainState, dict[str, jax.Array]]:
        tokens = sums.tokens.sum()
        gradient = jax.tree.map(lambda value: value / tokens, sums.gradient)
        changes, optimizer_state = optimizer.update(gradient, state.optimizer, state.trained)
        metrics = {
            "loss": sums.loss.sum() / tokens,
            "task_losses": sums.loss / sums.tokens,
            "tokens": tokens,
            "grad_norm": optax.tree.norm(gradient),
        }
        return TrainState(optax.apply_updates(state.trained, changes), optimizer_state), metrics

    def evaluate(trained: Arrays, frozen: nnx.State, batch: Batch) -> tuple[jax.Array, jax.Array]:
        return task_sums(merge(graph, trained, frozen), batch, tasks, None)

    steps = Steps(
        graph,
        frozen,
        jax.jit(start, out_shardings=sums_placed),
        jax.jit(
            accumulate,
            in_shardings=(placed, frozen_placed, sums_placed, rows, whole),
            out_shardings=sums_placed,
            donate_argnums=2,
        ),
        jax.jit(
            update,
            in_shardings=(state_placed, sums_placed),
            out_shardings=(state_placed, whole),
            donate_argnums=0,
        ),
        jax.jit(evaluate, in_shardings=(placed, frozen_placed, rows), out_shardings=whole),
    )
    fresh = jax.jit(optimizer.init, out_shardings=state_placed.optimizer)(trained)
    return steps, TrainState(trained, fresh)


def merge(graph: Any, trained: Arrays, frozen: nnx.State) -> Qwen2Audio:
    """A model from its parts; works under tracing."""
    by_path: Any = {tuple(name.split(".")): value for name, value in trained.items()}
    return nnx.merge(graph, nnx.from_flat_state(by_path), frozen)


def task_sums(
    model: Qwen2Audio, batch: Batch, tasks: int, dropout_key: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """Summed cross-entropy and number of supervised tokens of each task, both float32 [tasks].

    Hidden states are picked at `target_positions` before the head, so logits exist for supervised positions alone.
    """
    hidden, _ = model.hidden(batch, model.encode_audio(batch), dropout_key=dropout_key)
    picked = jnp.take_along_axis(hidden, batch["target_positions"][..., None], axis=1)
    valid = batch["targets"] >= 0
    losses = optax.softmax_cross_entropy_with_integer_labels(model.logits(picked), jnp.maximum(batch["targets"], 0))
    of_task = (batch["task"][:, None] == jnp.arange(tasks)).astype(jnp.float32)
    return jnp.where(valid, losses, 0).sum(1) @ of_task, valid.sum(1).astype(jnp.float32) @ of_task


def make_optimizer(
    config: OptimizerConfig, total_steps: int
) -> tuple[optax.GradientTransformation, Callable[[Any], jax.Array]]:
    """Clipping by global norm, then AdamW (Loshchilov & Hutter, 2019); and its learning rate by completed steps."""

    def learning_rate(count: Any) -> jax.Array:
        step = jnp.asarray(count, jnp.float32) + 1
        rate = config.learning_rate * jnp.minimum(step / max(config.warmup_steps, 1), 1)
        if config.schedule == "cosine":
            rest = (step - config.warmup_steps) / max(total_steps - config.warmup_steps, 1)
            rate *= 0.5 * (1 + jnp.cos(jnp.pi * jnp.clip(rest, 0, 1)))
        return rate

    adamw = optax.adamw(learning_rate, config.b1, config.b2, config.eps, weight_decay=config.weight_decay)
    return optax.chain(optax.clip_by_global_norm(config.clip_norm), adamw), learning_rate


def _optimizer_shardings(optimizer: Any, trained: Arrays, placed: Any, whole: NamedSharding) -> Any:
    """Moments lie where their variables lie; counters are everywhere."""
    shapes = jax.eval_shape(optimizer.init, trained)
    return optax.tree.map_params(
        optimizer, lambda _, sharding: sharding, shapes, placed, transform_non_params=lambda _: whole
    )

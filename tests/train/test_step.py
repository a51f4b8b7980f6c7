"""One optimizer step: what it sums, what it trains, how often it compiles."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from jaxeval.audio.lengths import audio_tokens
from jaxeval.models.config import AudioConfig, Qwen2AudioConfig, TextConfig
from jaxeval.models.lora import LoraConfig, add_lora
from jaxeval.models.qwen2_audio import Qwen2Audio
from jaxeval.sharding import make_mesh, put_batch, state_shardings
from train.config import OptimizerConfig
from train.step import Steps, TrainState, make_optimizer, make_steps

AUDIO_ID = 90
CONFIG = Qwen2AudioConfig(
    audio=AudioConfig(num_mels=16, hidden_size=16, num_layers=1, num_heads=2, ffn_size=32, max_positions=64),
    text=TextConfig(vocab_size=96, hidden_size=16, ffn_size=32, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=8),
    audio_token_id=AUDIO_ID,
)
LORA = r".*\.lora\.lora_[ab]"
MESHES = [{"data": 8}, {"fsdp": 8}, {"tensor": 2}, {"data": 2, "fsdp": 2, "tensor": 2}]


def make_model() -> Qwen2Audio:
    """A small model whose matrices are large enough that rounding errors of the norms' inputs do not show."""

    def values() -> nnx.State:
        state = nnx.state(_fresh())
        for path, variable in nnx.to_flat_state(state):
            if path[-1] == "lora_b":  # zero at the start, which leaves A without a gradient
                variable.set_value(variable.get_value() + 0.1)
            elif "norm" not in str(path[-2:]):
                variable.set_value(variable.get_value() * 3)
        return state

    graph, _ = nnx.split(nnx.eval_shape(_fresh))
    return nnx.merge(graph, jax.jit(values)())


def _fresh() -> Qwen2Audio:
    model = Qwen2Audio(CONFIG, rngs=nnx.Rngs(0))
    add_lora(model, LoraConfig(rank=2, alpha=2.0, dropout=0.0), rngs=nnx.Rngs(1))
    return model


def make_batch(rows: int, *, length: int = 32, seed: int = 0) -> dict[str, np.ndarray]:
    """Rows of two clips and of 1 to 6 supervised tokens."""
    rng = np.random.default_rng(seed)
    frames = rng.integers(8, 20, 2 * rows)
    ids = rng.integers(0, AUDIO_ID, (rows, length))
    targets, positions = np.full((rows, 6), -1), np.zeros((rows, 6), int)
    for row in range(rows):
        tokens = [audio_tokens(int(count)) for count in frames[2 * row : 2 * row + 2]]
        ids[row, 2 : 2 + tokens[0]] = ids[row, 10 : 10 + tokens[1]] = AUDIO_ID
        count = 1 + row % 6
        positions[row, :count], targets[row, :count] = np.arange(20, 20 + count), ids[row, 21 : 21 + count]
    return {
        "input_ids": ids.astype(np.int32),
        "attention_mask": np.ones((rows, length), np.int32),
        "input_features": rng.standard_normal((2 * rows, 16, 24), np.float32),
        "feature_attention_mask": (np.arange(24) < frames[:, None]).astype(np.int32),
        "target_positions": positions.astype(np.int32),
        "targets": targets.astype(np.int32),
        "task": (np.arange(rows) % 2).astype(np.int32),
    }


def part(batch: dict[str, np.ndarray], rows: slice) -> dict[str, np.ndarray]:
    clips = slice(2 * rows.start, 2 * rows.stop)
    return {name: value[clips if "feature" in name else rows] for name, value in batch.items()}


def start(
    pattern: str = LORA, sizes: dict[str, int] | None = None, **changes
) -> tuple[Steps, TrainState, jax.sharding.Mesh]:
    mesh = make_mesh(sizes or {"data": 1})
    model = make_model()
    state = nnx.state(model)
    nnx.update(model, jax.device_put(state, state_shardings(state, mesh)))
    optimizer, _ = make_optimizer(OptimizerConfig(warmup_steps=0, learning_rate=1e-2, **changes), 10)
    with jax.set_mesh(mesh):
        return *make_steps(model, pattern, optimizer, 2, mesh), mesh


def sums_of(steps: Steps, state: TrainState, mesh: jax.sharding.Mesh, *batches: dict[str, np.ndarray]):
    with jax.set_mesh(mesh):
        sums = steps.start()
        for batch in batches:
            sums = steps.accumulate(state.trained, steps.frozen, sums, put_batch(batch, mesh), jax.random.key(0))
        return sums


def close(one: Any, other: Any, tolerance: float = 1e-5) -> None:
    """Every array within a relative L2 distance."""
    for left, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert np.linalg.norm(np.asarray(left) - np.asarray(right)) <= tolerance * np.linalg.norm(right)


def test_accumulated_micro_batches_equal_one_batch_whatever_tokens_they_hold():
    """Four rows with 1, 2, 3 and 4 supervised tokens: a mean of means would weigh the first two rows too much."""
    batch = make_batch(4)
    steps, state, mesh = start()
    whole = sums_of(steps, state, mesh, batch)
    parts = sums_of(steps, state, mesh, part(batch, slice(0, 2)), part(batch, slice(2, 4)))
    assert whole.tokens.tolist() == parts.tokens.tolist() == [4, 6]
    close(parts, whole)
    with jax.set_mesh(mesh):
        state, metrics = steps.update(state, parts)
    assert metrics["loss"] == pytest.approx(float(whole.loss.sum()) / 10, rel=1e-6)
    np.testing.assert_allclose(metrics["task_losses"], np.asarray(whole.loss) / [4, 6], rtol=1e-6)


def test_loss_is_the_mean_cross_entropy_of_the_next_tokens():
    batch = make_batch(2)
    sums = sums_of(*start(), batch)
    logits = nnx.jit(lambda model, batch: model(batch))(make_model(), batch)
    rows, places = np.nonzero(batch["targets"] >= 0)
    log_probability = jax.nn.log_softmax(logits)[rows, batch["target_positions"][rows, places]]
    expected = -log_probability[np.arange(len(rows)), batch["targets"][rows, places]]
    assert float(sums.loss.sum()) == pytest.approx(float(expected.sum()), rel=1e-6)
    assert sums.tokens.tolist() == [1, 2]


def test_rows_that_supervise_nothing_change_nothing():
    batch = make_batch(2)
    empty = {name: np.zeros_like(value) for name, value in batch.items()} | {"targets": np.full((2, 6), -1, np.int32)}
    steps, state, mesh = start()
    close(sums_of(steps, state, mesh, batch, empty), sums_of(steps, state, mesh, batch))


def test_only_adapters_are_trained_by_default():
    steps, state, _ = start()
    assert len(state.trained) == 14
    assert all(name.endswith(("lora_a", "lora_b")) for name in state.trained)
    frozen = dict(nnx.to_flat_state(steps.frozen))
    assert ("lm_head",) in frozen
    assert not any("lora" in path for path in frozen)


def test_what_is_trained_is_float32_even_on_a_bfloat16_base():
    mesh = make_mesh({"data": 1})
    model = make_model()
    nnx.update(model, jax.tree.map(lambda value: value.astype(jnp.bfloat16), nnx.state(model)))
    with jax.set_mesh(mesh):
        _, state = make_steps(model, r".*q_proj\.weight", optax.adamw(1e-3), 2, mesh)
    leaves = [leaf for leaf in jax.tree.leaves(state) if leaf.ndim]
    assert len(leaves) == 3 * 2
    assert all(leaf.dtype == jnp.float32 for leaf in leaves)


def test_accumulate_compiles_once_for_each_batch_shape_and_update_once():
    steps, state, mesh = start()
    batches = [make_batch(2), make_batch(2, length=40), make_batch(2, seed=1), make_batch(2, length=40, seed=1)]
    for _ in range(2):
        sums = sums_of(steps, state, mesh, *batches)
        with jax.set_mesh(mesh):
            state, _ = steps.update(state, sums)
    assert steps.accumulate._cache_size() == 2
    assert steps.update._cache_size() == steps.start._cache_size() == 1


def test_gradient_is_clipped_and_its_norm_logged_before():
    steps, state, mesh = start(clip_norm=1e-3)
    sums = sums_of(steps, state, mesh, make_batch(2))
    norm = float(optax.tree.norm(sums.gradient)) / float(sums.tokens.sum())
    with jax.set_mesh(mesh):
        state, metrics = steps.update(state, sums)
    assert float(metrics["grad_norm"]) == pytest.approx(norm, rel=1e-5)
    first_moment = optax.tree.get(state.optimizer, "mu")
    assert float(optax.tree.norm(first_moment)) == pytest.approx(1e-3 * 0.1, rel=1e-4)  # b1 = 0.9


def test_learning_rate_warms_up_and_stays_or_falls():
    _, constant = make_optimizer(OptimizerConfig(learning_rate=1.0, warmup_steps=4), 20)
    np.testing.assert_allclose([constant(step) for step in (0, 1, 3, 10)], [0.25, 0.5, 1, 1])
    _, cosine = make_optimizer(OptimizerConfig(learning_rate=1.0, warmup_steps=4, schedule="cosine"), 20)
    np.testing.assert_allclose([cosine(step) for step in (3, 11, 19)], [1, 0.5, 0], atol=1e-6)


@pytest.fixture(scope="module")
def one_device():
    return sums_of(*start(".*"), make_batch(8))


@pytest.mark.parametrize("sizes", MESHES, ids=str)
def test_loss_and_every_gradient_are_the_same_on_any_mesh(one_device, sizes: dict[str, int]):
    steps, state, mesh = start(".*", sizes)
    sums = sums_of(steps, state, mesh, make_batch(8))
    close(sums, one_device)
    if "fsdp" in sizes:
        assert not sums.gradient["lm_head"].sharding.is_fully_replicated
    assert steps.accumulate._cache_size() == 1

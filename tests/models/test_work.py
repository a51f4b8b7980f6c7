"""The traced training step holds no dot product that the arithmetic does not need."""

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxeval.flops import lora_step_flops
from jaxeval.models.config import AudioConfig, Qwen2AudioConfig, TextConfig
from jaxeval.models.lora import LoraConfig, add_lora
from jaxeval.models.qwen2_audio import Qwen2Audio
from jaxeval.sharding import make_mesh
from train.config import OptimizerConfig
from train.step import make_optimizer, make_steps

MID = Qwen2AudioConfig(
    audio=AudioConfig(hidden_size=256, num_layers=4, num_heads=4, ffn_size=1024),
    text=TextConfig(
        vocab_size=8192, hidden_size=512, ffn_size=2816, num_layers=8, num_heads=8, num_kv_heads=8, head_dim=64
    ),
    audio_token_id=8188,
)
ROWS, CLIPS, FRAMES, TOKENS, LENGTH, ANSWERS, RANK = 4, 8, 1002, 250, 628, 64, 16


@pytest.fixture(scope="module")
def step() -> Any:
    """The jaxpr of one micro batch, and the number of trained parameters."""

    def make() -> Qwen2Audio:
        model = Qwen2Audio(MID, rngs=nnx.Rngs(0))
        add_lora(model, LoraConfig(rank=RANK), rngs=nnx.Rngs(1))
        return model

    graph, shapes = nnx.split(nnx.eval_shape(make))
    model = nnx.merge(graph, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes))
    mesh = make_mesh({})
    optimizer, _ = make_optimizer(OptimizerConfig(), 1)
    with jax.set_mesh(mesh):
        model_state = jax.device_put(nnx.state(model), jax.NamedSharding(mesh, jax.P()))
        nnx.update(model, model_state)
        steps, state = make_steps(model, r".*\.lora\.lora_[ab]", optimizer, 2, mesh)
        jaxpr = jax.make_jaxpr(steps.accumulate)(state.trained, steps.frozen, steps.start(), batch(), jax.random.key(0))
    return jaxpr, sum(value.size for value in state.trained.values())


def batch() -> dict[str, np.ndarray]:
    ids = np.zeros((ROWS, LENGTH), np.int32)
    ids[:, 8 : 8 + 2 * TOKENS] = MID.audio_token_id
    return {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "input_features": np.zeros((CLIPS, 128, FRAMES), np.float32),
        "feature_attention_mask": np.ones((CLIPS, FRAMES), np.int32),
        "target_positions": np.tile(np.arange(LENGTH - ANSWERS, LENGTH, dtype=np.int32) - 1, (ROWS, 1)),
        "targets": np.ones((ROWS, ANSWERS), np.int32),
        "task": np.zeros(ROWS, np.int32),
    }


def products(jaxpr: Any, times: float = 1) -> Iterator[tuple[tuple[int, ...], float]]:
    """Output shape and floating-point operations of every dot product and convolution, loops multiplied out."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        if equation.primitive.name == "dot_general":
            out = equation.outvars[0].aval
            (contracted, _), _ = equation.params["dimension_numbers"]
            depth = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
            yield out.shape, 2.0 * times * out.size * depth
        elif equation.primitive.name == "conv_general_dilated":
            out = equation.outvars[0].aval
            kernel = equation.invars[1].aval.shape  # [out, in, width]
            yield out.shape, 2.0 * times * out.size * math.prod(kernel[1:])
        # What a loop of unknown length repeats cannot be counted, so a product in one counts as endless.
        unknown = math.inf if equation.primitive.name == "while" else 1
        repeats = equation.params["length"] if equation.primitive.name == "scan" else unknown
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                    yield from products(inner, times * repeats)


def test_the_step_takes_no_more_than_the_arithmetic(step):
    jaxpr, lora_params = step
    sizes = {"clips": CLIPS, "rows": ROWS, "length": LENGTH, "lora_params": lora_params}
    counted = sum(flops for _, flops in products(jaxpr))
    assert counted <= 1.02 * lora_step_flops(MID, **sizes, frames=FRAMES, answers=ANSWERS)
    assert counted >= 0.85 * lora_step_flops(MID, **sizes, frames=FRAMES, answers=ANSWERS)  # nothing is missed
    reference = lora_step_flops(MID, **sizes, frames=3000, answers=LENGTH)
    assert counted <= 0.78 * reference


def test_no_frozen_matrix_gets_a_gradient(step):
    jaxpr, _ = step
    d, ffn, vocab, audio = 512, 2816, 8192, 256
    matrices = {(d, d), (ffn, d), (d, ffn), (vocab, d), (d, vocab), (d, audio), (audio, d), (audio, audio)}
    assert not matrices & {shape for shape, _ in products(jaxpr)}


def test_logits_exist_at_supervised_positions_alone(step):
    jaxpr, _ = step
    logits = [math.prod(shape) for shape, _ in products(jaxpr) if shape[-1] == MID.text.vocab_size]
    assert logits == [ROWS * ANSWERS * MID.text.vocab_size]

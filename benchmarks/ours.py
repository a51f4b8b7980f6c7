"""Our side of a benchmark: the train step of `train.step` and `jaxeval.generate`, on random weights.

The weights are made on the device, each in its place on the mesh and in its final dtype, so the 7B model needs no host
memory and no download. Started by `benchmarks.sides`.
"""

from __future__ import annotations

import functools
import os
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from benchmarks.sides import Run, serve
from benchmarks.workload import CLIPS, Workload, make_batch
from jaxeval.audio.lengths import frame_bucket
from jaxeval.checkpoint import LORA_VARIABLES, abstract_model
from jaxeval.flops import device_peak, lora_step_flops
from jaxeval.generation import generate
from jaxeval.models.config import Qwen2AudioConfig, config_from_hf
from jaxeval.models.lora import LoraConfig, add_lora
from jaxeval.models.qwen2_audio import Qwen2Audio
from jaxeval.sharding import make_mesh, parse_mesh, put_batch, state_shardings
from train.config import OptimizerConfig
from train.step import Steps, TrainState, make_optimizer, make_steps


def prepare(task: str, work: Workload) -> tuple[dict[str, Any], Run]:
    """Set a task up and warm it up; see `benchmarks.sides.serve`."""
    return {"lora_step": prepare_lora_step, "decode": prepare_decode}[task](work)


def prepare_lora_step(work: Workload) -> tuple[dict[str, Any], Run]:
    """One optimizer step over one micro batch, from features to updated adapters."""
    mesh = mesh_for(work)
    steps, state = lora_steps(config_for(work), work.rank, mesh)
    batch = put_batch(training_batch(work), mesh)
    key = jax.random.key(0)

    def run() -> dict[str, Any]:
        nonlocal state
        with jax.set_mesh(mesh):
            sums = steps.accumulate(state.trained, steps.frozen, steps.start(), batch, key)
            state, metrics = steps.update(state, sums)
        return {"loss": float(metrics["loss"]), "tokens": work.batch * work.length, "peak_bytes": peak_bytes(mesh)}

    run()
    parameters = sum(value.size for value in state.trained.values())
    return about(mesh) | {"lora_parameters": parameters, "flops": flops(work, parameters)}, run


def prepare_decode(work: Workload) -> tuple[dict[str, Any], Run]:
    """Greedy answers to a batch: encoder, prefill, and `new_tokens` steps, none of which ends a row."""
    mesh = mesh_for(work)
    model = base_model(config_for(work), mesh)
    batch = make_batch(work, work.hf_config(), frame_bucket(work.frames))

    def run() -> dict[str, Any]:
        tokens = generate(model, batch, work.new_tokens)
        return {"tokens": tokens.size, "peak_bytes": peak_bytes(mesh)}

    run()
    return about(mesh), run


def lora_steps(config: Qwen2AudioConfig, rank: int, mesh: Mesh) -> tuple[Steps, TrainState]:
    """The real train step on a random model with adapters of this rank, without dropout."""
    model = random_model(config, LoraConfig(rank=rank, alpha=2.0 * rank, dropout=0.0), mesh)
    optimizer, _ = make_optimizer(OptimizerConfig(warmup_steps=0), total_steps=1000)
    return make_steps(model, LORA_VARIABLES, optimizer, 1, mesh)


def training_batch(work: Workload) -> dict[str, np.ndarray]:
    """The batch, and which tokens of it are to be learnt; see `train.data`."""
    batch = make_batch(work, work.hf_config(), frame_bucket(work.frames))
    positions = np.arange(work.length - work.answer - 1, work.length - 1, dtype=np.int32)
    return batch | {
        "target_positions": np.tile(positions, (work.batch, 1)),
        "targets": batch["input_ids"][:, -work.answer :],
        "task": np.zeros(work.batch, np.int32),
    }


@functools.lru_cache(maxsize=1)
def base_model(config: Qwen2AudioConfig, mesh: Mesh) -> Qwen2Audio:
    """A random model that several workloads share."""
    return random_model(config, None, mesh)


def random_model(config: Qwen2AudioConfig, lora: LoraConfig | None, mesh: Mesh) -> Qwen2Audio:
    """A model whose random weights appear on the devices, none of them ever whole on the host."""

    def make() -> Qwen2Audio:
        rngs = nnx.Rngs(jax.random.key(0, impl="rbg"))  # the device's own generator, quick to compile and to run
        model = Qwen2Audio(config, rngs=rngs)
        if lora is not None:
            add_lora(model, lora, rngs=rngs)
        return model

    graph, shapes = nnx.split(abstract_model(config, lora))
    init = jax.jit(lambda: nnx.state(make()), out_shardings=state_shardings(shapes, mesh))
    return nnx.merge(graph, init())


def config_for(work: Workload) -> Qwen2AudioConfig:
    """The model's configuration; no token ends an answer."""
    dtype = jnp.dtype(work.dtype)
    return config_from_hf(work.hf_config()).replace(
        dtype=dtype,
        param_dtype=dtype,
        attention=work.attention,
        remat=work.remat,
        eos_token_ids=(),
        pad_token_id=0,
    )


def mesh_for(work: Workload) -> Mesh:
    """The mesh that was asked for."""
    return make_mesh(None if work.mesh is None else parse_mesh(work.mesh))


def flops(work: Workload, lora_parameters: int) -> float:
    """Dot-product operations of a training step, attention counted below the diagonal, recomputation not at all."""
    return lora_step_flops(
        config_for(work),
        clips=CLIPS * work.batch,
        frames=frame_bucket(work.frames),
        rows=work.batch,
        length=work.length,
        answers=work.answer,
        lora_params=lora_parameters,
        causal_half=True,
    )


def about(mesh: Mesh) -> dict[str, Any]:
    """What the figures were measured on."""
    device, count = mesh.devices.flat[0], mesh.devices.size
    peak = device_peak(device)
    return {
        "platform": device.platform,
        "device": f"{count} × {device.device_kind}",
        "peak_flops": None if peak is None else peak * count,
        "threads": len(os.sched_getaffinity(0)),
        "versions": f"jax {version('jax')}, flax {version('flax')}",
    }


def peak_bytes(mesh: Mesh) -> int | None:
    """Most memory the first device has used since this process started; a CPU does not say."""
    return (mesh.devices.flat[0].memory_stats() or {}).get("peak_bytes_in_use")


if __name__ == "__main__":
    serve(prepare)

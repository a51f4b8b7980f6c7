"""Does it fit? Compile the 7B LoRA step for TPUs that are not here: `python -m benchmarks.aot`.

XLA compiles for a TPU topology on any machine that has `libtpu`, and says how many bytes each device would need. Keep
`libtpu` in an environment of its own, since jax takes its presence for a TPU; `benchmarks/README.md` has the commands.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from typing import Any

import jax
from flax import nnx
from jax.experimental import topologies
from jax.sharding import Mesh

from benchmarks.ours import config_for, training_batch
from benchmarks.workload import Workload, add_arguments, from_arguments
from jaxeval.checkpoint import abstract_model
from jaxeval.errors import InputError, RunError, exit_code
from jaxeval.models.lora import LoraConfig
from jaxeval.sharding import batch_sharding, make_mesh, parse_mesh, state_shardings
from train.step import task_sums


def main() -> None:
    """Compile, and print bytes per device."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aot", description=__doc__)
    parser.add_argument("--topology", default="v5e:2x2", help="kind of TPU and shape of its slice")
    add_arguments(parser, "preset", "batch", "seconds", "text", "answer", "rank", "remat", "mesh")
    parser.set_defaults(preset="7b")
    arguments = parser.parse_args()
    work = from_arguments(arguments, dtype="bfloat16")
    mesh = make_mesh(None if work.mesh is None else parse_mesh(work.mesh), tpu_devices(arguments.topology))
    memory = compile_gradient(work, mesh).memory_analysis()
    weights, rest = memory.argument_size_in_bytes, memory.temp_size_in_bytes + memory.output_size_in_bytes
    sizes = " × ".join(f"{name} {size}" for name, size in mesh.shape.items())
    print(
        f"{work.preset}, batch {work.batch}, {work.length} tokens a row, bfloat16, remat {work.remat}, "
        f"on {arguments.topology} ({mesh.devices.flat[0].device_kind}; {sizes}): each device holds "
        f"{weights / 2**30:.2f} GiB of weights and batch, and {rest / 2**30:.2f} GiB for the forward and backward pass"
    )


def tpu_devices(topology: str) -> list[Any]:
    """Devices to compile for.

    Raises:
        InputError: `libtpu` is missing or does not know the topology.
    """
    if importlib.util.find_spec("libtpu") is None:
        raise InputError("libtpu is missing: pip install libtpu, in an environment of its own")
    try:
        return topologies.get_topology_desc(platform="tpu", topology_name=topology).devices
    except jax.errors.JaxRuntimeError as error:
        raise InputError(f"--topology is {topology!r}: {error}") from None


def compile_gradient(work: Workload, mesh: Mesh) -> Any:
    """The loss's gradient with respect to the adapters, compiled for the mesh; Adam's own work is small beside it.

    Raises:
        RunError: it does not fit into a device's memory, or XLA gives up for another reason.
    """
    model = abstract_model(config_for(work), LoraConfig(rank=work.rank, dropout=0.0))
    graph, (adapters, frozen) = nnx.graphdef(model), nnx.state(model, nnx.LoRAParam, ...)

    def loss(adapters: nnx.State, frozen: nnx.State, batch: dict[str, jax.Array]) -> jax.Array:
        return task_sums(nnx.merge(graph, adapters, frozen), batch, 1, None)[0].sum()

    batch = {
        name: jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=batch_sharding(mesh))
        for name, value in training_batch(work).items()
    }
    try:
        with jax.set_mesh(mesh):
            return jax.jit(jax.grad(loss)).lower(placed(adapters, mesh), placed(frozen, mesh), batch).compile()
    except jax.errors.JaxRuntimeError as error:
        raise RunError(str(error)[:500]) from None


def placed(state: nnx.State, mesh: Mesh) -> nnx.State:
    """The shapes of a state with their places on the mesh."""
    return jax.tree.map(
        lambda shape, sharding: jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=sharding),
        state,
        state_shardings(state, mesh),
    )


if __name__ == "__main__":
    sys.exit(exit_code(main))

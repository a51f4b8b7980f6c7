"""The device mesh, and the one table that says how every array of the project lies on it.

Weights and activations name their axes (`"embed"`, `"heads"`, `"batch"`, …). The table maps those names to the
three mesh axes: `data` replicates the weights and splits the batch, `fsdp` splits both, `tensor` splits heads
and hidden units. Nothing else in the project mentions a mesh axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jaxeval.errors import InputError

MESH_AXES = ("data", "fsdp", "tensor")

RULES: dict[str, tuple[str, ...]] = {
    "batch": ("data", "fsdp"),
    "length": (),
    "layers": (),
    "embed": ("fsdp",),
    "heads": ("tensor",),
    "kv_heads": ("tensor",),
    "head_dim": (),
    "mlp": ("tensor",),
    "vocab": ("tensor",),
    "rank": (),
    "mels": (),
    "kernel": (),
    "positions": (),
    "activation": (),
}


def partition_spec(axes: Sequence[str | None]) -> PartitionSpec:
    """The mesh axes of an array whose dimensions carry these logical names.

    Raises:
        ValueError: a name is not in the table, or two dimensions want the same mesh axis.
    """
    used: list[str] = []
    entries: list[tuple[str, ...] | None] = []
    for axis in axes:
        if axis is not None and axis not in RULES:
            raise ValueError(f"unknown logical axis {axis!r}; the table has {', '.join(RULES)}")
        mesh_axes = RULES[axis] if axis is not None else ()
        used += mesh_axes
        entries.append(mesh_axes or None)
    if len(used) != len(set(used)):
        raise ValueError(f"logical axes {tuple(axes)} map to the same mesh axis twice: {used}")
    return PartitionSpec(*entries)


def make_mesh(sizes: Mapping[str, int] | None = None, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """Make the mesh `data × fsdp × tensor`.

    Args:
        sizes: devices along each axis; axes left out have 1. Default: every device along `fsdp`.
        devices: default all of them; there must be as many as the sizes multiply to (spare ones are left idle).

    Raises:
        InputError: an axis is unknown, a size is below 1, or there are too few devices.
    """
    devices = list(jax.devices()) if devices is None else list(devices)
    sizes = {"fsdp": len(devices)} if sizes is None else dict(sizes)
    for name, size in sizes.items():
        if name not in MESH_AXES:
            raise InputError(f"mesh: unknown axis {name!r}; use {', '.join(MESH_AXES)}")
        if size < 1:
            raise InputError(f"mesh: {name}={size}, expected at least 1")
    shape = tuple(sizes.get(name, 1) for name in MESH_AXES)
    needed = math.prod(shape)
    if needed > len(devices):
        raise InputError(f"mesh: {'×'.join(map(str, shape))} needs {needed} devices, there are {len(devices)}")
    grid = np.array(devices[:needed]).reshape(shape)
    return Mesh(grid, MESH_AXES, axis_types=(AxisType.Auto,) * len(MESH_AXES))


def parse_mesh(text: str) -> dict[str, int]:
    """Read `data=1,fsdp=4` as typed on a command line."""
    sizes = {}
    for part in text.split(","):
        name, _, size = part.partition("=")
        if not size.isdecimal():
            raise InputError(f"--mesh: cannot read {part!r}; write it as data=1,fsdp=4,tensor=1")
        sizes[name.strip()] = int(size)
    return sizes


def state_shardings(state: Any, mesh: Mesh) -> Any:
    """Shardings for an `nnx.State` whose variables carry `axes` metadata; variables without are replicated.

    Raises:
        InputError: an axis of a weight does not divide by the devices it is to be split over.
    """

    def of(path: tuple[Any, ...], variable: Any) -> Any:
        axes = variable.get_metadata().get("axes", ())
        sharding = NamedSharding(mesh, partition_spec(axes))
        name = ".".join(str(part) for part in path)
        check_divisible(name, variable.get_value().shape, sharding)
        return variable.replace(sharding)

    return nnx.map_state(of, state)


def check_divisible(name: str, shape: Sequence[int], sharding: NamedSharding) -> None:
    """Raise `InputError` if an array cannot be split evenly as `sharding` asks."""
    for dimension, mesh_axes in enumerate(sharding.spec):
        if not mesh_axes:
            continue
        names = mesh_axes if isinstance(mesh_axes, tuple) else (mesh_axes,)
        parts = math.prod(sharding.mesh.shape[axis] for axis in names)
        if shape[dimension] % parts:
            raise InputError(
                f"mesh: {name} of shape {tuple(shape)} cannot be split by {'×'.join(names)}={parts} "
                f"along dimension {dimension}"
            )


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """How the arrays of a batch lie on the mesh: split by rows (or clips), whatever their other dimensions."""
    return NamedSharding(mesh, partition_spec(("batch",)))


def mesh_of(model: nnx.Module) -> Mesh:
    """The mesh the weights of a model lie on; for a model that was never placed, one of its single device."""
    weight = jax.tree.leaves(nnx.state(model, nnx.Param))[0]
    if isinstance(weight.sharding, NamedSharding) and isinstance(weight.sharding.mesh, Mesh):
        return weight.sharding.mesh
    return make_mesh({}, list(weight.devices()))


def put_batch(batch: Mapping[str, Any], mesh: Mesh) -> dict[str, jax.Array]:
    """Place the arrays of a batch on the mesh, split by rows; one whose rows do not divide evenly is replicated."""
    parts = math.prod(mesh.shape[axis] for axis in RULES["batch"])
    split, whole = batch_sharding(mesh), NamedSharding(mesh, PartitionSpec())
    return {name: jax.device_put(value, whole if len(value) % parts else split) for name, value in batch.items()}


def constrain(x: jax.Array, *axes: str | None) -> jax.Array:
    """Pin an activation to the table's layout; does nothing where no mesh is set (`jax.set_mesh`)."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return x
    return jax.lax.with_sharding_constraint(x, partition_spec(axes))

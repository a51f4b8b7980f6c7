"""The one table of logical axes, and what it refuses."""

import jax
import pytest
from flax import nnx
from jax.sharding import AxisType, PartitionSpec

from jaxeval.errors import InputError
from jaxeval.sharding import make_mesh, parse_mesh, partition_spec, state_shardings


def test_logical_axes_become_mesh_axes():
    assert partition_spec(("layers", "heads", "embed")) == PartitionSpec(None, ("tensor",), ("fsdp",))
    assert partition_spec(("batch", "length", "activation")) == PartitionSpec(("data", "fsdp"), None, None)


def test_unknown_axis_raises():
    with pytest.raises(ValueError, match="unknown logical axis 'wings'"):
        partition_spec(("embed", "wings"))


def test_axes_that_collide_raise():
    with pytest.raises(ValueError, match="same mesh axis twice"):
        partition_spec(("heads", "mlp"))
    with pytest.raises(ValueError, match="same mesh axis twice"):
        partition_spec(("batch", "embed"))


def test_mesh_has_three_auto_axes_and_by_default_all_devices_along_fsdp():
    assert dict(make_mesh().shape) == {"data": 1, "fsdp": len(jax.devices()), "tensor": 1}
    mesh = make_mesh({"data": 2, "tensor": 2})
    assert dict(mesh.shape) == {"data": 2, "fsdp": 1, "tensor": 2}
    assert set(mesh.axis_types) == {AxisType.Auto}


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"model": 2}, "unknown axis 'model'"),
        ({"data": 0}, "data=0, expected at least 1"),
        ({"fsdp": 1000}, "needs 1000 devices"),
    ],
)
def test_impossible_mesh_is_an_input_error(sizes: dict[str, int], message: str):
    with pytest.raises(InputError, match=message):
        make_mesh(sizes)


def test_mesh_is_read_as_typed():
    assert parse_mesh("data=1,fsdp=4") == {"data": 1, "fsdp": 4}
    with pytest.raises(InputError, match="cannot read 'fsdp=x'"):
        parse_mesh("data=1,fsdp=x")


def test_weight_that_does_not_divide_is_named():
    module = nnx.Dict(weight=nnx.Param(jax.numpy.zeros((3, 8)), axes=("heads", "embed")))
    with pytest.raises(InputError, match=r"weight of shape \(3, 8\) cannot be split by tensor=2"):
        state_shardings(nnx.state(module), make_mesh({"tensor": 2}))

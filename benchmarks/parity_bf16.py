"""How far the device's 16-bit logits are from float32 ones: `python -m benchmarks.parity_bf16`.

One set of random weights, three ways: float32 on the CPU, which is the reference (and which `make parity` holds against
transformers); float32 on the device; bfloat16 on the device with each attention it has. Batches are as training
makes them, without padding on the left, and as generation does, with it; logits are compared at real tokens.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from benchmarks.ours import config_for, random_model
from benchmarks.workload import Workload, make_batch
from jaxeval.audio.lengths import frame_bucket
from jaxeval.checkpoint import abstract_model
from jaxeval.errors import RunError, exit_code
from jaxeval.files import environment, write_json
from jaxeval.models.config import Qwen2AudioConfig
from jaxeval.models.qwen2_audio import Qwen2Audio, left_padding
from jaxeval.sharding import make_mesh

LIMITS = {"float32": 1e-4, "bfloat16": 3e-2}
"""Largest relative error. bfloat16 keeps 8 bits, so each rounding costs up to 0.4 %, and the layers add some up."""

Batch = dict[str, np.ndarray]


def main() -> None:
    """Compare, print, and fail if something is too far off."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parity_bf16", description=__doc__)
    parser.add_argument("--preset", choices=("tiny", "mid"), default="mid", help="shape of the model")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each recording")
    parser.add_argument("--json", metavar="FILE", help="also write the figures to this file")
    arguments = parser.parse_args()
    work = Workload(preset=arguments.preset, seconds=arguments.seconds, batch=2)
    rows = list(compare(work, jax.devices()[0]))
    if arguments.json:
        write_json(arguments.json, {"environment": environment(), "results": rows})
    bad = [row for row in rows if not row["relative_error"] <= LIMITS[row["dtype"]]]
    if bad:
        raise RunError(f"{len(bad)} of {len(rows)} comparisons are beyond their limits {LIMITS}")


def compare(work: Workload, device: jax.Device) -> Iterator[dict[str, Any]]:
    """Errors for each batch, dtype and attention, printed as they come; see `differences`."""
    reference = config_for(work)
    cpu = jax.devices("cpu")[0]
    model = random_model(reference, None, make_mesh({}, [cpu]))
    ways = [("bfloat16", "xla")]
    if device != cpu:
        ways.insert(0, ("float32", "xla"))
    if device.platform == "gpu":
        ways.append(("bfloat16", "cudnn"))
    for padding, batch in batches(work).items():
        expected = logits_of(model, reference, batch, cpu)
        for dtype, attention in ways:
            config = reference.replace(dtype=jnp.dtype(dtype), param_dtype=jnp.dtype(dtype), attention=attention)
            row = {"padding": padding, "dtype": dtype, "attention": attention, "device": device.device_kind}
            row |= differences(logits_of(model, config, batch, device), expected)
            print(
                f"{device.device_kind}, {dtype}, {attention}, {padding}: relative error {row['relative_error']:.1e}"
                f" (at most {LIMITS[dtype]:.0e}), most likely token equal at {row['argmax_agreement']:.1%}"
            )
            yield row


def batches(work: Workload) -> dict[str, Batch]:
    """Rows as they are, and rows that lack some text at the end and have as much padding on the left instead."""
    batch = make_batch(work, work.hf_config(), frame_bucket(work.frames))
    padding = [7 * row for row in range(work.batch)]
    padded = {
        name: np.stack(
            [np.pad(row[: len(row) - count], (count, 0)) for row, count in zip(batch[name], padding, strict=True)]
        )
        for name in ("input_ids", "attention_mask")
    }
    return {"no padding": batch, "left padding": batch | padded}


def logits_of(model: Qwen2Audio, config: Qwen2AudioConfig, batch: Batch, device: jax.Device) -> np.ndarray:
    """Logits at the real tokens, float32 [tokens, vocab], of the weights of `model` computed as `config` says."""
    graph = nnx.graphdef(abstract_model(config))
    state = jax.tree.map(lambda value: jax.device_put(value.astype(config.param_dtype), device), nnx.state(model))
    padded = bool((batch["attention_mask"] == 0).any())

    @jax.jit
    def logits(state: nnx.State, batch: Any) -> jax.Array:
        model = nnx.merge(graph, state)
        start = left_padding(batch["attention_mask"]) if padded else None
        return model.logits(model.hidden(batch, model.encode_audio(batch), start=start)[0])

    with jax.default_matmul_precision("highest" if config.dtype == jnp.float32 else "default"):
        found = logits(state, jax.device_put(batch, device))
    return np.asarray(found)[batch["attention_mask"] != 0]


def differences(found: np.ndarray, expected: np.ndarray) -> dict[str, float]:
    """How two arrays of logits differ: relative L2 error, and share of tokens with the same most likely successor."""
    return {
        "relative_error": float(np.linalg.norm(found - expected) / np.linalg.norm(expected)),
        "argmax_agreement": float((found.argmax(-1) == expected.argmax(-1)).mean()),
    }


if __name__ == "__main__":
    sys.exit(exit_code(main))

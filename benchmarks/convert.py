"""Conversion against `cp -r` and `sync` on the same disk: `python -m benchmarks.convert`.

Makes a synthetic sharded checkpoint in Hugging Face's layout, then imports and copies it in turn, each in a process of
its own, and prints each side's minimum, their ratio, and the import's peak memory beside what it may be.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np

from jaxeval.files import read_json, write_json
from tools.convert_weights.safetensors_files import INDEX, Planned, write_file
from tools.synthetic_checkpoint import Preset, tensor_shapes, train_tokenizer, write_files

SHAPE = Preset(
    640, 8, 10, 2560, dim=2048, layers=16, heads=16, kv_heads=16, ffn=5504, vocab=32768
)  # 1.9 GB of bfloat16
SHARDS = 3


def make_checkpoint(folder: Path) -> int:
    """Write the checkpoint and return its bytes; the weights are noise, which no storage can compress."""
    write_files(folder, train_tokenizer(["A dog barks while rain falls."], SHAPE.vocab), SHAPE)
    plan = [Planned(name, np.dtype(ml_dtypes.bfloat16), shape) for name, shape in tensor_shapes(SHAPE).items()]
    rng = np.random.default_rng(0)
    weight_map: dict[str, str] = {}
    for number in range(SHARDS):
        part = plan[number * len(plan) // SHARDS : (number + 1) * len(plan) // SHARDS]
        file = f"model-{number + 1:05}-of-{SHARDS:05}.safetensors"
        noise = (rng.normal(0, 0.02, tensor.shape).astype(tensor.dtype) for tensor in part)
        write_file(folder / file, part, noise)
        weight_map |= {tensor.name: file for tensor in part}
    write_json(folder / INDEX, {"metadata": {}, "weight_map": weight_map})
    return sum(tensor.size for tensor in plan)


def largest_stack() -> int:
    """Bytes of the largest tensor of the converted checkpoint."""
    shapes = tensor_shapes(SHAPE)
    layers = {"audio_tower": SHAPE.audio_layers, "language_model": SHAPE.layers}
    return max(
        2 * int(np.prod(shape)) * (layers[name.split(".")[0]] if ".layers." in name else 1)
        for name, shape in shapes.items()
    )


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds that a command and a `sync` after it took, and the gigabytes its process held at most."""
    os.sync()
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    os.sync()
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return time.perf_counter() - start, usage.ru_maxrss * 1024 / 1e9


def main() -> None:
    """Run the benchmark; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where to work; default the system's temporary folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as work:
        source, target, copy = (Path(work) / name for name in ("hf", "flax", "copy"))
        with ProcessPoolExecutor(1) as maker:  # a child's peak would count what its parent held when it was started
            size = maker.submit(make_checkpoint, source).result()
        convert = [sys.executable, "-m", "tools.convert_weights", "import", str(source), str(target)]
        imports, copies, peaks = [], [], []
        for _ in range(args.rounds):
            copies.append(timed(["cp", "-r", str(source), str(copy)])[0])
            shutil.rmtree(copy)
            seconds, peak = timed(convert)
            imports.append(seconds)
            peaks.append(peak)
            assert read_json(target / "checkpoint.json")["dtype"] == "bfloat16"
            shutil.rmtree(target)
    result = {
        "gigabytes": size / 1e9,
        "import_seconds": imports,
        "copy_seconds": copies,
        "import_min": min(imports),
        "copy_min": min(copies),
        "speed_ratio": min(copies) / min(imports),
        "peak_gigabytes": max(peaks),
        "allowed_gigabytes": 1 + largest_stack() / 1e9,
    }
    print(f"import {min(imports):.2f} s, cp + sync {min(copies):.2f} s: {result['speed_ratio']:.2f}x the speed")
    print(f"peak memory {result['peak_gigabytes']:.2f} GB, allowed {result['allowed_gigabytes']:.2f} GB")
    print(json.dumps(result))


if __name__ == "__main__":
    main()

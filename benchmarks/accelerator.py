"""Every accelerator measurement in one go, within a time limit; started by `benchmarks/accelerator.sh`.

Each step is one of the other scripts in a process of its own, so that peak memory is that of the step and a crash stays
within it. A step that fails is recorded with its reason and the next one starts. The file is whole after every step.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.sides import ROOT
from jaxeval.errors import InputError, exit_code
from jaxeval.files import read_json, write_json

SECONDS = 460
"""For everything; a step is stopped when they are over."""
STEP_SECONDS = 120

OURS = "--dtype bfloat16 --mesh fsdp=1 --no-peer"
LORA = f"benchmarks.lora_step --preset 7b {OURS}"
STEPS = {
    "parity_bf16": "benchmarks.parity_bf16 --preset mid",
    "lora_628_xla": f"{LORA} --attention xla",
    "lora_628_cudnn": f"{LORA} --attention cudnn",
    "decode": f"benchmarks.decode --preset 7b {OURS} --rounds 3 --batch 1 16 64",
    "lora_2048_xla": f"{LORA} --attention xla --text 1548 --remat",
    "lora_2048_cudnn": f"{LORA} --attention cudnn --text 1548 --remat",
}
"""Most telling first, for a device that is slow. A row is 2 × 10 s of audio (500 tokens) and text."""

SMALL = "--preset tiny --seconds 1"
SMALL_LORA = f"benchmarks.lora_step {SMALL} {OURS} --rounds 1 --batch 1 --text 32 --answer 8"
SMOKE_STEPS = {
    "parity_bf16": f"benchmarks.parity_bf16 {SMALL}",
    "lora_xla": f"{SMALL_LORA} --attention xla --remat",
    "lora_cudnn": f"{SMALL_LORA} --attention cudnn",
    "decode": f"benchmarks.decode {SMALL} {OURS} --rounds 1 --batch 1 --text 32 --new-tokens 2",
}
"""On a CPU the second LoRA step fails, since cuDNN needs a GPU: a look at how failures are recorded."""

PROBE = "import json, jax; from jaxeval.files import environment; print(json.dumps(environment()))"


def main() -> None:
    """Run every step and write the file."""
    parser = argparse.ArgumentParser(prog="benchmarks/accelerator.sh", description=__doc__)
    parser.add_argument("out", metavar="OUT.json", help="the file to write")
    parser.add_argument("--smoke", action="store_true", help="the same path with the tiny model on the CPU")
    arguments = parser.parse_args()
    out, started = Path(arguments.out).absolute(), time.monotonic()
    variables = dict(os.environ)
    if arguments.smoke:
        variables |= {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    found = environment_of_jax(variables)
    if not arguments.smoke and all(device.startswith("cpu:") for device in found["devices"]):
        raise InputError("jax finds no GPU or TPU here; `--smoke` tries the script on the CPU")
    report: dict[str, Any] = {"environment": found, "smoke": arguments.smoke, "steps": {}}
    with tempfile.TemporaryDirectory() as scratch:
        # The steps share some compilations.
        variables |= {"JAX_COMPILATION_CACHE_DIR": scratch, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        for name, command in (SMOKE_STEPS if arguments.smoke else STEPS).items():
            limit = min(STEP_SECONDS, SECONDS - (time.monotonic() - started))
            print(f"[{name}] python -m {command}", flush=True)
            report["steps"][name] = run_step(command, Path(scratch) / f"{name}.json", variables, limit)
            report["seconds"] = round(time.monotonic() - started, 1)
            write_json(out, report)
    failed = [name for name, step in report["steps"].items() if "error" in step]
    print(f"{out}: {len(report['steps']) - len(failed)} steps done, {len(failed)} failed in {report['seconds']} s")


def environment_of_jax(variables: dict[str, str]) -> dict[str, Any]:
    """`jaxeval.files.environment` with jax's devices, found in another process: this one must not take the device."""
    probe = subprocess.run([sys.executable, "-c", PROBE], env=variables, cwd=ROOT, capture_output=True, text=True)
    if probe.returncode:
        raise InputError(f"jax does not start here: {last_line(probe.stderr)}")
    return json.loads(probe.stdout)


def run_step(command: str, result: Path, variables: dict[str, str], limit: float) -> dict[str, Any]:
    """Run one script.

    Args:
        command: module and options.
        result: where it shall write its figures.
        variables: its environment.
        limit: seconds after which it is stopped.

    Returns:
        `command`, `seconds`, the script's own `results` if it wrote any, and `error`, the reason, if it failed.
    """
    step: dict[str, Any] = {"command": command}
    if limit <= 0:
        return step | {"error": f"not started: the {SECONDS} s for all steps are over"}
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", *shlex.split(command), "--json", str(result)],
        env=variables,
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, stderr = process.communicate(timeout=limit)
        error = None if process.returncode == 0 else last_line(stderr) or f"exit status {process.returncode}"
    except subprocess.TimeoutExpired:
        error = f"stopped after {limit:.0f} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # the script and the sides it has started
            process.communicate()
    step["seconds"] = round(time.monotonic() - started, 1)
    if result.exists():
        step["results"] = read_json(result)["results"]
    if error is not None:
        print(f"  {error}", flush=True)
        step["error"] = error
    return step


def last_line(text: str) -> str:
    """What a failed program says last, which is its reason."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "").strip()


if __name__ == "__main__":
    sys.exit(exit_code(main))

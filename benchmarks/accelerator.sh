#!/usr/bin/env bash
# What this project does on one GPU or TPU, in under 8 minutes and one JSON file:
#   benchmarks/accelerator.sh OUT.json
# Parity at bfloat16, LoRA step of the 7B model, decoding. `--smoke` goes through the same steps with the tiny
# model on the CPU. PYTHON names the interpreter that has the project installed.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" exec "${PYTHON:-python3}" -m benchmarks.accelerator "$@"

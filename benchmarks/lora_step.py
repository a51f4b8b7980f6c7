"""How fast one LoRA training step is, ours against transformers with PEFT: `python -m benchmarks.lora_step`.

Timed is everything from log-mel features to updated adapters: encoder, decoder, loss, backward pass, clipping, AdamW.
Audio counts as tokens. Ours encodes recordings at the length of their bucket and makes logits where something is
supervised; the other side pads to 30 s and makes all logits, as it does for its users.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import sides, workload
from jaxeval.errors import exit_code
from jaxeval.files import environment, write_json


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lora_step", description=__doc__)
    workload.add_arguments(
        parser, "preset", "batch", "seconds", "text", "answer", "rank", "dtype", "attention", "remat", "mesh"
    )
    sides.add_arguments(parser)
    arguments = parser.parse_args()
    results = sides.compare("lora_step", [workload.from_arguments(arguments)], arguments.rounds, peer=arguments.peer)
    sides.show(results)
    if arguments.json:
        write_json(arguments.json, {"environment": environment(), "results": results})


if __name__ == "__main__":
    sys.exit(exit_code(main))

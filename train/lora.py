"""`python -m train.lora`: tune a converted Qwen2-Audio to say what differs between two recordings and what they share.

A thin start of `train.loop`. Every pair becomes two examples, one for each task, trained jointly. The defaults are the
recipe of the project: rank 8, alpha 32, dropout 0.05 on the decoder's linear maps, 16 examples a step, until
validation stops improving.
"""

from __future__ import annotations

import sys

from jaxeval.edits.prompts import TASKS, conversation
from jaxeval.errors import exit_code
from jaxeval.pairs.read import Pair, read_pairs
from train.config import parse_command_line
from train.data import Example
from train.loop import train
from train.processes import start_processes


def pair_examples(pairs: list[Pair]) -> dict[str, list[Example]]:
    """Examples of both tasks by split; pairs of the test split are left alone."""
    examples: dict[str, list[Example]] = {"train": [], "validation": []}
    for pair in pairs:
        if pair.split in examples:
            audio = (pair.original_audio, pair.edited_audio)
            name = pair.id if pair.system is None else f"{pair.id}/{pair.system}"
            examples[pair.split] += [
                Example(name, task, conversation(task), audio, getattr(pair, task)) for task in TASKS
            ]
    return examples


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and train."""
    config, out = parse_command_line("train.lora", "pairs", arguments)
    examples = pair_examples(read_pairs(config.data.path, need_targets=True))
    start_processes()
    train(config, examples, out)


if __name__ == "__main__":
    sys.exit(exit_code(main))

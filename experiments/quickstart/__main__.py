"""`python -m experiments.quickstart`: the main job on real recordings, with a small model made on the spot.

Every step is one of the project's own commands, printed before it runs, so that what happens here in minutes can be
repeated with the 7B model by changing a path. Run it again and it goes on where it stopped, or says what is finished.
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import subprocess
import sys
from pathlib import Path

from jaxeval.edits.prompts import QUESTIONS, TASKS
from jaxeval.errors import InputError, RunError, exit_code
from jaxeval.files import whole_folder
from jaxeval.tables import read_table
from tools.synthetic_checkpoint import PRESETS, make_checkpoint

HERE = Path(__file__).parent
RECORDINGS = HERE / "recordings" / "manifest.csv"
PAIRS = 300
SECONDS = 4
SEED = 3520
"""Chosen by what it holds out: every recording of the validation and the test pairs has a relative in the training."""

SMALL = dataclasses.replace(PRESETS["small"], vocab=640)
"""2.7 million parameters; a vocabulary that holds the words of the captions and questions whole."""

UNTRAINED = (
    "The small model of this quickstart starts untrained: its weights are random numbers, so its answers show that "
    "the path works, not what the method can do. In a few minutes of tuning it learns to answer the two questions "
    "differently and in the wording of the captions. It hears a little of what two recordings share, and nothing "
    "measurable of what was edited: the sounds and the edits it names on unheard recordings are mostly wrong."
)


def main() -> None:
    """Run the steps in order; each is skipped by its own command where it is finished."""
    parser = argparse.ArgumentParser(prog="experiments.quickstart", description=str(__doc__).splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/quickstart"), help="default %(default)s")
    out = parser.parse_args().out
    print(f"\n{UNTRAINED}\n", flush=True)
    pairs, checkpoint, run_folder = out / "pairs" / "pairs.jsonl", out / "checkpoint", out / "lora"
    captions = {"untrained": out / "untrained.jsonl", "tuned": out / "tuned.jsonl"}

    _say("1. Build pairs of original and edited audio from 40 captioned recordings.")
    size = ("--count", PAIRS, "--seconds", SECONDS, "--seed", SEED)
    _command("jaxeval", "pairs", "--clips", RECORDINGS, "--out", out / "pairs", *size)

    _say("2. Make a small Qwen2-Audio checkpoint in Hugging Face's layout, and convert it to Flax.")
    if not (out / "huggingface").exists():
        with whole_folder(out / "huggingface") as folder:
            make_checkpoint(folder, preset=SMALL, texts=_training_texts(pairs))
    _command("tools.convert_weights", "import", out / "huggingface", checkpoint)

    _say("3. Tune LoRA adapters to tell the difference and the commonality.")
    settings = ("--config", HERE / "config.json")
    _command("train.lora", "--model", checkpoint, "--pairs", pairs, "--out", run_folder, *settings)

    _say("4. Describe pairs of recordings that were not in the training: before tuning, and after.")
    describe = ("--model", checkpoint, "--pairs", pairs, "--split", "test", "--max-new-tokens", 32)
    _command("jaxeval", "describe", *describe, "--name", "untrained", "--out", captions["untrained"])
    adapter = ("--adapter", run_folder / "adapter")
    _command("jaxeval", "describe", *describe, *adapter, "--name", "tuned", "--out", captions["tuned"])

    _say("5. Score both against the references and write the report.")
    candidates = ("--candidates", *captions.values(), "--references", pairs)
    _command("jaxeval", "metrics", *candidates, "--out", out / "report", "--note", UNTRAINED)
    print(f"\n{UNTRAINED}\n")
    print(f"Open {out / 'report' / 'report.html'} to hear and see every pair.")
    print(f"Watch the training: tensorboard --logdir {run_folder}")


def _training_texts(pairs: Path) -> list[str]:
    """What the offline tokenizer is trained on: questions and answers of the training pairs alone."""
    rows = [row for row in read_table(pairs) if row["split"] == "train"]
    return [text for row in rows for task in TASKS for text in (QUESTIONS[task], row[task])]


def _command(module: str, *arguments: object) -> None:
    """Print a command and run it; its exit code becomes ours if it fails."""
    words = [str(argument) for argument in arguments]
    print(f"$ python -m {module} {shlex.join(words)}", flush=True)
    process = subprocess.Popen([sys.executable, "-m", module, *words])
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.wait()  # Ctrl-C has reached the command too, which saves what it has
        raise
    if code == 130:
        raise KeyboardInterrupt
    if code:
        kind = InputError if code == 2 else RunError
        raise kind(f"quickstart stopped: python -m {module} ended with exit code {code}")


def _say(text: str) -> None:
    print(f"\n{text}", flush=True)


if __name__ == "__main__":
    sys.exit(exit_code(main))

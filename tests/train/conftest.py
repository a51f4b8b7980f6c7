"""Eight pairs of tones and a tiny converted checkpoint: enough for the whole training loop to run in seconds."""

import os
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxeval.audio.read import write_flac
from jaxeval.edits.prompts import QUESTIONS
from jaxeval.tables import write_table
from tools.convert_weights.importing import import_checkpoint
from tools.synthetic_checkpoint import make_checkpoint

SOUNDS = ("bell", "dog", "rain", "horn", "cat", "drum", "wind", "bird")


def tone(hertz: float, seconds: float) -> np.ndarray:
    return 0.3 * np.sin(2 * np.pi * hertz * np.arange(int(16_000 * seconds)) / 16_000)


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same few programs are compiled by many runs, some of them in processes of their own: once is enough."""
    folder = str(tmp_path_factory.mktemp("compiled"))
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
    jax.config.update("jax_compilation_cache_dir", folder)


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pairs table: eight to train on, of 0.4 or 1.2 s, and two to validate."""
    folder = tmp_path_factory.mktemp("pairs")
    rows = []
    for number, sound in enumerate((*SOUNDS, "bell", "dog")):
        seconds = 0.4 if number % 4 else 1.2
        original, edited = tone(200 + 50 * number, seconds), tone(900 + 200 * number, seconds / 2)
        write_flac(folder / f"{number}_a.flac", original)
        write_flac(folder / f"{number}_b.flac", np.concatenate([original, edited]))
        rows.append(
            {
                "id": f"pair{number}",
                "original_audio": f"{number}_a.flac",
                "edited_audio": f"{number}_b.flac",
                "operation": "add",
                "difference": f"A {sound} is added at the end.",
                "commonality": f"Both have a {sound} tone" + " that goes on and on" * (number % 3) + ".",
                "split": "train" if number < len(SOUNDS) else "validation",
            }
        )
    write_table(folder / "pairs.jsonl", rows)
    return folder / "pairs.jsonl"


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny preset, converted; its tokenizer has learned the words of the pairs."""
    folder = tmp_path_factory.mktemp("checkpoint")
    texts = [
        *QUESTIONS.values(),
        "A bell is added at the end. Both have a dog tone that goes on and on.",
        " ".join(SOUNDS),
    ]
    import_checkpoint(make_checkpoint(folder / "hf", preset="tiny", texts=texts * 2), folder / "flax")
    return folder / "flax"


@pytest.fixture(scope="session")
def arguments(checkpoint: Path, pairs: Path) -> Callable[..., list[str]]:
    """Makes the arguments of a short run into a folder; more of them override."""

    def make(out: Path, *more: str) -> list[str]:
        short = "--mesh data=1 --batch 4 --data.micro_batch 2 --data.shapes 2 --epochs 2 --optimizer.warmup_steps 2"
        quiet = "--logging.tensorboard false --validation.captions 0 --validation.every 4 --checkpoint_every 3"
        paths = ["--model", str(checkpoint), "--pairs", str(pairs), "--out", str(out)]
        return [*paths, *short.split(), *quiet.split(), *more]

    return make

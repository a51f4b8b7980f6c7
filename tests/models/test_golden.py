"""The whole path from recordings to logits and greedy tokens, against values transformers gave.

`tests/parity/test_golden.py` holds that the values are still those of transformers, and writes them.
"""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import jaxeval
from jaxeval.edits.prompts import conversation
from jaxeval.generation import generate
from tools.convert_weights.importing import import_checkpoint
from tools.synthetic_checkpoint import make_checkpoint

GOLDEN = Path(__file__).with_name("golden.npz")
TEXTS = ["A dog barks twice while rain falls.", "The sound of a bell is added at the start."]
KEPT = 3  # logits of the last positions are stored, after which every earlier one matters
NEW_TOKENS = 12


def golden_checkpoint(folder: Path) -> Path:
    """A tiny Hugging Face checkpoint of seeded weights, large enough that each shows in the logits."""
    make_checkpoint(folder, preset="tiny", texts=TEXTS, seed=7)
    file = folder / "model.safetensors"
    scaled = {name: value * np.float32(1 if "norm" in name else 5) for name, value in load_file(file).items()}
    save_file(scaled, file, {"format": "pt"})
    return folder


def golden_batch(processor, side: str, pad_to: int | None = None):
    """Two recordings of different length in one row, text alone in the other."""
    rng = np.random.default_rng(0)
    clips = [rng.normal(0, 0.1, length).astype(np.float32) for length in (9_000, 21_234)]
    text = [{"role": "user", "content": "What barks twice?"}]
    return processor([conversation("difference"), text], clips, padding_side=side, pad_to=pad_to)


def last_logits(logits: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Logits of the last real positions of each row, [rows, KEPT, vocab]."""
    return np.stack([row[: count.sum()][-KEPT:] for row, count in zip(logits, mask, strict=True)])


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    import_checkpoint(golden_checkpoint(folder / "hf"), folder / "flax")
    return jaxeval.load_model(folder / "flax")


def test_logits_are_those_of_transformers(loaded):
    model, processor = loaded
    batch = golden_batch(processor, "right")
    logits = last_logits(np.asarray(model(batch)), batch["attention_mask"])
    np.testing.assert_allclose(logits, np.load(GOLDEN)["logits"], rtol=0, atol=1e-4)


def test_greedy_tokens_are_those_of_transformers(loaded):
    model, processor = loaded
    tokens = generate(model, golden_batch(processor, "left"), NEW_TOKENS)
    np.testing.assert_array_equal(tokens, np.load(GOLDEN)["tokens"])

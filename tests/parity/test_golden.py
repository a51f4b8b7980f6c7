"""The golden values of `tests/models` are those of transformers; run as a module, this file writes them."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import Qwen2AudioForConditionalGeneration

from jaxeval.processor import Processor
from tests.models.test_golden import GOLDEN, NEW_TOKENS, golden_batch, golden_checkpoint, last_logits


def reference_values(folder: Path) -> dict[str, np.ndarray]:
    """Logits and greedy tokens of the reference on the golden batch."""
    model = Qwen2AudioForConditionalGeneration.from_pretrained(golden_checkpoint(folder), dtype=torch.float32).eval()
    processor = Processor.from_folder(folder)
    right, left = (
        {name: torch.from_numpy(value).clone() for name, value in golden_batch(processor, side, pad_to=3000).items()}
        for side in ("right", "left")
    )
    with torch.no_grad():
        logits = model(**right).logits.numpy()
        tokens = model.generate(
            **left,
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            repetition_penalty=1.0,
            eos_token_id=list(processor.eos_ids),
            pad_token_id=processor.pad_id,
        )
    new = tokens[:, left["input_ids"].shape[1] :].numpy()
    new = np.pad(new, ((0, 0), (0, NEW_TOKENS - new.shape[1])), constant_values=processor.pad_id)
    return {"logits": last_logits(logits, right["attention_mask"].numpy()), "tokens": new}


def test_golden_values_are_those_of_the_reference(tmp_path):
    stored = np.load(GOLDEN)
    for name, value in reference_values(tmp_path).items():
        np.testing.assert_allclose(stored[name], value, rtol=0, atol=1e-5)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        values = reference_values(Path(temporary))
        np.savez_compressed(GOLDEN, logits=values["logits"], tokens=values["tokens"])

"""Synthetic checkpoints load in transformers, whatever their layout."""

from typing import Any

import pytest
import torch
from transformers import AutoProcessor, Qwen2AudioForConditionalGeneration

from jaxeval.edits.prompts import conversation
from jaxeval.processor import Processor
from tests.test_processor import noise
from tools.synthetic_checkpoint import make_checkpoint


@pytest.mark.parametrize(("layout", "shards"), [("hub", 1), ("hub", 2), ("in_memory", 1), ("mixed", 1)])
def test_transformers_finds_every_tensor_and_no_other(layout, shards, tmp_path):
    make_checkpoint(tmp_path, preset="tiny", texts=["A dog barks."], layout=layout, shards=shards)
    loaded: Any = Qwen2AudioForConditionalGeneration.from_pretrained(tmp_path, output_loading_info=True)
    model, info = loaded
    assert {kind: list(names) for kind, names in info.items() if names} == {}
    assert model.lm_head.weight is not model.get_input_embeddings().weight
    assert type(AutoProcessor.from_pretrained(tmp_path)).__name__ == "Qwen2AudioProcessor"


def test_transformers_takes_our_batch_and_gives_finite_logits(tiny_checkpoint):
    model = Qwen2AudioForConditionalGeneration.from_pretrained(tiny_checkpoint)
    batch = Processor.from_folder(tiny_checkpoint)([conversation("difference")], [noise(0.5), noise(1)], pad_to=3000)
    with torch.no_grad():
        logits = model(**{name: torch.from_numpy(array) for name, array in batch.items()}).logits
    assert logits.shape == (*batch["input_ids"].shape, 512)
    assert torch.isfinite(logits).all()

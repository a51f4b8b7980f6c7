"""The same random weights in transformers and here, for several shapes of the model."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from transformers import Qwen2AudioForConditionalGeneration

import jaxeval
from jaxeval.models.qwen2_audio import Qwen2Audio
from jaxeval.processor import Processor
from tools.convert_weights.importing import import_checkpoint
from tools.synthetic_checkpoint import PRESETS, Preset, make_checkpoint

SHAPES = {
    "grouped": PRESETS["tiny"],  # 4 heads on 2 key-value heads
    "multi-head": Preset(48, 3, 6, 80, dim=64, layers=3, heads=4, kv_heads=4, ffn=112, vocab=400),
    "multi-query": Preset(32, 1, 2, 64, dim=96, layers=1, heads=6, kv_heads=1, ffn=64, vocab=384, mels=80),
}


@dataclass(frozen=True)
class Pair:
    """One set of weights, in both implementations."""

    folder: Path  # Hugging Face's layout
    checkpoint: Path  # ours
    reference: Qwen2AudioForConditionalGeneration
    model: Qwen2Audio
    processor: Processor


def sharpen(file: Path) -> None:
    """Make the weights large enough that every single one shows in the logits; at 0.02 attention is all but uniform."""
    factors = {"q_proj.weight": 10, "k_proj.weight": 10, "embed_positions.weight": 1, "norm.weight": 1}
    tensors = load_file(file)
    for name, value in tensors.items():
        factor = next((factor for ending, factor in factors.items() if name.endswith(ending)), 4)
        tensors[name] = value * np.float32(factor)
    save_file(tensors, file, {"format": "pt"})


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Pair]:
    """`pair(name)` gives both models of a shape in `SHAPES`; each is made once."""
    made: dict[str, Pair] = {}

    def get(name: str) -> Pair:
        if name not in made:
            root = tmp_path_factory.mktemp(name)
            folder = make_checkpoint(root / "hf", preset=SHAPES[name], texts=["A dog barks.", "Rain falls."], seed=3)
            sharpen(folder / "model.safetensors")
            import_checkpoint(folder, root / "flax")
            reference = Qwen2AudioForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
            model, processor = jaxeval.load_model(root / "flax")
            made[name] = Pair(folder, root / "flax", reference, model, processor)
        return made[name]

    return get

"""Sentence vectors here and from transformers, with the pooling of sentence-transformers."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, BertConfig, BertModel

from jaxeval.models.sentence_encoder import PACKAGE, SentenceEncoder

TEXTS = [
    "A dog barks twice in the distance.",
    "rain",
    "",
    "🎧 a Café's door, half-open: creaks!",
    "Heavy rain falls on a metal roof while thunder rumbles far away and a car engine idles. " * 6,
    "bark " * 1000,
    *(f"{number} short texts of many lengths" + " and more" * number for number in range(30)),
]


def packaged() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "model"


def reference_vectors(model: BertModel, folder: Path, max_tokens: int) -> np.ndarray:
    """Mean over tokens, then unit length, as sentence-transformers does it."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(TEXTS, padding=True, truncation=True, max_length=max_tokens, return_tensors="pt")
    with torch.no_grad():
        hidden = model.eval()(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None].float()
    mean = (hidden * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(mean).numpy()


def test_the_packaged_encoder_gives_the_vectors_of_the_reference():
    model = BertModel.from_pretrained(packaged(), attn_implementation="eager")
    expected = reference_vectors(model, packaged(), 256)
    np.testing.assert_allclose(SentenceEncoder.load().encode(TEXTS), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_another_shape_of_sharp_weights_does_too(tmp_path, dtype):
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=6,
        intermediate_size=80,
        max_position_embeddings=64,
        type_vocab_size=3,
        layer_norm_eps=1e-5,
    )
    model = BertModel(config, add_pooling_layer=False)
    for parameter in model.parameters():
        parameter.data = (torch.randn_like(parameter) * 0.3).to(dtype)
    model.to(dtype).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (tmp_path / name).write_bytes((packaged() / name).read_bytes())
    expected = reference_vectors(model.float(), tmp_path, 64)
    np.testing.assert_allclose(SentenceEncoder.load(tmp_path).encode(TEXTS), expected, rtol=0, atol=1e-4)

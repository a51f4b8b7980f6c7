"""Synthetic checkpoints: weights depend on seed and name alone."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from tools.synthetic_checkpoint import PRESETS, make_checkpoint, tensor_shapes, train_tokenizer

TEXTS = ["A dog barks twice.", "A dog barks while rain falls."]


def hub_name(name: str) -> str:
    name = name.removeprefix("model.")
    if name == "lm_head.weight":
        return "language_model.lm_head.weight"
    return name.replace("language_model.", "language_model.model.", 1)


@pytest.mark.parametrize(("layout", "shards"), [("in_memory", 1), ("mixed", 3)])
def test_every_layout_and_number_of_shards_holds_the_same_weights(layout, shards, tiny_checkpoint, tmp_path):
    folder = make_checkpoint(tmp_path, preset="tiny", texts=TEXTS, layout=layout, shards=shards)
    files = sorted(folder.glob("*.safetensors"))
    assert len(files) == shards
    loaded = {hub_name(name): tensor for file in files for name, tensor in load_file(file).items()}
    original = load_file(tiny_checkpoint / "model.safetensors")
    assert loaded.keys() == original.keys() == tensor_shapes(PRESETS["tiny"]).keys()
    for name, tensor in original.items():
        np.testing.assert_array_equal(loaded[name], tensor)


def test_the_index_names_the_file_of_every_tensor(tmp_path):
    folder = make_checkpoint(tmp_path, preset="tiny", texts=TEXTS, shards=3)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    for name, file in index["weight_map"].items():
        assert name in load_file(folder / file)
    assert index["metadata"]["total_size"] == sum(
        tensor.nbytes for file in folder.glob("*.safetensors") for tensor in load_file(file).values()
    )


def test_another_seed_gives_other_weights_and_no_vector_is_left_at_zero_or_one(tiny_checkpoint, tmp_path):
    other = load_file(make_checkpoint(tmp_path, preset="tiny", texts=TEXTS, seed=1) / "model.safetensors")
    for name, tensor in load_file(tiny_checkpoint / "model.safetensors").items():
        assert name.endswith("embed_positions.weight") or not np.array_equal(tensor, other[name])
        assert tensor.std() > 0.01


def test_the_tokenizer_learns_its_texts_and_still_encodes_any_other():
    tokenizer = train_tokenizer(TEXTS, 512)
    assert len(tokenizer.encode("A dog barks")) < 6
    assert tokenizer.decode(tokenizer.encode("Ein Café 🎧")) == "Ein Café 🎧"
    assert len(tokenizer) <= 512

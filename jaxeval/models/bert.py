"""BERT (Devlin et al., 2019) as an encoder of tokens, and reading one from a Hugging Face folder.

The model under `jaxeval.models.sentence_encoder`. It is small, so it is read straight from safetensors instead of being
converted first. Only what sentence encoders use is here: no pooler, no heads, one segment.
"""

from __future__ import annotations

import dataclasses
import os
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from safetensors import SafetensorError
from safetensors.numpy import load_file

from jaxeval.errors import InputError
from jaxeval.files import read_json
from jaxeval.models.attention import attention
from jaxeval.models.layers import LayerNorm, Linear, normal, parameter, scan_layers

WEIGHTS = "model.safetensors"
KEYS = {
    "word_embeddings": "embeddings.word_embeddings.weight",
    "position_embeddings": "embeddings.position_embeddings.weight",
    "segment_embeddings": "embeddings.token_type_embeddings.weight",
    "norm": "embeddings.LayerNorm",
    "layers.query": "encoder.layer.{}.attention.self.query",
    "layers.key": "encoder.layer.{}.attention.self.key",
    "layers.value": "encoder.layer.{}.attention.self.value",
    "layers.attention_out": "encoder.layer.{}.attention.output.dense",
    "layers.attention_norm": "encoder.layer.{}.attention.output.LayerNorm",
    "layers.fc1": "encoder.layer.{}.intermediate.dense",
    "layers.fc2": "encoder.layer.{}.output.dense",
    "layers.norm": "encoder.layer.{}.output.LayerNorm",
}
"""Module paths here and their names in the checkpoint; `{}` is the number of the layer."""
UNUSED = ("embeddings.position_ids", "pooler.", "cls.")
"""Beginnings of names in a checkpoint that an encoder has no use for."""


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """Shape of the model; the defaults are those of MiniLM-L6-H384."""

    vocab_size: int = 30522
    hidden_size: int = 384
    num_layers: int = 6
    num_heads: int = 12
    ffn_size: int = 1536
    max_positions: int = 512
    segments: int = 2
    layer_norm_eps: float = 1e-12


class Bert(nnx.Module):
    """Encodes rows of tokens; float32 throughout."""

    def __init__(self, config: BertConfig, *, rngs: nnx.Rngs):
        self.config = config
        table = partial(self._table, size=config.hidden_size, rngs=rngs)
        self.word_embeddings = table(config.vocab_size, "vocab")
        self.position_embeddings = table(config.max_positions, "positions")
        self.segment_embeddings = table(config.segments, None)
        self.norm = LayerNorm(config.hidden_size, eps=config.layer_norm_eps, dtype=jnp.float32, rngs=rngs)
        self.layers = BertLayer(config, rngs=rngs)

    def __call__(self, tokens: jax.Array, lengths: jax.Array) -> jax.Array:
        """Contextual vectors of tokens.

        Args:
            tokens: [batch, length] ids, padded on the right with anything; length at most `max_positions`.
            lengths: [batch] tokens of each row, at least 1.

        Returns:
            [batch, length, hidden]; meaningless beyond a row's length.
        """
        x = self.word_embeddings[...][tokens]
        x += self.position_embeddings[...][: tokens.shape[1]] + self.segment_embeddings[...][0]
        return scan_layers(self.layers, lambda layer, x, _: layer(x, lengths), self.norm(x))

    @staticmethod
    def _table(rows: int, axis: str | None, *, size: int, rngs: nnx.Rngs) -> nnx.Param:
        return parameter(rngs, (rows, size), (axis, "embed"), normal, jnp.float32)


class BertLayer(nnx.Module):
    """One post-norm transformer layer, or all of them stacked."""

    def __init__(self, config: BertConfig, *, rngs: nnx.Rngs):
        size, layers = config.hidden_size, config.num_layers
        linear = partial(Linear, bias=True, dtype=jnp.float32, layers=layers, rngs=rngs)
        norm = partial(LayerNorm, size, eps=config.layer_norm_eps, dtype=jnp.float32, layers=layers, rngs=rngs)
        self.num_heads = config.num_heads
        self.query, self.key, self.value = (linear(size, size, ("heads", "embed")) for _ in range(3))
        self.attention_out = linear(size, size, ("embed", "heads"))
        self.attention_norm = norm()
        self.fc1 = linear(size, config.ffn_size, ("mlp", "embed"))
        self.fc2 = linear(config.ffn_size, size, ("embed", "mlp"))
        self.norm = norm()

    def __call__(self, x: jax.Array, lengths: jax.Array) -> jax.Array:
        """[batch, length, hidden] -> the same; each row attends to its own tokens."""
        q, k, v = (
            projection(x).reshape(*x.shape[:2], self.num_heads, -1) for projection in (self.query, self.key, self.value)
        )
        y = attention(q, k, v, stop=lengths, causal=False)
        x = self.attention_norm(x + self.attention_out(y.reshape(x.shape)))
        return self.norm(x + self.fc2(jax.nn.gelu(self.fc1(x), approximate=False)))


def read_bert_config(path: str | os.PathLike[str]) -> BertConfig:
    """Read `config.json` of a Hugging Face folder.

    Raises:
        InputError: the file is missing or malformed, or describes something other than BERT.
    """
    file = Path(path) / "config.json"
    hf = read_json(file)
    expected = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
    for key, value in expected.items():
        found = hf.get(key, None if key == "model_type" else value)
        if found != value:
            raise InputError(f"{file}: {key} is {found!r}; only {value!r} is supported")

    def size(key: str) -> int:
        value = hf.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{file}: {key} is {value!r}, expected a positive integer")
        return value

    eps = hf.get("layer_norm_eps", 1e-12)
    if not isinstance(eps, float) or not 0 <= eps < 1:
        raise InputError(f"{file}: layer_norm_eps is {eps!r}, expected a small number")
    config = BertConfig(
        vocab_size=size("vocab_size"),
        hidden_size=size("hidden_size"),
        num_layers=size("num_hidden_layers"),
        num_heads=size("num_attention_heads"),
        ffn_size=size("intermediate_size"),
        max_positions=size("max_position_embeddings"),
        segments=size("type_vocab_size"),
        layer_norm_eps=eps,
    )
    if config.hidden_size % config.num_heads:
        raise InputError(f"{file}: hidden_size {config.hidden_size} does not divide into {config.num_heads} heads")
    return config


def load_bert(path: str | os.PathLike[str]) -> Bert:
    """Read a BERT from a Hugging Face folder with `config.json` and `model.safetensors`, as float32.

    Raises:
        InputError: a file is missing or damaged, or the weights are not those that the config describes.
    """
    file = Path(path) / WEIGHTS
    config = read_bert_config(path)
    model = nnx.eval_shape(lambda: Bert(config, rngs=nnx.Rngs(0)))
    tensors = _read_tensors(file)
    for name, variable in _variables(model):
        variable.set_value(jnp.asarray(_take(tensors, name, variable.shape, file), jnp.float32))
    if left := sorted(tensors):
        raise InputError(f"{file}: {left[0]} is unexpected" + f" and {len(left) - 1} more" * (len(left) > 1))
    return model


def _variables(model: Bert) -> list[tuple[str, nnx.Variable[Any]]]:
    leaves = nnx.iter_graph(model)
    return [(".".join(map(str, path)), leaf) for path, leaf in leaves if isinstance(leaf, nnx.Param)]


def _read_tensors(file: Path) -> dict[str, np.ndarray]:
    """Tensors by name; checkpoints of a BERT with a head on top carry a prefix, which is dropped."""
    if not file.exists():
        raise InputError(f"{file}: no such file")
    try:
        tensors = load_file(file)
    except (SafetensorError, ValueError) as error:
        raise InputError(f"{file}: not readable as safetensors ({error})") from None
    named = {name.removeprefix("bert."): value for name, value in tensors.items()}
    return {name: value for name, value in named.items() if not name.startswith(UNUSED)}


def _take(tensors: dict[str, np.ndarray], name: str, shape: tuple[int, ...], file: Path) -> np.ndarray:
    """The array of one of our variables, stacked over the layers if it is one of a stack; removed from `tensors`."""
    module, _, last = name.rpartition(".")
    key = KEYS[name] if name in KEYS else f"{KEYS[module]}.{last}"
    stacked = "{}" in key
    names = [key.format(index) for index in range(shape[0])] if stacked else [key]
    if missing := [one for one in names if one not in tensors]:
        raise InputError(f"{file}: {missing[0]} is missing")
    parts = [tensors.pop(one) for one in names]
    expected = shape[1:] if stacked else shape
    for one, part in zip(names, parts, strict=True):
        if part.shape != expected:
            raise InputError(f"{file}: {one} has shape {list(part.shape)}, expected {list(expected)}")
    return np.stack(parts) if stacked else parts[0]

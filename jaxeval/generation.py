"""Answers from the model: one jitted prefill of the prompts, then one jitted loop over new tokens.

The whole loop runs on the device and stops once every row has met an end token. Prompts are padded on the left to
a multiple of `LENGTH_BUCKET`, so that prompts of similar length share a compilation, and the cache is donated.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from jaxeval.errors import InputError
from jaxeval.files import read_json
from jaxeval.models.kv_cache import KVCache
from jaxeval.models.layers import unstack_layers
from jaxeval.models.qwen2_audio import Batch, Qwen2Audio, expand_audio_tokens, left_padding
from jaxeval.sharding import constrain, mesh_of, put_batch

LENGTH_BUCKET = 64


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How the next token is chosen; the default is greedy.

    Attributes:
        temperature: 0 takes the most likely token; above 0 samples.
        top_k: sample among the k most likely tokens; 0 for all.
        top_p: sample among the most likely tokens whose probabilities reach p together.
        repetition_penalty: divides positive and multiplies negative logits of tokens already in the row
            (Keskar et al., 2019), the prompt included.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0


def model_sampling(folder: str | os.PathLike[str]) -> Sampling:
    """The sampling settings a checkpoint recommends in its `generation_config.json`.

    Raises:
        InputError: the checkpoint has no such file, or a setting of it is no number (for `top_k`, no integer).
    """
    file = Path(folder) / "generation_config.json"
    found = read_json(file)
    values = {field.name: found.get(field.name) for field in dataclasses.fields(Sampling)}
    for name, value in values.items():
        kind, expected = (int, "an integer") if name == "top_k" else (int | float, "a number")
        if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
            raise InputError(f"{file}: {name} is {value!r}, expected {expected}")
    if not found.get("do_sample", False):
        values["temperature"] = 0.0
    elif values["temperature"] is None:
        values["temperature"] = 1.0
    return Sampling(**{name: value for name, value in values.items() if value is not None})


def generate(
    model: Qwen2Audio,
    batch: Batch,
    max_new_tokens: int = 128,
    *,
    sampling: Sampling = Sampling(),
    keys: jax.Array | None = None,
) -> np.ndarray:
    """Generate an answer for every row.

    Args:
        model: its configuration names the end and the padding token.
        batch: as in `Qwen2Audio.__call__`, padded on the left.
        max_new_tokens: the most tokens a row may get.
        sampling: greedy by default.
        keys: [batch] random keys, one a row, so that a row's answer depends on its own key alone; needed to sample.

    Returns:
        int32 [batch, max_new_tokens]: new tokens only; after the first end token of a row, padding.

    Raises:
        ValueError: rows are padded on the right, or sampling is asked for without keys.
    """
    batch = expand_audio_tokens(batch, model.config)
    mask = np.asarray(batch["attention_mask"])
    if (mask[:, -1] == 0).any():
        raise ValueError("generation needs prompts padded on the left (padding_side='left')")
    if sampling.temperature > 0 and keys is None:
        raise ValueError("sampling needs one random key a row")
    extra = -mask.shape[1] % LENGTH_BUCKET
    left = ((0, 0), (extra, 0))
    tokens = np.pad(np.asarray(batch["input_ids"]), left, constant_values=model.config.pad_token_id)
    batch = {**batch, "input_ids": tokens, "attention_mask": np.pad(mask, left)}
    keys = jax.random.split(jax.random.key(0), len(mask)) if keys is None else keys
    graph, state = nnx.split(model)
    mesh = mesh_of(model)
    with jax.set_mesh(mesh):
        batch = put_batch(batch, mesh)
        hidden, cache = _prefill(graph, state, batch, max_new_tokens)
        seen = _seen(batch, model.config.text.vocab_size) if sampling.repetition_penalty != 1 else None
        answers, _ = _decode(graph, sampling, max_new_tokens, state, hidden, cache, seen, keys)
    return np.asarray(answers)


def encode_audio(model: Qwen2Audio, batch: Batch) -> jax.Array:
    """The projected audio features of a batch, to be passed on as its `audio_features`."""
    graph, state = nnx.split(model)
    mesh = mesh_of(model)
    clips = {name: batch[name] for name in ("input_features", "feature_attention_mask")}
    with jax.set_mesh(mesh):
        return _encode_audio(graph, state, put_batch(clips, mesh))


@partial(jax.jit, static_argnums=0)
def _encode_audio(graph: Any, state: Any, batch: Mapping[str, jax.Array]) -> jax.Array | None:
    return nnx.merge(graph, state).encode_audio(batch)


@partial(jax.jit, static_argnums=(0, 3))
def _prefill(graph: Any, state: Any, batch: Mapping[str, jax.Array], room: int) -> tuple[jax.Array, KVCache]:
    """Hidden states of the last prompt tokens, [batch, hidden], and the cache, with `room` for new tokens."""
    model = nnx.merge(graph, state)
    start = left_padding(batch["attention_mask"])
    cache = KVCache.empty(model.config, start, batch["input_ids"].shape[1] + room)
    hidden, cache = model.hidden(batch, model.encode_audio(batch), start=start, cache=cache)
    return hidden[:, -1], cache


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=5)
def _decode(
    graph: Any,
    sampling: Sampling,
    max_new_tokens: int,
    state: Any,
    hidden: jax.Array,
    cache: KVCache,
    seen: jax.Array | None,
    keys: jax.Array,
) -> tuple[jax.Array, KVCache]:
    """The new tokens, [batch, max_new_tokens], and the cache, returned so that its donated memory is used in place.

    One step turns a hidden state into a token, and the token into the next hidden state.
    """
    model = nnx.merge(graph, state)
    if jax.default_backend() == "cpu":
        # On this backend a scan copies the weights of each layer out of the stack, at every token.
        model.language_model.layers = unstack_layers(model.language_model.layers)
    eos = jnp.array(model.config.eos_token_ids, jnp.int32)
    rows = jnp.arange(hidden.shape[0])
    tokens = jnp.full((hidden.shape[0], max_new_tokens), model.config.pad_token_id, jnp.int32)

    def unfinished(carry):
        step, done, *_ = carry
        return (step < max_new_tokens) & ~done.all()

    def body(carry):
        step, done, tokens, hidden, cache, seen = carry
        token = _choose(model.logits(hidden), seen, jax.vmap(jax.random.fold_in, (0, None))(keys, step), sampling)
        token = jnp.where(done, model.config.pad_token_id, token)
        tokens = jax.lax.dynamic_update_slice(tokens, token[:, None], (0, step))
        done |= jnp.isin(token, eos)
        seen = None if seen is None else seen.at[rows, token].set(True)
        hidden, cache = model.language_model(model.language_model.embed(token[:, None]), cache=cache)
        return step + 1, done, tokens, hidden[:, 0], cache, seen

    done = jnp.zeros(hidden.shape[0], bool)
    carry = jax.lax.while_loop(unfinished, body, (jnp.int32(0), done, tokens, hidden, cache, seen))
    return constrain(carry[2], None, None), carry[4]  # whole on every process


def _choose(logits: jax.Array, seen: jax.Array | None, keys: jax.Array, sampling: Sampling) -> jax.Array:
    """The next token of each row: float32 [batch, vocab] -> int32 [batch]."""
    if seen is not None:
        penalised = jnp.where(logits > 0, logits / sampling.repetition_penalty, logits * sampling.repetition_penalty)
        logits = jnp.where(seen, penalised, logits)
    if sampling.temperature == 0:
        return jnp.argmax(logits, axis=-1).astype(jnp.int32)
    vocab = logits.shape[-1]
    top, index = jax.lax.top_k(logits / sampling.temperature, min(sampling.top_k or vocab, vocab))
    probability = jax.nn.softmax(top, axis=-1)
    before = jnp.cumsum(probability, axis=-1) - probability
    drawn = jax.vmap(jax.random.categorical)(keys, jnp.where(before < sampling.top_p, top, -jnp.inf))
    return jnp.take_along_axis(index, drawn[:, None], axis=-1)[:, 0].astype(jnp.int32)


@partial(jax.jit, static_argnums=1)
def _seen(batch: Mapping[str, jax.Array], vocab: int) -> jax.Array:
    """Which tokens each prompt holds, bool [batch, vocab]."""
    tokens = jnp.where(batch["attention_mask"] != 0, batch["input_ids"], vocab)
    rows = jnp.arange(tokens.shape[0])[:, None]
    return jnp.zeros((tokens.shape[0], vocab + 1), bool).at[rows, tokens].set(True)[:, :vocab]

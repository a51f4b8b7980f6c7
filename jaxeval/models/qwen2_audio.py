"""Qwen2-Audio (Chu et al., 2024): audio encoder, projector and decoder put together.

A batch is a mapping of arrays under the Hugging Face names; `jaxeval.processor` makes it, and so does
transformers' `Qwen2AudioProcessor`. The audio features take the places of the `<|AUDIO|>` tokens, in the order of
rows and then of clips.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from jaxeval.audio.lengths import audio_tokens
from jaxeval.models.audio_encoder import AudioEncoder
from jaxeval.models.config import Qwen2AudioConfig
from jaxeval.models.decoder import Decoder
from jaxeval.models.kv_cache import KVCache
from jaxeval.models.layers import Linear, normal, parameter, project
from jaxeval.sharding import constrain

Batch = Mapping[str, jax.Array | np.ndarray]


class Qwen2Audio(nnx.Module):
    """The model; see the module docstring. Module paths are those of the Hugging Face checkpoint."""

    def __init__(self, config: Qwen2AudioConfig, *, rngs: nnx.Rngs):
        text, dtype = config.text, config.param_dtype
        self.config = config
        self.audio_tower = AudioEncoder(config, rngs=rngs)
        self.multi_modal_projector = Linear(
            config.audio.hidden_size, text.hidden_size, ("embed", None), bias=True, dtype=dtype, rngs=rngs
        )
        self.language_model = Decoder(config, rngs=rngs)
        self.lm_head = parameter(rngs, (text.vocab_size, text.hidden_size), ("vocab", "embed"), normal, dtype)

    def __call__(self, batch: Batch) -> jax.Array:
        """Logits at every position.

        Args:
            batch: `input_ids` and `attention_mask` [batch, length], padded on one side; and, unless all rows are text,
                `input_features` [clips, mels, frames] and `feature_attention_mask` [clips, frames]. Outside of `jit`,
                prompts with a single `<|AUDIO|>` for each clip are accepted and expanded first.

        Returns:
            float32 [batch, length, vocab].
        """
        batch = expand_audio_tokens(batch, self.config)
        start = left_padding(batch["attention_mask"])
        hidden, _ = self.hidden(batch, self.encode_audio(batch), start=start)
        return self.logits(hidden)

    def encode_audio(self, batch: Batch) -> jax.Array | None:
        """Projected features of every clip of a batch, [clips, tokens, hidden]; None if it has no audio.

        A batch may bring them along as `audio_features`, when the same clips are asked about more than once.
        """
        if "audio_features" in batch:
            return jnp.asarray(batch["audio_features"])
        if "input_features" not in batch:
            return None
        frames = jnp.asarray(batch["feature_attention_mask"]).sum(-1)
        return self.multi_modal_projector(self.audio_tower(jnp.asarray(batch["input_features"]), frames))

    def hidden(
        self,
        batch: Batch,
        features: jax.Array | None,
        *,
        start: jax.Array | None = None,
        cache: KVCache | None = None,
        dropout_key: jax.Array | None = None,
    ) -> tuple[jax.Array, KVCache | None]:
        """Normed hidden states [batch, length, hidden] of whole prompts, and the filled cache if one is given.

        Args:
            batch: as in `__call__`, expanded.
            features: what `encode_audio` gives.
            start: [batch] tokens of left padding; None where rows are padded on the right only.
            cache: an empty cache to fill.
            dropout_key: switches the adapters' dropout on.
        """
        tokens = jnp.asarray(batch["input_ids"])
        x = self.language_model.embed(tokens)
        if features is not None:
            lengths = audio_tokens(jnp.asarray(batch["feature_attention_mask"]).sum(-1))
            x = place_features(x, tokens == self.config.audio_token_id, features, lengths)
        return self.language_model(x, start, cache, dropout_key)

    def logits(self, hidden: jax.Array) -> jax.Array:
        """[..., hidden] -> float32 [..., vocab], of products in the dtype of `hidden`."""
        return project(hidden, self.lm_head[...]).astype(jnp.float32)


def place_features(x: jax.Array, is_audio: jax.Array, features: jax.Array, lengths: jax.Array) -> jax.Array:
    """Replace the embeddings at audio positions by audio features.

    Args:
        x: [batch, length, hidden] embeddings.
        is_audio: [batch, length] where the `<|AUDIO|>` tokens are.
        features: [clips, tokens, hidden]; lengths: [clips] valid ones among them.
    """
    ordinal = jnp.cumsum(is_audio.reshape(-1)) - 1  # of each audio token among all of the batch
    ends = jnp.cumsum(lengths)
    clip = jnp.minimum(jnp.searchsorted(ends, ordinal, side="right"), features.shape[0] - 1)
    offset = jnp.clip(ordinal - (ends - lengths)[clip], 0, features.shape[1] - 1)
    placed = features[clip, offset].reshape(x.shape).astype(x.dtype)
    return jnp.where(is_audio[..., None], constrain(placed, "batch", "length", "activation"), x)


def left_padding(attention_mask: jax.Array | np.ndarray) -> jax.Array:
    """Number of padding tokens before the first real one, [batch]."""
    return jnp.argmax(jnp.asarray(attention_mask), axis=-1).astype(jnp.int32)


def expand_audio_tokens(batch: Batch, config: Qwen2AudioConfig) -> Batch:
    """Give every clip of a legacy prompt as many `<|AUDIO|>` tokens as it has features.

    A batch that is expanded already, has no audio, or is being traced by `jit` is returned as it is.

    Raises:
        ValueError: the audio tokens fit neither form, or the batch has audio tokens but no features.
    """
    tokens = batch["input_ids"]
    if isinstance(tokens, jax.core.Tracer):
        return batch
    tokens, mask = np.asarray(tokens), np.asarray(batch["attention_mask"])
    is_audio = (tokens == config.audio_token_id) & (mask != 0)
    if "feature_attention_mask" not in batch:
        if is_audio.any():
            raise ValueError("the prompts hold audio tokens, but the batch has no features")
        return batch
    lengths = np.asarray(audio_tokens(np.asarray(batch["feature_attention_mask"]).sum(-1)))
    if is_audio.sum() == lengths.sum():
        return batch
    if is_audio.sum() != len(lengths):
        raise ValueError(f"{is_audio.sum()} audio tokens for {len(lengths)} clips of {lengths.sum()} features in all")
    repeats = np.ones(tokens.shape, np.int64)
    repeats[is_audio] = lengths
    kept = repeats * (mask != 0)
    rows = [np.repeat(row, count) for row, count in zip(tokens, kept, strict=True)]
    width = max(map(len, rows))
    from_left = mask[:, -1].all()  # rows that need no padding before may need it after: on the left, as in transformers
    expanded = np.full((len(rows), width), config.pad_token_id, tokens.dtype)
    expanded_mask = np.zeros((len(rows), width), mask.dtype)
    for index, row in enumerate(rows):
        place = slice(width - len(row), None) if from_left else slice(len(row))
        expanded[index, place], expanded_mask[index, place] = row, 1
    return {**batch, "input_ids": expanded, "attention_mask": expanded_mask}

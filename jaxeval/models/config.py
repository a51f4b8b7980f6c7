"""Configuration of Qwen2-Audio, read from a Hugging Face `config.json`.

The file of the 7B model leaves out whatever equals the defaults of the transformers classes, so those defaults
stand here too. Architectures that look similar but compute something else are refused by name.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxeval.errors import InputError
from jaxeval.files import read_json


@dataclasses.dataclass(frozen=True)
class AudioConfig:
    """Shape of the Whisper-style audio encoder."""

    num_mels: int = 128
    hidden_size: int = 1280
    num_layers: int = 32
    num_heads: int = 20
    ffn_size: int = 5120
    max_positions: int = 1500

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_heads


@dataclasses.dataclass(frozen=True)
class TextConfig:
    """Shape of the Qwen decoder."""

    vocab_size: int = 151936
    hidden_size: int = 4096
    ffn_size: int = 22016
    num_layers: int = 32
    num_heads: int = 32
    num_kv_heads: int = 32
    head_dim: int = 128
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6


@dataclasses.dataclass(frozen=True)
class Qwen2AudioConfig:
    """The whole model: its two towers, and how it is to be run.

    Attributes:
        audio_token_id: the token whose embeddings are replaced by audio features.
        eos_token_ids: tokens that end an answer; pad_token_id: the token that fills rows up. The tokenizer knows them;
            `jaxeval.load_model` sets them.
        param_dtype: dtype in which the base weights are kept. Adapters are always float32.
        dtype: dtype of activations and matrix products; norms and softmax are float32 throughout.
        attention: `"xla"` runs everywhere, `"cudnn"` needs a GPU and a 16-bit `dtype`.
        remat: recompute each decoder layer in the backward pass instead of keeping its activations.
    """

    audio: AudioConfig = AudioConfig()
    text: TextConfig = TextConfig()
    audio_token_id: int = 151646
    eos_token_ids: tuple[int, ...] = (151645, 151643)
    pad_token_id: int = 151643
    param_dtype: DTypeLike = jnp.float32
    dtype: DTypeLike = jnp.float32
    attention: Literal["xla", "cudnn"] = "xla"
    remat: bool = False

    def replace(self, **changes: Any) -> Qwen2AudioConfig:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)


def read_config(path: str | os.PathLike[str], **run: Any) -> Qwen2AudioConfig:
    """Read `config.json` of a checkpoint folder (Hugging Face or Flax); `run` sets dtype, attention, remat.

    Raises:
        InputError: the file is missing, malformed, or describes a model this code does not compute.
    """
    file = Path(path) / "config.json"
    return config_from_hf(read_json(file), source=str(file), **run)


def config_from_hf(hf: Mapping[str, Any], *, source: str = "config.json", **run: Any) -> Qwen2AudioConfig:
    """Translate the content of a Hugging Face `config.json`, in its old or its new spelling."""
    if hf.get("model_type") != "qwen2_audio":
        raise InputError(f"{source}: model_type is {hf.get('model_type')!r}, expected 'qwen2_audio'")
    audio, text = _Section(hf, "audio_config", source), _Section(hf, "text_config", source)
    audio.require("activation_function", "gelu")
    audio.require("scale_embedding", False)
    text.require("hidden_act", "silu")
    text.require("use_sliding_window", False)
    text.require("tie_word_embeddings", False)
    heads = text.integer("num_attention_heads", 32)
    hidden = text.integer("hidden_size", 4096)
    rope = text.values.get("rope_parameters") or text.values.get("rope_scaling") or {}
    rope_type = rope.get("rope_type", rope.get("type", "default"))
    if rope_type != "default":
        raise InputError(f"{source}: text_config.rope_parameters: rope type {rope_type!r}, expected 'default'")
    config = Qwen2AudioConfig(
        audio=AudioConfig(
            num_mels=audio.integer("num_mel_bins", 128),
            hidden_size=audio.integer("d_model", 1280),
            num_layers=audio.integer("encoder_layers", 32),
            num_heads=audio.integer("encoder_attention_heads", 20),
            ffn_size=audio.integer("encoder_ffn_dim", 5120),
            max_positions=audio.integer("max_source_positions", 1500),
        ),
        text=TextConfig(
            vocab_size=text.integer("vocab_size", 151936),
            hidden_size=hidden,
            ffn_size=text.integer("intermediate_size", 22016),
            num_layers=text.integer("num_hidden_layers", 32),
            num_heads=heads,
            # transformers: a missing entry means the class default of 32, an explicit null means full attention
            num_kv_heads=heads
            if text.values.get("num_key_value_heads", 32) is None
            else text.integer("num_key_value_heads", 32),
            head_dim=hidden // heads if text.values.get("head_dim") is None else text.integer("head_dim", 0),
            rope_theta=float(rope.get("rope_theta", text.values.get("rope_theta", 10000.0))),
            rms_norm_eps=float(text.values.get("rms_norm_eps", 1e-6)),
        ),
        audio_token_id=int(hf.get("audio_token_index", hf.get("audio_token_id", 151646))),
    )
    _check(config, source)
    return config.replace(**run)


def checkpoint_dtype(hf: Mapping[str, Any]) -> str | None:
    """The dtype a Hugging Face config names for its weights, in its old or its new spelling."""
    return hf.get("dtype") or hf.get("torch_dtype")


@dataclasses.dataclass(frozen=True)
class _Section:
    """One sub-configuration, with errors that name the file and the field."""

    hf: Mapping[str, Any]
    name: str
    source: str

    @property
    def values(self) -> Mapping[str, Any]:
        return self.hf.get(self.name) or {}

    def integer(self, key: str, default: int) -> int:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{self.source}: {self.name}.{key} is {value!r}, expected a positive integer")
        return value

    def require(self, key: str, expected: Any) -> None:
        value = self.values.get(key, expected)
        if value != expected:
            raise InputError(f"{self.source}: {self.name}.{key} is {value!r}; only {expected!r} is supported")


def _check(config: Qwen2AudioConfig, source: str) -> None:
    audio, text = config.audio, config.text
    if audio.hidden_size % audio.num_heads:
        raise InputError(
            f"{source}: audio_config.d_model {audio.hidden_size} does not divide into {audio.num_heads} heads"
        )
    if text.num_heads % text.num_kv_heads:
        raise InputError(
            f"{source}: text_config.num_attention_heads {text.num_heads} is no multiple of "
            f"num_key_value_heads {text.num_kv_heads}"
        )
    if not 0 <= config.audio_token_id < text.vocab_size:
        raise InputError(
            f"{source}: audio_token_index {config.audio_token_id} lies outside the vocabulary of {text.vocab_size}"
        )

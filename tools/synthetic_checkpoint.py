"""Small Qwen2-Audio checkpoints in Hugging Face's layout, with random weights, made offline and without PyTorch.

The quickstart, the tests and the benchmarks start here, since the real weights are 16.8 GB. A folder made by
`make_checkpoint` loads in transformers (`Qwen2AudioForConditionalGeneration`, `AutoProcessor`) and goes through
`tools.convert_weights` like the real one: same tensor names, same kind of tokenizer, an equally sparse config.

Weights are a function of the seed and the tensor's name, whatever the layout and the number of shards.
Biases and norms are not left at zero and one, so that one which is dropped or swapped shows.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import Qwen2AudioProcessor, Qwen2Tokenizer, WhisperFeatureExtractor
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

from jaxeval.files import write_json
from jaxeval.processor import AUDIO, AUDIO_BOS, AUDIO_EOS, IM_END, IM_START

Layout = Literal["hub", "in_memory", "mixed"]

END_OF_TEXT = "<|endoftext|>"
SPECIALS = (END_OF_TEXT, IM_START, IM_END, AUDIO, AUDIO_BOS, AUDIO_EOS)
"""The special tokens in their official order; their ids follow the last of the ordinary ones."""

POSITIONS = 1500
VECTOR_STD = 0.05

RENAMES: dict[Layout, tuple[tuple[str, str], ...]] = {
    "hub": (),
    "in_memory": (
        ("audio_tower.", "model.audio_tower."),
        ("multi_modal_projector.", "model.multi_modal_projector."),
        ("language_model.model.", "model.language_model."),
        ("language_model.lm_head.", "lm_head."),
    ),
    "mixed": (("language_model.model.", "language_model."), ("language_model.lm_head.", "lm_head.")),
}
"""Prefixes of the hub layout and what the other layouts call them."""


@dataclass(frozen=True)
class Preset:
    """Shape of a checkpoint: the audio encoder, then the decoder; and the scale of its weights.

    `std` is the standard deviation of every matrix; None means 1/√fan-in, and 1 for the token embedding. In layers
    this narrow, 0.02 hardly lets the audio and the question through, which a model that is to be trained needs.
    """

    audio_dim: int
    audio_layers: int
    audio_heads: int
    audio_ffn: int
    dim: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    mels: int = 128
    std: float | None = 0.02


PRESETS = {
    "tiny": Preset(32, 2, 4, 64, dim=48, layers=2, heads=4, kv_heads=2, ffn=96, vocab=512),
    "small": Preset(128, 2, 4, 512, dim=192, layers=4, heads=6, kv_heads=6, ffn=512, vocab=2048, std=None),
    "mid": Preset(256, 4, 4, 1024, dim=512, layers=8, heads=8, kv_heads=8, ffn=2816, vocab=8192),
}


def make_checkpoint(
    folder: str | os.PathLike[str],
    *,
    preset: str | Preset = "tiny",
    texts: Iterable[str],
    seed: int = 0,
    shards: int = 1,
    layout: Layout = "hub",
) -> Path:
    """Write a complete checkpoint with random float32 weights and return its folder.

    Args:
        folder: where to; made if it is missing.
        preset: a name from `PRESETS`, or a shape of one's own.
        texts: what the tokenizer learns its merges from, e.g. the captions at hand.
        seed: decides every weight.
        shards: number of safetensors files; more than one come with an index.
        layout: how tensors are named: as on the hub, as a transformers 5 model names them, or as the mix of both.
    """
    folder = Path(folder)
    shape = PRESETS[preset] if isinstance(preset, str) else preset
    write_files(folder, train_tokenizer(texts, shape.vocab), shape)
    _write_weights(folder, shape, seed, shards, layout)
    return folder


def train_tokenizer(texts: Iterable[str], size: int) -> Qwen2Tokenizer:
    """A byte-level BPE tokenizer as Qwen's, of at most `size` tokens with the special ones.

    Every text can be encoded, since all 256 bytes are tokens; merges stop early where `texts` hold no more.
    """
    tokenizer = Tokenizer(BPE())
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = BpeTrainer(vocab_size=size - len(SPECIALS), initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return with_specials(tokenizer)


def with_specials(tokenizer: Tokenizer) -> Qwen2Tokenizer:
    """Qwen's tokenizer on the vocabulary and merges of a BPE `tokenizer`, Qwen2-Audio's special tokens after them."""
    model = json.loads(tokenizer.to_str())["model"]
    merges: Any = [tuple(pair) for pair in model["merges"]]  # the signature says strings, the BPE model wants pairs
    wrapped = Qwen2Tokenizer(vocab=model["vocab"], merges=merges)
    wrapped.add_tokens([AddedToken(token, special=True) for token in SPECIALS])
    wrapped.eos_token = IM_END
    return wrapped


def write_files(folder: Path, tokenizer: Qwen2Tokenizer, shape: Preset) -> None:
    """Write everything but the weights: tokenizer, feature extractor, chat template, configs."""
    folder.mkdir(parents=True, exist_ok=True)
    extractor = WhisperFeatureExtractor(feature_size=shape.mels)
    Qwen2AudioProcessor(feature_extractor=extractor, tokenizer=tokenizer).save_pretrained(folder)
    extractor.save_pretrained(folder)
    vocabulary = tokenizer.get_vocab()
    ids = {token: vocabulary[token] for token in SPECIALS}
    write_json(folder / "config.json", hf_config(shape, ids))
    write_json(
        folder / "generation_config.json",
        {
            "bos_token_id": ids[END_OF_TEXT],
            "pad_token_id": ids[END_OF_TEXT],
            "eos_token_id": [ids[END_OF_TEXT], ids[IM_END]],
            "do_sample": True,
            "top_k": 20,
            "top_p": 0.5,
            "temperature": 0.7,
            "repetition_penalty": 1.1,
        },
    )


def hf_config(shape: Preset, ids: dict[str, int]) -> dict[str, Any]:
    """Content of `config.json`, spelled as the 7B model's: old names, class defaults left out."""
    return {
        "architectures": ["Qwen2AudioForConditionalGeneration"],
        "model_type": "qwen2_audio",
        "audio_token_index": ids[AUDIO],
        "ignore_index": -100,
        "torch_dtype": "float32",
        "vocab_size": shape.vocab,
        "audio_config": {
            "model_type": "qwen2_audio_encoder",
            "d_model": shape.audio_dim,
            "encoder_layers": shape.audio_layers,
            "encoder_attention_heads": shape.audio_heads,
            "encoder_ffn_dim": shape.audio_ffn,
            "num_mel_bins": shape.mels,
            "max_source_positions": POSITIONS,
        },
        "text_config": {
            "model_type": "qwen2",
            "hidden_size": shape.dim,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "intermediate_size": shape.ffn,
            "vocab_size": shape.vocab,
            "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000,
            "bos_token_id": ids[END_OF_TEXT],
            "eos_token_id": ids[IM_END],
        },
    }


def tensor_shapes(shape: Preset) -> dict[str, tuple[int, ...]]:
    """Shape of every tensor of a checkpoint under its hub name, in PyTorch's order of axes (out, in)."""
    return dict(_audio_shapes(shape)) | dict(_text_shapes(shape))


def _audio_shapes(shape: Preset) -> Iterator[tuple[str, tuple[int, ...]]]:
    d = shape.audio_dim
    yield from _linear("audio_tower.conv1", d, shape.mels, 3)
    yield from _linear("audio_tower.conv2", d, d, 3)
    yield "audio_tower.embed_positions.weight", (POSITIONS, d)
    for layer in range(shape.audio_layers):
        prefix = f"audio_tower.layers.{layer}"
        yield f"{prefix}.self_attn.k_proj.weight", (d, d)
        for name in ("q_proj", "v_proj", "out_proj"):
            yield from _linear(f"{prefix}.self_attn.{name}", d, d)
        yield from _linear(f"{prefix}.fc1", shape.audio_ffn, d)
        yield from _linear(f"{prefix}.fc2", d, shape.audio_ffn)
        yield from _linear(f"{prefix}.self_attn_layer_norm", d)
        yield from _linear(f"{prefix}.final_layer_norm", d)
    yield from _linear("audio_tower.layer_norm", d)
    yield from _linear("multi_modal_projector.linear", shape.dim, d)


def _text_shapes(shape: Preset) -> Iterator[tuple[str, tuple[int, ...]]]:
    d, kv = shape.dim, shape.dim // shape.heads * shape.kv_heads
    yield "language_model.model.embed_tokens.weight", (shape.vocab, d)
    for layer in range(shape.layers):
        prefix = f"language_model.model.layers.{layer}"
        yield from _linear(f"{prefix}.self_attn.q_proj", d, d)
        yield from _linear(f"{prefix}.self_attn.k_proj", kv, d)
        yield from _linear(f"{prefix}.self_attn.v_proj", kv, d)
        yield f"{prefix}.self_attn.o_proj.weight", (d, d)
        yield f"{prefix}.mlp.gate_proj.weight", (shape.ffn, d)
        yield f"{prefix}.mlp.up_proj.weight", (shape.ffn, d)
        yield f"{prefix}.mlp.down_proj.weight", (d, shape.ffn)
        yield f"{prefix}.input_layernorm.weight", (d,)
        yield f"{prefix}.post_attention_layernorm.weight", (d,)
    yield "language_model.model.norm.weight", (d,)
    yield "language_model.lm_head.weight", (shape.vocab, d)


def _linear(prefix: str, out: int, *rest: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{prefix}.weight", (out, *rest)
    yield f"{prefix}.bias", (out,)


def _random_tensor(name: str, shape: tuple[int, ...], seed: int, std: float | None) -> np.ndarray:
    if name == "audio_tower.embed_positions.weight":
        return _sinusoids(*shape)
    noise = np.random.default_rng([seed, zlib.crc32(name.encode())]).standard_normal(shape, dtype=np.float32)
    if len(shape) == 1:
        return VECTOR_STD * noise + (1 if name.endswith("weight") else 0)
    if std is not None:
        return std * noise
    if name == "language_model.model.embed_tokens.weight":
        return noise
    return noise / np.float32(np.prod(shape[1:]) ** 0.5)


def _sinusoids(length: int, channels: int) -> np.ndarray:
    """Whisper's positions [length, channels]: sines, then cosines, periods from 2π to 20000π."""
    rates = np.exp(-np.log(10_000) * np.arange(channels // 2) / (channels // 2 - 1))
    angles = np.arange(length)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def _write_weights(folder: Path, preset: Preset, seed: int, shards: int, layout: Layout) -> None:
    """One file, or several of about equal size with an index; one shard at a time is in memory."""
    shapes = tensor_shapes(preset)
    total = sum(map(_size, shapes.values()))
    groups: list[list[str]] = [[] for _ in range(shards)]
    before = 0
    for name, shape in shapes.items():
        groups[before * shards // total].append(name)
        before += _size(shape)
    files = [
        f"model-{index + 1:05}-of-{shards:05}.safetensors" if shards > 1 else "model.safetensors"
        for index in range(shards)
    ]
    weight_map: dict[str, str] = {}
    for file, names in zip(files, groups, strict=True):
        tensors = {_rename(name, layout): _random_tensor(name, shapes[name], seed, preset.std) for name in names}
        weight_map |= dict.fromkeys(tensors, file)
        save_file(tensors, folder / file, metadata={"format": "pt"})
    if shards > 1:
        index = {"metadata": {"total_size": 4 * total}, "weight_map": weight_map}
        write_json(folder / "model.safetensors.index.json", index)


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape))


def _rename(name: str, layout: Layout) -> str:
    for prefix, other in RENAMES[layout]:
        if name.startswith(prefix):
            return other + name.removeprefix(prefix)
    return name

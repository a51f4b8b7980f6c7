"""What a benchmark runs: the shape of the model, the shape of the batch, and how it is computed.

Both sides of a comparison get the same `Workload`, as JSON on their command line, and make everything else from it. So
this file imports neither jax nor PyTorch.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any, Literal

import numpy as np

from jaxeval.audio.lengths import MAX_FRAMES, audio_tokens
from jaxeval.errors import InputError

PRESETS = ("tiny", "mid", "7b")
CLIPS = 2
"""Recordings a row, as in the task this project trains for."""


@dataclasses.dataclass(frozen=True)
class Workload:
    """Settings of one measurement.

    Attributes:
        preset: shape of the model: `tiny` and `mid` are those of `tools.synthetic_checkpoint`, `7b` is the real one.
        batch: rows. Each has `CLIPS` recordings of `seconds`, and `text` other tokens.
        answer: supervised tokens at the end of each row; for training.
        rank: of the adapters on the decoder's linear maps; for training.
        new_tokens: greedy tokens a row; for decoding.
        dtype: of weights, activations and products. Adapters and their optimizer are float32.
        attention, remat, mesh: how ours is computed; `remat` is gradient checkpointing on the other side.
    """

    preset: Literal["tiny", "mid", "7b"] = "mid"
    batch: int = 4
    seconds: float = 10.0
    text: int = 128
    answer: int = 64
    rank: int = 16
    new_tokens: int = 64
    dtype: Literal["float32", "bfloat16"] = "float32"
    attention: Literal["xla", "cudnn"] = "xla"
    remat: bool = False
    mesh: str | None = None

    @property
    def frames(self) -> int:
        """Valid mel frames of a recording."""
        return round(100 * self.seconds)

    @property
    def length(self) -> int:
        """Tokens of a row, audio included."""
        return CLIPS * audio_tokens(self.frames) + self.text

    def hf_config(self) -> dict[str, Any]:
        """The model's `config.json`; the special tokens are the last ones of the vocabulary."""
        from tools.synthetic_checkpoint import PRESETS as SMALL
        from tools.synthetic_checkpoint import SPECIALS, Preset, hf_config

        full = Preset(1280, 32, 20, 5120, dim=4096, layers=32, heads=32, kv_heads=32, ffn=11008, vocab=156032)
        shape = full if self.preset == "7b" else SMALL[self.preset]
        return hf_config(shape, {token: shape.vocab - len(SPECIALS) + at for at, token in enumerate(SPECIALS)})


def make_batch(work: Workload, hf: dict[str, Any], frames: int, *, seed: int = 0) -> dict[str, np.ndarray]:
    """A batch of random text and random log-mel features, under the Hugging Face names; no row has padding.

    Args:
        work: its shape.
        hf: the model's `config.json`.
        frames: mel frames to which the recordings are padded with a floor value.
        seed: the same seed gives the same tokens and features whatever `frames` is.
    """
    rng = np.random.default_rng(seed)
    audio_id = hf["audio_token_index"]
    ordinary = rng.integers(0, min(audio_id, hf["vocab_size"] - 8), (work.batch, work.text), np.int32)
    audio = np.full((work.batch, CLIPS * audio_tokens(work.frames)), audio_id, np.int32)
    tokens = np.concatenate([ordinary[:, :4], audio, ordinary[:, 4:]], axis=1)
    clips, mels = work.batch * CLIPS, hf["audio_config"]["num_mel_bins"]
    heard = rng.normal(0, 0.5, (clips, mels, work.frames)).astype(np.float32)
    features = np.full((clips, mels, frames), heard.min(), np.float32)
    features[:, :, : work.frames] = heard
    valid = np.zeros((clips, frames), np.int32)
    valid[:, : work.frames] = 1
    return {
        "input_ids": tokens,
        "attention_mask": np.ones_like(tokens),
        "input_features": features,
        "feature_attention_mask": valid,
    }


def add_arguments(parser: argparse.ArgumentParser, *names: str) -> None:
    """Give a script one option for each of these fields of `Workload`."""
    kinds: dict[str, dict[str, Any]] = {
        "preset": {"choices": PRESETS, "help": "shape of the model"},
        "batch": {"type": int, "help": "rows"},
        "seconds": {"type": float, "help": f"length of each of the {CLIPS} recordings of a row"},
        "text": {"type": int, "help": "tokens of a row that are not audio"},
        "answer": {"type": int, "help": "supervised tokens at the end of a row"},
        "rank": {"type": int, "help": "of the adapters"},
        "new_tokens": {"type": int, "help": "greedy tokens to generate"},
        "dtype": {"choices": ("float32", "bfloat16"), "help": "of weights, activations and products"},
        "attention": {"choices": ("xla", "cudnn"), "help": "of ours"},
        "remat": {"action": "store_true", "help": "recompute activations in the backward pass, on both sides"},
        "mesh": {"help": "of ours, such as data=1,fsdp=4; default every device along fsdp"},
    }
    defaults = Workload()
    for name in names:
        parser.add_argument(f"--{name.replace('_', '-')}", default=getattr(defaults, name), **kinds[name])


def from_arguments(arguments: argparse.Namespace, **more: Any) -> Workload:
    """The workload that was asked for.

    Raises:
        InputError: the sizes do not fit each other.
    """
    names = {field.name for field in dataclasses.fields(Workload)}
    work = Workload(**{name: value for name, value in vars(arguments).items() if name in names} | more)
    for name in ("batch", "rank", "new_tokens"):
        if getattr(work, name) < 1:
            raise InputError(f"--{name.replace('_', '-')} is {getattr(work, name)}, expected 1 or more")
    if not 4 <= work.frames <= MAX_FRAMES:
        raise InputError(f"--seconds is {work.seconds}, expected 0.04 to 30")
    if not 1 <= work.answer <= work.text - 4:
        raise InputError(
            f"--text is {work.text}, expected at least 4 more than --answer ({work.answer}), which is 1 or more"
        )
    return work

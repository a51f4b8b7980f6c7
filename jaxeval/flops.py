"""How many floating-point operations the model's matrix products take, and how many a device can do.

The arithmetic of MFU: only dot products count, two operations for each multiply-add, and work that is done twice
(rematerialisation) counts once. Attention is counted over the whole S × S score matrix, or over half of it for
the causal decoder as most published MFU numbers do; say which when you quote one.
"""

from __future__ import annotations

import jax

from jaxeval.audio.lengths import conv_frames
from jaxeval.models.config import Qwen2AudioConfig

PEAK_BF16 = (
    ("H100 PCIe", 756e12),
    ("H100 NVL", 835e12),
    ("H100", 989e12),
    ("H200", 989e12),
    ("B200", 2250e12),
    ("A100", 312e12),
    ("L40S", 362e12),
    ("L40", 181e12),
    ("L4", 121e12),
    ("A10G", 70e12),
    ("TPU v6", 918e12),
    ("TPU v5p", 459e12),
    ("TPU v5 lite", 197e12),
    ("TPU v5e", 197e12),
    ("TPU v5", 459e12),
    ("TPU v4", 275e12),
)
"""Dense bfloat16 FLOP/s from the vendors' data sheets, by a part of jax's `device_kind`; the first match holds."""


def device_peak(device: jax.Device) -> float | None:
    """Peak dense bfloat16 FLOP/s of one device; None where it is not known, as for a CPU."""
    return next((peak for part, peak in PEAK_BF16 if part in device.device_kind), None)


def encoder_flops(config: Qwen2AudioConfig, frames: int) -> float:
    """Audio encoder and projector, forward, for one clip that runs at `frames` mel frames."""
    audio = config.audio
    d, positions = audio.hidden_size, conv_frames(frames)
    convolutions = 2 * 3 * d * (frames * audio.num_mels + positions * d)
    linear = 2 * positions * audio.num_layers * (4 * d * d + 2 * d * audio.ffn_size)
    attention = 4 * positions**2 * d * audio.num_layers
    projector = 2 * (positions // 2) * d * config.text.hidden_size
    return float(convolutions + linear + attention + projector)


def decoder_linear_flops(config: Qwen2AudioConfig, tokens: int) -> float:
    """All linear maps of the decoder layers, forward, for `tokens` tokens; the head is apart."""
    text = config.text
    q, kv = text.num_heads * text.head_dim, text.num_kv_heads * text.head_dim
    weights = text.hidden_size * (2 * q + 2 * kv + 3 * text.ffn_size)
    return 2.0 * text.num_layers * weights * tokens


def decoder_attention_flops(config: Qwen2AudioConfig, rows: int, length: int, *, causal_half: bool = False) -> float:
    """Scores and weighted sums of all decoder layers, forward, for `rows` rows of `length` tokens."""
    text = config.text
    full = 4.0 * text.num_layers * text.num_heads * text.head_dim * rows * length**2
    return full / 2 if causal_half else full


def head_flops(config: Qwen2AudioConfig, positions: int) -> float:
    """Logits, forward, at `positions` positions."""
    return 2.0 * config.text.hidden_size * config.text.vocab_size * positions


def lora_step_flops(
    config: Qwen2AudioConfig,
    *,
    clips: int,
    frames: int,
    rows: int,
    length: int,
    answers: int,
    lora_params: int,
    causal_half: bool = False,
) -> float:
    """One training step with adapters on the decoder and everything else frozen.

    The encoder runs forward only. The decoder and the head run forward and pass the gradient back to their inputs;
    attention does that for queries, keys and values. An adapter's weights take three products a token.

    Args:
        clips: recordings in all; frames: mel frames each of them runs at.
        rows, length: shape of the token batch; answers: supervised positions a row.
        lora_params: trained parameters, one layer counted once for each layer.
        causal_half: count decoder attention below the diagonal alone.
    """
    attention = decoder_attention_flops(config, rows, length, causal_half=causal_half)
    return (
        clips * encoder_flops(config, frames)
        + 2 * (decoder_linear_flops(config, rows * length) + head_flops(config, rows * answers))
        + 3 * attention
        + 6.0 * lora_params * rows * length
    )


def full_step_flops(
    config: Qwen2AudioConfig,
    *,
    clips: int,
    frames: int,
    rows: int,
    length: int,
    answers: int,
    causal_half: bool = False,
) -> float:
    """One training step that trains every weight: forward, gradients of inputs, gradients of weights."""
    forward = (
        clips * encoder_flops(config, frames)
        + decoder_linear_flops(config, rows * length)
        + head_flops(config, rows * answers)
        + decoder_attention_flops(config, rows, length, causal_half=causal_half)
    )
    return 3 * forward

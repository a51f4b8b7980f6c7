"""The arithmetic of MFU against the numbers published for the 7B model."""

import jax
import pytest

from jaxeval.flops import (
    decoder_attention_flops,
    decoder_linear_flops,
    device_peak,
    encoder_flops,
    head_flops,
    lora_step_flops,
)
from jaxeval.models.config import Qwen2AudioConfig, TextConfig

SEVEN_B = Qwen2AudioConfig(text=TextConfig(vocab_size=156032, ffn_size=11008))
LORA_RANK_8 = 19_988_480


def step_flops(*, frames: int, answers: int, causal_half: bool = False) -> float:
    """Two clips and 128 text tokens a row."""
    return lora_step_flops(
        SEVEN_B,
        clips=2,
        frames=frames,
        rows=1,
        length=628,
        answers=answers,
        lora_params=LORA_RANK_8,
        causal_half=causal_half,
    )


def test_encoder_costs_2_28_teraflop_for_30_s_and_0_68_for_10_s():
    assert encoder_flops(SEVEN_B, 3000) == pytest.approx(2.28e12, rel=5e-3)
    assert encoder_flops(SEVEN_B, 1002) == pytest.approx(0.68e12, rel=1e-2)


def test_decoder_costs_a_token():
    assert decoder_linear_flops(SEVEN_B, 1) == pytest.approx(12.95e9, rel=1e-3)
    assert head_flops(SEVEN_B, 1) == pytest.approx(1.28e9, rel=5e-3)
    assert decoder_attention_flops(SEVEN_B, 1, 1000) / 1000 == pytest.approx(0.524e6 * 1000, rel=1e-3)


def test_lora_step_as_the_reference_runs_it_costs_22_9_teraflop():
    """Two clips padded to 30 s, 628 tokens, logits everywhere."""
    assert step_flops(frames=3000, answers=628, causal_half=True) == pytest.approx(22.9e12, rel=5e-3)


def test_bucketed_audio_and_supervised_logits_save_a_fifth_of_it():
    whole = step_flops(frames=3000, answers=628)
    assert step_flops(frames=1002, answers=64) == pytest.approx(0.8 * whole, rel=1e-2)


def test_causal_convention_halves_attention_alone():
    assert decoder_attention_flops(SEVEN_B, 2, 64, causal_half=True) * 2 == decoder_attention_flops(SEVEN_B, 2, 64)


def test_peak_of_a_cpu_is_unknown():
    assert device_peak(jax.devices("cpu")[0]) is None

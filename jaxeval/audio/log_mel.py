"""Whisper's log-mel features in JAX, the encoder's input.

Equals transformers' `WhisperFeatureExtractor` (16 kHz, n_fft 400, hop 160) at any number of frames the caller
needs: frames after the clip are the floor value, not zero, and the dynamic range is that of the clip's whole
30 s, so cutting the padding changes no number.
"""

from __future__ import annotations

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxeval.audio.lengths import HOP, MAX_FRAMES, MAX_SAMPLES, SAMPLE_RATE

N_FFT = 400
RADIX = 20
REFLECT = N_FFT // 2
HIGHEST = jax.lax.Precision.HIGHEST
FLOOR = 1e-10
RANGE = 8.0
"""Decades below a clip's loudest bin at which its features are cut."""


@partial(jax.jit, static_argnames=("frames", "num_mels"))
def log_mel(waveforms: jax.Array, *, frames: int, num_mels: int) -> jax.Array:
    """Log-mel features [clips, num_mels, frames] (float32) of waveforms [clips, samples].

    Args:
        waveforms: 16 kHz mono, each row zero after its clip; at most 480000 samples.
        frames: mel frames to compute, 1..3000. To equal the reference they must hold every frame that the
            longest clip touches; `lengths.frame_bucket` does.
        num_mels: mel bands: 80 in Whisper's early models, 128 in Qwen2-Audio.

    Raises:
        ValueError: `frames` or the number of samples is out of range.
    """
    if not 1 <= frames <= MAX_FRAMES:
        raise ValueError(f"frames must be within 1..{MAX_FRAMES}, got {frames}")
    if waveforms.shape[1] > MAX_SAMPLES:
        raise ValueError(f"waveforms must have at most {MAX_SAMPLES} samples, got {waveforms.shape[1]}")
    power = _power_spectrum(waveforms.astype(jnp.float32), frames)
    mel = jnp.einsum("cfk,km->cmf", power, mel_filters(num_mels), precision=HIGHEST)
    logarithm = jnp.log10(jnp.maximum(mel, FLOOR))
    loudest = logarithm.max(axis=(1, 2), keepdims=True)
    return (jnp.maximum(logarithm, loudest - RANGE) + 4.0) / 4.0


def _power_spectrum(waveforms: jax.Array, frames: int) -> jax.Array:
    """|STFT|² [clips, frames, 201].

    The transform of 400 = 20 × 20 points is two products with the 20-point one. `jnp.fft` would gather a
    sharded batch on every device, and one product with a 400-point matrix loses digits where a clip's low
    frequencies are far louder than its high ones.
    """
    hops = _padded(waveforms, frames).reshape(waveforms.shape[0], -1, HOP)
    windows = jnp.concatenate([hops[:, :-2], hops[:, 1:-1], hops[:, 2:]], axis=-1)[:, :frames, :N_FFT]
    window, inner, twiddle = _transform()
    points = (windows * window).reshape(*windows.shape[:2], RADIX, RADIX)  # sample = 20 a + b, bin = c + 20 d
    partial_sums = jnp.einsum("tfab,ac->tfcb", points, inner, precision=HIGHEST) * twiddle
    spectrum = jnp.einsum("tfcb,bd->tfdc", partial_sums, inner[:, : RADIX // 2 + 1], precision=HIGHEST)
    bins = spectrum.reshape(*windows.shape[:2], -1)[..., : N_FFT // 2 + 1]
    return jnp.square(bins.real) + jnp.square(bins.imag)


def _padded(waveforms: jax.Array, frames: int) -> jax.Array:
    """The samples that the frames touch, mirrored at both ends of the 30 s, up to a whole number of hops."""
    missing = MAX_SAMPLES - waveforms.shape[1]
    whole = jnp.pad(waveforms, ((0, 0), (0, missing)))
    mirrored = jnp.pad(whole, ((0, 0), (REFLECT, REFLECT)), mode="reflect")
    needed = (frames + 2) * HOP
    return jnp.pad(mirrored, ((0, 0), (0, max(0, needed - mirrored.shape[1]))))[:, :needed]


@cache
def _transform() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Periodic Hann window [400], 20-point Fourier matrix [20, 20] and twiddle factors [20 c, 20 b]."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT)
    products = np.outer(np.arange(RADIX), np.arange(RADIX))
    inner = np.exp(-2j * np.pi * products / RADIX)
    twiddle = np.exp(-2j * np.pi * products / N_FFT)
    return window.astype(np.float32), inner.astype(np.complex64), twiddle.astype(np.complex64)


@cache
def mel_filters(num_mels: int) -> np.ndarray:
    """Slaney's mel filter bank [201 bins, num_mels] over 0..8 kHz: triangles of unit area on Slaney's mel scale."""
    nyquist = SAMPLE_RATE / 2
    bins = np.linspace(0, nyquist, N_FFT // 2 + 1)
    edges = _mel_to_hz(np.linspace(0, _hz_to_mel(nyquist), num_mels + 2))
    rising = (bins[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins[:, None]) / (edges[2:] - edges[1:-1])
    triangles = np.maximum(0, np.minimum(rising, falling))
    return (triangles * 2 / (edges[2:] - edges[:-2])).astype(np.float32)


def _hz_to_mel(hz: float) -> float:
    """Slaney's scale, above 1 kHz where it is logarithmic."""
    return 15 + 27 * np.log(hz / 1000) / np.log(6.4)


def _mel_to_hz(mel: np.ndarray) -> np.ndarray:
    """Slaney's scale: 200/3 Hz a mel up to 1 kHz, then 27 mels for a factor of 6.4."""
    return np.where(mel < 15, mel * 200 / 3, 1000 * 6.4 ** ((mel - 15) / 27))

"""The Whisper-style audio encoder of Qwen2-Audio: log-mel frames to one feature vector every 40 ms.

Two convolutions halve the frame rate, the transformer runs at 50 positions a second, and an average pool *before*
the final norm halves it again. It runs at whatever number of frames it is given: on `mel[..., :T]` with
`T ≥ 2 · conv_frames + 1` the valid features equal those of the full 30 s.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.typing import DTypeLike

from jaxeval.audio.lengths import conv_frames
from jaxeval.models.attention import attention
from jaxeval.models.config import Qwen2AudioConfig
from jaxeval.models.layers import LayerNorm, Linear, normal, parameter, scan_layers, zeros
from jaxeval.sharding import constrain


class AudioEncoder(nnx.Module):
    """Encodes a batch of clips; see the module docstring."""

    def __init__(self, config: Qwen2AudioConfig, *, rngs: nnx.Rngs):
        audio, dtype = config.audio, config.param_dtype
        self.config = config
        size, convolution = audio.hidden_size, partial(Convolution, dtype=dtype, rngs=rngs)
        self.conv1 = convolution(audio.num_mels, size, ("mlp", "mels"), stride=1)
        self.conv2 = convolution(size, size, ("mlp", "embed"), stride=2)
        shape = (audio.max_positions, size)
        self.embed_positions = parameter(rngs, shape, ("positions", "activation"), _sinusoids, dtype)
        self.layers = EncoderLayer(config, rngs=rngs)
        self.layer_norm = LayerNorm(audio.hidden_size, dtype=dtype, rngs=rngs)

    def __call__(self, mel: jax.Array, frames: jax.Array) -> jax.Array:
        """Encode log-mel spectrograms.

        Args:
            mel: [clips, mels, T], with the floor-valued frames after each clip kept (T at most 2 · max_positions).
            frames: [clips] valid frames of each clip.

        Returns:
            [clips, T // 4 rounded down after the convolution, hidden]; of a clip with f frames the first
            `audio_tokens(f)` are valid.
        """
        x = jax.nn.gelu(self.conv1(mel.astype(self.config.dtype)), approximate=False)
        x = jax.nn.gelu(self.conv2(x), approximate=False).transpose(0, 2, 1)  # [clips, positions, hidden]
        x = constrain(x, "batch", "length", "activation")
        x += self.embed_positions[...][: x.shape[1]].astype(x.dtype)
        stop = jnp.maximum(conv_frames(frames), 1)  # a filler clip without frames: a softmax needs something to look at
        x = scan_layers(self.layers, lambda layer, x, _: layer(x, stop), x, remat=self.config.remat)
        tokens = x.shape[1] // 2
        x = x[:, : 2 * tokens].reshape(x.shape[0], tokens, 2, -1).mean(2, dtype=jnp.float32).astype(x.dtype)
        return self.layer_norm(x)


class EncoderLayer(nnx.Module):
    """One pre-norm transformer layer, or all of them stacked."""

    def __init__(self, config: Qwen2AudioConfig, *, rngs: nnx.Rngs):
        audio, dtype = config.audio, config.param_dtype
        norm = partial(LayerNorm, audio.hidden_size, dtype=dtype, layers=audio.num_layers, rngs=rngs)
        linear = partial(Linear, bias=True, dtype=dtype, layers=audio.num_layers, rngs=rngs)
        self.self_attn = EncoderAttention(config, rngs=rngs)
        self.self_attn_layer_norm = norm()
        self.fc1 = linear(audio.hidden_size, audio.ffn_size, ("mlp", "embed"))
        self.fc2 = linear(audio.ffn_size, audio.hidden_size, ("embed", "mlp"))
        self.final_layer_norm = norm()

    def __call__(self, x: jax.Array, stop: jax.Array) -> jax.Array:
        x += self.self_attn(self.self_attn_layer_norm(x), stop)
        y = jax.nn.gelu(self.fc1(self.final_layer_norm(x)), approximate=False)
        return x + self.fc2(y)


class EncoderAttention(nnx.Module):
    """Bidirectional attention over the valid positions; the key projection has no bias."""

    def __init__(self, config: Qwen2AudioConfig, *, rngs: nnx.Rngs):
        audio = config.audio
        size = audio.hidden_size
        self.num_heads, self.implementation = audio.num_heads, config.attention
        linear = partial(Linear, size, size, dtype=config.param_dtype, layers=audio.num_layers, rngs=rngs)
        self.q_proj = linear(("heads", "embed"), bias=True)
        self.k_proj = linear(("heads", "embed"), bias=False)
        self.v_proj = linear(("heads", "embed"), bias=True)
        self.out_proj = linear(("embed", "heads"), bias=True)

    def __call__(self, x: jax.Array, stop: jax.Array) -> jax.Array:
        q, k, v = (
            projection(x).reshape(*x.shape[:2], self.num_heads, -1)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        y = attention(q, k, v, stop=stop, causal=False, implementation=self.implementation)
        return self.out_proj(y.reshape(x.shape))


class Convolution(nnx.Module):
    """A 1-D convolution of width 3 and padding 1 over [clips, channels, frames]."""

    def __init__(
        self,
        in_size: int,
        out_size: int,
        axes: tuple[str, str],
        *,
        stride: int,
        dtype: DTypeLike,
        rngs: nnx.Rngs,
    ):
        self.weight = parameter(rngs, (out_size, in_size, 3), (*axes, "kernel"), normal, dtype)
        self.bias = parameter(rngs, (out_size,), axes[:1], zeros, dtype)
        self.stride = stride

    def __call__(self, x: jax.Array) -> jax.Array:
        y = jax.lax.conv_general_dilated(
            x,
            self.weight[...].astype(x.dtype),
            window_strides=(self.stride,),
            padding=((1, 1),),
            dimension_numbers=("NCH", "OIH", "NCH"),
        )
        return y + self.bias[...].astype(x.dtype)[:, None]


def _sinusoids(key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
    """Whisper's position table: sines of geometrically spaced frequencies, then cosines."""
    del key  # an initialiser without randomness
    length, channels = shape
    rate = np.exp(-math.log(10000) / (channels // 2 - 1) * np.arange(channels // 2))
    angle = np.arange(length)[:, None] * rate
    return jnp.asarray(np.concatenate([np.sin(angle), np.cos(angle)], axis=1), dtype)

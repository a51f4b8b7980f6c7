"""Recordings in and out: any file libsndfile reads becomes 16 kHz mono float32; 16 kHz FLAC goes out.

The first step of every path through the project: `read_audio` gives what a model hears; `read_channels` leaves rate,
channels and length as they are, for measuring. Nothing here imports jax, because the data loader's and the pair
builder's worker processes read audio with it. What cannot be used is refused with one line that names the file,
instead of becoming a silent cut, a NaN or an empty prompt further on:

| file | what happens |
|---|---|
| 8-, 16-, 24-bit, float; WAV, AIFF, FLAC, Ogg, MP3 … whatever the name says | read; integers scaled to [-1, 1) |
| any sample rate | resampled to 16 kHz (soxr, high quality) |
| stereo and more channels, one silent or not | averaged |
| float samples beyond ±1 | kept as they are; `write_flac` refuses to clip them |
| silence | read; who needs sound in it checks for it (`jaxeval pairs` does) |
| missing, a folder, unreadable, no bytes, not audio | refused |
| a header without samples | refused |
| cut short: the header promises more than the data holds, or the decoder stops early | refused |
| NaN or infinite samples | refused, with their number |
| 320 samples (20 ms) or less at 16 kHz: no audio token | refused by `read_audio` |
| longer than `max_seconds` (default 30 s, the encoder's window) | refused, never cut |
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import soundfile
import soxr

from jaxeval.audio.lengths import MAX_SAMPLES, MIN_SAMPLES, SAMPLE_RATE
from jaxeval.errors import InputError
from jaxeval.files import atomic_write

MAX_SECONDS = MAX_SAMPLES / SAMPLE_RATE

# libsndfile clamps a chunk to what the file holds and says so only in its log. A size near 2 or 4 GiB is what
# programs write that stream to a pipe and cannot know the length: those files are whole.
_PROMISED = re.compile(r"^\s*(?:data|SSND|Data Size)\s*: (\d+) \(should be (\d+)\)", re.MULTILINE)
_UNKNOWN_LENGTH = 2**31 - 2**16
_OGG_CUT = "lacks an end-of-stream bit"


def read_audio(path: str | os.PathLike[str], *, max_seconds: float | None = MAX_SECONDS) -> np.ndarray:
    """Read a recording as float32 mono at 16 kHz, shape [samples].

    Args:
        path: any audio file libsndfile reads.
        max_seconds: refuse longer recordings; None for no limit.

    Raises:
        InputError: the file cannot be used; see the table above.
    """
    channels, rate = read_channels(path, max_seconds=max_seconds)
    if round(len(channels) / rate * SAMPLE_RATE) < MIN_SAMPLES:
        seconds = len(channels) / rate
        raise InputError(f"{path}: {seconds:.3f} s is too short; one audio token takes more than 0.020 s")
    return soxr.resample(channels.mean(axis=1), rate, SAMPLE_RATE).astype(np.float32, copy=False)


def read_channels(path: str | os.PathLike[str], *, max_seconds: float | None) -> tuple[np.ndarray, int]:
    """Read a recording as it is: float32 [samples, channels], of any length, and its sample rate in Hz.

    Args:
        path: any audio file libsndfile reads.
        max_seconds: refuse longer recordings; None for no limit.

    Raises:
        InputError: the file cannot be used; see the table above.
    """
    with _opened(path, max_seconds) as file:
        try:
            channels = file.read(dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise InputError(f"{path}: damaged audio, decoding stopped ({_reason(error)})") from None
        if len(channels) < file.frames:
            raise InputError(f"{path}: cut short: {len(channels)} of {file.frames} samples are there")
        rate = file.samplerate
    unusable = int(np.count_nonzero(~np.isfinite(channels).all(axis=1)))
    if unusable:
        raise InputError(f"{path}: {unusable} of {len(channels)} samples are NaN or infinite")
    return channels, rate


def write_flac(path: str | os.PathLike[str], samples: np.ndarray) -> None:
    """Write [samples] of 16 kHz mono as 16-bit FLAC, whole or not at all.

    Samples are rounded to multiples of 2**-15, so `read_audio` gives them back to half of that (+1 itself
    becomes the largest 16-bit value).

    Raises:
        ValueError: a sample is beyond ±1 or not a number: it would clip.
    """
    if not np.all(np.abs(samples) <= 1):
        raise ValueError(f"{path}: samples beyond ±1 would clip; scale them first")
    pcm = np.minimum(np.rint(np.asarray(samples, np.float64) * 2**15), 2**15 - 1).astype(np.int16)
    encoded = io.BytesIO()  # libsndfile hides a full disk behind a callback; Python's own write does not
    soundfile.write(encoded, pcm, SAMPLE_RATE, format="FLAC", subtype="PCM_16")
    with atomic_write(path, "wb") as file:
        file.write(encoded.getbuffer())


@contextmanager
def _opened(path: str | os.PathLike[str], max_seconds: float | None) -> Iterator[soundfile.SoundFile]:
    path = Path(path)
    _check_file(path)
    try:
        file = soundfile.SoundFile(path)
    except (soundfile.LibsndfileError, TypeError) as error:  # TypeError: soundfile takes `.raw` for headerless data
        raise InputError(f"{path}: not a readable audio file ({_reason(error)})") from None
    with file:
        _check_header(path, file, max_seconds)
        yield file


def _check_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise InputError(f"{path}: a folder, not an audio file")
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: not a regular file")
        with open(path, "rb") as file:
            if not file.read(1):
                raise InputError(f"{path}: an empty file")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def _check_header(path: Path, file: soundfile.SoundFile, max_seconds: float | None) -> None:
    log = file.extra_info
    for promised, found in (map(int, match) for match in _PROMISED.findall(log)):
        if found < promised < _UNKNOWN_LENGTH:
            raise InputError(f"{path}: cut short: the header promises {promised} bytes of audio, {found} are there")
    if _OGG_CUT in log:
        raise InputError(f"{path}: cut short: the Ogg stream has no end")
    if file.frames == 0:
        raise InputError(f"{path}: no samples")
    seconds = file.frames / file.samplerate
    if max_seconds is not None and seconds > max_seconds:
        raise InputError(f"{path}: {seconds:.2f} s long, over the limit of {max_seconds:g} s")


def _reason(error: Exception) -> str:
    reason = getattr(error, "error_string", None) or str(error)
    return reason.removeprefix("Error : ").rstrip(".")

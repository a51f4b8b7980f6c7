"""Every kind of recording people bring: read, or refused with one line that names the file."""

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from jaxeval.audio.read import read_audio, write_flac
from jaxeval.errors import InputError

RNG = np.random.default_rng(0)
NOISE = RNG.normal(0, 0.1, 44100).astype(np.float32)


def write(path: Path, samples: np.ndarray, rate: int = 44100, **kind: str) -> Path:
    soundfile.write(path, samples, rate, **kind)
    return path


def cut(path: Path, share: float = 0.6) -> Path:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    return path


def test_a_recording_comes_out_as_float32_mono_at_16_khz(tmp_path):
    samples = read_audio(write(tmp_path / "a.wav", NOISE))
    assert samples.dtype == np.float32
    assert samples.shape == (16000,)


@pytest.mark.parametrize("rate", [8000, 11127, 16000, 22050, 48000, 96000])
def test_a_tone_keeps_its_pitch_and_level_at_any_rate(tmp_path, rate):
    tone = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(rate) / rate)
    samples = read_audio(write(tmp_path / "tone.wav", tone, rate, subtype="FLOAT"))
    expected = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000)
    assert len(samples) == 16000
    np.testing.assert_allclose(samples[1000:-1000], expected[1000:-1000], atol=2e-3)


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
def test_every_sample_format_gives_the_same_scale(tmp_path, subtype):
    path = write(tmp_path / "a.wav", NOISE, 16000, subtype=subtype)
    np.testing.assert_allclose(read_audio(path), NOISE, atol=1 / 127)


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3", "AIFF", "W64"])
def test_the_content_counts_and_not_the_name(tmp_path, kind):
    path = write(tmp_path / "named.wav", NOISE, format=kind)
    assert read_audio(path).std() == pytest.approx(NOISE.std(), rel=0.5)


def test_channels_are_averaged(tmp_path):
    channels = np.stack([NOISE, np.zeros_like(NOISE), -NOISE, NOISE], axis=1)
    path = write(tmp_path / "a.wav", channels, 16000, subtype="FLOAT")
    np.testing.assert_allclose(read_audio(path), NOISE / 4, atol=1e-7)


def test_peaks_over_one_are_kept(tmp_path):
    path = write(tmp_path / "a.wav", 30 * NOISE, 16000, subtype="FLOAT")
    np.testing.assert_array_equal(read_audio(path), 30 * NOISE)


def test_silence_is_read(tmp_path):
    assert not read_audio(write(tmp_path / "a.wav", np.zeros(16000), 16000)).any()


def test_a_wav_that_was_streamed_without_a_length_is_whole(tmp_path):
    path = write(tmp_path / "a.wav", NOISE)
    header = bytearray(path.read_bytes())
    header[4:8] = header[40:44] = b"\xff\xff\xff\xff"
    path.write_bytes(header)
    assert len(read_audio(path)) == 16000


def missing(folder: Path) -> Path:
    return folder / "missing.wav"


def a_folder(folder: Path) -> Path:
    return folder


def a_pipe(folder: Path) -> Path:
    os.mkfifo(folder / "a.wav")
    return folder / "a.wav"


def a_name_too_long(folder: Path) -> Path:
    return folder / ("x" * 5000)


def no_bytes(folder: Path) -> Path:
    (folder / "a.wav").touch()
    return folder / "a.wav"


def text(folder: Path) -> Path:
    (folder / "a.wav").write_text("not audio at all\n" * 50)
    return folder / "a.wav"


def headerless(folder: Path) -> Path:
    (folder / "a.raw").write_bytes(bytes(1000))
    return folder / "a.raw"


def no_samples(folder: Path) -> Path:
    return write(folder / "a.wav", np.zeros(0))


def cut_wav(folder: Path) -> Path:
    return cut(write(folder / "a.wav", NOISE))


def cut_aiff(folder: Path) -> Path:
    return cut(write(folder / "a.aiff", NOISE))


def cut_ogg(folder: Path) -> Path:
    return cut(write(folder / "a.ogg", NOISE))


def cut_flac(folder: Path) -> Path:
    return cut(write(folder / "a.flac", NOISE))


def cut_mp3(folder: Path) -> Path:
    return cut(write(folder / "a.mp3", np.tile(NOISE, 10)))


def not_a_number(folder: Path) -> Path:
    samples = NOISE.copy()
    samples[[5, 6, 9000]] = np.nan, np.inf, np.nan
    return write(folder / "a.wav", samples, subtype="FLOAT")


def twenty_milliseconds(folder: Path) -> Path:
    return write(folder / "a.wav", NOISE[:882])


def too_long(folder: Path) -> Path:
    return write(folder / "a.wav", np.zeros(8000 * 31), 8000)


REFUSED = {
    missing: "no such file",
    a_folder: "a folder",
    a_name_too_long: "cannot be read",
    a_pipe: "not a regular file",
    no_bytes: "an empty file",
    text: "not a readable audio file",
    headerless: "not a readable audio file",
    no_samples: "no samples",
    cut_wav: "cut short: the header promises 88200 bytes",
    cut_aiff: "cut short",
    cut_ogg: "cut short: the Ogg stream has no end",
    cut_flac: "decoding stopped",
    cut_mp3: "cut short",
    not_a_number: "3 of 44100 samples are NaN or infinite",
    twenty_milliseconds: "too short",
    too_long: "31.00 s long, over the limit of 30 s",
}


@pytest.mark.parametrize("make", REFUSED, ids=lambda make: make.__name__)
def test_what_cannot_be_used_is_refused_by_name(tmp_path, make):
    path = make(tmp_path)
    with pytest.raises(InputError, match=REFUSED[make]) as error:
        read_audio(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_exactly_thirty_seconds_pass_and_the_limit_can_be_moved(tmp_path):
    path = write(tmp_path / "a.wav", np.zeros(30 * 44100))
    assert len(read_audio(path)) == 480_000
    long = too_long(tmp_path)
    assert len(read_audio(long, max_seconds=40)) == len(read_audio(long, max_seconds=None)) == 31 * 16000


def test_written_flac_comes_back_to_half_a_step(tmp_path):
    samples = np.clip(5 * NOISE, -1, 1)
    write_flac(tmp_path / "new" / "a.flac", samples)
    np.testing.assert_allclose(read_audio(tmp_path / "new" / "a.flac"), samples, atol=2**-15)
    info = soundfile.info(tmp_path / "new" / "a.flac")
    assert (info.samplerate, info.channels, info.subtype) == (16000, 1, "PCM_16")


@pytest.mark.parametrize("bad", [1.001, -1.001, np.nan, np.inf])
def test_what_would_clip_is_not_written(tmp_path, bad):
    with pytest.raises(ValueError, match="would clip"):
        write_flac(tmp_path / "a.flac", np.array([0.0, bad]))
    assert not list(tmp_path.iterdir())


ODD: dict[str, int | str] = {
    "bell.ogg": 107507,
    "float32_peak_over_one.wav": 21293,
    "float32_with_nan.wav": "101 of 15430 samples are NaN or infinite",
    "guitar.mp3": 95549,
    "long_45s.flac": "45.00 s long, over the limit of 30 s",
    "ogg_named.wav": 4381,
    "pcm_24bit.wav": 12693,
    "pcm_8bit.wav": 7690,
    "rate_8000.wav": 16202,
    "rate_96000.wav": 4928,
    "short_20ms.wav": "too short",
    "silence_3s.wav": 48000,
    "six_channels.wav": 16004,
    "stereo_right_silent.wav": 24000,
    "text_named.wav": "not a readable audio file",
    "truncated.flac": "decoding stopped",
    "truncated.wav": "cut short: the header promises 15360 bytes of audio, 7680 are there",
    "zero_bytes.wav": "an empty file",
    "zero_samples.wav": "no samples",
}


@pytest.mark.shared
def test_every_odd_recording_is_decided(shared):
    folder = shared / "data" / "recordings_odd"
    assert {path.name for path in folder.iterdir()} - {"README.md"} == set(ODD)
    for name, expected in ODD.items():
        if isinstance(expected, int):
            assert len(read_audio(folder / name)) == expected, name
        else:
            with pytest.raises(InputError, match=expected) as error:
                read_audio(folder / name)
            assert str(error.value).startswith(str(folder / name))

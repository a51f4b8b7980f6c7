"""Conversations and recordings in, fixed-shape batches out: the chat template, the tokenizer, the log-mel.

Stands between `audio.read` and the model. `Processor.__call__` makes the whole batch that `model(batch)` and
`generate` take; the data loader, whose worker processes must not import jax, calls `encode` for the tokens
and leaves `features` to the main process. Token ids equal those of transformers' `Qwen2AudioProcessor` in
its expanded form, one `<|AUDIO|>` for each audio feature.

Special tokens come from the template alone. What a caption or a question says is plain text: `<|im_end|>` typed
by a person becomes the characters it consists of, where the reference would end the turn.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jaxeval.audio.lengths import (
    HOP,
    MAX_FRAMES,
    MAX_SAMPLES,
    MIN_SAMPLES,
    SAMPLE_RATE,
    audio_tokens,
    conv_frames,
    frame_bucket,
    mel_frames,
)
from jaxeval.audio.read import read_audio
from jaxeval.errors import InputError
from jaxeval.files import atomic_write, read_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = Mapping[str, Any]
Conversation = Sequence[Message]
Clip = str | os.PathLike[str] | np.ndarray
Batch = dict[str, np.ndarray]
Side = Literal["left", "right"]

AUDIO, AUDIO_BOS, AUDIO_EOS = "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>"
IM_START, IM_END = "<|im_start|>", "<|im_end|>"
SPECIALS = (IM_START, IM_END, AUDIO, AUDIO_BOS, AUDIO_EOS)
SYSTEM = "You are a helpful assistant."
ROLES = ("system", "user", "assistant")

FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "chat_template.json",
    "chat_template.jinja",
    "preprocessor_config.json",
    "processor_config.json",
    "generation_config.json",
)
"""What `save` carries from one checkpoint folder to the next, as far as it is there."""


@dataclass(frozen=True)
class Processor:
    """The tokenizer and the feature extractor of one checkpoint; it pickles, so worker processes can hold it.

    Attributes:
        folder: the checkpoint folder it was read from.
        tokenizer: the transformers tokenizer.
        num_mels: mel bands the audio encoder expects.
        ids: id of each of `SPECIALS` by name.
        pad_id: id that fills rows up.
        eos_ids: ids that end an answer: `<|im_end|>` first, then those of `generation_config.json`.
    """

    folder: Path
    tokenizer: PreTrainedTokenizerBase
    num_mels: int
    ids: Mapping[str, int]
    pad_id: int
    eos_ids: tuple[int, ...]

    @classmethod
    def from_folder(cls, path: str | os.PathLike[str]) -> Processor:
        """Read tokenizer and configuration of a checkpoint folder, Hugging Face's or ours; no network is used.

        Raises:
            InputError: the tokenizer is missing or broken, lacks a special token, or disagrees with `config.json`.
        """
        folder = Path(path)
        config = read_json(folder / "config.json")
        tokenizer = _load_tokenizer(folder)
        vocabulary = tokenizer.get_vocab()
        missing = [token for token in SPECIALS if token not in vocabulary]
        if missing:
            raise InputError(f"{folder}: the tokenizer lacks {', '.join(missing)}; is it a Qwen2-Audio checkpoint?")
        ids = {token: vocabulary[token] for token in SPECIALS}
        configured = config.get("audio_token_index", config.get("audio_token_id", 151646))
        if configured != ids[AUDIO]:
            raise InputError(
                f"{folder / 'config.json'}: audio_token_index is {configured}, "
                f"but the tokenizer's {AUDIO} is {ids[AUDIO]}"
            )
        if tokenizer.pad_token_id is None:
            raise InputError(f"{folder / 'tokenizer_config.json'}: pad_token is missing")
        return cls(
            folder=folder,
            tokenizer=tokenizer,
            num_mels=(config.get("audio_config") or {}).get("num_mel_bins", 128),
            ids=ids,
            pad_id=tokenizer.pad_token_id,
            eos_ids=tuple(dict.fromkeys([ids[IM_END], *_generation_eos(folder)])),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Copy tokenizer, feature extractor and generation files unchanged; `config.json` is the checkpoint's own."""
        copy_files(self.folder, Path(path))

    def __call__(
        self,
        conversations: Sequence[Conversation],
        audio: Sequence[Clip] = (),
        *,
        padding_side: Side = "right",
        pad_to: int | None = None,
    ) -> Batch:
        """Turn conversations and their recordings into a batch.

        Args:
            conversations: one list of messages a row, `{"role": …, "content": …}` with a string or a list of
                `{"type": "audio"}` and `{"type": "text", "text": …}`. One that ends with an assistant's message
                is taken as it stands; any other is followed by the opening of the assistant's turn.
            audio: the recordings of all rows, in row order: paths, or 16 kHz mono float arrays [samples].
            padding_side: `"right"` to train and score, `"left"` to generate.
            pad_to: mel frames; default the bucket of the longest clip. 3000 gives the reference's shape.

        Returns:
            `input_ids`, `attention_mask` [rows, length], int32; if there are recordings also `input_features`
            [clips, mels, frames], float32, and `feature_attention_mask` [clips, frames], int32.

        Raises:
            InputError: a message is malformed, a recording is unusable, or their numbers differ.
        """
        if not conversations:
            raise InputError("no conversations: the batch would be empty")
        waveforms = [_waveform(clip, index) for index, clip in enumerate(audio)]
        frames = [mel_frames(len(waveform)) for waveform in waveforms]
        rows = self._rows(conversations, [audio_tokens(count) for count in frames])
        input_ids, attention_mask = pad_rows(rows, self.pad_id, padding_side)
        batch = {"input_ids": input_ids, "attention_mask": attention_mask}
        if waveforms:
            length = _feature_length(max(frames), pad_to)
            batch["input_features"] = self.features(waveforms, length)
            batch["feature_attention_mask"] = (np.arange(length) < np.array(frames)[:, None]).astype(np.int32)
        return batch

    def encode(
        self, messages: Conversation, audio_tokens_per_clip: Iterable[int], target: str | None = None
    ) -> tuple[list[int], int]:
        """Token ids of one row and how many of them are the prompt.

        Args:
            messages: as in `__call__`.
            audio_tokens_per_clip: for each recording of the row, `lengths.audio_tokens` of its mel frames.
            target: the answer to learn, which is followed by `<|im_end|>`; None for a prompt alone.

        Raises:
            InputError: a message is malformed, or there are more or fewer recordings than audio items.
        """
        counts = list(audio_tokens_per_clip)
        parts = self._render(messages)
        slots = parts.count(self.ids[AUDIO])
        if slots != len(counts):
            raise InputError(f"the conversation has {slots} audio items, but {len(counts)} recordings are given")
        prompt = self._tokens(parts, counts)
        if target is None:
            return prompt, len(prompt)
        return [*prompt, *self._plain(target), self.ids[IM_END]], len(prompt)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of generated ids up to the first end token, special tokens left out."""
        answer: list[int] = []
        for token in ids:
            if int(token) in self.eos_ids:
                break
            answer.append(int(token))
        return str(self.tokenizer.decode(answer, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def features(self, waveforms: Sequence[np.ndarray], frames: int) -> np.ndarray:
        """Log-mel features [clips, mels, frames] (float32) of 16 kHz waveforms, each [samples]; uses jax."""
        from jaxeval.audio.log_mel import log_mel

        # As wide as the bucket, not as the longest clip, so that a bucket compiles once.
        padded = np.zeros((len(waveforms), frames * HOP), np.float32)
        for row, waveform in zip(padded, waveforms, strict=True):
            row[: len(waveform)] = waveform
        return np.array(log_mel(padded, frames=frames, num_mels=self.num_mels))

    def _rows(self, conversations: Sequence[Conversation], counts: list[int]) -> list[list[int]]:
        """Prompt ids of each row, the recordings (tokens of each in `counts`) dealt out in row order."""
        rows: list[list[int]] = []
        used = 0
        for number, messages in enumerate(conversations):
            try:
                parts = self._render(messages)
            except InputError as error:
                raise InputError(f"row {number}: {error}") from None
            first, used = used, used + parts.count(self.ids[AUDIO])
            if used > len(counts):
                raise InputError(
                    f"row {number} has {used - first} audio items, but of the recordings {len(counts) - first} are left"
                )
            rows.append(self._tokens(parts, counts[first:used]))
        if used < len(counts):
            raise InputError(
                f"the last row ({len(rows) - 1}) leaves {len(counts) - used} of {len(counts)} recordings unused"
            )
        return rows

    def _render(self, messages: Conversation) -> list[str | int]:
        """The official chat template, as text pieces and special ids; `<|AUDIO|>` once for each recording."""
        _check_messages(messages)
        if messages[0]["role"] != "system":
            messages = [{"role": "system", "content": SYSTEM}, *messages]
        parts: list[str | int] = []
        audio_count = 0
        for message in messages:
            parts += [self.ids[IM_START], f"{message['role']}\n"]
            content = message["content"]
            for item in [{"text": content}] if isinstance(content, str) else content:
                if _is_audio(item):
                    audio_count += 1
                    parts += [f"Audio {audio_count}: ", self.ids[AUDIO_BOS], self.ids[AUDIO], self.ids[AUDIO_EOS], "\n"]
                else:
                    parts.append(item["text"])
            parts += [self.ids[IM_END], "\n"]
        if messages[-1]["role"] != "assistant":
            parts += [self.ids[IM_START], "assistant\n"]
        return parts

    def _tokens(self, parts: list[str | int], counts: list[int]) -> list[int]:
        """Ids of a rendered conversation; neighbouring texts are one text to the tokenizer, as in the reference."""
        ids: list[int] = []
        repeats = iter(counts)
        for is_text, group in groupby(parts, key=lambda part: isinstance(part, str)):
            if is_text:
                ids += self._plain("".join(map(str, group)))
                continue
            for special in map(int, group):
                ids += [special] * (next(repeats) if special == self.ids[AUDIO] else 1)
        return ids

    def _plain(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)


def pad_rows(
    rows: Sequence[Sequence[int]], pad_id: int, side: Side, length: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ids as `input_ids` and `attention_mask` [rows, length], int32; default length the longest row's.

    Raises:
        ValueError: a row is longer than `length`, or `side` is neither `"left"` nor `"right"`.
    """
    if side not in ("left", "right"):
        raise ValueError(f"padding side must be 'left' or 'right', got {side!r}")
    longest = max(map(len, rows))
    length = longest if length is None else length
    if longest > length:
        raise ValueError(f"a row of {longest} tokens does not fit into {length}")
    input_ids = np.full((len(rows), length), pad_id, np.int32)
    attention_mask = np.zeros((len(rows), length), np.int32)
    for index, row in enumerate(rows):
        start = length - len(row) if side == "left" else 0
        input_ids[index, start : start + len(row)] = row
        attention_mask[index, start : start + len(row)] = 1
    return input_ids, attention_mask


def copy_files(source: Path, target: Path) -> None:
    """Copy what is there of `FILES` from one checkpoint folder to another."""
    for name in FILES:
        if (source / name).exists() and (source / name).resolve() != (target / name).resolve():
            with atomic_write(target / name, "wb") as file:
                file.write((source / name).read_bytes())


def check_tokenizer_files(folder: Path) -> None:
    """Raise `InputError` if a checkpoint folder has no tokenizer, or a damaged one."""
    for name in FILES:
        if name.endswith(".json") and (folder / name).exists():
            read_json(folder / name)
    if not (folder / "tokenizer.json").exists() and not all(
        (folder / name).exists() for name in ("vocab.json", "merges.txt")
    ):
        raise InputError(f"{folder}: no tokenizer: neither tokenizer.json nor vocab.json with merges.txt is there")
    if (folder / "tokenizer.json").exists():
        from tokenizers import Tokenizer  # as below

        try:
            Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the Rust parser raises bare Exception on a damaged file
            raise InputError(f"{folder / 'tokenizer.json'}: no tokenizer ({error})") from None


def _load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    check_tokenizer_files(folder)
    from transformers import AutoTokenizer  # seconds of imports, which conversion and the command line go without

    try:
        return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # as above
        raise InputError(f"{folder}: the tokenizer cannot be read ({error})") from error


def _generation_eos(folder: Path) -> list[int]:
    file = folder / "generation_config.json"
    eos = read_json(file).get("eos_token_id") if file.exists() else None
    ids = eos if isinstance(eos, list) else [] if eos is None else [eos]
    if not all(type(token) is int and token >= 0 for token in ids):
        raise InputError(f"{file}: eos_token_id is {eos!r}, expected a token id or a list of them")
    return ids


def _check_messages(messages: Conversation) -> None:
    if isinstance(messages, Mapping) or not messages:
        raise InputError("a conversation must be a list of at least one message")
    for number, message in enumerate(messages):
        if message.get("role") not in ROLES:
            raise InputError(f"message {number}: role is {message.get('role')!r}, expected one of {', '.join(ROLES)}")
        content = message.get("content")
        if isinstance(content, str):
            continue
        if not isinstance(content, Sequence):
            raise InputError(f"message {number}: content must be a string or a list of items")
        for item in content:
            if not isinstance(item, Mapping) or not (_is_audio(item) or isinstance(item.get("text"), str)):
                raise InputError(f"message {number}: content item {item!r} is neither audio nor text")


def _is_audio(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "audio" or "audio" in item or "audio_url" in item


def _waveform(clip: Clip, index: int) -> np.ndarray:
    """A recording as float32 [samples]; paths are read, arrays are checked as strictly as files are."""
    if isinstance(clip, str | os.PathLike):
        return read_audio(clip)
    name = f"audio[{index}]"
    samples = np.asarray(clip)
    if not np.issubdtype(samples.dtype, np.floating):
        raise InputError(f"{name}: {samples.dtype} samples; give floats within ±1 (16-bit integers divided by 32768)")
    if samples.ndim != 1:
        raise InputError(f"{name}: shape {samples.shape}; give one channel, [samples]")
    if len(samples) < MIN_SAMPLES:
        raise InputError(f"{name}: {len(samples)} samples are too short; the least is {MIN_SAMPLES} (20 ms at 16 kHz)")
    if len(samples) > MAX_SAMPLES:
        raise InputError(
            f"{name}: {len(samples) / SAMPLE_RATE:.1f} s, longer than the {MAX_SAMPLES // SAMPLE_RATE} s it can hear"
        )
    if not np.isfinite(samples).all():
        raise InputError(f"{name}: some samples are NaN or infinite")
    return samples.astype(np.float32)


def _feature_length(longest: int, pad_to: int | None) -> int:
    if pad_to is None:
        return frame_bucket(longest)
    # The last feature of a clip sees padding frames past its end, except where the window itself ends.
    needed = min(2 * conv_frames(longest) + 1, MAX_FRAMES)
    if not needed <= pad_to <= MAX_FRAMES:
        raise InputError(f"pad_to is {pad_to}; the longest recording needs {needed} to {MAX_FRAMES} frames")
    return pad_to

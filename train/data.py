"""From a table to fixed-shape micro batches: check every row up front, plan the shapes, read ahead with Grain.

All recordings are read once before work starts, so that a damaged one stops the run then and not after a night,
and so that every length is known. From the lengths follow a few fixed shapes and, for each epoch, the list of micro
batches: a pure function of the rows, the seed and the epoch. Grain's iterator over that list therefore resumes at a
number, whatever the count of reading threads. The threads run NumPy alone; tokens are made beforehand, since the
tokenizer is not safe to share.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import grain
import jax
import numpy as np
from jax.experimental import multihost_utils
from tqdm import tqdm

from jaxeval.audio.lengths import HOP, audio_tokens, frame_bucket, mel_frames
from jaxeval.audio.read import read_audio
from jaxeval.errors import InputError
from jaxeval.processor import AUDIO, Conversation, Processor

LENGTH_STEP = 64
ANSWER_STEP = 32


@dataclass(frozen=True)
class Example:
    """One thing to learn: to answer `target` to `messages` about the recordings `audio`."""

    id: str
    task: str
    messages: Conversation
    audio: tuple[Path, ...]
    target: str


class Shape(NamedTuple):
    """Sizes of a micro batch beside its number of rows: mel frames a clip, tokens a row, supervised tokens a row."""

    frames: int
    length: int
    answers: int


@dataclass(frozen=True)
class Row:
    """A checked example.

    Attributes:
        ids: its tokens, one `<|AUDIO|>` a clip; the last `answers` of them are the answer.
        frames: mel frames of each clip.
    """

    example: Example
    ids: np.ndarray
    answers: int
    frames: tuple[int, ...]

    @property
    def length(self) -> int:
        """Tokens with the audio expanded."""
        return len(self.ids) + sum(audio_tokens(frames) - 1 for frames in self.frames)

    def needs(self, max_length: int) -> Shape:
        """The smallest shape it fits, rounded up so that similar rows share one."""
        length = min(-(-self.length // LENGTH_STEP) * LENGTH_STEP, max_length)
        return Shape(frame_bucket(max(self.frames)), length, -(-self.answers // ANSWER_STEP) * ANSWER_STEP)


def check_examples(
    examples: Sequence[Example], processor: Processor, *, max_length: int, workers: int, skip_bad: bool
) -> tuple[list[Row], list[str]]:
    """Read every recording and tokenise every text.

    Returns:
        The rows that can be used, in order, and one line for each that cannot.

    Raises:
        InputError: a row is bad and `skip_bad` is not set.
    """
    recordings = _read_all(sorted({path for example in examples for path in example.audio}), workers)
    rows, bad = [], []
    for example in examples:
        try:
            rows.append(_check(example, processor, recordings, max_length))
        except InputError as error:
            bad.append(f"{example.id} ({example.task}): {error}")
    if bad and not skip_bad:
        raise InputError(f"{len(bad)} of {len(examples)} rows cannot be used (--skip-bad leaves them out): {bad[0]}")
    return rows, bad


def plan_shapes(
    needs: Sequence[Shape], *, limit: int, micro_batch: int, cost: Callable[[Shape], float]
) -> dict[Shape, Shape]:
    """Choose at most `limit` shapes: for every shape in `needs`, the one to use instead.

    Starting from the shapes as they are, the two whose union adds least work are joined, until few enough are left
    and no further union saves work (a small group is padded with empty rows, so joining it may).

    Args:
        needs: the shape of every row.
        micro_batch: rows of a micro batch.
        cost: work of one row of a shape, in any unit.
    """
    count = Counter(needs)
    chosen = {shape: shape for shape in count}
    cost = functools.cache(cost)

    def work(shape: Shape, rows: int) -> float:
        return cost(shape) * math.ceil(rows / micro_batch)

    def union(a: Shape, b: Shape) -> Shape:
        return Shape(*map(max, a, b))

    @functools.cache
    def added(a: Shape, b: Shape, rows_a: int, rows_b: int) -> float:
        return work(union(a, b), rows_a + rows_b) - work(a, rows_a) - work(b, rows_b)

    while len(count) > 1:
        shapes = sorted(count)
        pairs = ((a, b) for index, a in enumerate(shapes) for b in shapes[index + 1 :])
        a, b = min(pairs, key=lambda pair: added(*pair, count[pair[0]], count[pair[1]]))
        if len(count) <= limit and added(a, b, count[a], count[b]) >= 0:
            break
        joined, rows = union(a, b), count.pop(a) + count.pop(b)
        count[joined] += rows
        chosen = {need: joined if shape in (a, b) else shape for need, shape in chosen.items()}
    return chosen


class MicroBatches:
    """The micro batches of all epochs by number; `iterate` reads them ahead.

    Each has `micro_batch` rows of one shape. The last of a shape in an epoch is filled up with empty rows, which
    supervise nothing, so no example is dropped and every epoch has equally many.

    Attributes:
        rows: the rows.
        tasks: names of the tasks; a batch holds their indices.
        per_epoch: micro batches of an epoch.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        shapes: Sequence[Shape],
        processor: Processor,
        *,
        tasks: Sequence[str],
        micro_batch: int,
        seed: int | None,
        epochs: int = 1,
        local: slice = slice(None),
    ):
        """See the class.

        Args:
            shapes: the shape to use for each row.
            seed: of the order; None keeps the order of the rows within each shape.
            local: the rows of a micro batch that this process feeds to its devices.
        """
        self.rows, self.tasks, self.micro_batch, self.seed = rows, list(tasks), micro_batch, seed
        self._audio_id, self._pad_id = processor.ids[AUDIO], processor.pad_id
        self._epochs, self._local = epochs, local
        self._by_shape: dict[Shape, list[int]] = {}
        for index, shape in enumerate(shapes):
            self._by_shape.setdefault(shape, []).append(index)
        self.shapes = sorted(self._by_shape)
        self.per_epoch = sum(math.ceil(len(members) / micro_batch) for members in self._by_shape.values())
        self._epoch = functools.lru_cache(maxsize=2)(self._plan)

    def __len__(self) -> int:
        return self.per_epoch * self._epochs

    def members(self, index: int) -> tuple[Shape, list[Row]]:
        """Shape and rows of one micro batch, over all processes."""
        epoch, place = divmod(index, self.per_epoch)
        shape, members = self._epoch(epoch)[place]
        return shape, [self.rows[member] for member in members]

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        """This process's part of a micro batch.

        Returns:
            `input_ids`, `attention_mask` [rows, length]; `waveforms` [clips, samples], zero after each clip, and
            `feature_attention_mask` [clips, frames]; `target_positions` [rows, answers], where the hidden state that
            predicts each token of the answer stands; `targets` [rows, answers], -1 where there is none; `task` [rows].
        """
        shape, members = self.members(index)
        count = len(range(*self._local.indices(self.micro_batch)))
        return assemble(
            members[self._local], shape, count, tasks=self.tasks, audio_id=self._audio_id, pad_id=self._pad_id,
            clips=len(self.rows[0].frames),
        )  # fmt: skip

    def _plan(self, epoch: int) -> list[tuple[Shape, list[int]]]:
        rng = None if self.seed is None else np.random.default_rng([self.seed, epoch])
        batches = []
        for shape in self.shapes:
            members = self._by_shape[shape]
            order = members if rng is None else rng.permutation(members).tolist()
            batches += [(shape, order[at : at + self.micro_batch]) for at in range(0, len(order), self.micro_batch)]
        return batches if rng is None else [batches[place] for place in rng.permutation(len(batches))]


def iterate(batches: MicroBatches, workers: int) -> grain.DatasetIterator:
    """Grain's iterator over the micro batches, reading ahead in `workers` threads; its state is a number."""
    options = grain.ReadOptions(num_threads=workers, prefetch_buffer_size=2 * workers)
    return iter(grain.MapDataset.source(batches).to_iter_dataset(options))


def assemble(
    rows: Sequence[Row], shape: Shape, count: int, *, tasks: Sequence[str], audio_id: int, pad_id: int, clips: int
) -> dict[str, np.ndarray]:
    """Put rows into arrays of a fixed shape, `count` rows in all; see `MicroBatches.__getitem__`."""
    frames, length, answers = shape
    batch: dict[str, np.ndarray] = {
        "input_ids": np.full((count, length), pad_id, np.int32),
        "attention_mask": np.zeros((count, length), np.int32),
        "waveforms": np.zeros((count * clips, frames * HOP), np.float32),
        "feature_attention_mask": np.zeros((count * clips, frames), np.int32),
        "target_positions": np.zeros((count, answers), np.int32),
        "targets": np.full((count, answers), -1, np.int32),
        "task": np.zeros(count, np.int32),
    }
    for index, row in enumerate(rows):
        repeats = np.ones(len(row.ids), np.int64)
        repeats[row.ids == audio_id] = [audio_tokens(number) for number in row.frames]
        ids = np.repeat(row.ids, repeats)
        batch["input_ids"][index, : len(ids)] = ids
        batch["attention_mask"][index, : len(ids)] = 1
        batch["target_positions"][index, : row.answers] = np.arange(len(ids) - row.answers, len(ids)) - 1
        batch["targets"][index, : row.answers] = ids[-row.answers :]
        batch["task"][index] = tasks.index(row.example.task)
        for clip, (path, number) in enumerate(zip(row.example.audio, row.frames, strict=True), index * clips):
            waveform = read_audio(path)
            if mel_frames(len(waveform)) != number:
                raise InputError(f"{path}: its length has changed since the run started")
            batch["waveforms"][clip, : len(waveform)] = waveform
            batch["feature_attention_mask"][clip, :number] = 1
    return batch


def _check(example: Example, processor: Processor, recordings: Mapping[Path, int | str], max_length: int) -> Row:
    frames = []
    for path in example.audio:
        samples = recordings[path]
        if isinstance(samples, str):
            raise InputError(samples)
        frames.append(mel_frames(samples))
    ids, prompt = processor.encode(example.messages, [1] * len(frames), example.target)
    row = Row(example, np.array(ids, np.int32), len(ids) - prompt, tuple(frames))
    if row.length > max_length:
        raise InputError(f"{row.length} tokens, more than data.max_length ({max_length})")
    return row


def _read_all(paths: Sequence[Path], workers: int) -> dict[Path, int | str]:
    """For each recording its samples at 16 kHz, or why it cannot be used. Processes share the work."""

    def read(path: Path) -> tuple[int, str]:
        try:
            return len(read_audio(path)), ""
        except InputError as error:
            return 0, str(error)

    processes = jax.process_count()
    mine = paths[jax.process_index() :: processes]
    with ThreadPoolExecutor(max(workers, 1)) as pool:
        found = list(tqdm(pool.map(read, mine), "checking recordings", len(mine), unit="file", delay=1))
    if processes == 1:
        return {path: reason or samples for path, (samples, reason) in zip(paths, found, strict=True)}
    known: dict[Path, Any] = {path: reason for path, (_, reason) in zip(mine, found, strict=True) if reason}
    samples = np.zeros(len(paths), np.int64)
    samples[jax.process_index() :: processes] = [number for number, _ in found]
    for path, number in zip(paths, multihost_utils.process_allgather(samples).sum(0).tolist(), strict=True):
        known.setdefault(path, number or f"{path}: cannot be used (another process knows why)")
    return known

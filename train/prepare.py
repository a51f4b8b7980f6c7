"""From examples and settings to the data of a run: what it learns from, in which shapes, and a fingerprint of it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jax.sharding import Mesh

from jaxeval.errors import InputError
from jaxeval.files import read_json
from jaxeval.flops import lora_step_flops
from jaxeval.models.config import Qwen2AudioConfig, read_config
from jaxeval.processor import Processor
from jaxeval.sharding import batch_sharding
from train.config import TrainConfig
from train.data import Example, MicroBatches, Shape, check_examples, plan_shapes


@dataclasses.dataclass(frozen=True)
class Data:
    """The micro batches of both splits, and the rows that were left out."""

    train: MicroBatches
    validation: MicroBatches | None
    bad: list[str]

    @property
    def clips(self) -> int:
        """Recordings of a row."""
        return len(self.train.rows[0].frames)

    def describe(self) -> dict[str, Any]:
        """Content of `inputs.json`: what the run learns from, with a fingerprint of it."""
        validation = [] if self.validation is None else self.validation.rows
        digest = hashlib.sha256()
        for row in (*self.train.rows, *validation):
            digest.update(repr((row.example.id, row.example.task, row.frames, row.ids.tolist())).encode())
        return {
            "examples": digest.hexdigest(),
            "train": len(self.train.rows),
            "validation": len(validation),
            "skipped": self.bad,
            "shapes": [shape._asdict() for shape in self.train.shapes],
        }


def prepare_data(config: TrainConfig, examples: Mapping[str, Sequence[Example]], mesh: Mesh) -> Data:
    """Check all examples and plan the shapes of both splits together.

    Raises:
        InputError: a row is bad, a split that is needed is empty, or the micro batch does not fit the mesh.
    """
    rows = config.data.micro_batch
    parts = mesh.shape["data"] * mesh.shape["fsdp"]
    if rows % parts:
        raise InputError(f"data.micro_batch is {rows}, expected a multiple of data×fsdp of the mesh ({parts})")
    needed = ("train", "validation") if config.validation.every else ("train",)
    for split in needed:
        if not examples[split]:
            hint = " (--validation.every 0 trains without)" if split == "validation" else ""
            raise InputError(f"{config.data.path}: no rows with split {split!r}{hint}")
    processor, model_config = Processor.from_folder(config.model), read_config(config.model)
    everything = [example for split in needed for example in examples[split]]
    settings = config.data
    good, bad = check_examples(
        everything, processor, max_length=settings.max_length, workers=settings.workers, skip_bad=settings.skip_bad
    )
    chosen = plan_shapes(
        [row.needs(settings.max_length) for row in good],
        limit=settings.shapes,
        micro_batch=rows,
        cost=lambda shape: row_flops(lora_step_flops, model_config, shape, len(everything[0].audio), lora_params=0),
    )
    tasks = list(dict.fromkeys(example.task for example in everything))

    def batches(split: str, **order: Any) -> MicroBatches:
        members = {id(example) for example in examples[split]}
        mine = [row for row in good if id(row.example) in members]
        if not mine:
            raise InputError(f"{config.data.path}: no usable rows with split {split!r}")
        shapes = [chosen[row.needs(settings.max_length)] for row in mine]
        local = local_rows(mesh, rows)
        return MicroBatches(mine, shapes, processor, tasks=tasks, micro_batch=rows, local=local, **order)

    train_part = batches("train", seed=config.seed, epochs=config.epochs)
    return Data(train_part, batches("validation", seed=None) if config.validation.every else None, bad)


def check_inputs(file: Path, inputs: Mapping[str, Any]) -> None:
    """Raise `InputError` if a run that began with other examples or another model is to be resumed."""
    if not file.exists():
        return
    found = read_json(file)
    for name, what in (("base", "another checkpoint (--model)"), ("examples", "other examples or recordings")):
        if found.get(name) != inputs[name]:
            raise InputError(f"{file}: this run was started with {what}; give it the old ones, or choose another --out")


def local_rows(mesh: Mesh, rows: int) -> slice:
    """The rows of a batch that lie on this process's devices."""
    places = batch_sharding(mesh).addressable_devices_indices_map((rows,)).values()
    bounds = [place[0].indices(rows)[:2] for place in places if place is not None]
    return slice(min(start for start, _ in bounds), max(stop for _, stop in bounds))


def row_flops(count: Callable[..., float], config: Qwen2AudioConfig, shape: Shape, clips: int, **more: Any) -> float:
    """FLOPs of one row of a shape, with one of the counting functions of `jaxeval.flops`."""
    return count(config, clips=clips, frames=shape.frames, rows=1, length=shape.length, answers=shape.answers, **more)

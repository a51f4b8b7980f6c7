"""The one training loop: examples of (messages, audio, target) in, a run folder out.

`train.lora` and its siblings only bring examples and defaults. From top to bottom: check every row and plan the
shapes, load the model onto the mesh, restore the latest checkpoint if there is one, then step, validate and save until
validation stops improving. Killed at any moment, the same command goes on and ends in the same `metrics.jsonl`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grain
import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from jaxeval.audio.lengths import HOP, SAMPLE_RATE
from jaxeval.audio.log_mel import log_mel
from jaxeval.checkpoint import (
    PARAMS,
    AdapterConfig,
    load_model,
    read_adapter_config,
    read_checkpoint_info,
    trained_variables,
    variables,
    write_adapter,
)
from jaxeval.checksums import check_checksums
from jaxeval.errors import RunError, is_out_of_memory
from jaxeval.files import environment, locked_folder, read_json, write_json
from jaxeval.flops import device_peak, full_step_flops, lora_step_flops
from jaxeval.generation import generate
from jaxeval.models.lora import add_lora
from jaxeval.models.qwen2_audio import Qwen2Audio
from jaxeval.processor import Processor
from jaxeval.sharding import batch_sharding, make_mesh, parse_mesh
from train.config import TrainConfig, check_resumable
from train.data import Example, MicroBatches, Row, Shape, iterate
from train.log import Log
from train.prepare import Data, check_inputs, prepare_data, row_flops
from train.processes import Interruption
from train.state import Checkpoints, Progress
from train.step import Steps, TrainState, make_optimizer, make_steps


def train(config: TrainConfig, examples: Mapping[str, Sequence[Example]], out: Path) -> None:
    """Train a model, or go on where an earlier call with the same settings stopped.

    Args:
        config: checked settings.
        examples: of the splits `train` and `validation`; every example has equally many recordings.
        out: the run folder.

    Raises:
        InputError: an example, the checkpoint or a setting is wrong, or `out` holds a run with other settings.
        RunError: the loss is no longer a number, or the device is out of memory.
        KeyboardInterrupt: it was interrupted, after a checkpoint has been saved.
    """
    mesh = make_mesh(None if config.mesh is None else parse_mesh(config.mesh))
    if (out / "config.json").exists():
        check_resumable(read_json(out / "config.json"), config, source=str(out / "config.json"))
    data = prepare_data(config, examples, mesh)
    inputs = data.describe() | {"base": read_checkpoint_info(config.model).hash}
    check_inputs(out / "inputs.json", inputs)

    model, processor = load_model(
        config.model, mesh=mesh, dtype=config.dtype, attention=config.attention, remat=config.remat
    )
    if config.lora.rank:
        add_lora(model, config.lora, rngs=nnx.Rngs(config.seed))
    flops = flops_of(model, config, data.clips)
    accumulated = config.batch // config.data.micro_batch
    plan = StepPlan(data.train.per_epoch, accumulated, config.epochs)
    optimizer, learning_rate = make_optimizer(config.optimizer, plan.total)
    leader = jax.process_index() == 0
    with locked_folder(out) if leader else contextlib.nullcontext(), jax.set_mesh(mesh):
        steps, state = make_steps(model, config.trained, optimizer, len(data.train.tasks), mesh)
        del model  # its trained variables live on in the state
        if leader:
            write_json(out / "config.json", dataclasses.asdict(config))
            write_json(out / "inputs.json", inputs)
            write_json(out / "environment.json", environment())
        Trainer(config, out, mesh, data, plan, steps, processor, learning_rate, flops).run(state)


@dataclasses.dataclass(frozen=True)
class StepPlan:
    """Which micro batches make up which optimizer step; a step never reaches into the next epoch.

    Attributes:
        per_epoch: micro batches of an epoch; accumulated: those of a step, the last of an epoch excepted.
    """

    per_epoch: int
    accumulated: int
    epochs: int

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(self.per_epoch / self.accumulated)

    @property
    def total(self) -> int:
        return self.steps_per_epoch * self.epochs

    def micro_batches(self, step: int) -> range:
        """Numbers of the micro batches of a step, counted from 0."""
        epoch, place = divmod(step, self.steps_per_epoch)
        first = place * self.accumulated
        return range(
            epoch * self.per_epoch + first, epoch * self.per_epoch + min(first + self.accumulated, self.per_epoch)
        )


def flops_of(model: Qwen2Audio, config: TrainConfig, clips: int) -> Callable[[Shape], float] | None:
    """FLOPs of training one row of a shape; None where the arithmetic does not cover what is trained.

    It covers adapters on the decoder and full tuning.
    """
    trained, sizes = trained_variables(model, config.trained), model.config
    if len(trained) == len(variables(model)):
        return lambda shape: row_flops(full_step_flops, sizes, shape, clips)
    if all(name.startswith("language_model.") and ".lora." in name for name in trained):
        lora_params = sum(variable.get_value().size for variable in trained.values())
        return lambda shape: row_flops(lora_step_flops, sizes, shape, clips, lora_params=lora_params)
    return None


class Trainer:
    """Runs the steps of one training; see `train`."""

    def __init__(
        self,
        config: TrainConfig,
        out: Path,
        mesh: Mesh,
        data: Data,
        plan: StepPlan,
        steps: Steps,
        processor: Processor,
        learning_rate: Callable[[int], Any],
        flops: Callable[[Shape], float] | None,
    ):
        self.config, self.out, self.data, self.plan, self.steps = config, out, data, plan, steps
        self.processor, self.learning_rate, self.flops = processor, learning_rate, flops
        self.rows = batch_sharding(mesh)
        peak = device_peak(mesh.devices.flat[0])
        self.peak = None if peak is None else peak * mesh.size

    def run(self, state: TrainState) -> None:
        """Train until it is finished or interrupted."""
        checkpoints = Checkpoints(self.out / "checkpoints")
        iterator = iterate(self.data.train, self.config.data.workers)
        try:
            progress = checkpoints.progress()
            if progress.step:
                state = checkpoints.restore(progress, state, iterator)
            self._report(progress)
            if not progress.finished:
                self._steps(progress, state, iterator, checkpoints)
        finally:
            checkpoints.close()

    def _report(self, progress: Progress) -> None:
        if jax.process_index():
            return
        if self.data.bad:
            print(f"skipped {len(self.data.bad)} bad rows; {self.out / 'inputs.json'} lists them")
        if progress.finished:
            read_adapter_config(self.out / "adapter")
            check_checksums(self.out / "adapter", PARAMS)
            print(f"{self.out}: complete after {progress.step} steps, best validation loss {progress.best}")
        elif progress.step:
            print(f"{self.out}: going on after step {progress.step}")

    def _steps(
        self, progress: Progress, state: TrainState, iterator: grain.DatasetIterator, checkpoints: Checkpoints
    ) -> None:
        config = self.config
        log = Log(self.out, done=progress.step, total=self.plan.total, tensorboard=config.logging.tensorboard)
        try:
            if not progress.step:
                once = {row.example.id: row for row in self.data.train.rows}  # the tasks share their recordings
                log.audio(list(once.values())[: config.logging.audio])
            with Interruption() as interruption:
                while not progress.finished:
                    started = time.perf_counter()
                    state, row, work = self._step(progress.step, state, iterator)
                    speed = self._speed(work, time.perf_counter() - started)
                    progress = dataclasses.replace(progress, step=progress.step + 1)
                    progress = self._after(progress, state, row, log)
                    log.step(row, speed)
                    stop = interruption.asked()
                    if stop or progress.finished or progress.step % config.checkpoint_every == 0:
                        log.sync()
                        checkpoints.save(progress, state, iterator)
                    if stop and not progress.finished:
                        raise KeyboardInterrupt
        finally:
            log.close()

    def _step(
        self, step: int, state: TrainState, iterator: grain.DatasetIterator
    ) -> tuple[TrainState, dict[str, Any], dict[str, float]]:
        """One optimizer step: the new state, its row of `metrics.jsonl`, and the work it was."""
        sums = self.steps.start()
        step_key = jax.random.fold_in(jax.random.key(self.config.seed), step)
        work = {"tokens": 0.0, "audio_seconds": 0.0, "flops": 0.0}
        ids: list[str] = []
        for place, number in enumerate(self.plan.micro_batches(step)):
            shape, members = self.data.train.members(number)
            ids += [row.example.id for row in members]
            work["tokens"] += sum(row.length for row in members)
            work["audio_seconds"] += sum(sum(row.frames) for row in members) * HOP / SAMPLE_RATE
            work["flops"] += self.flops(shape) * self.config.data.micro_batch if self.flops else 0
            batch = self._on_devices(next(iterator))
            key = jax.random.fold_in(step_key, place)
            with out_of_memory_explained(shape):
                sums = self.steps.accumulate(state.trained, self.steps.frozen, sums, batch, key)
        with out_of_memory_explained(shape):  # an accelerator works behind: its errors may show only here
            state, metrics = self.steps.update(state, sums)
            found = jax.device_get(metrics)
        if not np.isfinite([found["loss"], found["grad_norm"]]).all():
            raise RunError(
                f"step {step + 1}: loss {found['loss']}, gradient norm {found['grad_norm']}; examples "
                f"{', '.join(dict.fromkeys(ids))}; nothing of this step was saved"
            )
        row: dict[str, Any] = {"step": step + 1, "epoch": step // self.plan.steps_per_epoch + 1}
        row["loss"] = float(found["loss"])
        row |= self._by_task("", found["task_losses"])
        row["learning_rate"] = float(self.learning_rate(step))
        return state, row | {"grad_norm": float(found["grad_norm"]), "tokens": int(found["tokens"])}, work

    def _after(self, progress: Progress, state: TrainState, row: dict[str, Any], log: Log) -> Progress:
        """Validate where it is time to, keep the best adapter, decide whether this was the last step."""
        settings, last = self.config.validation, progress.step == self.plan.total
        if self.data.validation is None:
            if last:
                self._save_adapter(state)
            return dataclasses.replace(progress, finished=last)
        if progress.step % settings.every and not last:
            return progress
        losses = self._validate(self.data.validation, state)
        row |= losses
        progress = progress.validated(losses["validation_loss"])
        if progress.not_better == 0:
            self._save_adapter(state)
        self._caption(self.data.validation.rows[: settings.captions], progress.step, state, log)
        return dataclasses.replace(progress, finished=last or progress.not_better >= settings.patience)

    def _validate(self, batches: MicroBatches, state: TrainState) -> dict[str, Any]:
        """Loss a supervised token over the validation split, in all and by task."""
        totals = np.zeros((2, len(batches.tasks)))
        for batch in iterate(batches, self.config.data.workers):
            sums = self.steps.evaluate(state.trained, self.steps.frozen, self._on_devices(batch))
            totals += np.asarray(jax.device_get(sums))
        loss, tokens = totals
        result = {"validation_loss": float(loss.sum() / tokens.sum())}
        if not math.isfinite(result["validation_loss"]):
            raise RunError("the validation loss is not finite; the latest checkpoint is from before")
        with np.errstate(invalid="ignore"):
            return result | self._by_task("validation_", loss / tokens)

    def _caption(self, rows: Sequence[Row], step: int, state: TrainState, log: Log) -> None:
        """Answer a few validation examples for the log; left out where several processes share the model."""
        if not rows or jax.process_count() > 1:
            return
        prompts = [row.example.messages for row in rows]
        recordings = [path for row in rows for path in row.example.audio]
        batch = self.processor(prompts, recordings, padding_side="left")
        model = self.steps.merge(state.trained)
        tokens = generate(model, batch, max_new_tokens=self.config.validation.max_new_tokens)
        log.captions(step, rows, [self.processor.decode(answer) for answer in tokens])

    def _on_devices(self, batch: Mapping[str, np.ndarray]) -> dict[str, jax.Array]:
        """A micro batch on the mesh, its log-mel features computed there."""
        placed = {name: jax.make_array_from_process_local_data(self.rows, value) for name, value in batch.items()}
        frames = placed["feature_attention_mask"].shape[1]
        features = log_mel(placed.pop("waveforms"), frames=frames, num_mels=self.processor.num_mels)
        return placed | {"input_features": jax.device_put(features, self.rows)}

    def _save_adapter(self, state: TrainState) -> None:
        lora = self.config.lora if self.config.lora.rank else None
        base = read_checkpoint_info(self.config.model).hash
        write_adapter(self.out / "adapter", state.trained, AdapterConfig(lora, self.config.trained, base))

    def _by_task(self, prefix: str, losses: np.ndarray) -> dict[str, float | None]:
        values = zip(self.data.train.tasks, losses.tolist(), strict=True)
        return {f"{prefix}{task}_loss": loss if math.isfinite(loss) else None for task, loss in values}

    def _speed(self, work: Mapping[str, float], seconds: float) -> dict[str, float]:
        speed = {"tokens/s": work["tokens"] / seconds, "audio_s/s": work["audio_seconds"] / seconds}
        if self.flops is not None and self.peak is not None:
            speed["mfu"] = work["flops"] / seconds / self.peak
        return speed


@contextlib.contextmanager
def out_of_memory_explained(shape: Shape) -> Iterator[None]:
    """Say which shape did not fit on the device, and what helps."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise RunError(
            f"the device is out of memory at {shape}; lower data.micro_batch, set remat, or use more devices"
        ) from error

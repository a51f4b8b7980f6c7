"""Checkpoints of a running training: all that a killed run needs to go on as if nothing had happened.

One Orbax step folder holds the trained variables and the optimizer's state, Grain's iterator, and the progress: step,
early stopping, processes. It appears whole or not at all, so `kill -9` at any moment costs the steps since the last.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import grain
import jax
import orbax.checkpoint as ocp

from jaxeval.errors import InputError
from train.step import TrainState


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a run stands.

    Attributes:
        step: optimizer steps done.
        best: lowest validation loss so far; None before the first.
        not_better: validations since then.
        finished: nothing is left to do.
        processes: how many wrote this; Grain keeps one iterator state for each.
    """

    step: int = 0
    best: float | None = None
    not_better: int = 0
    finished: bool = False
    processes: int = dataclasses.field(default_factory=jax.process_count)

    def validated(self, loss: float) -> Progress:
        """After one more validation."""
        if self.best is None or loss < self.best:
            return dataclasses.replace(self, best=loss, not_better=0)
        return dataclasses.replace(self, not_better=self.not_better + 1)


class Checkpoints:
    """The folder `checkpoints/` of a run; the two latest are kept."""

    def __init__(self, folder: Path):
        self._folder = folder
        options = ocp.CheckpointManagerOptions(max_to_keep=2, create=True)
        self._manager = ocp.CheckpointManager(folder.absolute(), options=options)

    def save(self, progress: Progress, state: TrainState, iterator: grain.DatasetIterator) -> None:
        """Write a checkpoint in the background. The state may be donated once this returns."""
        self._manager.save(
            progress.step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave({"trained": state.trained, "optimizer": state.optimizer}),
                iterator=grain.checkpoint.CheckpointSave(iterator),
                progress=ocp.args.JsonSave(dataclasses.asdict(progress)),
            ),
            force=True,
        )

    def progress(self) -> Progress:
        """Where the latest checkpoint stands; the beginning if there is none.

        Raises:
            InputError: another number of processes wrote it.
        """
        step = self._manager.latest_step()
        if step is None:
            return Progress()
        found = self._manager.restore(step, args=ocp.args.Composite(progress=ocp.args.JsonRestore()))
        progress = Progress(**found["progress"])
        if progress.processes != jax.process_count():
            raise InputError(
                f"{self._folder}: written by {progress.processes} processes, which the data iterator is bound to; "
                f"this run has {jax.process_count()}"
            )
        return progress

    def restore(self, progress: Progress, state: TrainState, iterator: grain.DatasetIterator) -> TrainState:
        """The state at `progress`, placed as `state` is, whose memory is given back; the iterator is moved in place."""
        template = jax.tree.map(
            ocp.utils.to_shape_dtype_struct, {"trained": state.trained, "optimizer": state.optimizer}
        )
        jax.tree.map(lambda value: value.delete(), state)
        found = self._manager.restore(
            progress.step,
            args=ocp.args.Composite(
                state=ocp.args.StandardRestore(template), iterator=grain.checkpoint.CheckpointRestore(iterator)
            ),
        )
        return TrainState(found["state"]["trained"], found["state"]["optimizer"])

    def close(self) -> None:
        """Wait until everything is on the disk."""
        self._manager.close()

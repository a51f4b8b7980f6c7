"""Several processes as one job: how they find each other, and how all of them stop together."""

from __future__ import annotations

import os
import signal
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from jaxeval.errors import InputError


def start_processes() -> None:
    """Join the other processes of a job that has several, before anything else uses jax.

    jax knows srun of SLURM, Open MPI and TPU slices by itself. Elsewhere set JAX_COORDINATOR_ADDRESS (host:port of the
    first process), JAX_NUM_PROCESSES and JAX_PROCESS_ID.
    """
    environ = os.environ
    if "JAX_COORDINATOR_ADDRESS" in environ:
        try:
            count, index = (int(environ[name]) for name in ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID"))
        except (KeyError, ValueError) as error:
            raise InputError(
                f"JAX_COORDINATOR_ADDRESS needs JAX_NUM_PROCESSES and JAX_PROCESS_ID too ({error})"
            ) from None
        jax.distributed.initialize(num_processes=count, process_id=index)
    elif (
        int(environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1
        or int(environ.get("OMPI_COMM_WORLD_SIZE", "1")) > 1
        or "," in environ.get("TPU_WORKER_HOSTNAMES", "")
    ):
        jax.distributed.initialize()


class Interruption:
    """Turns Ctrl-C and SIGTERM into a wish to stop after the current step; a second one stops at once."""

    def __init__(self) -> None:
        self._asked = False
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._handlers[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def asked(self) -> bool:
        """Whether any process was asked to stop."""
        if jax.process_count() == 1:
            return self._asked
        return bool(multihost_utils.process_allgather(np.array(self._asked)).any())

    def _ask(self, number: int, _: object) -> None:
        self._asked = True
        signal.signal(number, self._handlers[number])

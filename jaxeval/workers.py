"""Run one function over many items in worker processes, without losing or hoarding results.

Workers are spawned, so they import only what the function needs, never jax. They end with their parent, even
if that is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from jaxeval.errors import RunError

Item = TypeVar("Item")
Result = TypeVar("Result")

IN_FLIGHT = 4
"""Items a worker has waiting: enough to stay busy, few enough to lose little when a run is killed."""


def unordered_map(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Yield `work(item)` for every item as results get ready; with one worker in this process and in order.

    Args:
        work: a picklable callable; each worker gets its copy once.
        items: any number of items; only a few are taken ahead.
        workers: number of processes.

    Raises:
        RunError: a worker died.
    """
    if workers == 1:
        yield from map(work, items)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _start_worker, (work,)) as pool:
        waiting = iter(items)
        running = {pool.submit(_call, item) for item in islice(waiting, IN_FLIGHT * workers)}
        try:
            while running:
                ready, running = wait(running, return_when=FIRST_COMPLETED)
                running |= {pool.submit(_call, item) for item in islice(waiting, len(ready))}
                for future in ready:
                    yield future.result()
        except BrokenProcessPool:
            raise RunError("a worker process died, perhaps for lack of memory; run the same command to go on") from None
        finally:
            pool.shutdown(cancel_futures=True)


def _start_worker(work: Callable[[Any], Any]) -> None:
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent answers it
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _call(item: Any) -> Any:
    return _work(item)


_work: Callable[[Any], Any]

"""Threads that wait for a server, and how fast they may go."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from jaxeval.judges.protocol import Progress

T = TypeVar("T")
GRACE = 3.0
"""Seconds that work under way is given to finish when a run is interrupted: it has been paid for."""


class Stopped(Exception):
    """The run was interrupted while this thread waited."""


class Pace:
    """When the next request may start: evenly spaced, and never before a pause that the server asked for is over.

    Args:
        per_minute: the most requests a minute; None for no limit.
    """

    def __init__(self, per_minute: float | None):
        self._gap = 0.0 if per_minute is None else 60 / per_minute
        self._next = 0.0
        self._mutex = threading.Lock()

    def wait(self, stop: threading.Event) -> None:
        """Return when it is this thread's turn.

        Raises:
            Stopped: `stop` was set meanwhile.
        """
        while not stop.is_set():
            with self._mutex:
                now = time.monotonic()
                delay = self._next - now
                if delay <= 0:
                    self._next = now + self._gap
                    return
            stop.wait(delay)
        raise Stopped

    def pause(self, seconds: float) -> None:
        """Let nobody start for so long."""
        with self._mutex:
            self._next = max(self._next, time.monotonic() + seconds)


def run_threads(work: Callable[[int, threading.Event], T], count: int, threads: int, progress: Progress) -> list[T]:
    """`[work(0, stop), …, work(count - 1, stop)]`, several at a time.

    Args:
        work: gets an index, and an event that tells it to come to an end.
        count: how many there are.
        threads: the most that run at once.
        progress: called in this thread as they are done.

    Raises:
        Exception: the first one that `work` raises; the rest is not begun then, nor when this thread is interrupted.
    """
    stop, results = threading.Event(), queue.SimpleQueue[tuple[int, Any, BaseException | None]]()
    waiting = queue.SimpleQueue[int]()
    for index in range(count):
        waiting.put(index)

    def run() -> None:
        while not stop.is_set():
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                results.put((index, work(index, stop), None))
            except BaseException as error:  # raised again in the thread that waits
                results.put((index, None, error))

    # Daemons, so that a server which never answers does not keep an interrupted program alive.
    team = [threading.Thread(target=run, daemon=True) for _ in range(min(threads, count))]
    for thread in team:
        thread.start()
    done: dict[int, T] = {}
    try:
        while len(done) < count:
            index, result, error = results.get()
            if error is not None:
                raise error
            done[index] = result
            progress(1)
    except BaseException:
        stop.set()
        end = time.monotonic() + GRACE
        for thread in team:
            thread.join(max(0.0, end - time.monotonic()))
        raise
    return [done[index] for index in range(count)]

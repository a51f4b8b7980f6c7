"""Replies of a chat that were paid for, kept in a file so that no run pays for them again.

JSON Lines, appended to under a lock: any number of processes may share the file and see each other's replies, and a
process that is killed loses none of its own. A line that it left half written is passed over. Failures never get here.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from jaxeval.errors import InputError

Entry = dict[str, Any]


class ReplyCache:
    """Entries by key, in memory and in a file; safe for threads and processes.

    Args:
        path: the file; made when the first entry is looked for.

    Raises:
        InputError: it is a file of something else.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self._entries: dict[str, Entry] = {}
        self._read = 0
        self._mutex = threading.Lock()
        if self.path.exists():
            self._take_in()
        if self._read and not self._entries:
            self._file.close()
            raise InputError(f"{self.path}: holds something other than replies; choose another file for the cache")

    def get(self, key: str) -> Entry | None:
        """The entry of a key, whichever process has put it there."""
        with self._mutex:
            if key not in self._entries:
                self._take_in()
            return self._entries.get(key)

    def put(self, key: str, entry: Entry) -> None:
        """Add an entry; a kill after this returns does not lose it (a power cut may)."""
        line = json.dumps({"key": key, **entry}).encode() + b"\n"
        with self._mutex, self._locked():
            size = self._file.seek(0, os.SEEK_END)
            if size:
                self._file.seek(size - 1)
                if self._file.read(1) != b"\n":  # somebody was killed in the middle of a line
                    line = b"\n" + line
            self._file.write(line)
            self._file.flush()
            self._entries[key] = entry

    @functools.cached_property
    def _file(self) -> IO[bytes]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return open(self.path, "a+b")  # open as long as the cache is

    def _take_in(self) -> None:
        """Read the complete lines that were added since the last time."""
        if os.fstat(self._file.fileno()).st_size == self._read:
            return
        self._file.seek(self._read)
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            self._read += len(line)
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict) and isinstance(key := entry.pop("key", None), str):
                self._entries[key] = entry

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)

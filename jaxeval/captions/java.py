"""Running Java programs that may be missing, of the wrong version, killed from outside, or never come back.

Under METEOR and SPICE. Whatever goes wrong becomes `Unavailable` with one line of reason, and nothing keeps running.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from jaxeval.captions.score import Unavailable

OLDEST = 8
INSTALL = "install a Java runtime (Debian and Ubuntu: apt-get install default-jre-headless) or name one in JAXEVAL_JAVA"
FLAGS = ("-Duser.language=en", "-Duser.country=US", "-Dfile.encoding=UTF-8", "-Djava.awt.headless=true")
"""Decimal points and UTF-8, whatever the locale of the machine."""
_VERSION_SECONDS = 30


def java_version(java: str) -> int:
    """Major version of a Java, such as 8 or 17.

    Raises:
        Unavailable: there is none, it does not answer, or is older than `OLDEST`.
    """
    try:
        run = subprocess.run(
            [java, "-version"], capture_output=True, timeout=_VERSION_SECONDS, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise Unavailable(f"Java is needed and there is no {java!r}; {INSTALL}") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{java!r} -version gave no answer in {_VERSION_SECONDS} s; {INSTALL}") from None
    except OSError as error:
        raise Unavailable(f"{java!r} cannot be run ({error.strerror}); {INSTALL}") from None
    said = (run.stderr + run.stdout).decode(errors="replace")
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if run.returncode or not found:
        raise Unavailable(f"{java!r} does not say that it is a Java ({_telling_line(said)}); {INSTALL}")
    version = int(found[1])
    if version < OLDEST:
        raise Unavailable(f"{java!r} is Java {version}; Java {OLDEST} or newer is needed; {INSTALL}")
    return version


class JavaProgram:
    """A Java program that is asked line by line, or run to its end; it is stopped when the block is left.

    A watch kills it, with all that it has started, when it stays silent for longer than `patience` seconds. That also
    ends a write that nobody reads.
    """

    def __init__(self, name: str, command: Sequence[str], patience: float):
        """Start it.

        Args:
            name: of the metric, for messages.
            command: the Java and what follows `FLAGS`.
            patience: seconds it may stay silent.

        Raises:
            Unavailable: it cannot be started.
        """
        self._name, self._patience = name, patience
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        self._left, self._silent = threading.Event(), False
        self._deadline = time.monotonic() + patience
        try:
            self._process = subprocess.Popen(
                [command[0], *FLAGS, *command[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                start_new_session=True,
                env=os.environ | {"LC_ALL": "C.UTF-8"},
            )
        except OSError as error:
            self._complaints.close()
            raise Unavailable(f"{command[0]!r} cannot be run ({error.strerror}); {INSTALL}") from None
        self._watch = threading.Thread(target=self._kill_when_silent, daemon=True)
        self._watch.start()

    def ask(self, line: str, answers: int = 1) -> list[str]:
        """Send a line and read as many as it is answered with.

        Raises:
            Unavailable: the program has ended, or was silent for too long.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._deadline = time.monotonic() + self._patience
        lines = []
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.encode(errors="replace") + b"\n")
            self._process.stdin.flush()
            for _ in range(answers):
                lines.append(self._process.stdout.readline())
                self._deadline = time.monotonic() + self._patience
        if len(lines) < answers or not lines[-1].endswith(b"\n"):
            raise self._failure()
        return [answer.decode(errors="replace").strip() for answer in lines]

    def wait(self) -> None:
        """Wait for its end.

        Raises:
            Unavailable: it failed, was killed, or took longer than it may stay silent.
        """
        self._process.communicate()
        if self._process.returncode:
            raise self._failure()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        self._kill()
        self._process.wait()
        self._watch.join()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()  # type: ignore[union-attr]
        self._complaints.close()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _kill_when_silent(self) -> None:
        while not self._left.wait(max(0.0, self._deadline - time.monotonic())):
            if time.monotonic() >= self._deadline:
                self._silent = True
                self._kill()
                return

    def _failure(self) -> Unavailable:
        code = self._process.wait()
        if self._silent:
            return Unavailable(
                f"the Java program of {self._name} was stopped after {self._patience:g} s without an answer; "
                "JAXEVAL_JAVA_PATIENCE allows more"
            )
        how = f"was killed by signal {signal.Signals(-code).name}" if code < 0 else f"ended early with status {code}"
        self._complaints.seek(0)
        said = _telling_line(self._complaints.read().decode(errors="replace"))
        return Unavailable(f"the Java program of {self._name} {how} ({said})")


def jar_classpath(jar: Path) -> list[str]:
    """Files that the manifest of a jar names as needed, relative to its folder.

    Raises:
        Unavailable: it is no jar.
    """
    try:
        with zipfile.ZipFile(jar) as archive:
            manifest = archive.read("META-INF/MANIFEST.MF").decode()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise Unavailable(f"{jar} is no jar ({error})") from None
    unfolded = manifest.replace("\r\n", "\n").replace("\n ", "")  # a long line goes on after a line break and a space
    entry = re.search(r"^Class-Path: (.*)$", unfolded, re.MULTILINE)
    return entry[1].split() if entry else []


def _telling_line(text: str) -> str:
    """The line that says most: the first that names an exception or an error, or else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"Error|Exception", line)]
    return (telling or lines[::-1] or ["it said nothing"])[0][:300]

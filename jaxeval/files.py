"""Files that appear whole or not at all, and rows that survive an interruption.

Everything the project writes goes through here: `atomic_write` for a file made in one go, `whole_folder` for a folder,
`PartialRows` for a long job that adds one row at a time and must go on where it stopped.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, Any

from jaxeval.errors import InputError, RunError

PACKAGES = (
    "jaxeval",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "grain",
    "transformers",
    "numpy",
    "librosa",
)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path` and rename it to `path` once it is written and synced.

    Args:
        path: the file to make or replace; its folder is made if it is missing.
        mode: `"w"` for UTF-8 text or `"wb"` for bytes.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        encoding, newline = (None, None) if "b" in mode else ("utf-8", "")
        with os.fdopen(handle, mode, encoding=encoding, newline=newline) as file:
            yield file
            sync(file)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    sync_folder(path.parent)


@contextlib.contextmanager
def whole_folder(
    path: str | os.PathLike[str], *, leader: bool = True, barrier: Callable[[], None] = lambda: None
) -> Iterator[Path]:
    """Fill a temporary sibling of `path` and rename it to `path` once all that is in it is synced.

    What an interrupted run has left is removed by the next one; a folder that is there already is replaced.

    Args:
        path: the folder to make; of a symbolic link, the folder it names.
        leader: whether this process makes, renames and removes folders, of several that fill one together.
        barrier: waits until all of them have come here.

    Raises:
        InputError: it is the current folder, or holds it.
        RunError: another process is making it.
    """
    path = folder_to_make(path)
    partial, old = path.with_name(f".{path.name}.partial"), path.with_name(f".{path.name}.old")
    with contextlib.ExitStack() as claims:
        if leader:
            claims.enter_context(_claimed(partial))
            if old.exists() and not path.exists():
                old.rename(path)  # the last run was stopped between the two renames below
        barrier()
        yield partial
        barrier()
        if leader:
            _sync_tree(partial)
            shutil.rmtree(old, ignore_errors=True)
            if path.exists():
                path.rename(old)
            partial.rename(path)
            sync_folder(path.parent)
            shutil.rmtree(old, ignore_errors=True)
        barrier()


def folder_to_make(path: str | os.PathLike[str]) -> Path:
    """Where a folder that is made as a whole comes to lie.

    Raises:
        InputError: there it would replace the current folder, or one that holds it.
    """
    target = Path(path).resolve()
    if target == Path.cwd() or target in Path.cwd().parents:
        raise InputError(f"{path}: the current folder cannot be made anew from within; name another")
    return target


def check_replaceable(path: str | os.PathLike[str], names: Collection[str]) -> None:
    """Raise `InputError` unless `path` is free, or a folder of nothing but files of these names.

    For commands that make their whole folder anew: nobody else's files may go with it.
    """
    folder = folder_to_make(path)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{path}: a folder is needed here, this is a file")
    others = sorted(found.name for found in folder.iterdir() if found.name not in names) if folder.is_dir() else []
    if others:
        raise InputError(f"{path}: holds {others[0]!r}, which is no result of this command; choose another folder")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write `value` as indented JSON, whole or not at all."""
    with atomic_write(path) as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a file that holds one JSON object; `InputError` names the file and what is wrong."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not JSON ({error})") from None
    return parse_object(text, str(path))


def parse_object(text: str, place: str) -> dict[str, Any]:
    """Read one JSON object as people and programs write it.

    Args:
        text: the JSON.
        place: where it comes from, for the message.

    Raises:
        InputError: it is no JSON, no object, or holds text that no file could hold again.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        raise InputError(f"{place}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f"{place}: expected a JSON object, found {type(value).__name__}")
    if "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InputError(f"{place}: half of a surrogate pair, which is no text") from None
    return value


class PartialRows:
    """A JSON Lines file in the making: `OUT.partial` grows row by row and becomes `OUT` when finished.

    The first line of the partial file holds the settings of the run. Opening it again with the same settings
    keeps the rows that are complete (a row cut by a crash is dropped); with other settings it is refused, and so it is
    while another process has it open.

    Attributes:
        rows: the rows found from an earlier, interrupted run.
    """

    def __init__(self, path: str | os.PathLike[str], settings: dict[str, Any]):
        self.path = Path(path)
        self.partial = self.path.with_name(self.path.name + ".partial")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        header = json.dumps({"settings": settings}, ensure_ascii=False, sort_keys=True)
        self.rows: list[dict[str, Any]] = []
        self._file = open(self.partial, "a+b")  # noqa: SIM115 - closed in finish and close
        try:
            _lock(self._file)
            good = self._read(json.loads(header))
        except BaseException:
            self._file.close()
            raise
        self._file.truncate(good)
        if not good:
            self._write_line(header)

    def append(self, row: dict[str, Any]) -> None:
        """Add one row; it is on its way to the disk when this returns."""
        self._write_line(json.dumps(row, ensure_ascii=False))

    def finish(self, order: list[str] | None = None) -> None:
        """Turn the partial file into the final one, dropping the header.

        Args:
            order: ids in the order the rows shall have; default as they were appended.
        """
        sync(self._file)
        with open(self.partial, encoding="utf-8") as source, atomic_write(self.path) as target:
            next(source)
            if order is None:
                for line in source:
                    target.write(line)
            else:
                by_id = {json.loads(line)["id"]: line for line in source}
                target.writelines(by_id[key] for key in order)
        self.partial.unlink()
        self._file.close()

    def close(self) -> None:
        """Leave the partial file for a later run."""
        self._file.close()

    def _read(self, header: dict[str, Any]) -> int:
        """Take in the complete rows of an earlier run; returns the bytes they take, header included."""
        good = 0
        self._file.seek(0)
        for number, line in enumerate(self._file):
            if not line.endswith(b"\n"):
                break
            try:
                row = json.loads(line)
            except ValueError:
                raise InputError(f"{self.partial}:{number + 1}: not JSON; delete the file to start again") from None
            if number == 0:
                self._check_settings(row, header)
            else:
                self.rows.append(row)
            good += len(line)
        return good

    def _write_line(self, line: str) -> None:
        self._file.write(line.encode() + b"\n")
        self._file.flush()

    def _check_settings(self, found: dict[str, Any], wanted: dict[str, Any]) -> None:
        old, new = found.get("settings", {}), wanted["settings"]
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                raise InputError(
                    f"{self.partial}: an interrupted run used {key}={old.get(key)!r}, this one {new.get(key)!r}; "
                    "repeat it with the old settings, delete the file, or choose another output"
                )


@contextlib.contextmanager
def locked_folder(path: str | os.PathLike[str]) -> Iterator[None]:
    """Make `path` and keep other processes that ask for it out until the block ends.

    Raises:
        RunError: another process is in it.
    """
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "ab") as file:
        _lock(file)
        yield


def folder_hash(path: str | os.PathLike[str]) -> str:
    """SHA-256 over the names and contents of all files below a folder."""
    folder = Path(path)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    lines = [f"{file.relative_to(folder).as_posix()} {file_hash(file)}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def environment() -> dict[str, Any]:
    """Versions, devices and commit a result was made with: the content of `environment.json`.

    Devices are listed only where jax is already in use, so that light commands stay light.
    """
    versions = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    devices: list[str] = []
    if "jax" in sys.modules:
        import jax

        devices = [f"{device.platform}:{device.device_kind}" for device in jax.devices()]
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": versions,
        "devices": devices,
        "commit": _commit(),
    }


def sync(file: IO[Any]) -> None:
    """Flush a file to the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename inside `folder` last through a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_tree(folder: Path) -> None:
    for root, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(root, name), "rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(root))


@contextlib.contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Make an empty folder that other processes keep out of until the block ends, and remove it if the block fails."""
    handle = _locked_handle(folder)
    try:
        for left in folder.iterdir():
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        os.close(handle)


def _locked_handle(folder: Path) -> int:
    """Make a folder and lock it; again, if its owner moved it away between the two."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
        try:
            _lock(handle, folder)
            if os.path.samestat(os.fstat(handle), os.stat(folder)):
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lock(file: IO[Any] | int, name: Path | None = None) -> None:
    """Keep a file to this process; the lock goes with the file or the process, however it ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        named = file.name if name is None else name  # type: ignore[union-attr]
        raise RunError(f"{named}: another process is writing here") from None
    except OSError:  # a file system without locks
        return


def file_hash(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _commit() -> str | None:
    here = Path(__file__).resolve().parent
    try:
        run = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() or None

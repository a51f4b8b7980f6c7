"""The errors a person may meet, and the exit codes they become.

Every command line of the project (`python -m jaxeval …`, `train.lora`, `tools.convert_weights`) runs its
`main` through `exit_code`, so that one rule holds everywhere: wrong input is one line and code 2, a run
that failed is one line and code 1, an interruption is code 130 and says how to go on. Anything else is a bug of
ours and keeps its traceback.
"""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Callable, Sequence


class InputError(Exception):
    """What the user gave is wrong. The message is one line that names the file and the field.

    Attributes:
        problems: single complaints to list under the message, where one wrong thing seldom comes alone.
    """

    def __init__(self, message: str, problems: Sequence[str] = ()):
        super().__init__(message)
        self.problems = tuple(problems)


class RunError(Exception):
    """The input was fine, but the run could not finish (disk full, NaN loss, out of memory …)."""


def exit_code(main: Callable[[], None]) -> int:
    """Run `main` and turn what it raises into the exit code of design §8: 0 done, 1 failed, 2 wrong input."""
    for name in ("absl", "asyncio"):  # Orbax also logs, with tracebacks, what it raises
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        main()
    except InputError as error:
        print("\n  ".join([f"error: {_one_line(error)}", *error.problems]), file=sys.stderr)
        return 2
    except RunError as error:
        print(f"failed: {_one_line(error)}", file=sys.stderr)
        return 1
    except (FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        print(f"error: {_one_line(error)}", file=sys.stderr)
        return 2
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            print(f"error: {_one_line(error)[:300]}", file=sys.stderr)
            return 2
        if error.filename is None and error.errno is None:
            raise
        print(f"failed: {_one_line(error)}", file=sys.stderr)
        return 1
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        print(f"failed: out of memory ({_one_line(error)[:200]}); use smaller batches or more devices", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    return 0


def is_out_of_memory(error: Exception) -> bool:
    """Whether Python, or XLA on whatever device, has said that there is no memory left."""
    text = str(error)
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())

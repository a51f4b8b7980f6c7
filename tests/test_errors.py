"""What a person meets when something goes wrong: one line, and an exit code that says whose turn it is."""

import pytest

from jaxeval.errors import InputError, RunError, exit_code


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("a.csv: row 1:\n  no path"), 2, "error: a.csv: row 1: no path"),
        (RunError("the disk is full"), 1, "failed: the disk is full"),
        (FileExistsError(17, "File exists", "out"), 2, "error: [Errno 17] File exists: 'out'"),
        (PermissionError(13, "Permission denied", "out"), 2, "error: [Errno 13] Permission denied: 'out'"),
        (OSError(28, "No space left on device", "out"), 1, "failed: [Errno 28] No space left on device: 'out'"),
        (OSError(36, "File name too long", "x"), 2, "error: [Errno 36] File name too long: 'x'"),
        (MemoryError(), 1, "failed: out of memory (); use smaller batches or more devices"),
        (
            RuntimeError("INTERNAL: Out of memory allocating 9 bytes"),
            1,
            "failed: out of memory (INTERNAL: Out of memory allocating 9 bytes); use smaller batches or more devices",
        ),
        (KeyboardInterrupt(), 130, "interrupted; run the same command again to go on"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(error, code, line, capsys):
    def main():
        raise error

    assert exit_code(main) == code
    assert capsys.readouterr().err.strip() == line


def test_a_bug_of_ours_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        exit_code(lambda: print(1 / 0))

"""Several processes share one run, as on a cluster; here two on this machine."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from jaxeval.errors import InputError
from tests.conftest import ROOT
from train.lora import main


def test_two_processes_learn_what_one_with_two_devices_learns(arguments: Callable[..., list[str]], tmp_path: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    settings = ["--mesh", "data=2", "--epochs", "1", "--data.shapes", "1", "--validation.every", "0"]
    together, alone = tmp_path / "together", tmp_path / "alone"
    command = [sys.executable, "-m", "train.lora", *arguments(together, *settings)]
    job = os.environ | {"XLA_FLAGS": "", "JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": "2"}
    processes = [subprocess.Popen(command, cwd=ROOT, env=job | {"JAX_PROCESS_ID": str(index)}) for index in range(2)]
    assert [process.wait(timeout=300) for process in processes] == [0, 0]

    main(arguments(alone, *settings))
    rows, expected = (
        [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()] for run in (together, alone)
    )
    assert len(rows) == len(expected) == 4
    for name in ("loss", "grad_norm", "tokens"):
        np.testing.assert_allclose(rows[-1][name], expected[-1][name], rtol=1e-5)

    with pytest.raises(InputError, match="written by 2 processes, which the data iterator is bound to; this run has 1"):
        main(arguments(together, *settings))

"""What all tests share: eight virtual CPU devices, and the folder of shared test data."""

import os
from pathlib import Path

# Before the first import of jax, which reads them once.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8".strip()

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared test data. A test that asks for it is marked `shared`, and fails where it is missing."""
    folder = Path(os.environ.get("JAXEVAL_SHARED", ROOT.parent / "shared")).resolve()
    if not (folder / "data").is_dir():
        pytest.fail(f"no shared data in {folder}; set JAXEVAL_SHARED, or leave these tests out with -m 'not shared'")
    return folder


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete Hugging Face checkpoint folder of the `tiny` preset, with random weights."""
    from tools.synthetic_checkpoint import make_checkpoint

    texts = ["A dog barks twice while rain falls.", "The sound of a bell is added at the start."]
    return make_checkpoint(tmp_path_factory.mktemp("tiny"), preset="tiny", texts=texts)

"""jaxeval: evaluate audio edits and audio captions in JAX."""

import importlib
import os
from typing import Any

# transformers is here for its tokenizers, which need no PyTorch; its advice to install it would head every command.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

_LAZY = {"load_model": "jaxeval.checkpoint", "generate": "jaxeval.generation"}


def __getattr__(name: str) -> Any:
    """Import what needs jax only when it is asked for, so that light commands stay light."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)

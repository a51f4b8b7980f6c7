"""jaxeval: evaluate audio edits and audio captions in JAX."""

import os

# transformers is here for its tokenizers, which need no PyTorch; its advice to install it would head every command.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

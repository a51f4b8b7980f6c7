"""FENSE's detector of errors: how sure it is that a caption is no proper sentence.

Zhou et al., "Can Audio Captions Be Evaluated with Image Caption Metrics?", ICASSP 2022: a BERT whose first token goes
through one linear map to six logits, five kinds of error and `error`, each of them a yes or no of its own. The
published weights (`echecker_clotho_audiocaps_base`, a bert-base-uncased, and `_tiny`) come as a file of PyTorch;
`python -m tools.convert_fluency` makes a folder of it:

    config.json, tokenizer.json, model.safetensors    the BERT, as Hugging Face has it
    classifier.safetensors                            `weight` [6, hidden] and `bias` [6]
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from safetensors import SafetensorError
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from jaxeval.errors import InputError
from jaxeval.models.bert import Bert, load_bert
from jaxeval.models.layers import project
from jaxeval.models.text_model import TextModel, read_tokenizer

CLASSES = ("add_tail", "repeat_event", "repeat_adv", "remove_conj", "remove_verb", "error")
CLASSIFIER = "classifier.safetensors"
MAX_TOKENS = 64
_PUNCTUATION = re.compile(r"[^\w\s]")


class FluencyDetector:
    """Texts to the probability of an error."""

    def __init__(self, model: ErrorClassifier, tokenizer: Tokenizer):
        max_tokens = min(MAX_TOKENS, model.bert.config.max_positions)
        self._probabilities = TextModel(model, tokenizer, max_tokens)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FluencyDetector:
        """Read a folder as described above.

        Raises:
            InputError: a file is missing or damaged, or does not fit the others.
        """
        folder = Path(path)
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder")
        bert = load_bert(folder)
        weight, bias = _read_classifier(folder / CLASSIFIER, bert.config.hidden_size)
        return cls(ErrorClassifier(bert, weight, bias), read_tokenizer(folder / "tokenizer.json"))

    def error_probability(self, texts: Sequence[str]) -> np.ndarray:
        """[texts] probability of the class `error`; punctuation and case are not looked at, and 64 tokens at most."""
        return self._probabilities([_PUNCTUATION.sub("", text).lower() for text in texts])[:, CLASSES.index("error")]


class ErrorClassifier(nnx.Module):
    """A BERT, and a linear map of its first token."""

    def __init__(self, bert: Bert, weight: np.ndarray, bias: np.ndarray):
        self.bert = bert
        self.weight = nnx.Param(jnp.asarray(weight, jnp.float32))
        self.bias = nnx.Param(jnp.asarray(bias, jnp.float32))

    def __call__(self, tokens: jax.Array, lengths: jax.Array) -> jax.Array:
        """[batch, length] ids and [batch] lengths -> [batch, classes] probabilities."""
        return jax.nn.sigmoid(project(self.bert(tokens, lengths)[:, 0], self.weight[...]) + self.bias[...])


def _read_classifier(file: Path, size: int) -> tuple[np.ndarray, np.ndarray]:
    if not file.exists():
        raise InputError(f"{file}: no such file; python -m tools.convert_fluency makes the folder")
    try:
        tensors = load_file(file)
    except (SafetensorError, ValueError) as error:
        raise InputError(f"{file}: not readable as safetensors ({error})") from None
    expected = {"weight": (len(CLASSES), size), "bias": (len(CLASSES),)}
    for name, shape in expected.items():
        if name not in tensors or tensors[name].shape != shape:
            raise InputError(f"{file}: expected {name} of shape {list(shape)}")
    return tensors["weight"], tensors["bias"]

"""What the metrics beyond plain counting need from outside: Java, jars and model folders, and where they are.

All of it is optional. A metric whose tools are missing is None with its reason, and the others go on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

from jaxeval.errors import InputError

if TYPE_CHECKING:
    from jaxeval.models.fluency import FluencyDetector
    from jaxeval.models.sentence_encoder import SentenceEncoder

VARIABLES = {
    "java": "JAXEVAL_JAVA",
    "meteor": "JAXEVAL_METEOR",
    "spice": "JAXEVAL_SPICE",
    "spice_cache": "JAXEVAL_SPICE_CACHE",
    "encoder": "JAXEVAL_SENTENCE_ENCODER",
    "fluency": "JAXEVAL_FLUENCY",
    "patience": "JAXEVAL_JAVA_PATIENCE",
}
"""Environment variable of each setting."""


@dataclass(frozen=True)
class Tools:
    """Where optional tools are; models are read on first use and kept, so one object serves a whole run.

    Attributes:
        java: the Java to run; a name on the search path or a file.
        meteor: `meteor-1.5.jar`, beside it `data/paraphrase-en.gz`; None for the ones in the package pycocoevalcap.
        spice: folder with `spice-1.0.jar` and `lib/`; see `jaxeval.captions.spice`.
        spice_cache: folder where SPICE keeps parsed captions for later runs; None keeps nothing.
        encoder: folder of a sentence encoder; None for the packaged all-MiniLM-L6-v2. Published FENSE values were
            taken with paraphrase-TinyBERT-L6-v2.
        fluency: folder of FENSE's detector of errors; see `jaxeval.models.fluency`.
        patience: seconds that a Java program may stay silent before it is stopped.
    """

    java: str = "java"
    meteor: str | None = None
    spice: str | None = None
    spice_cache: str | None = None
    encoder: str | None = None
    fluency: str | None = None
    patience: float = 3600.0

    @classmethod
    def from_environment(cls) -> Tools:
        """What the environment variables of `VARIABLES` say; those not set, or empty, leave the default.

        Raises:
            InputError: the patience is no positive number.
        """
        found = {field.name: os.environ.get(VARIABLES[field.name], "").strip() for field in fields(cls)}
        given: dict[str, str] = {name: value for name, value in found.items() if value}
        patience = _seconds(given.pop("patience", "3600"))
        return cls(**given, patience=patience)

    @cached_property
    def sentence_encoder(self) -> SentenceEncoder:
        """The encoder, read on first use; raises `InputError`."""
        from jaxeval.models.sentence_encoder import SentenceEncoder  # brings jax along, which counting does without

        return SentenceEncoder.load(self.encoder)

    @cached_property
    def fluency_detector(self) -> FluencyDetector:
        """The detector in `fluency`, read on first use; raises `InputError`."""
        from jaxeval.models.fluency import FluencyDetector

        assert self.fluency is not None
        return FluencyDetector.load(self.fluency)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InputError(f"{VARIABLES['patience']} is {text!r}, expected a number of seconds above 0")
    return seconds

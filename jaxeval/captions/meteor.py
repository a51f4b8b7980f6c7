"""METEOR of captions, by its authors' program: METEOR 1.5 with the settings of the captioning field.

Denkowski and Lavie, "Meteor Universal: Language Specific Translation Evaluation for Any Target Language", WMT 2014. The
score rests on a table of paraphrases, a stemmer and WordNet, and on how the program breaks ties between alignments; no
other implementation gives its numbers (NLTK's METEOR is another metric). So it needs Java, and the jar and table that
the package pycocoevalcap carries (104 MB): `pip install --no-deps pycocoevalcap`.

The corpus value is METEOR's system score, from statistics added over the items; it is not the mean of the items. A
candidate without tokens gets 0.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxeval.captions.java import JavaProgram, java_version
from jaxeval.captions.score import Score, Unavailable
from jaxeval.captions.tools import Tools

PACKAGE = "pycocoevalcap"
INSTALL = f"pip install --no-deps {PACKAGE}, or name meteor-1.5.jar in JAXEVAL_METEOR"
TABLE = Path("data") / "paraphrase-en.gz"


def check_meteor(tools: Tools) -> None:
    """Raise `Unavailable` if Java, the jar or its table is missing."""
    java_version(tools.java)
    _jar(tools)


def meteor(candidates: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]], tools: Tools) -> Score:
    """METEOR of each item, and the system score.

    Args:
        candidates: tokens of one caption an item.
        references: tokens of one or more captions an item.
        tools: where Java and the jar are.

    Raises:
        Unavailable: something is missing, or the program failed.
    """
    check_meteor(tools)
    command = [tools.java, "-Xmx2G", "-jar", str(_jar(tools)), "-", "-", "-stdio", "-l", "en", "-norm"]
    with JavaProgram("METEOR", command, tools.patience) as program:
        statistics = []
        for candidate, texts in zip(candidates, references, strict=True):
            parts = (" ".join(tokens).replace("|||", "") for tokens in (*texts, candidate))
            statistics += program.ask(" ||| ".join(("SCORE", *parts)))
        answers = program.ask(" ||| ".join(("EVAL", *statistics)), len(candidates) + 1)
    values = np.array([_number(answer) for answer in answers])
    return Score(float(values[-1]), values[:-1])


def _jar(tools: Tools) -> Path:
    if tools.meteor is not None:
        jar = Path(tools.meteor).absolute()
    else:
        package = importlib.util.find_spec(PACKAGE)
        if package is None or package.origin is None:
            raise Unavailable(f"METEOR needs meteor-1.5.jar: {INSTALL}")
        jar = Path(package.origin).parent / "meteor" / "meteor-1.5.jar"
    for file in (jar, jar.parent / TABLE):
        if not file.is_file():
            raise Unavailable(f"METEOR needs {file}, which is missing: {INSTALL}")
    return jar


def _number(answer: str) -> float:
    try:
        return float(answer)
    except ValueError:
        raise Unavailable(f"the Java program of METEOR answered {answer[:80]!r} where a number was expected") from None

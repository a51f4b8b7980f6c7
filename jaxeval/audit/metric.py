"""Anybody's metric: a function named on the command line, made one of ours."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jaxeval.cards.reading import card_row
from jaxeval.cards.schema import AudioCard
from jaxeval.cards.scoring import Scores, Wanted
from jaxeval.errors import InputError, RunError
from jaxeval.judges.protocol import Progress, Score, no_progress

CARD = "card"
"""The one column of a metric that scores whole cards."""


class FunctionMetric:
    """A function `f(predictions, references) -> scores`, one number a card, higher being better.

    It is given cards as a file has them: dictionaries of the 15 fields with `id` (and `audio`, `duration`, `system`).
    None or NaN is a card it cannot score.

    Args:
        name: `package.module:function`; the module is looked for in the current folder too.

    Raises:
        InputError: there is no such function.
    """

    columns: tuple[str, ...] = (CARD,)

    def __init__(self, name: str):
        self.name = name
        self._function = _find(name)

    def score(
        self,
        predictions: Sequence[AudioCard],
        references: Sequence[AudioCard],
        wanted: Wanted,
        *,
        progress: Progress = no_progress,
    ) -> Scores:
        """See `CardMetric`; cards of which no field is wanted are not given to the function.

        Raises:
            RunError: the function fails, or gives something else than a number a card.
        """
        asked = [index for index, fields in enumerate(wanted) if fields]
        rows = [[card_row(side[index]) for index in asked] for side in (predictions, references)]
        try:
            found = list(self._function(*rows))
        except (Exception, SystemExit) as error:
            raise RunError(f"{self.name}: {type(error).__name__}: {error}") from error
        if len(found) != len(asked):
            raise RunError(f"{self.name}: gave {len(found)} scores for {len(asked)} cards")
        scores: list[Score | None] = [None] * len(predictions)
        for index, value in zip(asked, found, strict=True):
            scores[index] = self._score(value, predictions[index].id)
        progress(len(asked))
        return {CARD: scores}

    def _score(self, value: Any, card: str) -> Score:
        if value is None:
            return Unbounded(None, "the metric gave none")
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise RunError(f"{self.name}: the score of {card!r} is {value!r}, expected a number") from None
        return Unbounded(None, f"the metric gave {number}") if not math.isfinite(number) else Unbounded(number)


class Unbounded(Score):
    """A score on whatever scale a stranger's metric has."""

    def __post_init__(self):
        """Leave the value as it is."""


def _find(name: str) -> Callable[..., Any]:
    module_name, colon, function_name = name.partition(":")
    if not colon or not module_name or not function_name:
        raise InputError(f"--metric {name}: expected package.module:function")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        function = getattr(importlib.import_module(module_name), function_name, None)
    except ModuleNotFoundError as error:
        raise InputError(f"--metric {name}: {error}") from None
    except (Exception, SystemExit) as error:
        raise InputError(f"--metric {name}: importing {module_name} fails ({type(error).__name__}: {error})") from None
    if not callable(function):
        raise InputError(f"--metric {name}: {module_name} has no function {function_name!r}")
    return function

"""From scored cells to verdicts: which scores belong together, and what the statistics say of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from jaxeval.audit.metric import CARD
from jaxeval.cards.schema import TEXT_FIELDS
from jaxeval.cards.scoring import AcousticMetric, field_of
from jaxeval.perturb import ErrorType, Severity
from jaxeval.perturb.cells import FIELDS_OF
from jaxeval.stats.verdict import Verdict, VerdictConfig, verdict
from jaxeval.tables import Row

STEPS = ("none", *Severity)
"""The unperturbed card and the severities, in order."""
ALL_TEXT = "all text"
"""The column that is the mean over the text fields."""


@dataclass(frozen=True)
class Series:
    """Scores that a verdict is about.

    Attributes:
        metric: its name; column: a field, a part of one, `ALL_TEXT`, or `CARD`.
        scores: by type of error, [step, clip], NaN where a cell is unscored.
        changed: by type of error, [severity, clip]: whether the perturbation changed anything.
    """

    metric: str
    column: str
    scores: dict[str, np.ndarray]
    changed: dict[str, np.ndarray]

    def verdict(self, config: VerdictConfig) -> Verdict:
        """What the statistics say; measured fields have no paraphrase that could be asked for."""
        control = None if self.metric == AcousticMetric.name else config.control
        settings = VerdictConfig(level=config.level, margin=config.margin, control=control, seed=config.seed)
        return verdict(self.scores, settings, changed=self.changed)

    def means(self, type: str) -> tuple[list[float | None], list[tuple[float, float] | None]]:
        """Mean score at each step over the clips that changed and are scored throughout, with 95 % intervals."""
        values = self.scores[type][:, self.changed[type].all(axis=0)]
        values = values[:, np.isfinite(values).all(axis=0)]
        count = values.shape[1]
        if not count:
            return [None] * len(STEPS), [None] * len(STEPS)
        means = values.mean(axis=1)
        half = 1.96 * values.std(axis=1, ddof=1) / math.sqrt(count) if count > 1 else np.full(len(means), np.nan)
        return means.tolist(), [(mean - h, mean + h) for mean, h in zip(means.tolist(), half.tolist(), strict=True)]


def all_series(rows: Sequence[Row], types: Sequence[ErrorType]) -> Iterator[Series]:
    """Everything there is to judge in rows of `audit_cards`: metric by metric, the whole before its parts."""
    metrics = list(dict.fromkeys(name for row in rows for name in row["clean"]))
    for metric in metrics:
        columns = dict.fromkeys(column for row in rows for column in row["clean"].get(metric, {}))
        singles = [_series(rows, metric, column, _types_of(metric, column, types)) for column in columns]
        texts = [one for one in singles if one.column in TEXT_FIELDS]
        if texts:
            yield _mean_over_fields(metric, texts)
        yield from singles


def _types_of(metric: str, column: str, types: Sequence[ErrorType]) -> list[ErrorType]:
    """The types that touch what a column scores."""
    if column == CARD:
        return list(types)
    field = field_of(column) if metric == AcousticMetric.name else column
    return [type for type in types if field in FIELDS_OF[type]]


def _series(rows: Sequence[Row], metric: str, column: str, types: Sequence[ErrorType]) -> Series:
    scores = {type.value: np.full((len(STEPS), len(rows)), np.nan) for type in types}
    changed = {type.value: np.zeros((len(Severity), len(rows)), bool) for type in types}
    step = {severity.value: index for index, severity in enumerate(Severity)}
    field = field_of(column) if metric == AcousticMetric.name else column
    for clip, row in enumerate(rows):
        for values in scores.values():
            values[0, clip] = _number(row["clean"].get(metric, {}).get(column))
        for cell in row["cells"]:
            if cell["type"] in scores:
                at = step[cell["severity"]]
                scores[cell["type"]][at + 1, clip] = _number(cell["scores"].get(metric, {}).get(column))
                changed[cell["type"]][at, clip] = bool(cell["values"]) if column == CARD else field in cell["values"]
    return Series(metric, column, scores, changed)


def _mean_over_fields(metric: str, fields: Sequence[Series]) -> Series:
    """Of each clip and type the mean over those fields that changed and are scored at every severity."""
    scores, changed = {}, {}
    for type in fields[0].scores:
        values = np.stack([one.scores[type] for one in fields])  # [field, step, clip]
        usable = np.stack([one.changed[type].all(axis=0) for one in fields]) & np.isfinite(values).all(axis=1)
        count = usable.sum(axis=0)
        total = np.where(usable[:, None], values, 0).sum(axis=0)
        scores[type] = np.where(count, total / np.maximum(count, 1), np.nan)
        touched = np.stack([one.changed[type].all(axis=0) for one in fields]).any(axis=0)
        changed[type] = np.broadcast_to(touched, (len(Severity), touched.size))
    return Series(metric, ALL_TEXT, scores, changed)


def _number(value: float | None) -> float:
    return math.nan if value is None else value

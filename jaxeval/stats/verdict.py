"""Whether a metric can be trusted, from its scores of controlled perturbations (design §6).

It passes if its scores fall with the severity of every type of error, and stay where the meaning stays. The trend
tests are corrected for their number. The equivalence tests need no correction: all of them must succeed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from jaxeval.stats.equivalence import Equivalence, equivalence
from jaxeval.stats.holm import holm
from jaxeval.stats.paired import PairedDifference, paired_difference
from jaxeval.stats.trend import MonotoneRate, Trend, monotone_rate, page_trend


@dataclass(frozen=True)
class VerdictConfig:
    """What a verdict goes by.

    Attributes:
        level: of the trend tests over all error types together, and of equivalence.
        margin: change of the mean score that a paraphrase may bring, in units of the score.
        control: the type that keeps the meaning; None asks for no control.
        seed: of the bootstrap intervals.
    """

    level: float = 0.05
    margin: float = 0.05
    control: str | None = "paraphrase"
    seed: int = 0


@dataclass(frozen=True)
class ErrorResult:
    """What scores do as one type of error grows.

    Attributes:
        trend: Page's test over the severities. The unperturbed scores stay out: a metric that only tells perfect from
            imperfect would fall with them, but not with severity.
        p_adjusted: its p-value after Holm's correction.
        falls: whether that is at most the level.
        monotone: clips whose scores fall at every step, from the unperturbed on.
        drops: by how much the mean score lies under the unperturbed one, a severity each.
        unchanged: clips left out, since a perturbation changed nothing of them.
    """

    trend: Trend
    p_adjusted: float | None
    falls: bool
    monotone: MonotoneRate
    drops: tuple[PairedDifference, ...]
    unchanged: int


@dataclass(frozen=True)
class ControlResult:
    """What scores do where the meaning stays.

    Attributes:
        severities: test of each severity against the unperturbed scores.
        equivalent: whether all of them are.
        unchanged: cells left out, since the paraphrase is the text it was made from.
    """

    severities: tuple[Equivalence, ...]
    equivalent: bool
    unchanged: int


@dataclass(frozen=True)
class Verdict:
    """Whether a metric passes, and if not, why.

    Attributes:
        passes: no reason speaks against it.
        reasons: a sentence for each type of error that scores do not follow, and for the control.
        errors: results by type of error.
        control: of the paraphrase; None where it was not scored, and then the metric does not pass.
    """

    passes: bool
    reasons: tuple[str, ...]
    errors: dict[str, ErrorResult]
    control: ControlResult | None


def verdict(
    scores: Mapping[str, np.ndarray],
    config: VerdictConfig,
    *,
    changed: Mapping[str, np.ndarray] | None = None,
) -> Verdict:
    """Judge a metric by its scores, higher being better.

    Args:
        scores: by type of perturbation, [severity, clip]: first the unperturbed scores, then those of growing severity;
            NaN where a cell is unscored.
        config: levels and margin.
        changed: by type, [severity, clip] without the unperturbed: whether the perturbation changed anything. What
            changed nothing is counted and left out; a type that is not named changed everything.

    Raises:
        ValueError: a type has no severity, or `changed` does not fit its scores.
    """
    masks = {name: _changed(name, values, changed) for name, values in scores.items()}
    types = [name for name in scores if name != config.control]
    kept = {name: np.asarray(scores[name], np.float64)[:, masks[name].all(axis=0)] for name in types}
    trends = {name: page_trend(kept[name][1:]) for name in types}
    adjusted = holm([trends[name].p_value for name in types])
    errors = {}
    for name, p_adjusted in zip(types, adjusted, strict=True):
        errors[name] = ErrorResult(
            trend=trends[name],
            p_adjusted=p_adjusted,
            falls=p_adjusted is not None and p_adjusted <= config.level,
            monotone=monotone_rate(kept[name]),
            drops=tuple(paired_difference(kept[name][0], row, seed=config.seed) for row in kept[name][1:]),
            unchanged=int((~masks[name].all(axis=0)).sum()),
        )
    control = None
    if config.control is not None and config.control in scores:
        control = _control(scores[config.control], masks[config.control], config)
    reasons = (*_error_reasons(errors), *_control_reasons(control, config))
    return Verdict(not reasons, reasons, errors, control)


def _changed(name: str, scores: np.ndarray, changed: Mapping[str, np.ndarray] | None) -> np.ndarray:
    """Mask [severity, clip] of what is to be counted."""
    severities, clips = np.shape(scores)
    if severities < 2:
        raise ValueError(f"{name}: no severity beside the unperturbed scores")
    if changed is None or name not in changed:
        return np.ones((severities - 1, clips), bool)
    mask = np.asarray(changed[name], bool)
    if mask.shape != (severities - 1, clips):
        raise ValueError(f"{name}: changed has shape {mask.shape}, expected {(severities - 1, clips)}")
    return mask


def _control(scores: np.ndarray, changed: np.ndarray, config: VerdictConfig) -> ControlResult:
    tests = tuple(
        equivalence(row[mask], scores[0][mask], margin=config.margin, level=config.level)
        for row, mask in zip(scores[1:], changed, strict=True)
    )
    return ControlResult(tests, all(test.equivalent for test in tests), int((~changed).sum()))


def _error_reasons(errors: Mapping[str, ErrorResult]) -> list[str]:
    reasons = [] if errors else ["no type of error was scored"]
    for name, result in errors.items():
        if result.trend.undefined:
            reasons.append(f"{name}: undefined, {result.trend.undefined}")
        elif not result.falls:
            reasons.append(f"{name}: scores do not fall with severity (p = {result.p_adjusted:.2g} after Holm)")
    return reasons


def _control_reasons(control: ControlResult | None, config: VerdictConfig) -> list[str]:
    if config.control is None:
        return []
    if control is None:
        return [f"{config.control}: not scored"]
    reasons = []
    for number, test in enumerate(control.severities, 1):
        place = f"{config.control}, severity {number} of {len(control.severities)}"
        if test.undefined:
            reasons.append(f"{place}: undefined, {test.undefined}")
        elif not test.equivalent:
            reasons.append(
                f"{place}: not shown to stay within {test.margin:g} (change {test.mean:+.3f}, "
                f"{1 - 2 * config.level:.0%} interval {test.low:+.3f} to {test.high:+.3f})"
            )
    return reasons

"""Statistics of scores: correlation, bootstrap, agreement, trends, equivalence, and verdicts. No model code, no jax."""

from jaxeval.stats.agreement import Agreement, agreement_of, agreement_table, cohen_kappa
from jaxeval.stats.bootstrap import (
    Comparison,
    Interval,
    bootstrap_interval,
    bootstrap_intervals,
    compare,
    rater_intervals,
)
from jaxeval.stats.correlation import Correlation, correlation, ktau, lcc, srcc
from jaxeval.stats.weighted import COEFFICIENTS

__all__ = [
    "COEFFICIENTS",
    "Agreement",
    "Comparison",
    "Correlation",
    "Interval",
    "agreement_of",
    "agreement_table",
    "bootstrap_interval",
    "bootstrap_intervals",
    "cohen_kappa",
    "compare",
    "correlation",
    "ktau",
    "lcc",
    "rater_intervals",
    "srcc",
]

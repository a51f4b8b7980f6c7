"""Perturbations of cards: error types × severities, the same for the same cell whatever else is in the run."""

from jaxeval.perturb.cells import Cell, Edit, Effect, ErrorType, Outcome, Severity, Skip, TextPerturber
from jaxeval.perturb.llm import Chat, LanguageModel
from jaxeval.perturb.matrix import perturb, perturb_matrix
from jaxeval.perturb.rules import RuleBased

__all__ = [
    "Cell",
    "Chat",
    "Edit",
    "Effect",
    "ErrorType",
    "LanguageModel",
    "Outcome",
    "RuleBased",
    "Severity",
    "Skip",
    "TextPerturber",
    "perturb",
    "perturb_matrix",
]

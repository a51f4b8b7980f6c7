"""Evaluating edits: describing what changed, and scoring it. Importing this loads NumPy alone."""

from jaxeval.edits.scores import edit_score, faith_score

__all__ = ["edit_score", "faith_score"]

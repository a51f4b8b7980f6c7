"""Judges of text fields behind one protocol: an LLM over HTTP, the embedded one, and the baselines."""

from jaxeval.judges.protocol import Item, Judge, Score, Usage
from jaxeval.judges.registry import BASELINES, DEFAULT_JUDGE, JudgeSettings, make_judge

__all__ = ["BASELINES", "DEFAULT_JUDGE", "Item", "Judge", "JudgeSettings", "Score", "Usage", "make_judge"]

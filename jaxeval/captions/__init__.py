"""Captions against references: the metrics of audio captioning behind one function."""

from jaxeval.captions.metrics import METRICS, CaptionScores, available, caption_metrics, score_captions
from jaxeval.captions.tools import Tools

__all__ = ["METRICS", "CaptionScores", "Tools", "available", "caption_metrics", "score_captions"]

"""Captions against references: BLEU and ROUGE-L behind one function."""

from jaxeval.captions.metrics import METRICS, caption_metrics

__all__ = ["METRICS", "caption_metrics"]

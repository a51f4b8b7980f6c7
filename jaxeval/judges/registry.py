"""Judges by name, or by the address of an endpoint: what `--judge` and the settings of a run stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from jaxeval.errors import InputError
from jaxeval.judges.baselines import CAPTION_BASELINES, CaptionBaseline, SoftF1
from jaxeval.judges.embedded import EmbeddedJudge
from jaxeval.judges.http_chat import HttpChat, HttpSettings
from jaxeval.judges.llm import LLMJudge
from jaxeval.judges.matching import Matching
from jaxeval.judges.protocol import Judge

if TYPE_CHECKING:
    from jaxeval.models.sentence_encoder import SentenceEncoder


@dataclass(frozen=True)
class JudgeSettings:
    """What judges are made with; each takes its part.

    Attributes:
        http: how the model behind an address is asked.
        prompts: file of prompt templates; None for the packaged one.
        orders: see `LLMJudge`.
        encoder: folder of a sentence encoder; None for the packaged MiniLM.
        matching: of tags in `soft_f1`.
    """

    http: HttpSettings | None = None
    prompts: str | None = None
    orders: int = 1
    encoder: str | None = None
    matching: Matching = "greedy"


_JUDGES: dict[str, Callable[[JudgeSettings], Judge]] = {
    "embedded": lambda settings: EmbeddedJudge(_encoder(settings)),
    "soft_f1": lambda settings: SoftF1(_encoder(settings), matching=settings.matching),
    **{name: partial(lambda name, settings: CaptionBaseline(name), name) for name in CAPTION_BASELINES},
}
DEFAULT_JUDGE = "embedded"
BASELINES = tuple(name for name in _JUDGES if name != DEFAULT_JUDGE)
"""What a judge is compared with."""


def make_judge(name_or_url: str = DEFAULT_JUDGE, settings: JudgeSettings | None = None) -> Judge:
    """Make a judge.

    Args:
        name_or_url: `embedded`, one of `BASELINES`, or the address of an OpenAI-compatible endpoint.
        settings: what it is made with.

    Raises:
        InputError: there is no such judge, or its settings are wrong or incomplete.
    """
    settings = settings or JudgeSettings()
    if name_or_url in _JUDGES:
        return _JUDGES[name_or_url](settings)
    if "://" not in name_or_url:
        raise InputError(
            f"unknown judge {name_or_url!r}; use {', '.join(_JUDGES)}, or an address such as http://host:8000"
        )
    if settings.http is None:
        raise InputError("a judge behind an address needs settings.http with the name of its model")
    return LLMJudge(HttpChat(name_or_url, settings.http), prompts=settings.prompts, orders=settings.orders)


def _encoder(settings: JudgeSettings) -> SentenceEncoder:
    from jaxeval.models.sentence_encoder import SentenceEncoder  # brings jax along, which the other judges do without

    return SentenceEncoder.load(settings.encoder)

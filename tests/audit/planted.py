"""Metrics whose faults are known, for audits to find; `truth` has none."""

from functools import lru_cache

from jaxeval.captions import caption_metrics
from jaxeval.cards import parse_card
from jaxeval.cards.reading import card_row
from jaxeval.perturb import ErrorType, Severity, perturb

GRADE = dict(zip(Severity, (0.8, 0.5, 0.2), strict=True))


def constant(predictions, references):
    return [0.5] * len(predictions)


def length_only(predictions, references):
    return [len(row["descriptive_caption"]) / 100 for row in predictions]


def bleu_1(predictions, references):
    captions = [[row["descriptive_caption"] for row in side] for side in (predictions, references)]
    _, items = caption_metrics(captions[0], [[text] for text in captions[1]], ["bleu_1"])
    return [item["bleu_1"] for item in items]


def hallucination_rewarded(predictions, references):
    """The truth, but a card that says more than it should is liked the better."""
    found = truth(predictions, references)
    return [
        1 - score if cell_of(prediction, reference)[0] is ErrorType.HALLUCINATION else score
        for prediction, reference, score in zip(predictions, references, found, strict=True)
    ]


def blind_to_numbers(predictions, references):
    """The truth of texts; whatever is measured might be anything."""
    text = ("paraphrase", "acoustic", "attribute", "hallucination", None)
    found = truth(predictions, references)
    return [
        score if cell_of(prediction, reference)[0] in text else 1.0
        for prediction, reference, score in zip(predictions, references, found, strict=True)
    ]


def truth(predictions, references):
    """Knows every perturbation, and so what became of the card."""
    scores = []
    for prediction, reference in zip(predictions, references, strict=True):
        type, severity = cell_of(prediction, reference)
        scores.append(1.0 if type in (None, ErrorType.PARAPHRASE) else GRADE[severity])
    return scores


def fails(predictions, references):
    raise KeyError("nouns")


def leaves(predictions, references):
    raise SystemExit(0)


def too_few(predictions, references):
    return [1.0]


def cell_of(prediction, reference):
    """Type and severity of the perturbation that made `prediction` of `reference`."""
    return _cells(repr(reference)).get(repr(prediction), (None, None))


@lru_cache(maxsize=1000)
def _cells(reference):
    card = parse_card(eval(reference), strict=True)
    cells = {}
    for type in ErrorType:
        for severity in reversed(Severity):  # of equal cells the least severe one counts
            cells[repr(card_row(perturb(card, type, severity, seed=0).card))] = (type, severity)
    return cells

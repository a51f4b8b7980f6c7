"""Audio cards: their schema, and reading and writing them."""

from jaxeval.cards.reading import card_row, coverage, join_cards, parse_card, read_cards, write_cards
from jaxeval.cards.schema import FIELDS, AudioCard, Status

__all__ = [
    "FIELDS",
    "AudioCard",
    "Status",
    "card_row",
    "coverage",
    "join_cards",
    "parse_card",
    "read_cards",
    "write_cards",
]

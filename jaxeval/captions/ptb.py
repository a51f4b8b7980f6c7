"""Captions to tokens, as the caption metrics of the literature were computed on.

First step of every token-based metric. BLEU, METEOR, ROUGE-L and CIDEr of published tables were taken after
Stanford's PTBTokenizer (CoreNLP 3.4.1, `-preserveLines -lowerCase`) with a list of punctuation tokens removed, the
way pycocoevalcap runs it. `ptb_tokenize` gives those tokens without Java. It follows the behaviour of that tokenizer
on English captions; since quotes, dashes and full stops are dropped afterwards, only the borders between the
remaining tokens need to agree.

Three habits of the original are kept because they are part of every published number: brackets come out as `-lrb-`
and the like (lower case escapes the removal list), repeated marks such as `!!` stay as tokens, and a single letter
keeps its full stop. Characters outside the Basic Multilingual Plane (most emoji) vanish, as they do there.
"""

from __future__ import annotations

import re

REMOVED = frozenset(
    ("''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";")
)
"""The removal list of the caption metrics, verbatim; the upper-case names never occur after lower-casing."""

# Titles, companies, months, states: a full stop after one of these belongs to it.
_ABBREVIATION = (
    "adm|al|ala|apr|ariz|assn|atty|aug|ave|blvd|bros|calif|capt|cf|cmdr|co|col|colo|conn|corp|cpl|ct|dec|dept|dr|esq|est|"
    "etc|ext|feb|fla|fri|ft|ga|gen|gov|hon|inc|ind|insp|intl|jan|jr|jul|jun|ky|lt|ltd|maj|mar|md|messrs|mich|minn|mlle|"
    "mme|mo|mon|mr|mrs|ms|mt|natl|neb|nev|nov|oct|okla|ph|plc|pres|prof|rd|rep|rev|sen|sep|sept|sgt|sq|sr|st|supt|tel|"
    "tenn|thu|thurs|tue|tues|univ|va|vs|wed|wis|wyo"
)
_ABBREVIATION_BEFORE_NUMBER = "art|ca|fig|figs|no|nos|op|p|pp"

_MARKS = (
    "\u0300-\u036f\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0981-\u0983\u09bc-\u09cd"
    "\u0e31\u0e34-\u0e4e"
)
_A = rf"(?:[^\W_]|[{_MARKS}])"  # a letter, a digit, or a mark that sits on one
_NOT_IN_WORD = rf"(?!{_A})"
_END = r"(?![\w/\-])"
_APOSTROPHE = "['\u2019]"
_HYPHEN = "[-\u2010\u2011]"

# Tried in this order at each place; what nothing matches (white space) is skipped.
_TOKEN = re.compile(
    "|".join(
        (
            r"</?[A-Za-z][^\s<>]*>",  # a tag
            r"(?:https?://|www\.)[^\s\"<>|()]*[^\s\"<>|().,;:!?{}\-]",
            r"[\w.+\-]+@\w[\w\-]*(?:\.\w[\w\-]*)*",  # a mail address
            r"[#@][A-Za-z]\w*",
            r"&(?:amp|lt|gt|quot|apos);",
            r"(?<!\w)[:;=][\-']?[()]|(?<!\w)[:;=]-?[DPdp]\b",  # a smiley
            # Words written as one that count as two: can|not, gon|na, 't|is.
            rf"(?i:can(?=not{_END})|(?:gon|wan)(?=na{_END})|got(?=ta{_END})|(?:gim|lem)(?=me{_END}))",
            rf"(?i:{_APOSTROPHE}t(?=(?:is|was)\b))",
            # Contractions: do|n't, dog|'s.
            rf"{_A}+?(?=(?i:n{_APOSTROPHE}t){_NOT_IN_WORD})",
            rf"(?i:n{_APOSTROPHE}t){_NOT_IN_WORD}",
            rf"(?i:{_APOSTROPHE}(?:s|d|m|ll|ve|re)){_NOT_IN_WORD}",
            rf"(?i:{_APOSTROPHE}n{_APOSTROPHE})|(?i:{_APOSTROPHE}(?:n|em|cause|til)){_NOT_IN_WORD}|{_APOSTROPHE}\d0s{_NOT_IN_WORD}",
            rf"(?i:ma{_APOSTROPHE}ams?|e{_APOSTROPHE}er|o{_APOSTROPHE}clock|ne{_APOSTROPHE}er|cap{_APOSTROPHE}n|li{_APOSTROPHE}l){_NOT_IN_WORD}",
            rf"(?i:ol{_APOSTROPHE}){_NOT_IN_WORD}|(?i:[dlo]{_APOSTROPHE}){_A}{{2,}}|(?i:y{_APOSTROPHE})(?={_A})",
            # Abbreviations keep their full stop.
            rf"(?i:(?:{_ABBREVIATION})\.)(?![A-Za-z])",
            rf"(?i:(?:{_ABBREVIATION_BEFORE_NUMBER})\.)(?=\s*\d)",
            r"[A-Za-z](?:\.[A-Za-z])*\.(?![A-Za-z])",
            # Numbers: 1,000.5, 10:30, .5, -5, 3.5-second.
            rf"[+\-]?\d*(?:[.,:]\d+)+(?:{_HYPHEN}{_A}+)*|[+\-]\d+",
            # Words: a missing space after a full stop leaves one token; hyphen and slash join.
            r"[A-Z]+(?:&[A-Z]+)+\b|[Cc](?:\+\+|\#)|[A-Z]{1,2}\$",
            rf"[A-Za-z]{_A}*(?:[.!?][A-Za-z]{_A}*)+(?:-{_A}+)*",
            rf"{_A}+(?:(?:{_HYPHEN}|[/_]){_A}+)*",
            r"[?!]+|-{2,}|\.\.\.|\*+|_+",
            r"\S",
        )
    )
)

_WRITTEN = (
    {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
    | {"\u00a2": "cents", "\u00a3": "#", "\u20ac": "$", "\u00bd": "1/2", "\u00bc": "1/4", "\u00be": "3/4"}
    | {"&amp;": "&", "&lt;": "<", "&gt;": ">", "\u2026": "..."}
    | dict.fromkeys(('"', "&quot;", "&apos;", *"\u2018\u2019\u201c\u201d\u00ab\u00bb\u2039\u203a"), "'")
    | dict.fromkeys("\u2013\u2014\u2015", "--")
)
_UNSEEN = re.compile(r"[\u200b\ufe0f\ufeff\U00010000-\U0010ffff]")
_BRACKET = re.compile(r"[()]")
_DASHES = re.compile(r"-{2,}")


def ptb_tokenize(caption: str) -> list[str]:
    """Tokens of one caption: lower case, Penn Treebank borders, the punctuation of `REMOVED` left out.

    Args:
        caption: any text; newlines count as spaces. An empty caption, or one of punctuation only, has no tokens.

    Source: behaviour of Stanford's PTBTokenizer as run by pycocoevalcap 1.2.
    """
    text = _UNSEEN.sub(" ", caption.replace("\u00ad", ""))
    return [token for token in map(_write, _TOKEN.findall(text)) if token not in REMOVED]


def _write(token: str) -> str:
    """A matched piece of text as the tokenizer writes it."""
    if token in _WRITTEN:
        return _WRITTEN[token]
    if _DASHES.fullmatch(token):
        return "--"
    return _BRACKET.sub(lambda bracket: _WRITTEN[bracket[0]], token.replace("\u2019", "'")).lower()

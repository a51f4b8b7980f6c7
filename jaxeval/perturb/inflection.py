"""Forms of English nouns and verbs, as far as captions use them: plural; third person, -ing and past forms.

Rules with tables of exceptions, from a base form to the others; the lexicon turns them round by inflecting all it
holds.
"""

from __future__ import annotations

import re

PLURALS = {
    "man": "men",
    "woman": "women",
    "gentleman": "gentlemen",
    "person": "people",
    "child": "children",
    "foot": "feet",
    "goose": "geese",
    "mouse": "mice",
    "ox": "oxen",
    "calf": "calves",
    "wolf": "wolves",
    "leaf": "leaves",
    "knife": "knives",
    "sheep": "sheep",
    "bison": "bison",
    "deer": "deer",
    "aircraft": "aircraft",
    "echo": "echoes",
    "tornado": "tornadoes",
    "volcano": "volcanoes",
    "buffalo": "buffaloes",
}
PASTS = {
    "beat": ("beat", "beaten"),
    "begin": ("began", "begun"),
    "blow": ("blew", "blown"),
    "break": ("broke", "broken"),
    "burst": ("burst", "burst"),
    "cut": ("cut", "cut"),
    "dig": ("dug", "dug"),
    "drive": ("drove", "driven"),
    "fall": ("fell", "fallen"),
    "fly": ("flew", "flown"),
    "go": ("went", "gone"),
    "grind": ("ground", "ground"),
    "hit": ("hit", "hit"),
    "leave": ("left", "left"),
    "ring": ("rang", "rung"),
    "run": ("ran", "run"),
    "say": ("said", "said"),
    "shake": ("shook", "shaken"),
    "shoot": ("shot", "shot"),
    "shut": ("shut", "shut"),
    "sing": ("sang", "sung"),
    "slide": ("slid", "slid"),
    "speak": ("spoke", "spoken"),
    "speed": ("sped", "sped"),
    "spin": ("spun", "spun"),
    "strike": ("struck", "struck"),
    "tear": ("tore", "torn"),
    "tread": ("trod", "trodden"),
    "weep": ("wept", "wept"),
    "wind": ("wound", "wound"),
}
VERB_FORMS = ("base", "s", "ing", "past", "participle")
_AN = re.compile(r"(?!uni|use|usu|uti|uku|eu|one\b)[aeiou]|hour|honest|unin|unim", re.IGNORECASE)
_LONG_S = ("s", "sh", "ch", "x", "z", "o")


def plural(noun: str) -> str:
    """Plural of a noun; of several words, the last one changes."""
    head, gap, last = noun.rpartition(" ")
    if last in PLURALS:
        return head + gap + PLURALS[last]
    if last.endswith(("piano", "radio", "cello", "banjo", "bongo", "photo", "servo")):
        return noun + "s"
    return _with_s(noun)


def verb_form(verb: str, form: str) -> str:
    """A form of a verb out of `VERB_FORMS`; of several words, the first one changes."""
    first, gap, rest = verb.partition(" ")
    return _form(first, form) + gap + rest


def article(word: str) -> str:
    """The indefinite article before a word."""
    return "an" if _AN.match(word) else "a"


def _form(verb: str, form: str) -> str:
    if form == "base":
        return verb
    if form == "s":
        return _with_s(verb)
    if form == "ing":
        if verb.endswith("ie"):
            return verb[:-2] + "ying"
        silent = verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")) and len(verb) > 2
        return (verb[:-1] if silent else _doubled(verb)) + "ing"
    if verb in PASTS:
        return PASTS[verb][form == "participle"]
    if verb.endswith("e"):
        return verb + "d"
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return _doubled(verb) + "ed"


def _with_s(word: str) -> str:
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    if re.search(r"[^z]z$|[^aeiou]iz$", word) and len(word) < 5 and not word.endswith("zz"):
        return word + "zes"  # whiz, whizzes
    return word + ("es" if word.endswith(_LONG_S) and not word.endswith("oo") else "s")


def _doubled(verb: str) -> str:
    """The verb with its last consonant doubled where a short stressed vowel asks for it: hum, humming."""
    syllable = re.fullmatch(r"[^aeiou]*(?:qu)?[aeiouy][bdgklmnprtvz]", verb)
    return verb + verb[-1] if syllable or verb in ("begin", "whir") else verb

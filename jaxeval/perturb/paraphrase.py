"""The control of the matrix: the same meaning in other words.

Rewordings, in this order: synonyms of nouns, verbs, attributes and phrases; an action that goes on instead of happening
("barks", "is barking"); two properties, the parts of a text or the tags of a list in another order. What can be put in
no other words gets a frame around it ("What happens is that …"). Which synonym, is drawn for the card and does not
depend on the severity.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from jaxeval.cards.schema import FIELDS, Kind
from jaxeval.perturb.cells import Edit
from jaxeval.perturb.draws import pick, shuffled
from jaxeval.perturb.inflection import article, plural, verb_form
from jaxeval.perturb.lexicon import Lexicon, Mention
from jaxeval.perturb.scene import Item, Part, Scene, item_count
from jaxeval.perturb.wording import Change, Wording, capitalised, count_words, split_closing, uncapitalised

Reword = Callable[[str], str]
_PROGRESSIVE = {"is": "s", "are": "base"}
_PLACE = r"(?:in|on|at) (?:a|an|the) (?:[\w'-]+ ){0,2}?([\w'-]+)"
_PLACE_FIRST = re.compile(rf"({_PLACE}),? ((?:a|an|the|two|some|someone|four) .+)", re.IGNORECASE)
_PLACE_LAST = re.compile(rf"(.+) ({_PLACE})", re.IGNORECASE)
_PAIR = re.compile(r"\b([a-z]+)( and |, )([a-z]+)(?=( [a-z]+)?)")


def paraphrase(scene: Scene, field: str) -> Edit:
    """Say a field in other words."""
    texts = [part.text for part in scene.parts[field]]
    items = [*_synonyms(scene, field), *_aspects(scene, field)]
    rewordings: list[Callable[[list[str]], list[str]]] = [lambda texts: texts[_start(scene, texts) :] + texts[: _start(scene, texts)]]
    if FIELDS[field].kind is not Kind.TAGS:
        rewordings = [
            lambda texts: [_with_pairs_exchanged(scene.lexicon, texts[0])],
            lambda texts: [_with_place_moved(scene.lexicon, texts[0])],
            lambda texts: [_with_halves_exchanged(scene.lexicon, texts[0])],
        ]
    rewordings = [reword for reword in rewordings if reword(texts) != texts]
    if not items and not rewordings and field in scene.lexicon.frames and texts[0]:
        return Edit(_framed(scene, field, texts[0]))
    count = item_count(len(items) + len(rewordings), scene.severity)
    texts = scene.changed(field, items[:count])
    for reword in rewordings[: max(0, count - len(items))]:
        texts = reword(texts)
    return Edit(scene.joined(field, texts))


def _synonyms(scene: Scene, field: str) -> list[Item]:
    """An item for each word or phrase that has a synonym."""
    items: dict[str, Item] = {}
    room = 0 if FIELDS[field].words is None else FIELDS[field].words - count_words(scene.parts[field][0].text)
    for number, part in enumerate(scene.parts[field]):
        for mention, inflect in _exchangeable(scene.lexicon, part, field):
            name = " ".join(part.wording.words[mention.start : mention.stop]).lower()
            forms = [inflect(text, mention.form) for text in mention.entry]
            others = [text for text in forms if text.replace("-", " ").lower() != name.removesuffix(mention.ending)]
            if FIELDS[field].words is not None:
                others = [text for text in others if count_words(text) <= mention.stop - mention.start + room]
            if not mention.start:
                others = [text for text in others if text[:1].isalpha()]
            if others:
                chosen = pick(others, *scene.key, "synonym", name) + mention.ending
                items.setdefault(name, []).append((number, Change(mention.start, mention.stop, chosen)))
    return [items[name] for name in shuffled(items, *scene.key)]


def _exchangeable(
    lexicon: Lexicon, part: Part, field: str
) -> list[tuple[Mention[tuple[str, ...]], Callable[[str, str], str]]]:
    """Words and phrases with a set of synonyms, and how these are inflected; no verb with a particle ("shut out")."""
    words, table, tag = part.wording.words, lexicon.synonyms, FIELDS[field].kind is Kind.TAGS
    lowered = [*map(str.lower, words), ""]
    verbs = [
        mention
        for mention in lexicon.verbs_in(words, part.sources, table["verbs"], passive=True, alone=field == "verbs")
        if lowered[mention.stop] not in lexicon.grammar["particles"]
        and not (mention.form in ("past", "participle") and lowered[mention.start - 1] in lexicon.grammar["determiners"])
    ]
    acting = {mention.start for mention in verbs} | {mention.start for mention in part.actions}
    nouns = [
        mention
        for mention in lexicon.free(words, table["nouns"].find(words))
        if mention.start not in acting
        and (tag or mention.stop > mention.start + 1 or _is_noun(lexicon, words, mention))
    ]
    return [
        *((mention, verb_form) for mention in verbs),
        *((mention, lambda text, form: plural(text) if form == "plural" else text) for mention in nouns),
        *((mention, lambda text, form: text) for mention in lexicon.adverbial(table["other"], words, tag=tag)),
    ]


def _is_noun(lexicon: Lexicon, words: tuple[str, ...], mention: Mention[tuple[str, ...]]) -> bool:
    """Whether a word is a noun here; one that no verb looks like is."""
    ambiguous = lexicon.is_verb_form(words[mention.start])
    return not ambiguous or lexicon.reads_as_noun(words, mention.start, mention.form == "plural")


def _aspects(scene: Scene, field: str) -> list[Item]:
    """An item for each action that can go on instead of happening, or the other way round, and stands alone in that."""
    copula = FIELDS[field].kind is not Kind.TAGS and FIELDS[field].words is None
    items: list[Item] = []
    for number, part in enumerate(scene.parts[field]):
        if copula and re.search(r"[,;:]| (?:and|when|as|while|that|which|who) ", part.text):
            continue
        words = [*map(str.lower, part.wording.words), ""]
        forms = {mention.stop: mention.form for mention in part.sources}
        for mention in part.actions:
            start, stop, form = mention.start, mention.stop, mention.form
            before = words[start - 1] if start else ""
            if words[stop] == "and" or (before in _PROGRESSIVE and sum(word.endswith("ing") for word in words) > 1):
                continue
            if form == "ing" and before in _PROGRESSIVE:
                change = Change(start - 1, stop, verb_form(mention.entry, _PROGRESSIVE[before]))
            elif field == "verbs" and form in ("base", "s", "ing"):
                change = Change(start, stop, verb_form(mention.entry, "base" if form == "ing" else "ing"))
            elif (form, forms.get(start)) in (("s", "singular"), ("base", "plural")):
                auxiliary = ("is " if form == "s" else "are ") if copula else ""
                change = Change(start, stop, auxiliary + verb_form(mention.entry, "ing"))
            else:
                continue
            items.append([(number, change)])
    return items


def _start(scene: Scene, texts: list[str]) -> int:
    """Which tag of a list comes first."""
    return pick(range(1, len(texts)), *scene.key, "start") if len(texts) > 1 else 0


def _with_pairs_exchanged(lexicon: Lexicon, text: str) -> str:
    """Two adjectives or two adverbs side by side, exchanged: "a short, crisp tap", "softly and evenly"."""

    def exchanged(match: re.Match[str]) -> str:
        first, joint, second, noun = match.groups()
        adverbs = first.endswith("ly") and second.endswith("ly") and joint == " and "
        adjectives = lexicon.is_adjective(first) and lexicon.is_adjective(second) and (joint == " and " or noun)
        in_series = text[: match.start()].rstrip(" ").endswith(",") or text[match.end() :].startswith(",")
        article_before = re.search(r"\ban? $", text[: match.start()])
        if in_series or not (adverbs or adjectives) or (article_before and article(first) != article(second)):
            return match.group()
        return f"{second}{joint}{first}"

    return _PAIR.sub(exchanged, text)


def _with_place_moved(lexicon: Lexicon, text: str) -> str:
    """A place where all of it happens, at the end of a text of one clause, at its start, or the other way round."""
    body, closing = split_closing(text)
    if (first := _PLACE_FIRST.fullmatch(body)) and first[2].lower() in lexicon.venues and "," not in first[3]:
        return f"{capitalised(first[3])} {uncapitalised(first[1])}{closing}"
    if (last := _PLACE_LAST.fullmatch(body)) and last[3].lower() in lexicon.venues and not re.search(
        r"[,;:]| (?:of|with|and|as|that|so|until|where|before|while|between|than|like)\b", last[1]
    ):
        return f"{capitalised(last[2])}, {uncapitalised(last[1])}{closing}"
    return text


def _with_halves_exchanged(lexicon: Lexicon, text: str) -> str:
    """The two halves of a text that say what happens together, exchanged."""
    body, closing = split_closing(text)
    for joint in (" while ", " and "):
        halves = body.split(joint)
        if len(halves) == 2 and "," not in body and all(_is_clause(lexicon, half) for half in halves):
            first = capitalised(halves[1]) if body[:1].isupper() else halves[1]
            return f"{first}{joint}{uncapitalised(halves[0])}{closing}"
    return text


def _is_clause(lexicon: Lexicon, text: str) -> bool:
    """Whether a text names a source and what it does, and points to nothing before it."""
    words = Wording.of(text).words
    sources = lexicon.sources_in(words)
    actions = lexicon.verbs_in(words, sources, lexicon.verbs)
    pointing = any(word.lower() in lexicon.grammar["pointers"] for word in words)
    return (
        bool(sources and sources[0].start <= 3 and any(action.form in ("s", "base", "ing") for action in actions))
        and not pointing
    )


def _framed(scene: Scene, field: str, text: str) -> str:
    """A text inside a frame that adds nothing."""
    frame = pick(scene.lexicon.frames[field], *scene.key, "frame", field)
    return (uncapitalised(frame) if text[:1].islower() else frame).format(text=uncapitalised(text))

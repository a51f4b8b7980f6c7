"""The control of the matrix: the same meaning in other words.

Rewordings, in this order: synonyms of nouns, verbs, attributes and phrases; an action that goes on instead of happening
("barks", "is barking"); another order of two properties, of a verb and its adverb, of clauses, of the tags of a list.
What can hardly be put otherwise gets a frame around it at last ("What happens is that …"). Which synonym, is drawn for
the card and does not depend on the severity. Severities coincide where there are fewer rewordings than severities.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from jaxeval.cards.schema import FIELDS, Kind
from jaxeval.perturb.cells import Edit
from jaxeval.perturb.draws import pick, shuffled
from jaxeval.perturb.inflection import article, plural, verb_form
from jaxeval.perturb.lexicon import Lexicon, Mention
from jaxeval.perturb.scene import Item, Part, Scene, item_count
from jaxeval.perturb.wording import Change, Wording, capitalised, count_words, split_closing, uncapitalised

Reword = Callable[[list[str]], list[str]]
FEW = 2
"""Rewordings of a text from which on it needs no frame."""
_PROGRESSIVE = {"is": "s", "are": "base"}
_PLACE = r"(?:in|on|at) (?:a|an|the) (?:[\w'-]+ ){0,2}?([\w'-]+)"
_PLACE_FIRST = re.compile(rf"({_PLACE}),? ((?:a|an|the|two|some|someone|four) .+)", re.IGNORECASE)
_PLACE_LAST = re.compile(rf"(.+) ({_PLACE})", re.IGNORECASE)
_CLAUSE_LAST = re.compile(r"(.+?),? ((?:when|because|since|while) (?:a|an|the|every\w+|some\w+) .+)")
_PARTICIPLE_LAST = re.compile(r"(.+?), ([a-z]{2,}ing (?:an?|the|its|in|on|to|with|for|from|\w+ly)\b.*)")
_SUBORDINATE = re.compile(
    r"[,;:]| (?:of|with|and|as|that|which|so|until|where|before|after|while|when|between|than|like|since|because)\b"
)
_SECOND_SENTENCE = re.compile(r", and (?=(?:the|a|an|it|its|they|people|everybody|somebody|someone) )")
_ADVERB = re.compile(r"\b(\w+) (\w+)\b(?= and | (?:in|on|at|from|into|over|for|with|after|before)\b|[.;,]|$)")
_PAIR = re.compile(r"\b([a-z]+)( and |, )([a-z]+)(?=( [a-z]+)?)")


def paraphrase(scene: Scene, field: str) -> Edit:
    """Say a field in other words."""
    texts = [part.text for part in scene.parts[field]]
    items = [*_synonyms(scene, field), *_aspects(scene, field)]
    rewordings = _reorderings(scene, field)
    rewordings = [reword for reword in rewordings if reword(texts) != texts]
    if len(items) + len(rewordings) < FEW and field in scene.lexicon.frames and texts[0]:
        rewordings.append(lambda texts: [_framed(scene, field, texts[0])])
    count = item_count(len(items) + len(rewordings), scene.severity)
    texts = scene.changed(field, items[:count])
    for reword in rewordings[: max(0, count - len(items))]:
        texts = reword(texts)
    return Edit(scene.joined(field, texts))


def _reorderings(scene: Scene, field: str) -> list[Reword]:
    """Ways of putting the texts of a field in another order; those that do not apply leave them as they are."""
    if FIELDS[field].kind is Kind.TAGS:
        return [functools.partial(_rotated, scene), _first_two_exchanged]

    def of_text(reorder: Callable[[Lexicon, str], str], texts: list[str]) -> list[str]:
        return [reorder(scene.lexicon, texts[0])]

    return [functools.partial(of_text, reorder) for reorder in REORDERINGS]


def _synonyms(scene: Scene, field: str) -> list[Item]:
    """An item for each word or phrase that has a synonym."""
    items: dict[str, Item] = {}
    limit, tag = FIELDS[field].words, FIELDS[field].kind is Kind.TAGS
    room = 0 if limit is None else limit - count_words(scene.parts[field][0].text)
    for number, part in enumerate(scene.parts[field]):
        words = part.wording.words
        for mention, inflect in _exchangeable(scene.lexicon, part, field):
            name = " ".join(words[mention.start : mention.stop]).lower()
            forms = [inflect(text, mention.form) for text in mention.entry]
            others = [text for text in forms if text.replace("-", " ").lower() != name.removesuffix(mention.ending)]
            if limit is not None:
                others = [text for text in others if count_words(text) <= mention.stop - mention.start + room]
            if mention.form == "singular" and (tag or _before_a_noun(scene.lexicon, words, mention.stop)):
                others = [text for text in others if "ing" not in text]  # "a crash cymbal"
            intensified = mention.start and words[mention.start - 1].lower() in scene.lexicon.grammar["intensifiers"]
            if intensified:
                others = [text for text in others if " " not in text]
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
        and not (mention.form in ("ing", "past", "participle") and _describes(lexicon, lowered[:-1], mention))
    ]
    acting = {mention.start for mention in verbs} | {mention.start for mention in part.actions}
    nouns = [
        mention
        for mention in lexicon.free(words, table["nouns"].find(words))
        if mention.start not in acting
        and field not in ("verbs", "adjectives")
        and (tag or mention.stop > mention.start + 1 or _is_noun(lexicon, words, mention))
    ]
    return [
        *((mention, verb_form) for mention in verbs),
        *((mention, lambda text, form: plural(text) if form == "plural" else text) for mention in nouns),
        *((mention, lambda text, form: text) for mention in lexicon.adverbial(table["other"], words, tag=tag)),
    ]


def _before_a_noun(lexicon: Lexicon, words: Sequence[str], index: int) -> bool:
    """Whether the word at an index is one that what stands before it could describe."""
    return index < len(words) and not (lexicon.is_function(words[index]) or lexicon.is_verb_form(words[index]))


def _describes(lexicon: Lexicon, words: Sequence[str], mention: Mention[tuple[str, ...]]) -> bool:
    """Whether a participle is in the place of an adjective: "a closed door", "a dreamy, lingering chord"."""
    if not mention.start:
        return _before_a_noun(lexicon, words, mention.stop)
    before = words[mention.start - 1]
    return before in lexicon.grammar["determiners"] or lexicon.is_adjective(before)


def _is_noun(lexicon: Lexicon, words: tuple[str, ...], mention: Mention[tuple[str, ...]]) -> bool:
    """Whether a word is a noun here; one that no verb looks like is."""
    ambiguous = lexicon.is_verb_form(words[mention.start])
    return not ambiguous or lexicon.reads_as_noun(words, mention.start, mention.form == "plural")


def _aspects(scene: Scene, field: str) -> list[Item]:
    """An item for each action that can go on instead of happening, or the other way round, and stands alone in that."""
    copula = FIELDS[field].kind is not Kind.TAGS and FIELDS[field].words is None
    items: list[Item] = []
    for number, part in enumerate(scene.parts[field]):
        if FIELDS[field].kind is not Kind.TAGS and re.search(
            r"[,;:]| (?:and|when|as|while|that|which|who) ", part.text
        ):
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


def _rotated(scene: Scene, texts: list[str]) -> list[str]:
    """A list of tags that begins elsewhere."""
    start = pick(range(1, len(texts)), *scene.key, "start") if len(texts) > 1 else 0
    return texts[start:] + texts[:start]


def _first_two_exchanged(texts: list[str]) -> list[str]:
    """A longer list of tags with the first two the other way round."""
    return [texts[1], texts[0], *texts[2:]] if len(texts) > 2 else texts


def _pairs_exchanged(lexicon: Lexicon, text: str) -> str:
    """Two adjectives or two adverbs side by side, exchanged: "a short, crisp tap", "softly and evenly"."""

    def exchanged(match: re.Match[str]) -> str:
        first, joint, second, noun = match.groups()
        adverbs = first.endswith("ly") and second.endswith("ly") and joint == " and "
        followed = noun is not None and not lexicon.is_function(noun.strip())
        adjectives = all(map(lexicon.is_quality, (first, second))) and (joint == " and " or followed)
        in_series = text[: match.start()].rstrip(" ").endswith(",") or text[match.end() :].startswith(",")
        article_before = re.search(r"\b[Aa]n? $", text[: match.start()])
        intensified = text[: match.start()].rstrip(" ").rpartition(" ")[2].lower() in lexicon.grammar["intensifiers"]
        if (
            in_series
            or intensified
            or not (adverbs or adjectives)
            or (article_before and article(first) != article(second))
        ):
            return match.group()
        return f"{second}{joint}{first}"

    return _PAIR.sub(exchanged, text)


def _adverb_moved(lexicon: Lexicon, text: str) -> str:
    """An adverb after its verb before it, or the other way round: "slowly fades", "fades slowly"."""

    def moved(match: re.Match[str]) -> str:
        first, second = match.groups()
        adverb, verb = (first, second) if first.endswith("ly") else (second, first)
        free = (
            match.start() > 0
            and adverb.endswith("ly")
            and lexicon.is_manner(adverb)
            and not verb.endswith(("ly", "ing"))
        )
        return f"{second} {first}" if free and lexicon.is_verb_form(verb) else match.group()

    return _ADVERB.sub(moved, text)


def _end_moved_to_the_front(lexicon: Lexicon, text: str) -> str:
    """A place, a clause or a participle from the end of a text to its start, or a place the other way round."""
    body, closing = split_closing(text)
    place = _PLACE_FIRST.fullmatch(body)
    if place and place[2].lower() in lexicon.venues and "," not in place[3]:
        return f"{capitalised(place[3])} {uncapitalised(place[1])}{closing}"
    place = _PLACE_LAST.fullmatch(body)
    if place and place[3].lower() in lexicon.venues and not _SUBORDINATE.search(place[1]):
        return f"{capitalised(place[2])}, {uncapitalised(place[1])}{closing}"
    clause = _CLAUSE_LAST.fullmatch(body) or _PARTICIPLE_LAST.fullmatch(body)
    if clause and " " in clause[1] and not _SUBORDINATE.search(clause[1]) and not re.search("[,;:]", clause[2]):
        return f"{capitalised(clause[2])}, {uncapitalised(clause[1])}{closing}"
    return text


def _clauses_parted(lexicon: Lexicon, text: str) -> str:
    """A second sentence after ", and" behind a semicolon instead."""
    return _SECOND_SENTENCE.sub("; ", text, count=1) if ";" not in text else text


def _halves_exchanged(lexicon: Lexicon, text: str) -> str:
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


REORDERINGS = (_pairs_exchanged, _adverb_moved, _end_moved_to_the_front, _halves_exchanged, _clauses_parted)


def _framed(scene: Scene, field: str, text: str) -> str:
    """A text inside a frame that adds nothing."""
    frame = pick(scene.lexicon.frames[field], *scene.key, "frame", field)
    return (uncapitalised(frame) if text[:1].islower() else frame).format(text=uncapitalised(text))

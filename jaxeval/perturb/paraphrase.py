"""The control of the matrix: the same meaning in other words.

Rewordings, in this order: synonyms of nouns, verbs, attributes and phrases; another aspect of a verb ("barks", "is
barking"); the parts of a text or the tags of a list in another order; a frame around the whole ("In this
recording, …"). Which synonym, is drawn for the card and does not depend on the severity.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxeval.cards.schema import FIELDS, Kind
from jaxeval.perturb.cells import Edit
from jaxeval.perturb.draws import pick, shuffled
from jaxeval.perturb.inflection import plural, verb_form
from jaxeval.perturb.lexicon import Lexicon, Mention
from jaxeval.perturb.scene import Item, Part, Scene, item_count
from jaxeval.perturb.wording import Change, Wording, capitalised, split_closing, uncapitalised

_JOINTS = (" while ", " and ")
_PROGRESSIVE = {"is": "s", "are": "base"}


def paraphrase(scene: Scene, field: str) -> Edit:
    """Say a field in other words."""
    texts = [part.text for part in scene.parts[field]]
    items = [*_synonyms(scene, field), *_aspects(scene, field)]
    rewordings: list[Callable[[list[str]], list[str]]] = [lambda texts: _reordered(scene, field, texts)]
    if FIELDS[field].kind is not Kind.TAGS and FIELDS[field].words is None:
        rewordings.append(lambda texts: [_framed(scene, field, texts[0])])
    rewordings = [reword for reword in rewordings if reword(texts) != texts]
    count = item_count(len(items) + len(rewordings), scene.severity)
    texts = scene.changed(field, items[:count])
    for reword in rewordings[: max(0, count - len(items))]:
        texts = reword(texts)
    return Edit(scene.joined(field, texts))


def _synonyms(scene: Scene, field: str) -> list[Item]:
    """An item for each word or phrase that has a synonym."""
    items: dict[str, Item] = {}
    for number, part in enumerate(scene.parts[field]):
        for mention, inflect in _exchangeable(scene.lexicon, part, field):
            name = " ".join(part.wording.words[mention.start : mention.stop]).lower()
            forms = [inflect(text, mention.form) for text in mention.entry]
            others = [text for text in forms if text.replace("-", " ").lower() != name.removesuffix(mention.ending)]
            if FIELDS[field].words is not None:
                others = [text for text in others if len(text.split()) <= mention.stop - mention.start]
            if others:
                chosen = pick(others, *scene.key, "synonym", name) + mention.ending
                items.setdefault(name, []).append((number, Change(mention.start, mention.stop, chosen)))
    return [items[name] for name in shuffled(items, *scene.key)]


def _exchangeable(
    lexicon: Lexicon, part: Part, field: str
) -> list[tuple[Mention[tuple[str, ...]], Callable[[str, str], str]]]:
    """Words and phrases with a set of synonyms, and how these are inflected."""
    words = part.wording.words
    verbs = lexicon.verbs_in(words, part.sources, lexicon.synonyms["verbs"], passive=True, alone=field == "verbs")
    acting = {mention.start for mention in verbs} | {mention.start for mention in part.actions}
    nouns = [mention for mention in lexicon.synonyms["nouns"].find(words) if mention.start not in acting]
    return [
        *((mention, verb_form) for mention in verbs),
        *((mention, lambda text, form: plural(text) if form == "plural" else text) for mention in nouns),
        *((mention, lambda text, form: text) for mention in lexicon.adverbial(lexicon.synonyms["other"], words)),
    ]


def _aspects(scene: Scene, field: str) -> list[Item]:
    """An item for each action that can go on instead of happening, or the other way round, and stands alone in that."""
    copula = FIELDS[field].kind is not Kind.TAGS and FIELDS[field].words is None
    items: list[Item] = []
    for number, part in enumerate(scene.parts[field]):
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


def _reordered(scene: Scene, field: str, texts: list[str]) -> list[str]:
    """Tags in another order; the two halves of a text that say what happens together, exchanged."""
    if FIELDS[field].kind is Kind.TAGS:
        start = pick(range(1, len(texts)), *scene.key, "start") if len(texts) > 1 else 0
        return texts[start:] + texts[:start]
    body, closing = split_closing(texts[0])
    for joint in _JOINTS:
        halves = body.split(joint)
        if len(halves) == 2 and "," not in body and all(_is_clause(scene.lexicon, half) for half in halves):
            first = capitalised(halves[1]) if body[:1].isupper() else halves[1]
            return [f"{first}{joint}{uncapitalised(halves[0])}{closing}"]
    return texts


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
    kind = "reasoning" if FIELDS[field].kind is Kind.REASONING else "description"
    frame = pick(scene.lexicon.frames[kind], *scene.key, "frame", field)
    return frame.format(text=uncapitalised(text)) if text[:1].isupper() else uncapitalised(frame).format(text=text)

"""Text perturbations by rules and a lexicon: no model, no network, the same words for the same cell for ever.

`RuleBased` replaces sound sources and their actions (`acoustic`), moves attributes along their scales or states one
where there is none (`attribute`), adds sounds (`hallucination`), or says the same in other words (`paraphrase`, in
`paraphrase.py`). Severity grows in two ways at once, by construction: more items of a text are touched, the lower
severity's among the higher's, and each goes farther (`scene.py`, `lexicon.py`):

- acoustic: one source becomes a sibling (a dog, a fox); half of them, at least two, become relatives, which do
  other things (a dog barks, a cow moos); all become strangers (a dog barks, a drill whirs).
- attribute: one moves by a step of its scale; half, at least two, by two steps; all to the end, "extremely". After the
  attributes of the text come properties of its sources that it does not speak of.
- hallucination: one sound of the scene's kind; another of its wider realm; two more that do not belong.
- paraphrase: one rewording; half of them, at least two; all of them, a frame around the text included.

Choices are made for the card: a dog that becomes a fox does so in every field in which it is replaced.

Of some 3,300 real captions, 97 to 100 % changed under each type and severity. Limits: English only. What the lexicon
does not know stays as it is, and a field nothing is known of is reported as unchanged. Words are told from their
neighbours, not from a parse: a noun that is a verb elsewhere can be mistaken, agreement and idiom suffer at times,
replaced sources keep adjectives that do not suit them, and what a paraphrase exchanges is seldom the same in every
shade. A source whose siblings are all too alike becomes a relative at low severity. A scale has few steps: from near
its middle, medium and high go equally far and differ by "extremely" and by how many are touched. A stated property
that was not in the text (flag `property added`) is a weaker error than one that contradicts it. In captions of few
words, what would add words is left out, and an added sound takes the place of the last words.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxeval.cards.schema import FIELDS, AudioCard, Kind, Value
from jaxeval.perturb.cells import Edit, ErrorType, Severity, Skip
from jaxeval.perturb.draws import fraction, pick, shuffled
from jaxeval.perturb.inflection import article, verb_form
from jaxeval.perturb.lexicon import Lexicon, Mention, Source, inflected, load
from jaxeval.perturb.paraphrase import paraphrase
from jaxeval.perturb.scene import Item, Part, Scene, item_count
from jaxeval.perturb.wording import Change, capitalised, split_closing

ADDED_SOUNDS = {Severity.LOW: 1, Severity.MEDIUM: 2, Severity.HIGH: 4}


class RuleBased:
    """The embedded text perturber; a `TextPerturber`."""

    def __init__(self, lexicon: Lexicon | None = None):
        self.lexicon = lexicon or load()

    def __call__(self, card: AudioCard, type: ErrorType, severity: Severity, seed: int) -> dict[str, Edit | Skip]:
        """The edited text fields of a card; one that did not change has its old value."""
        scene = Scene(self.lexicon, card, type, severity, seed)
        return {field: _PERTURBERS[type](scene, field) for field in scene.parts}


def acoustic(scene: Scene, field: str) -> Edit:
    """Replace sources, and beyond low severity what they do; where there is no source, actions alone."""
    parts = scene.parts[field]
    found = {mention.entry.name for part in parts for mention in part.sources}
    items = [_replace_source(scene, parts, name) for name in shuffled(found, *scene.key)]
    if not found:
        actions = {mention.entry for part in parts for mention in part.actions}
        items = [_replace_action(scene, parts, name) for name in shuffled(actions, *scene.key)]
    return Edit(scene.perturbed(field, items))


def attribute(scene: Scene, field: str) -> Edit:
    """Move attributes along their scales, then state others that the text does not speak of."""
    parts = scene.parts[field]
    moved: dict[str, Item] = {}
    spoken_of: set[str] = set()
    for number, part in enumerate(parts):
        words = part.wording.words
        for mention in scene.lexicon.attributes_in(words):
            scale = scene.lexicon.scales[mention.entry.scale]
            spoken_of.add(scale.name)
            name = " ".join(words[mention.start : mention.stop]).lower()
            before = words[mention.start - 1].lower() if mention.start else ""
            upwards = fraction(*scene.key, "upwards", name) < 0.5
            text = scene.lexicon.step_away(scene.severity, mention.entry, upwards)
            graded = scale.graded and before not in scene.lexicon.grammar["intensifiers"]
            if scene.severity is Severity.HIGH and graded and FIELDS[field].words is None:
                text = f"extremely {text}"
            moved.setdefault(name, []).append((number, Change(mention.start, mention.stop, text)))
    items = [moved[name] for name in shuffled(moved, *scene.key)] + _stated(scene, field, spoken_of)
    added = item_count(len(items), scene.severity) > len(moved)
    return Edit(scene.perturbed(field, items), ("property added",) if added else ())


def hallucination(scene: Scene, field: str) -> Edit:
    """Add sounds to a list, to the end of a text, or in place of the last words of a short caption."""
    sounds = scene.added_sounds[: ADDED_SOUNDS[scene.severity]]
    texts = [part.text for part in scene.parts[field]]
    if FIELDS[field].kind is Kind.TAGS:
        return Edit((*texts, *(_tag(scene, field, source, action) for source, action in sounds)))
    limit = FIELDS[field].words
    if limit is not None:
        return Edit(_crowded(scene.lexicon, texts[0], [source.name for source, _ in sounds], limit))
    body, closing = split_closing(texts[0])
    clauses = [f"{article(source.name)} {source.name} {verb_form(action, 's')}" for source, action in sounds]
    listed = " and ".join(filter(None, (", ".join(clauses[:-1]), clauses[-1])))
    joint = "as" if " while " in body.lower() else "while"
    return Edit(f"{body} {joint} {listed}{closing}")


def _replace_source(scene: Scene, parts: list[Part], name: str) -> Item:
    """Changes that put the replacement of a source, and its actions, wherever the source is."""
    new = scene.replacements.get(name)
    if new is None:
        return []
    members = scene.lexicon.groups[new.group]
    item: Item = []
    for number, part in enumerate(parts):
        item += [
            (number, _renamed(scene, part, mention, new)) for mention in part.sources if mention.entry.name == name
        ]
        if scene.severity is Severity.LOW:
            continue
        for mention in part.actions:
            subject = _subject(part, mention)
            if subject is not None and subject.entry.name == name and mention.entry not in members.actions:
                action = pick(members.deeds, *scene.key, scene.severity, new.name, mention.entry)
                item.append((number, Change(mention.start, mention.stop, verb_form(action, mention.form))))
    return item


def _replace_action(scene: Scene, parts: list[Part], name: str) -> Item:
    """Changes of an action without a source: to what the card's source is replaced by does, or to one as far away."""
    lexicon, severity = scene.lexicon, scene.severity
    owner = next((each for each in scene.sources.values() if name in lexicon.groups[each.group].actions), None)
    group = owner.group if owner else lexicon.groups_of_action[name][0]
    replaced = scene.replacements.get(owner.name) if owner else None
    pools = [lexicon.actions_at(severity, group)]
    if replaced is not None and severity is not Severity.LOW:
        pools.insert(0, list(lexicon.groups[replaced.group].deeds))
    own = () if severity is Severity.LOW else lexicon.groups[group].actions
    fitting = [[each for each in pool if each not in own and lexicon.differ(name, each)] for pool in pools]
    pool = next(filter(None, fitting), [])
    if not pool:
        return []
    action = pick(pool, *scene.key, severity, name)
    return [
        (number, Change(mention.start, mention.stop, verb_form(action, mention.form)))
        for number, part in enumerate(parts)
        for mention in part.actions
        if mention.entry == name
    ]


def _subject(part: Part, action: Mention[str]) -> Mention[Source] | None:
    """Whose action it is: the source before it, or else the first one; a possessor does nothing itself."""
    sources = [mention for mention in part.sources if not mention.ending]
    before = [mention for mention in sources if mention.stop <= action.start]
    return before[-1] if before else next(iter(sources), None)


def _renamed(scene: Scene, part: Part, mention: Mention[Source], new: Source) -> Change:
    """A source in place of another, in its number; an article comes or goes where only one of them is counted."""
    words, start = part.wording.words, mention.start
    before = words[start - 1].lower() if start else ""
    text = inflected(new, mention.form)
    if new.number != "count" and before in ("a", "an"):
        start -= 1
    if new.number == "count" and mention.entry.number == "mass" and scene.lexicon.begins_phrase(words, start):
        text = f"{article(text)} {text}"
    return Change(start, mention.stop, text + mention.ending)


def _stated(scene: Scene, field: str, spoken_of: set[str]) -> list[Item]:
    """A property for each source, or each action where there is no source, of which the text does not speak yet."""
    parts = scene.parts[field]
    if all(scale.name in spoken_of for scale in scene.lexicon.scales if scale.added):
        return []
    items: dict[str, Item] = {}
    for number, part in enumerate(parts):
        for mention in part.sources:
            start = _start_of_compound(scene.lexicon, part, mention.start)
            text = _property(scene, field, mention.entry.name, spoken_of, adverb=False)
            items.setdefault(mention.entry.name, []).append((number, Change(start, start, text)))
        for action in () if part.sources else part.actions:
            text = _property(scene, field, action.entry, spoken_of, adverb=True)
            items.setdefault(action.entry, []).append((number, Change(action.stop, action.stop, text)))
    return [items[name] for name in shuffled(items, *scene.key)]


def _property(scene: Scene, field: str, name: str, spoken_of: set[str], *, adverb: bool) -> str:
    """A property of the sound called `name`: slightly, plainly or extremely one way."""
    added = [scale for scale in scene.lexicon.scales if scale.added and scale.adverb is adverb]
    scales = [scale for scale in added if scale.name not in spoken_of] or added
    steps = pick(scales, *scene.key, "property", name).steps
    mild, strong = pick([(1, 0), (-2, -1)], *scene.key, "end", name)
    if FIELDS[field].words is not None:
        return steps[strong if scene.severity is Severity.HIGH else mild][0]
    return {
        Severity.LOW: f"slightly {steps[mild][0]}",
        Severity.MEDIUM: steps[mild][0],
        Severity.HIGH: f"extremely {steps[strong][0]}",
    }[scene.severity]


def _start_of_compound(lexicon: Lexicon, part: Part, start: int) -> int:
    """Where the nouns begin that end in a source: at "train" in "a train horn"."""
    while start > 0 and (before := lexicon.nouns.at(part.wording.words[:start], start - 1)) and not before.ending:
        start -= 1
    return start


def _tag(scene: Scene, field: str, source: Source, action: str) -> str:
    """An added sound as the tags of the field are written."""
    if field == "nouns":
        return source.name
    if field == "adjectives":
        return verb_form(action, "ing")
    forms = [mention.form for part in scene.parts[field] for mention in part.actions]
    form = next((form for form in forms if form in ("base", "s", "ing")), "base" if field == "verbs" else "ing")
    return verb_form(action, form) if field == "verbs" else f"{source.name} {verb_form(action, form)}"


def _crowded(lexicon: Lexicon, text: str, names: list[str], limit: int) -> Value:
    """A short caption with sounds added at the end, of as many words as before or as allowed, or fewer."""
    body, closing = split_closing(text)
    words, names = body.split(), names[:limit]
    kept = words[: max(len(words), limit) - len(names)]
    dangling = lexicon.grammar["determiners"] | lexicon.grammar["places"] | lexicon.grammar["connectives"]
    while kept and kept[-1].lower() in dangling:
        kept.pop()
    listed = ", ".join([*filter(None, [" ".join(kept).rstrip(",;:")]), *names])
    return (capitalised(listed) if text[:1].isupper() else listed) + closing


_PERTURBERS: dict[ErrorType, Callable[[Scene, str], Edit]] = {
    ErrorType.PARAPHRASE: paraphrase,
    ErrorType.ACOUSTIC: acoustic,
    ErrorType.ATTRIBUTE: attribute,
    ErrorType.HALLUCINATION: hallucination,
}

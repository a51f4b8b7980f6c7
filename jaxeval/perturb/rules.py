"""Text perturbations by rules and a lexicon: no model, no network, the same words for the same cell for ever.

`RuleBased` replaces sound sources and their actions (`acoustic`), moves attributes along their scales or states one
where there is none (`attribute`), adds sounds (`hallucination`), or says the same in other words (`paraphrase`, in
`paraphrase.py`). Severity grows in two ways at once, by construction: more items of a text are touched, the lower
severity's among the higher's, and each goes farther (`scene.py`, `lexicon.py`):

- acoustic: one source becomes a sibling (a dog, a fox); half of them, at least two, become relatives, which do
  other things (a dog barks, a cow moos); all become strangers (a dog barks, a drill whirs).
- attribute: one moves by a step of its scale; half, at least two, by two steps; all to the end, one of them
  "extremely". A text without attributes gets one.
- hallucination: one sound of the scene's kind; another of its wider realm; two more that do not belong.
- paraphrase: one rewording; half of them, at least two; all of them.

Choices are made for the card: a dog that becomes a fox does so in every field in which it is replaced.

Of 780 real captions, 99 to 100 % changed under each type and severity. Limits: English only. What the lexicon
does not know stays as it is, and a field nothing is known of is reported as unchanged. Word classes are told from
neighbours, number and set phrases, not from a parse; where they leave doubt, a word that may be a noun or a verb is no
source, and a verb with an object or a particle stays, so that idiom suffers seldom and some errors are not made.
Replaced sources keep adjectives that do not suit them, and a stranger may do what it cannot do (a howitzer is
strummed); people become animals instead, which can. What a paraphrase exchanges is not the same in every shade. A
source whose siblings are all too alike becomes a relative at low severity. A scale has few steps: from near its
middle, medium and high go equally far and differ by how many are touched, and where a short caption has no room for a
step, it takes the next. A stated property that was not in the text (flag `property added`) is a weaker error than one
that contradicts it. In captions of few words an added sound takes the place of what follows the source, then of its
properties; in three words there is room for two sounds, so that medium and high coincide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from jaxeval.cards.schema import FIELDS, AudioCard, Kind, Value
from jaxeval.perturb.cells import Edit, ErrorType, Severity, Skip
from jaxeval.perturb.draws import fraction, pick, shuffled
from jaxeval.perturb.inflection import article, verb_form
from jaxeval.perturb.lexicon import LONGEST, Lexicon, Mention, Source, Step, inflected, load
from jaxeval.perturb.paraphrase import paraphrase
from jaxeval.perturb.scene import Item, Part, Scene
from jaxeval.perturb.wording import Change, capitalised, count_words, split_closing

_JOINTS = (" while {}", " as {}", " with {}", "; at the same time, {}", "; in addition, {}")
"""How an added sound follows a text: the first word tells whether the text has one like it already."""
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
        actions = {
            mention.entry for part in parts for mention in part.actions if not _is_transitive(scene, part, mention)
        }
        items = [_replace_action(scene, parts, name) for name in shuffled(actions, *scene.key)]
    return Edit(scene.perturbed(field, items))


def attribute(scene: Scene, field: str) -> Edit:
    """Move attributes along their scales, or state one where there is none."""
    moved: dict[str, Item] = {}
    new: dict[str, str] = {}
    gradable: set[str] = set()
    limit = FIELDS[field].words
    room = LONGEST if limit is None else limit - count_words(scene.parts[field][0].text)
    for number, part in enumerate(scene.parts[field]):
        words = part.wording.words
        for mention in scene.lexicon.attributes_in(words, tag=field == "adjectives"):
            scale = scene.lexicon.scales[mention.entry.scale]
            name = " ".join(words[mention.start : mention.stop]).lower()
            before = words[mention.start - 1].lower() if mention.start else ""
            hedged = before in scene.lexicon.grammar["intensifiers"]
            if name not in moved:
                new[name] = _moved(scene, mention, name, hedged, room, new.values())
            text = new[name]
            if scale.graded and not hedged:
                gradable.add(name)
            moved.setdefault(name, []).append((number, Change(mention.start, mention.stop, text)))
    if not moved:
        return Edit(scene.perturbed(field, _stated(scene, field)), ("property added",))
    names = shuffled(moved, *scene.key)
    strongest = next((name for name in names if name in gradable), None)
    if strongest is not None and scene.severity is Severity.HIGH and FIELDS[field].words is None:
        first, *others = moved[strongest]
        moved[strongest] = [(first[0], Change(first[1].start, first[1].stop, f"extremely {first[1].text}")), *others]
    return Edit(scene.perturbed(field, [moved[name] for name in names]))


def _moved(scene: Scene, mention: Mention[Step], name: str, hedged: bool, room: int, taken: Collection[str]) -> str:
    """An attribute after a move along its scale; where that does not fit or says the same, after a longer move."""
    upwards = fraction(*scene.key, "upwards", name) < 0.5
    severities = list(Severity)[list(Severity).index(scene.severity) :]
    steps = [scene.lexicon.step_away(severity, mention.entry, upwards, taken) for severity in severities]
    if hedged:  # "rather fairly clear"
        steps = [step.split()[-1] for step in steps]
    free = mention.stop - mention.start + room
    return next((step for step in steps if step != name and count_words(step) <= free), steps[0])


def hallucination(scene: Scene, field: str) -> Edit:
    """Add sounds to a list, to the end of a text, or to what a short caption has room for."""
    sounds = scene.added_sounds[: ADDED_SOUNDS[scene.severity]]
    texts = [part.text for part in scene.parts[field]]
    if FIELDS[field].kind is Kind.TAGS:
        return Edit((*texts, *(_tag(scene, field, source, action) for source, action in sounds)))
    limit = FIELDS[field].words
    if limit is not None:
        return Edit(_crowded(scene, scene.parts[field][0], sounds, limit))
    body, closing = split_closing(texts[0])
    joints = [joint for joint in _JOINTS if f" {joint.split()[0]} " not in body.lower()]
    joint = pick(joints, *scene.key, "joint", field)
    form = "ing" if joint == " with {}" else "s"
    clauses = [_clause(source, verb_form(action, form)) for source, action in sounds]
    return Edit(body + joint.format(_listed(clauses)) + closing)


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
            subject = None if _is_transitive(scene, part, mention) else _subject(part, mention)
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
        if mention.entry == name and not _is_transitive(scene, part, mention)
    ]


def _subject(part: Part, action: Mention[str]) -> Mention[Source] | None:
    """Whose action it is: the source before it, or the one it describes ("barking dogs"); no possessor."""
    sources = [mention for mention in part.sources if not mention.ending]
    before = [mention for mention in sources if mention.stop <= action.start]
    described = [mention for mention in sources if action.form == "ing" and mention.start == action.stop]
    return next(iter(described), before[-1] if before else None)


def _is_transitive(scene: Scene, part: Part, action: Mention[str]) -> bool:
    """Whether something is done to something ("plays a chord"), or with a particle ("opens up")."""
    grammar, words = scene.lexicon.grammar, part.wording.words
    after, following = [*map(str.lower, words[action.stop : action.stop + 2]), "", ""][:2]
    stranded = after in ("in", "on") and following in ("", "and", "with", "through")
    objects = {mention.start for mention in part.sources} if action.form != "ing" else set()
    governed = grammar["determiners"] | grammar["particles"] - {"along", "away"}
    return stranded or after in governed or action.stop in objects


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


def _stated(scene: Scene, field: str) -> list[Item]:
    """A property of one source, or of one action where no source can take it; in a list of tags, of each."""
    lexicon = scene.lexicon
    found: dict[str, list[tuple[int, int, bool]]] = {}
    for number, part in enumerate(scene.parts[field]):
        words = part.wording.words
        for mention in part.sources:
            start = _start_of_compound(lexicon, part, mention.start)
            if lexicon.begins_phrase(words, start) or words[start - 1].lower() in lexicon.grammar["determiners"]:
                found.setdefault(mention.entry.name, []).append((number, start, False))
        for action in () if found else part.actions:
            if not _is_transitive(scene, part, action):
                found.setdefault(action.entry, []).append((number, action.stop, True))
    names = shuffled(found, *scene.key)
    if FIELDS[field].kind is not Kind.TAGS:
        names = names[:1]
    items: list[Item] = []
    for name in names:
        items.append([])
        for number, start, adverb in found[name]:
            strongest = name == names[0] and not items[0]
            text = _property(scene, field, name, adverb, strongest=strongest)
            items[-1].append((number, Change(start, start, text)))
    return items


def _property(scene: Scene, field: str, name: str, adverb: bool, *, strongest: bool) -> str:
    """A property of the sound called `name`: the strongest of a field plainly, very or extremely one way."""
    scales = [scale for scale in scene.lexicon.scales if scale.added and scale.adverb is adverb]
    scale = pick(scales, *scene.key, "property", name)
    mild, strong = pick([(1, 0), (-2, -1)], *scene.key, "end", name)
    if FIELDS[field].words is not None:
        return scale.steps[strong if scene.severity is Severity.HIGH else mild][0]
    degrees = {Severity.LOW: "", Severity.MEDIUM: "very ", Severity.HIGH: "extremely "}
    return (degrees[scene.severity] if strongest else "") + scale.steps[mild][0]


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


def _clause(source: Source, deed: str) -> str:
    return f"{article(source.name)} {source.name} {deed}"


def _listed(texts: list[str]) -> str:
    """Texts as a list with "and" before the last."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _crowded(scene: Scene, part: Part, sounds: list[tuple[Source, str]], limit: int) -> Value:
    """A short caption with sounds added, in the fullest wording that the words allowed have room for.

    What makes room is first the end of the caption, then its properties, but never its source; then the actions of what
    is added; then the farthest of the added sounds.
    """
    heads = _heads(scene, part)
    while sounds:
        names = [source.name for source, _ in sounds]
        tails = [
            " while " + _listed([_clause(source, verb_form(action, "s")) for source, action in sounds]),
            "".join(f", {source.name} {verb_form(action, 's')}" for source, action in sounds),
            *([f" and {names[0]}"] if len(names) == 1 else []),
            "".join(f", {name}" for name in names),
        ]
        for tail in tails:
            for head in heads:
                if count_words(head + tail) <= limit:
                    return head + tail + split_closing(part.text)[1]
        sounds = sounds[:-1]
    return part.text


def _heads(scene: Scene, part: Part) -> list[str]:
    """Ever shorter beginnings of a caption that say what sounds: all of it, up to its action, its source alone."""
    words, grammar = part.wording.words, scene.lexicon.grammar
    joints = grammar["prepositions"] | grammar["places"] | grammar["connectives"]
    if part.sources:
        first = part.sources[0]
        cuts = {mention.stop for mention in part.sources} | {mention.stop for mention in part.actions}
        cuts |= {index for index, word in enumerate(words) if word.lower() in joints and index >= first.stop}
        spans = [(0, stop) for stop in sorted(cuts | {len(words)}, reverse=True)]
        if words[0].lower() in ("a", "an", "the") and first.start:
            spans = [(start, stop) for _, stop in spans for start in (0, 1)]
        spans += [(first.start, first.stop), (first.stop - 1, first.stop)]
    else:
        unfinished = joints | grammar["determiners"]
        spans = [
            (0, stop)
            for stop in range(len(words), 0, -1)
            if words[stop - 1].lower() not in unfinished and not scene.lexicon.is_adjective(words[stop - 1].lower())
        ]
    heads = [
        "".join(map(str.__add__, ("", *part.wording.gaps[start + 1 : stop]), words[start:stop]))
        for start, stop in spans
    ]
    return [capitalised(head) if part.text[:1].isupper() else head for head in heads]


_PERTURBERS: dict[ErrorType, Callable[[Scene, str], Edit]] = {
    ErrorType.PARAPHRASE: paraphrase,
    ErrorType.ACOUSTIC: acoustic,
    ErrorType.ATTRIBUTE: attribute,
    ErrorType.HALLUCINATION: hallucination,
}

"""What the rule-based perturber knows of sounds: `lexicon.toml` in memory, with every form a word may take.

Sources and actions lie in a taxonomy of realms, categories and groups, attributes on scales, so that "how
different" has steps: `Lexicon.sources_at` and `Lexicon.actions_at` give what lies at a distance, `step_away` the
words of a scale.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Generic, TypeVar

from jaxeval.perturb.cells import Severity
from jaxeval.perturb.inflection import VERB_FORMS, plural, verb_form

LONGEST = 6
"""Words in the longest entry, at most."""
_ADJECTIVE = re.compile(r"\w{2,}(?:(?<!l)y|al|ic|ous|ful|less|ish|en|ing|ed|ive)")
T = TypeVar("T")
Group = tuple[str, str, str]
"""Realm, category and group."""


@dataclass(frozen=True)
class Source:
    """A thing that sounds. `number` is `count` (a dog), `mass` (rain) or `plural` (scissors)."""

    name: str
    group: Group
    number: str


@dataclass(frozen=True)
class Step:
    """A place on a scale of attributes."""

    scale: int
    index: int


@dataclass(frozen=True)
class Mention(Generic[T]):
    """An entry found in a text.

    Attributes:
        start, stop: the words it takes.
        entry: what it is.
        form: `singular` or `plural`, a form of `VERB_FORMS`, or "".
        ending: a possessive 's, kept when the word is replaced.
    """

    start: int
    stop: int
    entry: T
    form: str
    ending: str = ""


class Table(Generic[T]):
    """Entries by their words in all forms; the first entry of a form wins."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, ...], tuple[T, str]] = {}

    def add(self, text: str, entry: T, form: str = "") -> None:
        """Let an entry be found under a text."""
        self._entries.setdefault(tuple(text.lower().replace("-", " ").split()), (entry, form))

    def at(self, words: Sequence[str], start: int) -> Mention[T] | None:
        """The longest entry that begins at a word."""
        for stop in range(min(len(words), start + LONGEST), start, -1):
            key, ending = _key(words[start:stop])
            if key in self._entries:
                return Mention(start, stop, *self._entries[key], ending)
        return None

    def find(self, words: Sequence[str]) -> list[Mention[T]]:
        """All entries in a text, from left to right, none over another."""
        found: list[Mention[T]] = []
        for start in range(len(words)):
            if (not found or found[-1].stop <= start) and (mention := self.at(words, start)) is not None:
                found.append(mention)
        return found


@dataclass(frozen=True)
class Scale:
    """Steps of an attribute from one end to the other.

    Attributes:
        name: what is scaled; an adverb's scale has the name of the adjective's.
        steps: words of each step.
        graded: whether "extremely" goes before the outer ones; added: whether they suit any sound; adverb: any action.
    """

    name: str
    steps: tuple[tuple[str, ...], ...]
    graded: bool
    added: bool
    adverb: bool


@dataclass(frozen=True)
class Members:
    """What is in a group: its sources, the actions known as theirs, and those given to a source that is put in."""

    sources: tuple[Source, ...]
    actions: tuple[str, ...]
    deeds: tuple[str, ...]


class Lexicon:
    """The lexicon, ready for look-ups."""

    def __init__(self, data: Mapping[str, dict]):
        self.groups: dict[Group, Members] = {}
        self.nouns: Table[Source] = Table()
        self.verbs: Table[str] = Table()
        self.attributes: Table[Step] = Table()
        self.scales: list[Scale] = []
        self.synonyms: dict[str, Table[tuple[str, ...]]] = {"nouns": Table(), "verbs": Table(), "other": Table()}
        self.venues = frozenset(data["synonyms"]["venues"])
        self.frames: dict[str, list[str]] = data["frames"]
        self.grammar = {name: frozenset(words.split()) for name, words in data["grammar"].items()}
        self._prepositions = self.grammar["prepositions"] | self.grammar["places"]
        self._function_words = self._prepositions.union(
            *(self.grammar[name] for name in ("determiners", "connectives", "subjects", "copulas", "particles"))
        )
        self._verb_cues = self.grammar["subjects"] | self.grammar["modals"] | {"to"}
        self.groups_of_action: dict[str, list[Group]] = {}
        self._load_taxonomy(data["taxonomy"])
        for number, scale in enumerate(data["scale"]):
            steps, (name, _, kind) = tuple(map(tuple, scale["steps"])), scale["name"].partition(", ")
            self.scales.append(
                Scale(name, steps, scale.get("graded", False), scale.get("added", False), adverb=kind == "adverb")
            )
            for index, words in enumerate(scale["steps"]):
                for word in words:
                    self.attributes.add(word, Step(number, index))
        self._load_synonyms(data["synonyms"])
        self._other_verbs: Table[str] = Table()
        for verb in self.grammar["verbs"]:
            for form in VERB_FORMS:
                self._other_verbs.add(verb_form(verb, form), verb, form)
        self._phrases: Table[str] = Table()
        for phrase in data["phrases"]["fixed"]:
            self._phrases.add(phrase, phrase)
        for phrase in data["phrases"]["verbs"]:
            for form in VERB_FORMS:
                self._phrases.add(verb_form(phrase, form), phrase, form)
        self._alike: dict[str, set[str]] = {}
        self._generic = frozenset(data["alike"]["generic"])
        pairs = [(kind, name) for kind, *names in data["alike"]["kinds"] for name in names]
        self._load_alike([*data["alike"]["sources"], *pairs, *data["synonyms"]["nouns"]])
        self._load_alike([*data["alike"]["actions"], *data["synonyms"]["verbs"]])

    def sources_in(self, words: Sequence[str], *, tag: bool = False) -> list[Mention[Source]]:
        """Sound sources in a text: of a compound such as "train horn" only the head, and no places ("on a table").

        Args:
            words: the words of the text.
            tag: the text names sources, without a sentence around them.
        """
        found: list[Mention[Source]] = []
        for mention in self.free(words, self.nouns.find(words)):
            after_source = bool(found) and found[-1].stop == mention.start
            ambiguous = mention.stop == mention.start + 1 and self._verb_at(words, mention.start) is not None
            if ambiguous and not tag and not self.reads_as_noun(words, mention.start, mention.form == "plural"):
                continue
            if self._is_place(words, mention):
                continue
            if after_source and found[-1].form == "singular" and not found[-1].ending:
                found.pop()
            found.append(mention)
        return found

    def verbs_in(
        self,
        words: Sequence[str],
        sources: Sequence[Mention[Source]],
        table: Table[T],
        *,
        passive: bool = False,
        alone: bool = False,
    ) -> list[Mention[T]]:
        """Verbs of a table in a text, as far as their neighbours show that they are verbs.

        Args:
            words: the words of the text.
            sources: the sources in it; no verb is among their words.
            table: `verbs`, or those that have synonyms.
            passive: include the passive voice.
            alone: the text is a verb without a sentence around it.
        """
        taken = {index for mention in sources for index in range(mention.start, mention.stop)}
        subject_ends = {mention.stop for mention in sources if not mention.ending}
        found = []
        for mention in self.free(words, table.find(words)):
            start, form = mention.start, mention.form
            before = words[start - 1].lower() if start else ""
            finite = alone or start in subject_ends or before in self._verb_cues or before == "and"
            if form in ("base", "s"):
                noun = not alone and self.reads_as_noun(words, start, form == "s")
                fits = not noun and (form == "s" or finite)
            elif form == "ing":
                fits = True
            else:
                fits = finite or before.endswith("ly") or (passive and before in self.grammar["copulas"] | {""})
            if fits and start not in taken and (passive or form == "ing" or before not in self.grammar["copulas"]):
                found.append(mention)
        return found

    def attributes_in(self, words: Sequence[str], *, tag: bool = False) -> list[Mention[Step]]:
        """Attributes in a text; `tag`: it is one, without a sentence around it."""
        return self.adverbial(self.attributes, words, tag=tag)

    def adverbial(self, table: Table[T], words: Sequence[str], *, tag: bool = False) -> list[Mention[T]]:
        """Entries of a table in a text that are adjectives or adverbs there.

        No adverb of place that is a preposition ("inside the room"), no "at the end of", no "hit hard", no "lights".
        """
        return [
            mention
            for mention in self.free(words, table.find(words))
            if tag or (self._is_property(words, mention) and not self._governs(words, mention))
        ]

    def free(self, words: Sequence[str], mentions: Sequence[Mention[T]]) -> list[Mention[T]]:
        """Mentions without those that are but a part of a phrase with a meaning of its own: "catches fire"."""
        phrases = self._phrases.find(words)
        return [
            mention
            for mention in mentions
            if not any(
                mention.start < phrase.stop
                and phrase.start < mention.stop
                and not (mention.start <= phrase.start and phrase.stop <= mention.stop)
                for phrase in phrases
            )
        ]

    def reads_as_noun(self, words: Sequence[str], start: int, plural: bool) -> bool:
        """Whether a word that can be a noun or a verb is a noun, by what stands before it and by its number.

        "A tap", "the loose rattle", "loud cracks", "a door slam"; not "a smith taps", "doors slam", "it cracks".
        """
        before = words[start - 1].lower() if start else ""
        after = words[start + 1].lower() if start + 1 < len(words) else ""
        if not before:
            finite = self._verb_at(words, start + 1) if after else None
            return after in {"", "of", "and"} | self.grammar["copulas"] or (
                finite is not None and finite.form in ("s", "past")
            )
        if before in self._verb_cues or before.endswith("ly") or (plural and after in self.grammar["determiners"]):
            return False
        if before in ("and", "or"):
            return start > 1 and self._is_joined_noun(words, start - 2)
        joined = self.nouns.at(words[:start], start - 1)
        if joined is not None and not joined.ending:
            return joined.form == "singular" and not plural
        first = start
        while first and start - first < 3 and words[first - 1].lower() not in self._function_words:
            first -= 1
        between = [word.lower() for word in words[first:start]]
        opener = words[first - 1].lower() if first else ""
        described = all(map(self.is_adjective, between))
        looks_plural = bool(between) and between[-1].endswith("s") and not between[-1].endswith("ss")
        if opener in self.grammar["singular"]:
            modal = words[start].lower() in self.grammar["modals"] and bool(between)
            return not plural and not modal and (described or not looks_plural)
        if opener in self.grammar["determiners"]:
            modal = words[start].lower() in self.grammar["modals"]
            return not between or (not modal and (described or not (plural or looks_plural)))
        return described and bool(between or opener in self._prepositions or (plural and opener == "as"))

    def _is_joined_noun(self, words: Sequence[str], index: int) -> bool:
        """Whether what stands before "and" is a noun: a known one, or any word after an article or a preposition."""
        if self._verb_at(words, index) is not None:
            return self.reads_as_noun(words, index, words[index].endswith("s"))
        opener = words[index - 1].lower() if index else ""
        return self.nouns.at(words[: index + 1], index) is not None or opener in (
            self._prepositions | self.grammar["determiners"]
        )

    def is_quality(self, word: str) -> bool:
        """Whether a word is surely an adjective, no participle and none that only counts or orders."""
        return self.is_adjective(word) and not (word.endswith("ing") or word in self.grammar["adjectives"])

    def is_function(self, word: str) -> bool:
        """Whether a word is one of grammar, such as an article, a preposition or a pronoun."""
        return word.lower() in self._function_words

    def is_manner(self, adverb: str) -> bool:
        """Whether an adverb is known to say how something is done, so that it may stand before or after its verb."""
        mention = self.attributes.at([adverb], 0)
        return mention is not None and self.scales[mention.entry.scale].adverb

    def is_verb_form(self, word: str) -> bool:
        """Whether a word can be a verb."""
        return self._verb_at([word], 0) is not None

    def is_adjective(self, word: str) -> bool:
        """Whether a word is known as an adjective or looks like one."""
        mention = self.attributes.at([word], 0)
        if mention is not None:
            return not self.scales[mention.entry.scale].adverb
        return word in self.grammar["adjectives"] or (
            _ADJECTIVE.fullmatch(word) is not None and self.nouns.at([word], 0) is None
        )

    def begins_phrase(self, words: Sequence[str], start: int) -> bool:
        """Whether a noun stands where an article could: at the start, after a verb, a preposition or a connective."""
        if start == 0:
            return True
        known = self.grammar["prepositions"] | self.grammar["places"] | self.grammar["connectives"]
        return words[start - 1].lower() in known or self.verbs.at(words[:start], start - 1) is not None

    def differ(self, name: str, other: str) -> bool:
        """Whether one name in place of the other would be an error: no synonyms, no kinds of the same thing."""
        return name != other and other not in self._alike.get(name, ())

    def sources_at(self, severity: Severity, group: Group) -> list[Source]:
        """Sources at a distance from a group, siblings, relatives or strangers; none that are kinds of many things."""
        return [
            source
            for key, members in self.groups.items()
            if _is_at(severity, group, key)
            for source in members.sources
            if source.name not in self._generic
        ]

    def actions_at(self, severity: Severity, group: Group) -> list[str]:
        """Actions at a distance from a group, each once."""
        found = (
            action for key, members in self.groups.items() if _is_at(severity, group, key) for action in members.actions
        )
        return list(dict.fromkeys(found))

    def step_away(self, severity: Severity, step: Step, upwards: bool, taken: Collection[str] = ()) -> str:
        """A word one or two steps towards the farther end of a scale, or that end; `upwards` decides in the middle.

        It is the first word of its step that is not `taken`, if there is one.
        """
        steps = self.scales[step.scale].steps
        after = len(steps) - 1 - step.index
        if step.index < after or (step.index == after and upwards):
            distance, sign = after, 1
        else:
            distance, sign = step.index, -1
        wanted = {Severity.LOW: 1, Severity.MEDIUM: 2, Severity.HIGH: distance}[severity]
        words = steps[step.index + sign * min(wanted, distance)]
        return next((word for word in words if word not in taken), words[0])

    def _load_taxonomy(self, taxonomy: Mapping[str, dict]) -> None:
        for realm, categories in taxonomy.items():
            for category, groups in categories.items():
                for name, entry in groups.items():
                    group = (realm, category, name)
                    kinds = (("sources", "count"), ("mass", "mass"), ("plural", "plural"))
                    sources = tuple(
                        Source(text, group, number) for kind, number in kinds for text in entry.get(kind, ())
                    )
                    actions = tuple(entry["actions"])
                    self.groups[group] = Members(sources, actions, tuple(entry.get("deeds", actions)))
                    for action in entry["actions"]:
                        self.groups_of_action.setdefault(action, []).append(group)
        for members in self.groups.values():
            for source in members.sources:
                self.nouns.add(source.name, source, "plural" if source.number == "plural" else "singular")
            for action in members.actions:
                for form in VERB_FORMS:
                    self.verbs.add(verb_form(action, form), action, form)
        for members in self.groups.values():  # after all singulars, which some of these look like
            for source in members.sources:
                if source.number == "count":
                    self.nouns.add(plural(source.name), source, "plural")

    def _load_alike(self, sets: Sequence[Sequence[str]]) -> None:
        for names in sets:
            for name in names:
                self._alike.setdefault(name, set()).update(names)

    def _load_synonyms(self, synonyms: Mapping[str, list[list[str]]]) -> None:
        for words in map(tuple, synonyms["nouns"]):
            for word in words:
                self.synonyms["nouns"].add(word, words, "singular")
                self.synonyms["nouns"].add(plural(word), words, "plural")
        for word, *others in synonyms["nouns_oneway"]:
            self.synonyms["nouns"].add(word, (word, *others), "singular")
            if not any(other.endswith("ing") for other in others):  # which have no plural
                self.synonyms["nouns"].add(plural(word), (word, *others), "plural")
        for words in map(tuple, synonyms["verbs"]):
            for word in words:
                for form in VERB_FORMS:
                    self.synonyms["verbs"].add(verb_form(word, form), words, form)
        for words in map(tuple, synonyms["other"]):
            for word in words:
                self.synonyms["other"].add(word, words)
        for word, *others in synonyms["oneway"]:
            self.synonyms["other"].add(word, (word, *others))

    def _verb_at(self, words: Sequence[str], start: int) -> Mention[str] | None:
        """A verb that a word may be: what a source does, or one whose forms are nouns as well."""
        single = words[start : start + 1]
        return self.verbs.at(single, 0) or self._other_verbs.at(single, 0)

    def _is_property(self, words: Sequence[str], mention: Mention[T]) -> bool:
        """Whether a word that can be an adjective, an adverb or a noun describes something here."""
        if mention.stop > mention.start + 1 or words[mention.start].lower() not in self.grammar["homographs"]:
            return True
        before = words[mention.start - 1].lower() if mention.start else ""
        after = words[mention.stop].lower() if mention.stop < len(words) else ""
        if before in self.grammar["copulas"] | self.grammar["intensifiers"]:
            return True
        if before and self._verb_at(words, mention.start - 1) is not None and before not in self._function_words:
            return False
        noun_follows = bool(after) and after not in self._function_words and not after.endswith("ly")
        following = self._verb_at(words, mention.stop) if after else None
        return noun_follows and not (following is not None and following.form == "s")

    def _governs(self, words: Sequence[str], mention: Mention[T]) -> bool:
        """Whether what follows belongs to the words: "inside the room", "at the end of a phrase"."""
        after = words[mention.stop].lower() if mention.stop < len(words) else ""
        single = mention.stop == mention.start + 1
        place = single and words[mention.start].lower() in self.grammar["place_adverbs"]
        return (place and after in self.grammar["objects"]) or (not single and after == "of")

    def _is_place(self, words: Sequence[str], mention: Mention[Source]) -> bool:
        """Whether a noun follows a preposition of place, with no other noun and no verb between.

        What is played or hit is no place: "a note on a tabla", "a tap on a glass".
        """
        if mention.entry.group[0] == "music":
            return False
        for index in range(mention.start - 1, max(mention.start - 4, -1), -1):
            if words[index].lower() in self.grammar["places"]:
                struck = self.nouns.at(words[:index], index - 1) if index else None
                return struck is None or struck.entry.group[:2] != ("object", "motion")
            if self.nouns.at(words[: index + 1], index) or self.verbs.at(words[: index + 1], index):
                return False
        return False


@functools.cache
def load() -> Lexicon:
    """The lexicon of the package."""
    return Lexicon(tomllib.loads(resources.files(__package__).joinpath("lexicon.toml").read_text(encoding="utf-8")))


def inflected(source: Source, form: str) -> str:
    """A source in the singular or, where it has one, the plural."""
    return plural(source.name) if form == "plural" and source.number == "count" else source.name


def _is_at(severity: Severity, group: Group, other: Group) -> bool:
    if severity is Severity.LOW:
        return group == other
    if severity is Severity.MEDIUM:
        return group[:2] == other[:2] and group != other
    return group[0] != other[0]


def _key(words: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Words as the tables have them, and a possessive ending set apart."""
    lowered = [word.lower().replace("’", "'") for word in words]
    ending = "'s" if lowered[-1].endswith("'s") else ""
    return (*lowered[:-1], lowered[-1].removesuffix("'s")), ending

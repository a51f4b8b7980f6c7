"""A card as the rule-based perturber sees it: its texts taken apart, with the sources and actions found in them.

A perturbation of a field is a list of items in an order that does not depend on the severity, each item a set of
changes. Low applies the first item, medium at least two and half of them, high all: so what low touches is among what
medium touches, and so on. What an item becomes may depend on the severity (a sibling, a relative, a stranger).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaxeval.cards.schema import FIELDS, TEXT_FIELDS, AudioCard, Kind, Value
from jaxeval.perturb.cells import ErrorType, Severity
from jaxeval.perturb.draws import pick, shuffled
from jaxeval.perturb.lexicon import Group, Lexicon, Mention, Source
from jaxeval.perturb.wording import Change, Wording, count_words

Item = list[tuple[int, Change]]
"""Changes that go together, each with the number of the part it is in."""
PEOPLE = ("human", "people")
"""Realm and category of those who are in a scene without being its sound."""
TYPICAL = 4
"""Sources at the head of a group, from which sounds are added."""


@dataclass(frozen=True)
class Part:
    """One text of a field: a tag, or the field's only text."""

    text: str
    wording: Wording
    sources: tuple[Mention[Source], ...]
    actions: tuple[Mention[str], ...]


class Scene:
    """The texts of a card and what is chosen for all of them together.

    Attributes:
        parts: of each text field of the card, by name.
    """

    def __init__(self, lexicon: Lexicon, card: AudioCard, type: ErrorType, severity: Severity, seed: int):
        self.lexicon = lexicon
        self.severity = severity
        self.key = (seed, card.id, type)
        self.parts = {
            name: [self._part(name, text) for text in _texts(card.values[name])]
            for name in TEXT_FIELDS
            if name in card.values
        }

    @functools.cached_property
    def sources(self) -> dict[str, Source]:
        """All sources of the card by name, in an order that depends on nothing but their names and the key."""
        mentions = [mention for parts in self.parts.values() for part in parts for mention in part.sources]
        by_name = {mention.entry.name: mention.entry for mention in mentions}
        return {name: by_name[name] for name in shuffled(by_name, *self.key)}

    @functools.cached_property
    def replacements(self) -> dict[str, Source]:
        """What each source of the card becomes at this severity; none is a source of the card or chosen twice."""
        chosen: dict[str, Source] = {}
        taken = set(self.sources)
        for name, source in self.sources.items():
            pool = self._pool(self.severity, source, taken) or self._pool(Severity.MEDIUM, source, taken)
            if pool:
                chosen[name] = pick(pool, *self.key, self.severity, name)
                taken.add(chosen[name].name)
        return chosen

    @functools.cached_property
    def added_sounds(self) -> list[tuple[Source, str]]:
        """Four sounds the card does not have, from likely to unlikely, each with what it does."""
        groups = {source.group for source in self.sources.values()}
        home = next(iter(self.sources.values())).group if groups else pick(list(self.lexicon.groups), *self.key, "home")
        kinds: list[Callable[[Group], bool]] = [
            lambda group: group[:2] == home[:2],
            lambda group: group[0] == home[0] and group[1] != home[1],
            *2 * [lambda group: all(group[0] != other[0] for other in groups | {home})],
        ]
        free = [group for group in self.lexicon.groups if group not in groups | {home}]
        sounds: list[tuple[Source, str]] = []
        for index, fits in enumerate(kinds):
            pool = [
                source
                for group in [group for group in free if fits(group)] or free
                for source in self.lexicon.groups[group].sources[:TYPICAL]
                if source.number == "count" and " " not in source.name
            ]
            source = pick(pool, *self.key, "added", index)
            deeds = self.lexicon.groups[source.group].deeds
            sounds.append((source, pick(deeds, *self.key, "action", source.name)))
            free.remove(source.group)
        return sounds

    def _pool(self, severity: Severity, source: Source, taken: set[str]) -> list[Source]:
        """What may stand for a source at a distance, the best fitting alone: counted as it is, and of as many words.

        A stranger of people is an animal, which can do or suffer what the text says of them.
        """
        pool = [
            each
            for each in self.lexicon.sources_at(severity, source.group)
            if each.name not in taken
            and self.lexicon.differ(source.name, each.name)
            and not (severity is Severity.HIGH and source.group[:2] == PEOPLE and each.group[0] != "animal")
        ]
        same_number = [each for each in pool if each.number == source.number]
        same_words = [each for each in same_number if each.name.count(" ") == source.name.count(" ")]
        return same_words or same_number or pool

    def perturbed(self, field: str, items: Sequence[Item]) -> Value:
        """The field after as many items as the severity takes."""
        return self.joined(field, self.changed(field, items[: item_count(len(items), self.severity)]))

    def changed(self, field: str, items: Sequence[Item]) -> list[str]:
        """The texts of a field after changes that do not meet; in a field of few words, those there is room for."""
        parts = self.parts[field]
        limit = FIELDS[field].words
        room = math.inf if limit is None else max(0, limit - sum(count_words(part.text) for part in parts))
        changes: dict[int, list[Change]] = {}
        for item in items:
            for number, change in item:
                taken = changes.setdefault(number, [])
                more = count_words(change.text) - (change.stop - change.start)
                if more <= max(room, 0) and not any(change.meets(other) for other in taken):
                    taken.append(change)
                    room -= more
        return [part.wording.with_changes(changes.get(number, ())) for number, part in enumerate(parts)]

    def joined(self, field: str, texts: Sequence[str]) -> Value:
        """Texts as the field holds them."""
        return tuple(texts) if FIELDS[field].kind is Kind.TAGS else texts[0]

    def _part(self, field: str, text: str) -> Part:
        wording = Wording.of(text)
        tag = field in ("nouns", "complementary_sounds")
        sources = () if field in ("verbs", "adjectives") else tuple(self.lexicon.sources_in(wording.words, tag=tag))
        actions = self.lexicon.verbs_in(wording.words, sources, self.lexicon.verbs, alone=field == "verbs")
        return Part(text, wording, sources, () if field == "nouns" else tuple(actions))


def item_count(available: int, severity: Severity) -> int:
    """How many of the items a severity takes."""
    wanted = {Severity.LOW: 1, Severity.MEDIUM: max(2, math.ceil(available / 2)), Severity.HIGH: available}
    return min(available, wanted[severity])


def _texts(value: Value) -> tuple[str, ...]:
    return (
        (value,) if isinstance(value, str) else tuple(str(each) for each in value) if isinstance(value, tuple) else ()
    )

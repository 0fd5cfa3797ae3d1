"""Make reading samples of generated passages: several facts about few random names.

The same names come again and again, so that each statement must be read exactly.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scripts.embedded.values import Values
from scripts.training.tasks.bioasq_tasks import listed
from scripts.training.tasks.frames import Frame, read_frames
from scripts.training.tasks.names import Names, parts
from scripts.training.tasks.reading import Asked, ReadingTasks, Source, draw_way
from scripts.training.tasks.samples import Sample

_SLOT: Final = re.compile(r"\{([a-z]+)(\d?)\}")
_GERMAN: Final = 0.08
# Kinds of names of which a context has few, so that they come again and again.
POOLED: Final = ("drug", "gene", "disease", "bacterium")


@dataclass(frozen=True, slots=True)
class _Fact:
    """Hold one stated fact: ``truth`` is states, denies or inverse."""

    frame: Frame
    slots: dict[str, str]
    truth: str
    sentence: str
    key: str


class StatementTasks:
    """Draw contexts of generated passages with questions of every kind."""

    def __init__(self, tasks: ReadingTasks) -> None:
        self._tasks = tasks

    def group(self, seed: str) -> list[Sample]:
        draw = random.Random(seed)
        drawer = _Drawer(draw)
        facts, sources = drawer.passages(draw.choice((3, 4, 4, 5, 8)))
        context = self._tasks.context(sources)
        asks = [asked for fact in facts for asked in drawer.asks(fact)]
        asks += drawer.unanswered(facts)
        draw.shuffle(asks)
        return [self._tasks.sample(context, asked, draw_way(draw)) for asked in asks[:9]]


class _Drawer:
    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.names = Names(Values(draw))
        self._pool = {kind: [_name(self.names, self.draw, kind) for _ in range(3)] for kind in POOLED}

    def passages(self, number: int) -> tuple[list[_Fact], list[Source]]:
        """Return facts with different frames or names, and the passages that state them."""
        facts: list[_Fact] = []
        sources: list[Source] = []
        for _ in range(number):
            key = f"PMID:{self.draw.randint(1_000_000, 39_999_999)}"
            new = [self._fact(key, facts) for _ in range(self.draw.choice((1, 1, 2)))]
            facts += new
            lines = [fact.sentence for fact in new]
            for _ in range(self.draw.choice((0, 1, 1, 2))):
                opener = filled(self.draw.choice(read_frames().openers), self._slots())
                lines.insert(self.draw.randint(0, len(lines)), opener)
            title = filled(self.draw.choice(read_frames().titles), new[0].slots) if self.draw.random() < 0.4 else ""
            sources.append(Source(key, " ".join(lines), title))
        return facts, sources

    def asks(self, fact: _Fact) -> list[Asked]:
        """Return questions that the fact answers: yes or no, a name, the opposite, an explanation."""
        draw, frame = self.draw, fact.frame
        found: list[Asked] = []
        german = draw.random() < _GERMAN
        if fact.truth != "inverse" and frame.asks:
            asks = frame.german if german and frame.german else frame.asks
            found.append(
                self._whether(fact, draw.choice(asks), yes=fact.truth == "states", german=asks is frame.german)
            )
        if frame.inverts and fact.truth != "denies" and draw.random() < 0.7:
            found.append(self._whether(fact, draw.choice(frame.inverts), yes=fact.truth == "inverse"))
        if fact.truth == "inverse" and draw.random() < 0.5:
            found.append(self._whether(fact, draw.choice(frame.asks), yes=False))
        if fact.truth == "states" and frame.facts and draw.random() < 0.8:
            found.append(self._name_asked(fact, german=german))
        if fact.truth == "states" and frame.facts and draw.random() < 0.15:
            found.append(self._choice(fact))
        if draw.random() < 0.12:
            found.append(self._explained(fact))
        return found

    def unanswered(self, facts: list[_Fact]) -> list[Asked]:
        """Return questions about the same names that no passage answers."""
        found: list[Asked] = []
        for _ in range(self.draw.choice((3, 4))):
            frame = self.draw.choice(read_frames().frames)
            slots = self._slots()
            texts = [*frame.asks, *(text for text, _ in frame.facts)]
            text = self.draw.choice(texts)
            if not _is_touched(frame, text, slots, facts):
                found.append(Asked("none", filled(text, slots)))
        return found

    def _fact(self, key: str, facts: list[_Fact]) -> _Fact:
        while True:
            frame, slots = self.draw.choice(read_frames().frames), self._slots()
            truth = self.draw.choices(
                ("states", "denies", "inverse"), (5, 4 * bool(frame.denies), 2 * bool(frame.inverse))
            )[0]
            template = self.draw.choice(getattr(frame, truth))
            # Two facts of one frame share no name, or a question would have two answers.
            if all(
                fact.frame is not frame or not set(_used(frame, slots)) & set(_used(frame, fact.slots))
                for fact in facts
            ):
                return _Fact(frame, slots, truth, _capital(filled(template, slots)), key)

    def _whether(self, fact: _Fact, template: str, *, yes: bool, german: bool = False) -> Asked:
        words = ("Ja", "Nein") if german else ("Yes", "No")
        kind = "yes" if yes else "no"
        question = filled(template, fact.slots)
        return Asked(kind, question, words[not yes], (fact.key,), fact.sentence, german=german)

    def _name_asked(self, fact: _Fact, *, german: bool) -> Asked:
        german = german and bool(fact.frame.german_facts)
        template, slot = self.draw.choice(fact.frame.german_facts if german else fact.frame.facts)
        if "{" + slot.split()[0] + "}" not in " ".join(fact.frame.states):
            raise ValueError(f"no sentence has {slot}")
        answer = listed([fact.slots[name] for name in slot.split()[::2]], "und" if german else "and")
        if slot.split()[0] in _slots_of(fact.sentence, fact.slots):
            return Asked("list" if " " in slot else "factoid", filled(template, fact.slots), answer, (fact.key,),
                         fact.sentence, german=german)  # fmt: skip
        return Asked("none", filled(template, fact.slots), german=german)

    def _choice(self, fact: _Fact) -> Asked:
        facts = [
            one for one in fact.frame.facts if " " not in one[1] and one[1] in _slots_of(fact.sentence, fact.slots)
        ]
        if not facts:
            return self._explained(fact)
        template, slot = self.draw.choice(facts)
        kind = slot.rstrip("2")
        choices = list(dict.fromkeys([fact.slots[slot], *(_name(self.names, self.draw, kind) for _ in range(3))]))
        self.draw.shuffle(choices)
        return Asked("choice", filled(template, fact.slots), fact.slots[slot], (fact.key,), fact.sentence,
                     tuple(choices))  # fmt: skip

    def _explained(self, fact: _Fact) -> Asked:
        slot = next(
            name for name in ("disease", "drug", "gene", "bacterium") if name in _slots_of(fact.sentence, fact.slots)
        )
        others = [
            name for name in ("gene", "tissue", "symptom", "disease") if name in _slots_of(fact.sentence, fact.slots)
        ]
        about = " and ".join(dict.fromkeys([fact.slots[slot], *(fact.slots[name] for name in others)][:2]))
        return Asked("explanation", f"What is known about {about}?", fact.sentence, (fact.key,))

    def _slots(self) -> dict[str, str]:
        return random_slots(self.names, self.draw, self._pool)


def random_slots(names: Names, draw: random.Random, pool: Mapping[str, Sequence[str]] | None = None) -> dict[str, str]:
    """Return a name for each slot of a frame; ``pool`` has at least three names of each of ``POOLED``."""
    drawn = pool or {kind: [_name(names, draw, kind) for _ in range(3)] for kind in POOLED}
    slots: dict[str, str] = {}
    for kind in POOLED:
        slots[kind], slots[f"{kind}2"], slots[f"{kind}3"] = draw.sample(drawn[kind], 3)
    for kind in ("tissue", "symptom", "number", "year"):
        slots[kind] = _name(names, draw, kind)
    slots["symptom2"] = draw.choice([one for one in parts("symptoms") if one != slots["symptom"]])
    return slots


def filled(template: str, slots: Mapping[str, str]) -> str:
    return _SLOT.sub(lambda found: slots[found[1] + found[2]], template)


def _name(names: Names, draw: random.Random, kind: str) -> str:
    if kind == "number":
        return str(draw.randint(2, 98))
    if kind == "year":
        return str(draw.randint(1985, 2025))
    return str(getattr(names, kind)())


def _used(frame: Frame, slots: dict[str, str]) -> list[str]:
    """Return the names of the frame's questions; common things such as tissues are no names."""
    texts = [*frame.asks, *frame.inverts, *(text for text, _ in frame.facts)]
    names = {kind + number for text in texts for kind, number in _SLOT.findall(text)}
    return [slots[name] for name in sorted(names) if name.rstrip("23") in POOLED]


def _slots_of(sentence: str, slots: dict[str, str]) -> set[str]:
    return {name for name, value in slots.items() if value.casefold() in sentence.casefold()}


def _is_touched(frame: Frame, text: str, slots: dict[str, str], facts: list[_Fact]) -> bool:
    """Return whether a passage may answer: it has a fact of the frame with one of the question's names."""
    asked = {slots[kind + number] for kind, number in _SLOT.findall(text)}
    return any(
        fact.frame is frame and asked & {fact.slots[n] for n in _slots_of(fact.sentence, fact.slots)} for fact in facts
    )


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:] if sentence[:1].islower() and sentence[1:2].islower() else sentence

"""Make samples of random names, so that what a sentence says has to be read: frames of statements and questions."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from scripts.embedded.values import Values
from scripts.training.tasks.frames import Frame
from scripts.training.tasks.names import Names
from scripts.training.tasks.statement_tasks import filled, random_slots
from scripts.training.tasks.verdict_tasks import verdict_frames
from scripts.verifier.claims import claim_of
from scripts.verifier.samples import CONTRADICTS, NEITHER, SUPPORTS, Sample, asked_whether, capital, with_neighbour
from scripts.verifier.wordings import LANGUAGES, wordings

_SLOT: Final = re.compile(r"\{(drug|gene|disease|bacterium)2?\}")
_OTHER_NAME: Final = 0.2
_OTHER_LANGUAGE: Final = 0.35
_TITLED: Final = 0.3
_BESIDE: Final = 0.2
_OTHER_FACT: Final = 0.08
# The words of a question that are no names.
_ASPECT: Final = re.compile(r"(?<![\w{])[^\W\d_-]{4,}")


class FrameSamples:
    """Draw statements about random names, and questions that they answer by yes, by no, or not."""

    def __init__(self) -> None:
        self._frames = verdict_frames()
        self._spoken: Sequence[Mapping[str, Any]] = wordings()["spoken"]
        self._facts: Sequence[Mapping[str, Sequence[str]]] = wordings()["facts"]

    def verdicts(self, number: int, draw: random.Random) -> Iterator[Sample]:
        """Yield questions of yes or no in English, of the frames that also teach the default model."""
        for _ in range(number):
            slots = random_slots(Names(Values(draw)), draw)
            said, asked, verdict = self._framed(draw.choice(self._frames), draw)
            if draw.random() < _OTHER_FACT and (other := self._figure(asked, draw)):
                said, verdict = other, NEITHER
            yield self._sample("frames", (said, asked, verdict), slots, draw)

    def _figure(self, asked: str, draw: random.Random) -> str:
        """Return a figure of what a question is about, which answers none of yes or no; "" where there is none."""
        said = [said for one in self._facts for said in one["says"] if "{number}" in said]
        fits = [one for one in said if any(f"{{{name}}}" in one for name in _SLOT.findall(asked))]
        return draw.choice(fits) if fits else ""

    def general(self, number: int, lines: Sequence[str], draw: random.Random) -> Iterator[Sample]:
        """Yield questions for a name with real sentences that have their words but not the name."""
        asks = [(asked, re.findall(_ASPECT, asked)) for one in self._facts for asked in one["asks"]]
        of_word = {word: [line for line in lines if word in line.lower()] for _, words in asks for word in words}
        fits = [(asked, word) for asked, words in asks for word in words if of_word[word]]
        for _ in range(number):
            asked, word = draw.choice(fits)
            slots = random_slots(Names(Values(draw)), draw)
            yield Sample("general", filled(asked, slots), draw.choice(of_word[word]), 0, NEITHER)

    def spoken(self, number: int, draw: random.Random) -> Iterator[Sample]:
        """Yield questions of yes or no in four languages, some about what held once."""
        for _ in range(number):
            slots = random_slots(Names(Values(draw)), draw)
            one = draw.choice(self._spoken)
            side = draw.choice(("says", "denies", "old") if one["old"] else ("says", "denies"))
            # What was a contraindication once, or is one now, turns the answer of its own question.
            verdict = SUPPORTS if side == "says" else CONTRADICTS
            language = draw.choice(LANGUAGES[1:]) if draw.random() < _OTHER_LANGUAGE else "en"
            framed = draw.choice(one[side]), draw.choice(one[language]), verdict
            yield self._sample("spoken", framed, slots, draw)

    def facts(self, number: int, draw: random.Random) -> Iterator[Sample]:
        """Yield questions for a name with the sentence that has it, and the same of another fact or subject."""
        for _ in range(number):
            slots = random_slots(Names(Values(draw)), draw)
            one = draw.choice(self._facts)
            said = draw.choice(one["says"])
            asked = draw.choice(one["asks"])
            subject = "drug" if "{drug}" in asked else "disease"
            told = _told(said, slots, draw)
            yield Sample("facts", filled(asked, slots), told, 1, -1)
            if draw.random() < 0.5:
                other = {**slots, subject: slots[f"{subject}3"]}
                yield Sample("facts", filled(asked, other), told, 0, NEITHER)
                continue
            about = [
                each
                for each in self._facts
                if each is not one and f"{{{subject}}}" in each["asks"][0] and each["asks"][0] not in one["asks"]
            ]
            # Causes and genes of a disease answer one another's questions.
            yield Sample("facts", filled(asked, slots), _told(draw.choice(draw.choice(about)["says"]), slots, draw), 0,
                         NEITHER)  # fmt: skip

    def _framed(self, frame: Frame, draw: random.Random) -> tuple[str, str, int]:
        if frame.inverse and frame.inverts and draw.random() < 0.3:
            if draw.random() < 0.5:
                return draw.choice(frame.inverse), draw.choice(frame.inverts), SUPPORTS
            return draw.choice(frame.states), draw.choice(frame.inverts), CONTRADICTS
        against = (*frame.denies, *frame.inverse)
        if against and draw.random() < 0.5:
            return draw.choice(against), draw.choice(frame.asks), CONTRADICTS
        return draw.choice(frame.states), draw.choice(frame.asks), SUPPORTS

    def _sample(self, kind: str, framed: tuple[str, str, int], slots: Mapping[str, str], draw: random.Random) -> Sample:
        said, asked, verdict = framed
        told, named = _told(said, slots, draw), sorted(set(_SLOT.findall(asked)))
        if named and draw.random() < _OTHER_NAME:
            changed = draw.choice(named)
            slots, verdict = {**slots, changed: slots[f"{changed}3"]}, NEITHER
        if draw.random() < _BESIDE:
            other = draw.choice(draw.choice(self._frames).states)
            strange = {**random_slots(Names(Values(draw)), draw)}
            told = with_neighbour(told, [_capital(filled(other, strange))], draw, 1.0)
        query = capital(filled(asked, slots))
        claim = claim_of(query)
        query = asked_whether(claim, draw) if claim and draw.random() < 0.3 else query
        return Sample(kind, query, told, int(verdict != NEITHER), verdict)


def _told(said: str, slots: Mapping[str, str], draw: random.Random) -> str:
    """Return a sentence alone or below its title, its subject by name or as "it"."""
    line = _capital(filled(said, slots))
    first = re.match(
        r"\{(drug|gene|disease)\} (?=is|can|was|has|acts|inhibits|presents|begins|affects|must|needs)", said
    )
    if first is None or draw.random() >= _TITLED:
        return line
    name = capital(slots[first[1]])
    return f"{name}. It{line[len(name) :]}" if draw.random() < 0.6 else f"{name}. {line}"


def _capital(sentence: str) -> str:
    return capital(sentence) if sentence[1:2].islower() else sentence

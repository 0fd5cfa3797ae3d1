"""Make samples of MedQuAD and COVID-QA: which sentence answers a question, and which near ones do not."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from scripts.verifier.samples import NEITHER, UNTOLD, Sample, one_line, with_neighbour
from scripts.verifier.sources import Entry, Span
from scripts.verifier.study_samples import cut
from scripts.verifier.wordings import LANGUAGES, wordings
from server.methods.shared.sentences import split_sentences

_OTHER_LANGUAGE: Final = 0.22
_OWN_WORDING: Final = 0.6
_TITLED: Final = 0.45
_PRONOUN: Final = 0.35
# Openings of answers that carry nothing.
_KEY_POINTS: Final = re.compile(r"^(?:Key Points )?[-–] ")
# An answer to one of these mostly answers the other as well.
_NEAR_KINDS: Final = (
    {"causes", "genetic changes", "information", "susceptibility", "inheritance"},
    {"treatment", "considerations", "prevention", "information", "research"},
    {"symptoms", "information", "complications", "exams and tests", "outlook", "stages", "considerations"},
    {"frequency", "information"},
)


def entry_lines(entry: Entry) -> list[str]:
    """Return the sentences with which an answer begins."""
    text = _KEY_POINTS.sub("", one_line(entry.answer))
    lines = [one.line.removeprefix("- ") for one in split_sentences(text)]
    return [line for line in lines if len(line) <= 300][:4]


def entry_question(entry: Entry, draw: random.Random) -> str:
    """Return MedQuAD's question, or one of our wordings of it, some in another language."""
    forms: Mapping[str, Sequence[str]] = wordings()["kinds"].get(entry.kind, {})
    if not forms or draw.random() >= _OWN_WORDING:
        return entry.question.replace(" ?", "?").replace("What is (are)", "What is")
    others = [language for language in LANGUAGES[1:] if forms.get(language)]
    language = draw.choice(others) if draw.random() < _OTHER_LANGUAGE else "en"
    return draw.choice(forms[language]).format(focus=entry.focus)


def said_of(entry: Entry, line: str, draw: random.Random) -> str:
    """Return a sentence as it is found: alone, below its title, or below it and without its subject's name."""
    if draw.random() >= _TITLED and entry.focus.lower() in line.lower():
        return line
    if draw.random() < _PRONOUN and line.lower().startswith(entry.focus.lower()):
        line = f"It{line[len(entry.focus) :]}"
    return f"{entry.focus}. {line}"


class EntrySamples:
    """Draw answers of MedQuAD with near ones: of another kind on the same focus, of the same kind on another."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = [one for one in entries if one.focus and entry_lines(one)]
        self._of_focus = defaultdict[str, list[Entry]](list)
        self._of_kind = defaultdict[str, list[Entry]](list)
        self._of_word = defaultdict[str, list[str]](list)
        for one in self._entries:
            self._of_focus[one.focus].append(one)
            self._of_kind[one.kind].append(one)
        for focus in self._of_focus:
            self._of_word[focus.split()[-1].lower()].append(focus)

    def draw(self, number: int, draw: random.Random) -> Iterator[Sample]:
        for one in draw.sample(self._entries, min(number, len(self._entries))):
            line = entry_lines(one)[0]
            asked, told = entry_question(one, draw), said_of(one, line, draw)
            yield Sample("medquad", asked, cut(told), 1, UNTOLD)
            yield from self._exchanged(one, asked, line, draw)
            yield from self._other_kind(one, asked, draw)

    def _exchanged(self, one: Entry, asked: str, line: str, draw: random.Random) -> Iterator[Sample]:
        near = [focus for focus in self._of_word[one.focus.split()[-1].lower()] if not _same(focus, one.focus)]
        focus = draw.choice(near) if near and draw.random() < 0.7 else draw.choice(list(self._of_focus))
        if _same(focus, one.focus):
            return
        if draw.random() < 0.5:
            other = Entry(one.source, focus, one.kind, one.question, one.answer)
            moved = re.sub(re.escape(one.focus), lambda _: focus, line, flags=re.IGNORECASE)
            if moved != line:
                yield Sample("medquad", asked, cut(said_of(other, moved, draw)), 0, NEITHER)
            return
        same_kind = [each for each in self._of_focus[focus] if each.kind == one.kind]
        other = draw.choice(same_kind or self._of_kind[one.kind])
        if not _same(other.focus, one.focus):
            yield Sample("medquad", asked, cut(said_of(other, entry_lines(other)[0], draw)), 0, NEITHER)

    def _other_kind(self, one: Entry, asked: str, draw: random.Random) -> Iterator[Sample]:
        others = [each for each in self._of_focus[one.focus] if not _near(each.kind, one.kind)]
        if others and draw.random() < 0.6:
            other = draw.choice(others)
            yield Sample("medquad", asked, cut(said_of(other, draw.choice(entry_lines(other)), draw)), 0, NEITHER)


def span_samples(spans: Sequence[Span], draw: random.Random) -> Iterator[Sample]:
    """Yield each question with the sentence of its answer, and with another of the same context, or two."""
    for one in spans:
        lines = [line.line for line in split_sentences(one.context)]
        right = [line for line in lines if one.answer in line or (line in one.answer and len(line) > 40)]
        others = [line for line in lines[1:-1] if line not in right and line not in one.answer]
        if not right or one.answer.count(".") > 3:
            continue
        yield Sample("covid_qa", one.question, cut(with_neighbour(right[0], others, draw, 0.1)), 1, UNTOLD)
        for line in draw.sample(others, min(draw.choice((1, 2)), len(others))):
            yield Sample("covid_qa", one.question, cut(line), 0, NEITHER)


def _near(one: str, other: str) -> bool:
    return one == other or any({one, other} <= kinds for kinds in _NEAR_KINDS)


def _same(one: str, other: str) -> bool:
    return one.lower() in other.lower() or other.lower() in one.lower()

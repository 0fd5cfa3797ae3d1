"""Make samples of MedRAG's verdicts: a yes-or-no question, a few sentences, yes, no or unclear.

Some are BioASQ's yes-or-no questions with sentences of their gold passages, more of them questions that were written
for single passages of its corpus. Others are made of real sentences: those of passages and ideal answers are turned
into questions, and questions about names into whether it is this name. A sentence that is negated, that has a word's
opposite, or that has another name makes the answer "no"; one about something else leaves it unclear. The rest has
random names.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from scripts.embedded.values import Values
from scripts.training.tasks.bioasq import Question, WrittenQuestion, has_phrase
from scripts.training.tasks.frames import Frame, read_frames
from scripts.training.tasks.names import Names
from scripts.training.tasks.samples import Sample, Text, Writer
from scripts.training.tasks.statement_tasks import filled, random_slots
from scripts.training.tasks.turned_questions import (
    Statement,
    asks_of_name,
    kinds_asked_for,
    opposite_of,
    reworded,
    statement_of,
    unusual_words,
    whether,
)
from server.methods.shared.sentences import split_sentences
from server.methods.shared.verdicts import UNCLEAR, NumberedSentence, VerdictPrompt
from server.methods.shared.word_overlap import stems_of

_MOST_SENTENCES: Final = 3
_STRANGER: Final = 0.25
_IDEAL: Final = 0.15
_ANSWERS_FIRST: Final = re.compile(r"^(?:yes|no)\b[\s,.:;-]*", re.IGNORECASE)
# Of a statement's words, which a passage has that says the same in its own way.
_SAME: Final = 0.6
_TRIES: Final = 200
# Of the sentences that are not denials.
_AFFIRMED: Final = 0.6
_LONGEST_NAME: Final = 60
# Of the samples of real text, whose names are replaced; and of their names.
_RENAMED: Final = 0.6
_RENAMED_NAMES: Final = 0.7
_KEPT_END: Final = 4
_FEW_TEXTS: Final = 12
_WRITTEN: Final = 8
# Of the generated samples, those that ask about another name than the sentence has.
_OTHER_THING: Final = 0.2


def verdict_frames() -> tuple[Frame, ...]:
    """Return all frames that ask yes or no."""
    return (*(one for one in read_frames().frames if one.asks), *read_frames("verdict_frames.toml").frames)


class VerdictTasks:
    """Draw questions with their sentences; as many are answered by no as by yes.

    ``texts`` are passages beside those of the questions, whose sentences are turned into questions; ``written`` are
    questions about single passages.
    """

    def __init__(
        self,
        writer: Writer,
        questions: Sequence[Question],
        texts: Sequence[str] = (),
        written: Sequence[WrittenQuestion] = (),
    ) -> None:
        self._writer = writer
        self._prompt = VerdictPrompt.load()
        self._frames = verdict_frames()
        self._asked = {form: [one for one in questions if one.yes_no == form] for form in ("yes", "no")}
        self._others = [one for one in questions if one.ideal]
        self._named = [one for one in questions if one.items and one.support()]
        self._of_kind: defaultdict[str, list[Question]] = defaultdict(list)
        for one in self._named:
            for kind in kinds_asked_for(one.text):
                self._of_kind[kind].append(one)
        own = [snippet.text for one in self._others for snippet in one.support()]
        self._texts = list(dict.fromkeys([*own, *texts]))
        self._written = list(written)
        self._counts = Counter(word for text in self._texts for word in set(re.findall(r"[\w-]+", text.casefold())))

    def group(self, seed: str) -> list[Sample]:
        draw = random.Random(seed)
        samples = [self._generated(draw) for _ in range(2)]
        if self._asked["no"] and self._asked["yes"]:
            samples += [self._of_question(draw, form) for form in ("yes", "no")]
            samples += [self._turned(draw), self._restated(draw), self._of_name(draw)]
        written = draw.sample(self._written, min(len(self._written), _WRITTEN))
        samples += [self._of_written(one, draw) for one in written]
        draw.shuffle(samples)
        return samples

    def _of_question(self, draw: random.Random, form: str) -> Sample:
        question = draw.choice(self._asked[form])
        return self._sample(draw, question.text, self._evidence(question, draw), form)

    def _evidence(self, question: Question, draw: random.Random) -> list[str]:
        """Return one to three sentences of the gold passages: mostly those that share most words with the question."""
        lines = [line for one in question.support() for line in _lines(one.text)]
        if draw.random() < _IDEAL and question.ideal:
            lines = _lines(_ANSWERS_FIRST.sub("", draw.choice(question.ideal)).capitalize())
        lines = list(dict.fromkeys(lines))
        lines.sort(key=lambda one: len(question.stems & stems_of(one)) + draw.random() * 2, reverse=True)
        return lines[: draw.randint(1, _MOST_SENTENCES)]

    def _turned(self, draw: random.Random) -> Sample:
        """Return a sentence as a question, with itself, its negation or its opposite among the sentences."""
        wants_denial = draw.random() < 0.3
        for attempt in range(_TRIES if self._texts else 0):
            lines = _lines(draw.choice(self._texts))
            found = [(line, one) for line in lines if (one := statement_of(line)) is not None]
            found = [pair for pair in found if pair[1].denied] if wants_denial and attempt < _TRIES // 2 else found
            if not found:
                continue
            line, one = draw.choice(found)
            asked, said, form = self._pair(line, one, draw)
            beside = [other for other in lines if other != line]
            return self._sample(
                draw, asked, [said, *draw.sample(beside, min(len(beside), draw.choice((0, 0, 1, 2))))], form
            )
        return self._generated(draw)

    def _pair(self, line: str, one: Statement, draw: random.Random) -> tuple[str, str, str]:
        """Return question, sentence and answer of a statement that stands in the line."""
        asked = whether(reworded(one, draw), draw)
        if one.denied:
            return asked, line, "no"
        contrary = opposite_of(one.rest, draw)
        if draw.random() < _AFFIRMED:
            return asked, line, "yes"
        if not contrary or draw.random() < 0.3:
            return asked, one.said(denied=True), "no"
        turned = Statement(one.subject, one.auxiliary, False, contrary, one.form)
        # The question has the opposite and the sentence is as it was written, or the other way round.
        if draw.random() < 0.5:
            return whether(turned, draw), line, "no"
        return asked, turned.said(denied=False), "no"

    def _restated(self, draw: random.Random) -> Sample:
        """Return a sentence of an ideal answer as a question, with sentences of the passages that it sums up."""
        wants_no = draw.random() < 0.5
        for _ in range(_TRIES if self._others else 0):
            question = draw.choice(self._others)
            ideal = [_ANSWERS_FIRST.sub("", line) for line in _lines(draw.choice(question.ideal))]
            found = [one for one in map(statement_of, ideal) if one is not None]
            if not found:
                continue
            one = draw.choice(found)
            stems = stems_of(f"{one.subject} {one.rest}")
            lines = list(dict.fromkeys(line for each in question.support() for line in _lines(each.text)))
            lines = [line for line in lines if len(stems & stems_of(line)) >= _SAME * len(stems)]
            contrary = opposite_of(one.rest, draw)
            if not lines or (not (one.denied or contrary) if wants_no else one.denied):
                continue
            said = draw.sample(lines, min(len(lines), draw.choice((1, 1, 2))))
            if one.denied:
                return self._sample(draw, whether(one, draw), said, "no")
            if wants_no:
                turned = Statement(one.subject, one.auxiliary, False, contrary, one.form)
                return self._sample(draw, whether(turned, draw), said, "no")
            return self._sample(draw, whether(one, draw), said, "yes")
        return self._generated(draw)

    def _of_written(self, one: WrittenQuestion, draw: random.Random) -> Sample:
        return self._sample(draw, one.question, _lines(one.text)[:_MOST_SENTENCES], one.answer)

    def _of_name(self, draw: random.Random) -> Sample:
        """Return a question about names as whether it is one of them: its own, or that of another question."""
        form = draw.choice(("yes", "no"))
        for _ in range(_TRIES if self._named else 0):
            question = draw.choice(self._named)
            alike = [
                one for kind in kinds_asked_for(question.text) for one in self._of_kind[kind] if one is not question
            ]
            if not alike:
                continue
            other = draw.choice(alike)
            lines = _lines(draw.choice(question.support()).text)
            lines.sort(key=lambda line: (len(question.items_in([line])), len(question.stems & stems_of(line))))
            said = lines[-draw.randint(1, 2) :]
            beside = [other.sentence_of(draw.choice(other.support()).text)]
            if form == "yes":
                names, beside = question.items_in(said), beside[draw.randint(0, 1) :]
            else:
                names = [] if question.items_in(beside) else other.items_in(beside)
            asks = [ask for name in names if len(name) <= _LONGEST_NAME
                    for ask in asks_of_name(question.text, name, is_one_of=len(question.items) > 1)]  # fmt: skip
            if asks:
                return self._sample(draw, draw.choice(asks), [*said, *beside], form)
        return self._generated(draw)

    def _generated(self, draw: random.Random) -> Sample:
        slots = random_slots(Names(Values(draw)), draw)
        frame = draw.choice(self._frames)
        form = draw.choice(("yes", "no"))
        # What is asked, and what a sentence may say for this answer.
        pairs = {"yes": [("asks", "states"), ("inverts", "inverse")],
                 "no": [("asks", "denies"), ("asks", "inverse"), ("inverts", "states")]}[form]  # fmt: skip
        pairs = [pair for pair in pairs if all(getattr(frame, part) for part in pair)]
        asked, says = (getattr(frame, part) for part in draw.choice([pairs[0], *pairs]))
        said = _capital(filled(draw.choice(says), slots))
        beside = [_capital(filled(draw.choice(read_frames().openers), slots))] if draw.random() < 0.3 else []
        question = draw.choice(asked)
        if draw.random() < _OTHER_THING and (
            named := re.findall(r"\{((?:drug|gene|disease|bacterium)\d?)\}", question)
        ):
            # The question is about another drug, or gene: what is said of this one does not answer it.
            others = random_slots(Names(Values(draw)), draw)
            changed = draw.choice(named)
            slots, form = {**slots, changed: others[changed]}, UNCLEAR
        return self._sample(draw, filled(question, slots), [said, *beside], form, is_real=False)

    def _sample(self, draw: random.Random, asked: str, lines: list[str], form: str, *, is_real: bool = True) -> Sample:
        if is_real and draw.random() < _RENAMED:
            asked, *lines = self._renamed([asked, *lines], draw)
        if draw.random() < _STRANGER and self._others:
            lines = [*lines, draw.choice(_lines(draw.choice(draw.choice(self._others).support()).text))]
        draw.shuffle(lines)
        sentences = [NumberedSentence(number, line) for number, line in enumerate(lines, 1)]
        user = self._prompt.user(asked, sentences)
        answer = form.capitalize()
        prompt = self._writer.prompt(self._prompt.system, user)
        return Sample("verdict", prompt, (Text(answer),), question=asked, context=user, answer=answer)

    def _renamed(self, texts: Sequence[str], draw: random.Random) -> list[str]:
        """Return a question and its sentences with random names for what both name, so that they must be read.

        A name keeps its end, by which it is a drug's or a disease's; words of many texts stay.
        """
        asked, *lines = texts
        names = Names(Values(draw))
        for word in unusual_words(asked):
            is_rare = len(word) > 2 and self._counts[word.casefold()] <= _FEW_TEXTS
            if is_rare and any(has_phrase(line, word) for line in lines) and draw.random() < _RENAMED_NAMES:
                is_symbol = any(char.isupper() or char.isdigit() for char in word[1:])
                new = names.gene() if is_symbol else names.values.invented() + word[-_KEPT_END:].lower()
                texts = [_replaced(text, word, new) for text in texts]
        return list(texts)


def _lines(text: str) -> list[str]:
    return [one.line for one in split_sentences(text)] or [text]


def _replaced(text: str, word: str, new: str) -> str:
    small = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
    return small.sub(lambda found: _capital(new) if found[0][:1].isupper() else new, text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

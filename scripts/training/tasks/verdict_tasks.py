"""Make samples of MedRAG's verdicts: a yes-or-no question, a few sentences, yes or no.

Half of them are BioASQ's yes-or-no questions with sentences of their gold passages. Others are made of sentences of its
passages and ideal answers, which are turned into questions; a sentence that is negated, or that has a word's opposite,
makes the answer "no". The rest has random names.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scripts.embedded.values import Values
from scripts.training.tasks.bioasq import Question
from scripts.training.tasks.frames import FRAMES, OPENERS
from scripts.training.tasks.names import Names
from scripts.training.tasks.samples import Sample, Text, Writer
from scripts.training.tasks.statement_tasks import filled, random_slots
from server.methods.medrag.chain_of_thought import Prompts
from server.methods.medrag.evidence_reasoning import EvidenceSentence
from server.methods.shared.extractive import stems_of
from server.methods.shared.sentences import split_sentences

_MAX_WORDS: Final = 42
_MOST_SENTENCES: Final = 3
_STRANGER: Final = 0.25
_IDEAL: Final = 0.15
_ANSWERS_FIRST: Final = re.compile(r"^(?:yes|no)\b[\s,.:;-]*", re.IGNORECASE)
_PRONOUN: Final = re.compile(
    r"^(?:we|it|this|these|there|they|our|that|those|here|which|what|how|he|she|i|if|when|although)\b", re.I
)
_AUXILIARY: Final = re.compile(
    r"^(?P<subject>[^,;:()]{3,90}?) (?P<aux>is|are|was|were|can|could|may|should|will|has been|have been)"
    r"(?P<no> not)? (?P<rest>[^;:]{8,160})\.$"
)
_VERB: Final = re.compile(
    r"^(?P<subject>[^,;:()]{3,90}?) (?P<aux>(?:inhibit|increase|reduce|cause|induce|promote|improve|activate|regulate|"
    r"interact|bind|lead|prevent|play|enhance|decrease|suppress|affect|mediate|repress|encode|occur|result|protect|"
    r"contribute|target|require|predict|modulate|block|bind)s)(?P<no>) (?P<rest>[^;:]{5,160})\.$"
)
_OPPOSITES: Final = (
    ("increased", "decreased"), ("increases", "decreases"), ("increase", "decrease"), ("higher", "lower"),
    ("upregulated", "downregulated"), ("up-regulated", "down-regulated"), ("effective", "ineffective"),
    ("safe", "unsafe"), ("dominant", "recessive"), ("positive", "negative"), ("agonist", "antagonist"),
    ("inhibitor", "activator"), ("inhibits", "activates"), ("improves", "worsens"), ("improved", "worsened"),
    ("sensitive", "resistant"), ("gain", "loss"), ("benign", "malignant"), ("acute", "chronic"),
    ("promotes", "prevents"), ("common", "rare"), ("essential", "dispensable"), ("enhances", "reduces"),
    ("activated", "inhibited"), ("tumor suppressor", "oncogene"), ("before", "after"), ("early", "late"),
    ("superior", "inferior"), ("beneficial", "harmful"), ("reversible", "irreversible"), ("approved", "rejected"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Statement:
    """Hold a sentence in parts: "SUBJECT AUX (not) REST."."""

    subject: str
    auxiliary: str
    denied: bool
    rest: str

    @property
    def asked(self) -> str:
        """Return the question whether it is so, without its negation."""
        subject = self.subject if self.subject[1:2].isupper() or self.subject[:1].isdigit() else _small(self.subject)
        if self._is_verb:
            return f"Does {subject} {self.auxiliary[:-1]} {self.rest}?"
        first, _, second = self.auxiliary.partition(" ")
        return f"{first.capitalize()} {subject} {second + ' ' if second else ''}{self.rest}?"

    def said(self, *, denied: bool) -> str:
        if self._is_verb:
            verb = f"does not {self.auxiliary[:-1]}" if denied else self.auxiliary
            return f"{self.subject} {verb} {self.rest}."
        first, _, second = self.auxiliary.partition(" ")
        words = [self.subject, first, "not" if denied else "", second, self.rest]
        return " ".join(word for word in words if word) + "."

    @property
    def _is_verb(self) -> bool:
        return _VERB.match(f"{self.subject} {self.auxiliary} {self.rest}.") is not None


def statement_of(sentence: str) -> Statement | None:
    """Return the parts of a simple sentence, None for any other."""
    if _PRONOUN.match(sentence) or len(sentence.split()) > _MAX_WORDS:
        return None
    found = _AUXILIARY.match(sentence) or _VERB.match(sentence)
    return Statement(found["subject"], found["aux"], bool(found["no"]), found["rest"]) if found else None


def opposite_of(text: str, draw: random.Random) -> str:
    """Return the text with one word replaced by its opposite, "" where it has none of the known words."""
    pairs = [*_OPPOSITES, *((two, one) for one, two in _OPPOSITES)]
    fits = [(one, two) for one, two in pairs if re.search(rf"\b{one}\b", text)]
    if not fits:
        return ""
    one, two = draw.choice(fits)
    return re.sub(rf"\b{one}\b", two, text, count=1)


class VerdictTasks:
    """Draw questions with their sentences; as many are answered by no as by yes."""

    def __init__(self, writer: Writer, questions: Sequence[Question]) -> None:
        self._writer = writer
        self._prompts = Prompts.load()
        self._asked = {form: [one for one in questions if one.yes_no == form] for form in ("yes", "no")}
        self._others = [one for one in questions if one.ideal]

    def group(self, seed: str, *, asked: int = 4, turned: int = 2, generated: int = 2) -> list[Sample]:
        draw = random.Random(seed)
        samples = [self._generated(draw) for _ in range(generated)]
        if self._asked["no"] and self._asked["yes"]:
            samples += [self._of_question(draw, ("yes", "no")[place % 2]) for place in range(asked)]
            samples += [self._turned(draw) for _ in range(turned)]
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
        while True:
            question = draw.choice(self._others)
            texts = [one.text for one in question.support()] + [question.ideal[0]]
            lines = [line for text in texts for line in _lines(text)]
            found = [one for one in map(statement_of, lines) if one is not None]
            if not found:
                continue
            one = draw.choice(found)
            plain = one.said(denied=False)
            contrary = opposite_of(plain, draw)
            if draw.random() < 0.5:
                said, form = plain, "yes"
            elif contrary and draw.random() < 0.6:
                said, form = contrary, "no"
            else:
                said, form = one.said(denied=True), "no"
            asked = one.asked
            if form == "no" and said == contrary and draw.random() < 0.5:
                # The question has the opposite, the sentence is as it was written.
                asked, said = (statement_of(contrary) or one).asked, plain
            beside = [line for line in lines if line not in (plain, one.said(denied=True))]
            return self._sample(
                draw, asked, [said, *draw.sample(beside, min(len(beside), draw.choice((0, 0, 1))))], form
            )

    def _generated(self, draw: random.Random) -> Sample:
        slots = random_slots(Names(Values(draw)), draw)
        frame = draw.choice([one for one in FRAMES if one.asks])
        truth = draw.choice([kind for kind in ("states", "denies", "inverse") if getattr(frame, kind)])
        said = filled(draw.choice(getattr(frame, truth)), slots)
        is_inverted = bool(frame.inverts) and truth != "denies" and draw.random() < 0.4
        asked = filled(draw.choice(frame.inverts if is_inverted else frame.asks), slots)
        form = "yes" if truth == ("inverse" if is_inverted else "states") else "no"
        beside = [filled(draw.choice(OPENERS), slots)] if draw.random() < 0.3 else []
        return self._sample(draw, asked, [said, *beside], form)

    def _sample(self, draw: random.Random, asked: str, lines: list[str], form: str) -> Sample:
        if draw.random() < _STRANGER and self._others:
            lines = [*lines, draw.choice(_lines(draw.choice(draw.choice(self._others).support()).text))]
        draw.shuffle(lines)
        sentences = [EvidenceSentence(number, line) for number, line in enumerate(lines, 1)]
        inputs = self._prompts.verdict(asked, [one.thought for one in sentences])
        answer = form.capitalize()
        prompt = self._writer.prompt(inputs.system, inputs.user)
        return Sample("verdict", prompt, (Text(answer),), question=asked, context=inputs.user, answer=answer)


def _lines(text: str) -> list[str]:
    return [one.line for one in split_sentences(text)] or [text]


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]

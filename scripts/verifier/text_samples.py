"""Make samples of BioASQ's questions with their snippets, and of questions of yes or no written for its texts.

Only questions that the evaluations do not hold out, and no article of those.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from scripts.training.tasks.bioasq import Question, WrittenQuestion, read_questions, read_written
from scripts.verifier.claims import claim_of
from scripts.verifier.neighbours import Neighbours
from scripts.verifier.samples import NEITHER, UNTOLD, Sample, asked_whether, verdict_of, with_neighbour
from scripts.verifier.study_samples import cut
from server.methods.shared.sentences import split_sentences
from server.methods.shared.word_overlap import stems_of

_CLAIMS: Final = 0.3
_SNIPPETS: Final = 3
_NO_SNIPPETS: Final = 8
_NEAR: Final = 2
_STRANGER: Final = 0.12
_TOLD: Final = 0.6
_FEWEST_STEMS: Final = 4


class TextSamples:
    """Draw questions about texts of BioASQ's corpus; near texts are found once, on construction."""

    def __init__(self, folder: Path) -> None:
        self._questions = read_questions(folder, held_out=False)
        self._written = read_written(folder, held_out=False)
        groups = defaultdict[str, set[str]](set)
        for question in self._questions:
            for snippet in question.snippets:
                groups[snippet.text].add(question.question_id)
        texts = list(dict.fromkeys([*(one.text for one in self._written), *groups]))
        # A text that no question has is its own group.
        group_of = [min(groups[text]) if groups.get(text) else text for text in texts]
        own = dict(zip(texts, group_of, strict=True))
        self._texts = texts
        near = Neighbours(texts)
        try:
            self._near_question = {
                one.question_id: near.of(one.text, frozenset({one.question_id}), group_of) for one in self._questions
            }
            self._near_written = {
                one.question: near.of(one.question, frozenset({own[one.text]}), group_of) for one in self._written[::2]
            }
        finally:
            near.close()

    @property
    def texts(self) -> Sequence[str]:
        return self._texts

    def written(self, number: int, near_share: float, draw: random.Random) -> Iterator[Sample]:
        """Yield written questions, or claims of theirs, with their text, a share of them with a near text too."""
        for one in draw.sample(self._written, min(number, len(self._written))):
            yield self._of_written(one, draw)
            near = self._near_written.get(one.question)
            if near and draw.random() < 2 * near_share:
                yield Sample("near", one.question, cut(draw.choice(near[:5])), 0, NEITHER)

    def _of_written(self, one: WrittenQuestion, draw: random.Random) -> Sample:
        verdict, claim = verdict_of(one.answer), claim_of(one.question)
        asked = asked_whether(claim, draw) if claim and draw.random() < _CLAIMS else one.question
        evidence = with_neighbour(cut(one.text), [draw.choice(self._texts)], draw, _STRANGER)
        return Sample("written", asked, cut(evidence), int(verdict != NEITHER), verdict)

    def asked(self, draw: random.Random) -> Iterator[Sample]:
        """Yield BioASQ's questions with sentences of their snippets, and as many near texts of other questions."""
        for question in self._questions:
            verdict = verdict_of(question.yes_no) if question.yes_no else UNTOLD
            support = list({one.text: one for one in question.support()}.values())
            most = _NO_SNIPPETS if question.yes_no == "no" else _SNIPPETS
            for one in draw.sample(support, min(most, len(support))):
                lines = [line.line for line in split_sentences(one.text)] or [one.text]
                line = question.sentence_of(one.text)
                beside = [other for other in lines if other != line]
                yield Sample("bioasq", question.text, cut(with_neighbour(line, beside, draw, 0.25)), 1, verdict)
            near = self._near_question[question.question_id]
            for text in draw.sample(near, min(_NEAR, len(near))):
                yield Sample("near", question.text, cut(_one_line_of(text, draw)), 0, NEITHER)

    def told(self) -> list[tuple[str, str]]:
        """Return sentences of the answers that people wrote to BioASQ's questions, with the one of a snippet nearest.

        Pairs of equal sentences, and those that share too little for the one to tell the other, are left out.
        """
        found = []
        for question in self._questions:
            lines = [line.line for one in question.support() for line in split_sentences(one.text)]
            for said in dict.fromkeys(line.line for text in question.ideal for line in split_sentences(text)):
                stems = stems_of(said)
                best = max(lines, key=lambda line: len(stems & stems_of(line)), default="")
                if len(stems) >= _FEWEST_STEMS and len(stems & stems_of(best)) >= _TOLD * len(stems) and best != said:
                    found.append((said, best))
        return found

    @property
    def questions(self) -> Sequence[Question]:
        return self._questions


def _one_line_of(text: str, draw: random.Random) -> str:
    lines = [one.line for one in split_sentences(text)] or [text]
    return draw.choice(lines)

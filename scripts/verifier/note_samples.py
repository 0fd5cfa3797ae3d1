"""Make samples of twin notes: which sentence answers a question, beside the others of its note and of its like.

``twin_notes.jsonl`` was written for this project by writers who saw no question of its evaluations. A line has two
notes that a search would confuse, each with questions that its sentences answer, some with choices, and near ones that
none of either does.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from scripts.verifier.samples import CONTRADICTS, NEITHER, SUPPORTS, UNTOLD, Sample, verdict_of
from scripts.verifier.study_samples import cut
from server.methods.shared.reading.gate import whether

TWIN_NOTES: Final = Path(__file__).with_name("twin_notes.jsonl")
# One pair of notes of so many is left out of training.
_HELD_OUT: Final = 6
# What is judged beside others is often joined with the sentence before it.
_JOINED: Final = 0.25
_OWN, _TWINS, _NEAR, _NEAR_TWINS = 2, 1, 1, 1
# Wrong choices of a question that are asked about.
_WRONG: Final = 2


@dataclass(frozen=True, slots=True)
class NoteQuestion:
    """Hold a question to a note; ``verdict`` is what the answering sentences say, ``UNTOLD`` where not yes or no.

    ``answers`` and ``others``: each sentence below its title that answers, and that does not; none of those of which
    one could argue. ``joined``: by such a sentence, the same with the one before, which does not answer either. Near
    questions have no answers.
    """

    text: str
    verdict: int
    answers: tuple[str, ...]
    others: tuple[str, ...]
    of_twin: tuple[str, ...]
    joined: Mapping[str, str]


def read_note_questions(*, held_out: bool) -> list[NoteQuestion]:
    """Return the questions of all notes, or of those that are left out of training."""
    found: list[NoteQuestion] = []
    for line in TWIN_NOTES.read_text(encoding="utf-8").splitlines():
        pair = json.loads(line)
        if (zlib.crc32(pair["a"]["title"].encode()) % _HELD_OUT == _HELD_OUT - 1) == held_out:
            for note, twin in ((pair["a"], pair["b"]), (pair["b"], pair["a"])):
                found += [each for one in (*note["questions"], *note["near"]) for each in _questions(one, note, twin)]
    return found


def note_samples(questions: Sequence[NoteQuestion], draw: random.Random) -> Iterator[Sample]:
    """Yield each question with what answers it, and with some sentences that do not."""
    for one in questions:
        for line in one.answers:
            yield Sample("notes", one.text, _told(one, line, draw), 1, one.verdict)
        own, twins = (_OWN, _TWINS) if one.answers else (_NEAR, _NEAR_TWINS)
        beside = draw.sample(one.others, min(own, len(one.others))) + draw.sample(one.of_twin, twins)
        # What asks for no yes or no teaches none: there are many of these pairs.
        for line in beside:
            verdict = UNTOLD if one.verdict == UNTOLD else NEITHER
            yield Sample("notes", one.text, _told(one, line, draw), 0, verdict)


def _told(question: NoteQuestion, line: str, draw: random.Random) -> str:
    return cut(question.joined.get(line, line) if draw.random() < _JOINED else line)


def _questions(asked: dict[str, Any], note: dict[str, Any], twin: dict[str, Any]) -> Iterator[NoteQuestion]:
    """Yield a question, and where it lists choices, whether it is the right one and whether some others."""
    question = _question(asked, note, twin)
    yield question
    if choices := asked.get("choices"):
        right = choices[asked["right"]]
        yield replace(question, text=whether(right, question.text), verdict=SUPPORTS)
        for wrong in [one for one in choices if one != right][:_WRONG]:
            yield replace(question, text=whether(wrong, question.text), verdict=CONTRADICTS)


def _question(asked: dict[str, Any], note: dict[str, Any], twin: dict[str, Any]) -> NoteQuestion:
    answers, says = asked.get("answers", ()), asked.get("says", "")
    unclear, also = {*answers, *asked.get("partly", ())}, set(asked.get("also", ()))
    own, others = _lines(note), _lines(twin)
    return NoteQuestion(
        asked["q"],
        verdict_of(says) if says else UNTOLD,
        tuple(own[one] for one in answers),
        tuple(line for place, line in enumerate(own) if place not in unclear),
        tuple(line for place, line in enumerate(others) if place not in also),
        {**_joined(note, own, unclear), **_joined(twin, others, also)},
    )


def _lines(note: dict[str, Any]) -> list[str]:
    return [f"{note['title'].rstrip('.')}. {line}" for line in note["sentences"]]


def _joined(note: dict[str, Any], lines: Sequence[str], answering: set[int]) -> dict[str, str]:
    before = [f"{lines[place - 1]} {line}" for place, line in enumerate(note["sentences"])]
    return {line: before[place] for place, line in enumerate(lines) if place and place - 1 not in answering}

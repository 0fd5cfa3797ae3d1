"""Read the development halves as groups of pairs, of which nothing is trained on.

A group is what is judged together: the claims of one trial, one question with the sentence that answers it and others.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from models.verifiers.base import Pair
from scripts.training.tasks.bioasq import read_questions, read_written
from scripts.verifier.answer_samples import entry_lines
from scripts.verifier.mixture import BIOASQ, VERIFY
from scripts.verifier.neighbours import Neighbours
from scripts.verifier.note_samples import read_note_questions
from scripts.verifier.samples import NEITHER, UNTOLD, one_line, verdict_of
from scripts.verifier.sources import Entry, read_articles, read_entries, read_spans, read_trials
from scripts.verifier.study_samples import DIRECTIONS, cut, trial_claim
from server.methods.shared.sentences import split_sentences

_SEED: Final = "dev"
_MOST_ENTRIES: Final = 300
_MOST_NOTED: Final = 1_200
_DISTRACTORS: Final = 9


@dataclass(frozen=True, slots=True)
class Group:
    """Hold pairs that are judged together: ``relevance`` (1, 0) and ``verdicts`` say what each is, or ``UNTOLD``."""

    pairs: tuple[Pair, ...]
    relevance: tuple[int, ...]
    verdicts: tuple[int, ...]


def trial_groups(data: Path) -> list[Group]:
    """Return for each trial the three claims on its outcome with its finding."""
    groups = []
    for one in read_trials(data / VERIFY, "dev"):
        pairs = tuple(Pair(trial_claim(one, direction), cut(one.evidence)) for direction in DIRECTIONS)
        verdicts = tuple(0 if direction == one.label else 1 for direction in DIRECTIONS)
        groups.append(Group(pairs, (1, 1, 1), verdicts))
    return groups


def article_groups(data: Path) -> list[Group]:
    return [
        Group((Pair(one_line(one.question), cut(one_line(one.conclusion))),), (1,), (verdict_of(one.label),))
        for one in read_articles(data / VERIFY, "dev")
    ]


def span_groups(data: Path) -> list[Group]:
    """Return each question with the sentences of its context."""
    groups = []
    for one in read_spans(data / VERIFY, "dev"):
        lines = [line.line for line in split_sentences(one.context)]
        right = [int(one.answer in line or (line in one.answer and len(line) > 40)) for line in lines]
        if any(right) and not all(right):
            groups.append(_of_question(one.question, lines, right))
    return groups


def entry_groups(data: Path) -> list[Group]:
    """Return each question with the first sentence of its answer, and of one of the same kind on another focus."""
    draw = random.Random(_SEED)
    entries = [one for one in read_entries(data / VERIFY, "dev") if one.focus and entry_lines(one)]
    of_kind, by_word = defaultdict[str, list[Entry]](list), defaultdict[tuple[str, str], list[Entry]](list)
    for one in entries:
        of_kind[one.kind].append(one)
        by_word[one.kind, one.focus.split()[-1].lower()].append(one)
    groups = []
    for one in draw.sample(entries, min(_MOST_ENTRIES, len(entries))):
        near = [each for each in by_word[one.kind, one.focus.split()[-1].lower()] if each.focus != one.focus]
        other = draw.choice(near or of_kind[one.kind])
        if not {one.focus.lower()} & {other.focus.lower()} and one.focus.lower() not in entry_lines(other)[0].lower():
            lines = [_titled(one), _titled(other)]
            groups.append(_of_question(one.question.replace(" ?", "?"), lines, [1, 0]))
    return groups


def exchanged_groups(data: Path) -> list[Group]:
    """Return each question with the first sentence of its answer, as it is and with another focus in its place."""
    draw = random.Random(_SEED)
    entries = [one for one in read_entries(data / VERIFY, "dev") if one.focus and entry_lines(one)]
    groups = []
    for one in draw.sample(entries, len(entries)):
        line, other = entry_lines(one)[0], draw.choice(entries).focus
        moved = re.sub(re.escape(one.focus), other.replace("\\", r"\\"), line, flags=re.IGNORECASE)
        if moved != line and other.lower() not in one.focus.lower() and one.focus.lower() not in moved.lower():
            groups.append(_of_question(one.question.replace(" ?", "?"), [line, moved], [1, 0]))
    return groups[:_MOST_ENTRIES]


def written_groups(data: Path) -> list[Group]:
    """Return the questions of yes or no that were written for texts, and held out."""
    return [
        Group((Pair(one.question, cut(one.text)),), (int(verdict != NEITHER),), (verdict,))
        for one in read_written(data / BIOASQ, held_out=True)
        for verdict in (verdict_of(one.answer),)
    ]


def choice_groups(data: Path) -> list[Group]:
    """Return each held-out question of BioASQ with a sentence of its snippets among near texts of other questions."""
    questions = read_questions(data / BIOASQ, held_out=True)
    draw = random.Random(_SEED)
    texts = {snippet.text: one.question_id for one in questions for snippet in one.snippets}
    near = Neighbours(list(texts))
    groups = []
    try:
        for one in questions:
            gold = one.sentence_of(draw.choice(one.support()).text)
            found = near.of(one.text, frozenset({one.question_id}), list(texts.values()))[:_DISTRACTORS]
            others = [cut(text) for text in found if gold not in text]
            if others:
                groups.append(_of_question(one.text, [cut(gold), *others], [1] + [0] * len(others)))
    finally:
        near.close()
    return groups


def snippet_groups(data: Path) -> list[Group]:
    """Return BioASQ's held-out questions of yes or no, each with up to three sentences of its snippets."""
    draw, groups = random.Random(_SEED), []
    for one in read_questions(data / BIOASQ, held_out=True):
        if one.yes_no:
            lines = list(dict.fromkeys(one.sentence_of(each.text) for each in one.support()))
            lines = draw.sample(lines, min(3, len(lines)))
            verdict = verdict_of(one.yes_no)
            pairs = tuple(Pair(one.text, cut(line)) for line in lines)
            groups.append(Group(pairs, (1,) * len(lines), (verdict,) * len(lines)))
    return groups


def note_groups(data: Path) -> list[Group]:
    """Return questions to the notes that are held out with the sentences of note and twin; ``data`` has none.

    Those that do not answer stand there also joined with the one before, as the gate judges them too.
    """
    groups = []
    for one in random.Random(_SEED).sample(read_note_questions(held_out=True), _MOST_NOTED):
        beside = [*one.others, *one.of_twin]
        lines = [*one.answers, *beside, *(one.joined[line] for line in beside if line in one.joined)]
        right = [1] * len(one.answers) + [0] * (len(lines) - len(one.answers))
        verdicts = [(one.verdict if known else NEITHER) if one.verdict != UNTOLD else UNTOLD for known in right]
        groups.append(Group(tuple(Pair(one.text, cut(line)) for line in lines), tuple(right), tuple(verdicts)))
    return groups


def _of_question(question: str, lines: Sequence[str], right: Sequence[int]) -> Group:
    return Group(
        tuple(Pair(question, cut(line)) for line in lines),
        tuple(right),
        tuple(UNTOLD if one else NEITHER for one in right),
    )


def _titled(entry: Entry) -> str:
    return f"{entry.focus}. {entry_lines(entry)[0]}"

"""Make reading samples of BioASQ questions: the gold passages of one question are the distractors of the others."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Final

from scripts.training.tasks.bioasq import Question, Snippet, has_phrase
from scripts.training.tasks.reading import Asked, ReadingTasks, Source, draw_way
from scripts.training.tasks.samples import Sample
from server.methods.shared.word_overlap import stems_of

_PER_CONTEXT: Final = 4
_NEAR: Final = 0.5
# Silence is as hard to learn as an answer, and cheap: it shares its passages with the answers.
_STRANGERS: Final = (2, 3, 4)
# Passages beside those of the questions: the server finds more than a few.
_FURTHER: Final = (0, 0, 0, 2, 4, 6)
_SECOND_GOLD: Final = 0.2
_MAX_ANSWER: Final = 45
_MAX_ITEM_WORDS: Final = 12
_BEST: Final = 3
_NEGATION: Final = re.compile(
    r"\b(?:not?|nor|non|un\w+|fail\w*|lack\w*|without|neither|in(?:effective|sufficient))\b|n't", re.I
)


class BioasqTasks:
    """Draw contexts of several questions. A question is drawn once in each round through all of them."""

    def __init__(self, tasks: ReadingTasks, questions: Sequence[Question], seed: int) -> None:
        self._tasks = tasks
        self._questions = list(questions)
        # "No" is rarer than "yes" among the questions, and as important.
        self._pool = [*range(len(questions)), *(at for at, one in enumerate(questions) if one.yes_no == "no")]
        self._seed = seed
        self._near = [nearest(at, self._questions) for at in range(len(questions))]

    def group(self, number: int) -> list[Sample]:
        """Return the samples of the context with this number; the same for equal seeds."""
        draw = random.Random(f"{self._seed}:bioasq:{number}")
        questions = self._members(number, draw)
        gold = {one.question_id: _gold(one, draw) for one in questions}
        sources = {
            s.pmid + s.text[:40]: Source(f"PMID:{s.pmid}.{len(s.text)}", s.text) for g in gold.values() for s in g
        }
        passages = list(sources.values())
        while len(passages) > _PER_CONTEXT + 1:
            passages.pop(draw.randrange(len(passages)))
        passages += self._further(questions, draw)
        context = self._tasks.context(passages)
        kept = {one.key for one in passages}
        asks = [asked for one in questions for asked in _asks(one, gold[one.question_id], kept, draw)]
        asks += [Asked("none", one.text) for one in self._strangers(questions, passages, draw)]
        return [self._tasks.sample(context, asked, draw_way(draw)) for asked in asks]

    def _members(self, number: int, draw: random.Random) -> list[Question]:
        """Return questions that no gold article answers twice; half of the time they are about similar things."""
        per_round = len(self._pool) // _PER_CONTEXT
        round_number, at = divmod(number, per_round)
        order = list(self._pool)
        random.Random(f"{self._seed}:{round_number}").shuffle(order)
        wanted = order[at * _PER_CONTEXT : (at + 1) * _PER_CONTEXT]
        if draw.random() < _NEAR:
            wanted = [wanted[0], *draw.sample(self._near[wanted[0]][:8], 2), wanted[1]]
        found: list[Question] = []
        for one in (self._questions[place] for place in wanted):
            if all(not one.pmids & other.pmids for other in found):
                found.append(one)
        return found

    def _further(self, inside: Sequence[Question], draw: random.Random) -> list[Source]:
        """Return passages, none most of the time, that answer none of the questions."""
        pmids = frozenset().union(*(one.pmids for one in inside))
        found: list[Source] = []
        for other in draw.sample(self._questions, draw.choice(_FURTHER)):
            one = draw.choice(other.support())
            if not other.pmids & pmids and not any(question.items_in([one.text]) for question in inside):
                found.append(Source(f"PMID:{one.pmid}.{len(one.text)}", one.text))
        return found

    def _strangers(self, inside: Sequence[Question], passages: Sequence[Source], draw: random.Random) -> list[Question]:
        """Return a few questions that the passages do not answer, near ones first."""
        first = self._questions.index(inside[0])
        near = [self._questions[at] for at in self._near[first][:12]]
        pool = draw.sample(near, 4) + draw.sample(self._questions, 4)
        text = " ".join(one.text for one in passages)
        pmids = frozenset().union(*(one.pmids for one in inside))
        fits = [one for one in pool if one not in inside and not one.pmids & pmids and not one.items_in([text])]
        return fits[: draw.choice(_STRANGERS)]


def asked_of(question: Question, gold: Sequence[Source]) -> Asked | None:
    """Return the question with the answer that these passages carry, None where they do not."""
    keys, texts = tuple(one.key for one in gold), [one.text for one in gold]
    quote = question.sentence_of(texts[0])
    if question.form == "yesno":
        return Asked(question.yes_no, question.text, question.yes_no.capitalize(), keys, quote)
    if question.form == "summary":
        return Asked("explanation", question.text, _explanation(question, texts[0]), keys[:1])
    items = [one.rstrip(".") for one in question.items_in(texts)]
    if not items or any(len(one.split()) > _MAX_ITEM_WORDS for one in items):
        return Asked("explanation", question.text, _explanation(question, texts[0]), keys[:1]) if items else None
    keys = tuple(one.key for one in gold if question.items_in([one.text]))
    if question.form == "factoid":
        return Asked("factoid", question.text, items[0], keys, quote)
    return Asked("list", question.text, listed(items[:10]), keys, quote)


def listed(items: Sequence[str], last: str = "and") -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


def _asks(question: Question, gold: Sequence[Snippet], kept: set[str], draw: random.Random) -> list[Asked]:
    sources = [Source(f"PMID:{one.pmid}.{len(one.text)}", one.text) for one in gold]
    inside = [one for one in sources if one.key in kept]
    if not inside:
        return []
    asked = asked_of(question, inside)
    if asked is None:
        return []
    return [asked, *_whether(question, asked, inside, draw)] if asked.kind == "factoid" else [asked]


def _whether(question: Question, asked: Asked, gold: Sequence[Source], draw: random.Random) -> list[Asked]:
    """Return the factoid as a yes/no question: is it this item, or another name of the same passage?"""
    if draw.random() < 0.4:
        return []
    text = gold[0].text
    if draw.random() < 0.45:
        return [Asked("yes", f"{question.text} Is it {asked.answer}?", "Yes", asked.keys, asked.quote)]
    names = [word.strip("().,;:") for word in text.split() if any(c.isupper() or c.isdigit() for c in word[1:])]
    known = [name for item in question.items for name in item]
    others = [
        w
        for w in names
        if len(w) > 2
        and not any(has_phrase(n, w) or has_phrase(w, n) for n in known)
        and not has_phrase(question.text, w)
    ]
    if not others:
        return []
    return [Asked("no", f"{question.text} Is it {draw.choice(others)}?", "No", asked.keys, asked.quote)]


def _explanation(question: Question, text: str) -> str:
    """Return the passage's sentence that says most about the question."""
    words = question.sentence_of(text).split()
    return " ".join(words[:_MAX_ANSWER]).rstrip(" .,;:")


def _gold(question: Question, draw: random.Random) -> list[Snippet]:
    """Return one or two snippets of those that share most words with question and ideal answer.

    Of a question whose answer is no, those with a negation come first.
    """
    wanted = question.stems | stems_of(" ".join(question.ideal[:1]))
    is_no = question.yes_no == "no"
    rank = lambda one: (is_no and _NEGATION.search(one.text) is not None, len(wanted & stems_of(one.text)))  # noqa: E731
    found = sorted(question.support(), key=rank, reverse=True)[:_BEST]
    return draw.sample(found, 2 if len(found) > 1 and draw.random() < _SECOND_GOLD else 1)


def nearest(at: int, questions: Sequence[Question]) -> list[int]:
    """Return the other questions, those that share most words first."""
    own = questions[at].stems
    return sorted(
        (other for other in range(len(questions)) if other != at),
        key=lambda other: (-len(own & questions[other].stems), other),
    )[:16]

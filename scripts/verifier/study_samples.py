"""Make samples of annotated trials and of PubMedQA's conclusions."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from scripts.verifier.claims import claim_of
from scripts.verifier.samples import CONTRADICTS, NEITHER, SUPPORTS, Sample, capital, one_line, verdict_of
from scripts.verifier.sources import Article, Trial
from scripts.verifier.wordings import wordings
from server.methods.shared.sentences import split_sentences

DIRECTIONS: Final = ("increased", "decreased", "no difference")
_LONGEST: Final = 340
_OPEN: Final = 0.25
_SHARED: Final = 0.5


def trial_claim(trial: Trial, direction: str, draw: random.Random | None = None) -> str:
    """Return the claim that a trial found this direction, in the first wording without ``draw``."""
    forms = wordings()["trials"]["claims"][direction]
    return _filled(forms[0] if draw is None else draw.choice(forms), trial)


def trial_samples(trials: Sequence[Trial], number: int, draw: random.Random) -> Iterator[Sample]:
    """Yield for each trial what it found, one of what it did not, and in some cases another finding of its article."""
    told, of_article = wordings()["trials"], defaultdict[str, list[Trial]](list)
    for one in trials:
        of_article[one.source].append(one)
    for one in draw.sample(trials, min(number, len(trials))):
        evidence = cut(one.evidence)
        wrong = draw.choice([name for name in DIRECTIONS if name != one.label])
        for direction in (one.label, wrong):
            verdict = SUPPORTS if direction == one.label else CONTRADICTS
            if draw.random() < 0.3:
                form = draw.choice(told["asks"][direction])
            elif draw.random() < 0.1:
                form, verdict = draw.choice(told["differs"]), CONTRADICTS if one.label == DIRECTIONS[2] else SUPPORTS
            else:
                form = draw.choice(told["claims"][direction])
            yield Sample("trials", _filled(form, one), evidence, 1, verdict)
        others = [other for other in of_article[one.source] if not _may_tell(one, other)]
        if others and draw.random() < _OPEN:
            form = draw.choice(told["claims"][draw.choice(DIRECTIONS)])
            yield Sample("trials", _filled(form, one), cut(draw.choice(others).evidence), 0, NEITHER)


def article_samples(articles: Sequence[Article], draw: random.Random) -> Iterator[Sample]:
    """Yield questions and claims with the conclusion that answers them, and with sentences that do not yet."""
    for one in articles:
        conclusion = cut(one_line(one.conclusion.partition("Medical Subject Headings")[0]))
        query = one_line(one.question)
        claim = claim_of(query)
        asked = claim if claim and draw.random() < 0.3 else query
        yield Sample("pubmedqa", asked, conclusion, 1, verdict_of(one.label))
        beginning = [line.line for line in split_sentences(one.contexts[0])][:3] if one.contexts else []
        if beginning and draw.random() < 0.25:
            yield Sample("pubmedqa", query, cut(draw.choice(beginning)), 0, NEITHER)
        if draw.random() < 0.1:
            yield Sample("pubmedqa", query, cut(one_line(draw.choice(articles).conclusion)), 0, NEITHER)


def cut(text: str) -> str:
    """Return the beginning of a text, at a word."""
    return text if len(text) <= _LONGEST else text[:_LONGEST].rpartition(" ")[0]


def _filled(form: str, trial: Trial) -> str:
    return capital(form.format(a=trial.intervention, b=trial.comparator, o=trial.outcome))


def _may_tell(one: Trial, other: Trial) -> bool:
    asked = {word for word in one.outcome.lower().split() if len(word) > 3}
    found = asked & set(f"{other.outcome} {other.evidence}".lower().split())
    return other.evidence == one.evidence or len(found) >= _SHARED * max(1, len(asked))

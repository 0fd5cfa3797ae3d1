"""Hold what the verifier learns from: a question or claim, a text of evidence, and what the one is to the other."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

SUPPORTS: Final = 0
CONTRADICTS: Final = 1
NEITHER: Final = 2
# The head that it stands for is not taught by the sample.
UNTOLD: Final = -1
_NOISY: Final = 0.16
_TRUE_OR_FALSE: Final = ("True or false: {}", "Is it true that {}?", "Is this right: {}", "{} Right or wrong?")
_KEYWORDS: Final = 0.1
_FEWEST_KEYWORDS: Final = 2
_MARKS: Final = re.compile(r"[?!.,'’¿¡:;]")
_LEAST_CHARS: Final = 12


class Sample(NamedTuple):
    """Hold a pair: ``relevance`` 1, 0 or ``UNTOLD``, ``verdict`` one of three or ``UNTOLD``; ``kind`` is its source."""

    kind: str
    query: str
    evidence: str
    relevance: int
    verdict: int


def verdict_of(answer: str) -> int:
    """Return the verdict of an answer of yes, no or anything else."""
    return {"yes": SUPPORTS, "no": CONTRADICTS}.get(answer, NEITHER)


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def one_line(text: str) -> str:
    return " ".join(text.split())


def asked_whether(claim: str, draw: random.Random) -> str:
    """Return a claim as it stands, or as what it is asked about."""
    if draw.random() < 0.8:
        return claim
    form = draw.choice(_TRUE_OR_FALSE)
    return form.format(claim.rstrip(".") if form.endswith("}?") else claim)


def with_neighbour(evidence: str, beside: Sequence[str], draw: random.Random, share: float) -> str:
    """Return evidence with a sentence that stands beside it, in some cases."""
    if not beside or draw.random() >= share:
        return evidence
    other = draw.choice(list(beside))
    return f"{other} {evidence}" if draw.random() < 0.5 else f"{evidence} {other}"


def as_typed(query: str, draw: random.Random) -> str:
    """Return a question as people type it in a hurry, in some cases: small letters, no marks, a letter wrong."""
    if draw.random() >= _NOISY or len(query) < _LEAST_CHARS:
        return query
    if draw.random() < 0.6:
        query = query.lower()
    if draw.random() < 0.5:
        query = _MARKS.sub("", query)
    if draw.random() < 0.3:
        query = "".join(char for char in unicodedata.normalize("NFD", query) if not unicodedata.combining(char))
    for _ in range(draw.choice((0, 1, 1, 2))):
        query = misspelt(query, draw)
    return query


def as_keywords(sample: Sample, draw: random.Random) -> Sample:
    """Return an English question as what people type into a search box, in some cases: its words that say something.

    They stand in their order, or the last ones first. They ask for no yes or no any more.
    """
    if not sample.query.endswith("?") or draw.random() >= _KEYWORDS:
        return sample
    words = [word for word in _MARKS.sub("", sample.query).split() if word.lower() not in ENGLISH_STOP_WORDS]
    if len(words) < _FEWEST_KEYWORDS:
        return sample
    if draw.random() < 0.4:
        place = draw.randrange(1, len(words))
        words = [*words[place:], *words[:place]]
    return sample._replace(query=" ".join(words), verdict=UNTOLD if sample.relevance == 1 else sample.verdict)


def misspelt(text: str, draw: random.Random) -> str:
    """Return a text with one letter left out, doubled, or exchanged with the next, within a word of letters."""
    places = [place for place in range(1, len(text) - 2) if text[place - 1 : place + 2].isalpha()]
    if not places:
        return text
    place = draw.choice(places)
    now, after = text[place], text[place + 1]
    return text[:place] + draw.choice((after, now + now + after, after + now)) + text[place + 2 :]

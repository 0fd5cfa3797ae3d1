"""Compute the measures of literature reviews and of BioASQ. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Final

from server.methods.shared.evidence_index import EvidenceIndex, identifiers_in
from server.methods.shared.extractive import stems_of

_TOKEN: Final = re.compile(r"[a-z0-9]+")
# "No significant difference …" is no verdict.
_YES: Final = re.compile(r"^\W*(?:tl;dr\W*)?(yes|no)(?=\s*(?:[,.;:!*]|$))", re.IGNORECASE)
# Of the words of a sentence, so many have to stand in an article that states it.
_STATED: Final = 0.7
# Of SU4: so many words may stand between the two of a pair.
_GAP: Final = 4


def average_precision(ranked: Sequence[str], gold: Collection[str], at: int = 10) -> float:
    """BioASQ's AP@10: precisions at the places of gold articles, over the least of ``at`` and their number."""
    found, total = 0, 0.0
    for place, one in enumerate(ranked[:at], 1):
        if one in gold:
            found += 1
            total += found / place
    return total / min(len(gold), at) if gold else 0.0


def recall(ranked: Iterable[str], gold: Collection[str]) -> float:
    return len(set(ranked) & set(gold)) / len(gold) if gold else 0.0


def precision(chosen: Collection[str], gold: Collection[str]) -> float:
    return len(set(chosen) & set(gold)) / len(chosen) if chosen else 0.0


def harmonic(first: float, second: float) -> float:
    return 2 * first * second / (first + second) if first + second else 0.0


def tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.lower())


def pairs(words: Sequence[str]) -> Counter[tuple[str, str]]:
    """Return the neighbouring pairs of words."""
    return Counter(pairwise(words))


def skip_pairs(words: Sequence[str]) -> Counter[tuple[str, str]]:
    """Return the units of ROUGE-SU4: pairs with at most four words between, and each word after a start mark."""
    units: Counter[tuple[str, str]] = Counter(("", word) for word in words)
    for at, first in enumerate(words):
        units.update((first, second) for second in words[at + 1 : at + _GAP + 2])
    return units


def overlap_f1(told: Counter[tuple[str, str]], wanted: Counter[tuple[str, str]]) -> float:
    same = sum((told & wanted).values())
    if not same:
        return 0.0
    return harmonic(same / sum(told.values()), same / sum(wanted.values()))


def rouge2(text: str, references: Sequence[str]) -> float:
    """ROUGE-2 F1 against the reference that it fits best, without stemming."""
    told = pairs(tokens(text))
    return max((overlap_f1(told, pairs(tokens(one))) for one in references), default=0.0)


def rouge_su4(text: str, references: Sequence[str]) -> float:
    """ROUGE-SU4 F1 against the reference that it fits best, without stemming."""
    told = skip_pairs(tokens(text))
    return max((overlap_f1(told, skip_pairs(tokens(one))) for one in references), default=0.0)


def verdict(text: str) -> str:
    """Return "yes" or "no" where the text begins with it, else ""."""
    found = _YES.match(text.strip().lstrip("*# "))
    return found[1].lower() if found else ""


def macro_f1(told: Sequence[str], wanted: Sequence[str]) -> float:
    """The mean F1 of yes and no; no verdict is wrong for both."""
    scores = []
    for name in ("yes", "no"):
        right = sum(one == name == gold for one, gold in zip(told, wanted, strict=True))
        said, are = sum(one == name for one in told), sum(gold == name for gold in wanted)
        scores.append(harmonic(right / said if said else 0.0, right / are if are else 0.0))
    return sum(scores) / len(scores)


def mentions(text: str, names: Iterable[str]) -> bool:
    """Whether one of these names stands in the text, as words, whatever the case and the punctuation."""
    shown = f" {' '.join(tokens(text))} "
    return any(f" {' '.join(tokens(name))} " in shown for name in names if tokens(name))


def reciprocal_rank(sentences: Sequence[str], names: Sequence[str], at: int = 5) -> float:
    """1 over the place of the first of the sentences that names the answer, 0 where none of the first five does."""
    places = (place for place, sentence in enumerate(sentences[:at], 1) if mentions(sentence, names))
    return next((1 / place for place in places), 0.0)


def list_scores(sentences: Sequence[str], items: Sequence[Sequence[str]]) -> tuple[float, float]:
    """Return (precision, recall) of a list that is told in sentences.

    ``items``: the synonyms of each. Precision is the share of sentences that name an item, recall that of items named.
    """
    named = sum(any(mentions(sentence, item) for item in items) for sentence in sentences)
    found = sum(any(mentions(sentence, item) for sentence in sentences) for item in items)
    return named / len(sentences) if sentences else 0.0, found / len(items) if items else 0.0


def supports(texts: Sequence[str], sentence: str) -> bool:
    """Whether cited articles state a sentence, as far as a lookup can tell.

    Verbatim in one of them; or all its numbers and identifiers stand in them, and most of its words in one of theirs.
    """
    wanted = _squeezed(sentence)
    if any(wanted in _squeezed(text) for text in texts):
        return bool(wanted)
    index = EvidenceIndex()
    for text in texts:
        index.add(text)
    if not all(index.has(one) for one in identifiers_in(sentence)):
        return False
    stems = stems_of(sentence)
    return bool(stems) and any(len(stems & stems_of(text)) >= _STATED * len(stems) for text in texts)


Span = tuple[str, int, int]


def span_of(pmid: str, quote: str, text: str) -> Span | None:
    """Return (PMID, start, end) of a quote in its article, None where it is not verbatim; white space is ignored."""
    bare, wanted = _squeezed(text), _squeezed(quote)
    at = bare.find(wanted) if wanted else -1
    return (pmid, at, at + len(wanted)) if at >= 0 else None


def snippet_f1(told: Sequence[Span], gold: Sequence[Span]) -> float:
    """BioASQ's F1 of snippets: by characters that both have."""
    first, second = _characters(told), _characters(gold)
    same = len(first & second)
    return harmonic(same / len(first), same / len(second)) if same else 0.0


def _characters(spans: Iterable[Span]) -> set[tuple[str, int]]:
    return {(pmid, at) for pmid, start, end in spans for at in range(start, end)}


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)

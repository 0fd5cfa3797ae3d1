"""Split texts that were found into sentences, and take those that are worth judging. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from retrieval.lexical.tokens import index_terms, query_terms
from server.methods.shared.sentences import Sentence, quoted_line, split_sentences

# What a verifier judges in half a second on two cores.
MOST_JUDGED: Final = 32
_LONGEST_TEXT: Final = 20_000
# A longer title is a sentence of its own rather than the name of what its text is about.
_LONGEST_SUBJECT: Final = 6
# The first text counts as much as half of the question's words.
_RANK_WEIGHT: Final = 0.5
# Sentences that share more of their terms than this say the same.
_SAME: Final = 0.6


@dataclass(frozen=True, slots=True)
class EvidenceText:
    """Hold a text to read: a passage, an abstract; ``title`` is that of its document or section."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class EvidenceSentence:
    """Hold one sentence of the text at the place ``source``, with the title of that text.

    ``parts`` are the sentences of which it is made, where it is one with the sentence before it, else ().
    """

    source: int
    sentence: Sentence
    title: str = ""
    parts: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        return self.sentence.line

    @property
    def subject(self) -> str:
        """Return the short title of the sentence's text, "" where it has none or the sentence names it itself."""
        title = quoted_line(self.title.partition(" -- ")[0])
        is_name = 0 < len(title.split()) <= _LONGEST_SUBJECT
        return title if is_name and title.casefold() not in self.line.casefold() else ""

    @property
    def in_context(self) -> str:
        """Return the sentence behind the title of its text, as a verifier reads it."""
        title = quoted_line(self.title).rstrip(".")
        return f"{title}. {self.line}" if title else self.line

    def says_the_same(self, other: EvidenceSentence) -> bool:
        mine, theirs = set(index_terms(self.line)), set(index_terms(other.line))
        return len(mine & theirs) > _SAME * min(len(mine), len(theirs))


def sentences_of(texts: Sequence[EvidenceText]) -> list[EvidenceSentence]:
    """Return the sentences of all texts in order, each once."""
    found: dict[str, EvidenceSentence] = {}
    for source, text in enumerate(texts):
        for sentence in split_sentences(text.text[:_LONGEST_TEXT]):
            found.setdefault(sentence.line, EvidenceSentence(source, sentence, text.title))
    return list(found.values())


def widened(
    sentences: Sequence[EvidenceSentence], chosen: Sequence[EvidenceSentence], texts: Sequence[EvidenceText]
) -> list[EvidenceSentence]:
    """Return each of the chosen sentences joined with the one before it in its text, which may have its subject."""
    places = {one: place for place, one in enumerate(sentences)}
    joined = []
    for one in chosen:
        before = sentences[places[one] - 1] if places[one] else one
        if before is not one and before.source == one.source:
            start, end = before.sentence.start, one.sentence.end
            whole = Sentence(texts[one.source].text[start:end], start, end)
            joined.append(EvidenceSentence(one.source, whole, one.title, (before.line, one.line)))
    return joined


def nearest(question: str, sentences: Sequence[EvidenceSentence], most: int = MOST_JUDGED) -> list[EvidenceSentence]:
    """Return at most ``most`` sentences: those with the rarest words of the question, and of the first texts.

    This decides what is judged, not what answers: where there are fewer sentences, all are.
    """
    if len(sentences) <= most:
        return list(sentences)
    asked = dict.fromkeys(query_terms(question))
    terms = [asked.keys() & set(index_terms(one.in_context)) for one in sentences]
    counts = Counter(term for own in terms for term in own)
    weights = {term: math.log(1 + len(sentences) / counts[term]) for term in counts}
    whole = sum(weights.values()) or 1.0

    def merit(place: int) -> float:
        return sum(weights[term] for term in terms[place]) / whole + _RANK_WEIGHT / (1 + sentences[place].source)

    best = sorted(range(len(sentences)), key=merit, reverse=True)[:most]
    return [sentences[place] for place in sorted(best)]

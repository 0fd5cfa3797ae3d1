"""Choose the sentences of passages that answer a question best, or none. Pure.

A sentence is scored by a logistic function of two features:

- ``cosine`` of the question's and the sentence's vectors;
- ``covered``: which share of the question's words the sentence has, each by its rarity (idf) among the sentences found.

``CALIBRATIONS`` has the constants, fitted on BioASQ questions: one
row for the built-in encoder, one without vectors for all other encoders, whose cosines have scales of their own. Below
``bar`` no sentence counts as an answer. Vectors of other encoders and the logits of a cross-encoder, for which nothing
is fitted, change the order of the sentences alone: they are added as z-scores.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from retrieval.lexical.tokens import index_terms, query_terms
from server.methods.shared.passages import SentenceScores
from server.methods.shared.sentences import Sentence, split_sentences

# Encoding is what costs time: so many sentences are compared with the question.
MAX_COMPARED: Final = 32
MAX_SENTENCES: Final = 8
DEFAULT_SENTENCES: Final = 3
_LONGEST_PASSAGE: Final = 20_000
# A title of so few words names what its passage is about; "it" in the passage then means this.
_MAX_SUBJECT_WORDS: Final = 4
_REFERRING: Final = re.compile(
    r"\b(?:(?P<own>its|their)|it|they|them)\b(?! (?:is|was) (?:known|likely|possible|clear|that))"
)
# Sentences that share more of their words than this say the same.
_SAME: Final = 0.6
# Words that ask for an answer and are no part of it.
_ASKING: Final = frozenset(
    re.findall(r"\w+", "list name give describe explain define tell summarize summarise mention please")
)
NEGATED: Final = re.compile(
    r"\b(?:not|no|nor|never|neither|without|cannot|except|lacks?|lacking|fail(?:s|ed)?|unlike|rather than|instead of|"
    r"contraindicated)\b|n['’]t\b",
    re.IGNORECASE,
)
_SUFFIX: Final = re.compile(r"(?:ational|ations?|ings?|ions?|ors?|ives?|ally|ical|ed|es|ers?|ly|al|ic|e|s)$")
_MIN_STEM: Final = 4
# "Which drug", "what gene": the word names the kind of the answer, and most sentences that answer do not repeat it.
_KIND_ASKED: Final = re.compile(r"\b(?:which|what)\s+([\w-]+)", re.IGNORECASE)
_KIND_WEIGHT: Final = 0.3
# So does the noun in "what is the function of" and "describe the mechanism of action of".
_KIND_OF: Final = re.compile(
    r"\b(?:(?:which|what) (?:is|are|was|were)|describe|explain) the (?:[\w-]+ ){0,2}?([\w-]+) (?:of (action) )?of\b",
    re.IGNORECASE,
)
# Among a few sentences, a word that one of them lacks is not rare: the counts are as if there were so many more.
_FEW: Final = 20


@dataclass(frozen=True, slots=True)
class Calibration:
    """Hold the weights of the features and the score, from 0 to 1, below which nothing is answered."""

    bias: float
    cosine: float
    covered: float
    bar: float

    def logit(self, candidate: Candidate, cosine: float) -> float:
        return self.bias + self.cosine * cosine + self.covered * candidate.covered


CALIBRATIONS: Final[Mapping[str, Calibration]] = {
    "minilm": Calibration(bias=-6.5, cosine=6.54, covered=3.9, bar=0.66),
    "": Calibration(bias=-3.96, cosine=0.0, covered=5.65, bar=0.5),
}


@dataclass(frozen=True, slots=True)
class Source:
    """Hold a passage to read: ``title`` names what it is about."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """Hold a sentence with its lexical feature; ``source`` is the index of its passage.

    ``subject`` is what it is about unsaid, such as what a pronoun in it means; "" where it names it itself.
    """

    sentence: Sentence
    source: int
    covered: float
    stems: frozenset[str]
    subject: str = ""

    @property
    def compared(self) -> str:
        """Return the sentence as it is compared with a question: with its subject in place of the first pronoun."""
        line = self.sentence.line
        if not self.subject:
            return line
        return _REFERRING.sub(lambda it: f"{self.subject}{chr(39) + 's' if it['own'] else ''}", line, count=1)


@dataclass(frozen=True, slots=True)
class ScoredSentence:
    """Hold a sentence with its score from 0 to 1; ``order`` also has what is not calibrated."""

    candidate: Candidate
    score: float
    order: float

    @property
    def line(self) -> str:
        return self.candidate.sentence.line


@dataclass(frozen=True, slots=True)
class Candidates:
    """Hold the sentences to compare with the question, and how many there were in all."""

    sentences: tuple[Candidate, ...]
    num_found: int


def stems_of(text: str) -> frozenset[str]:
    return frozenset(stemmed(text))


def stemmed(text: str) -> list[str]:
    """Return the stem of each term of a text, repeated ones as well, in no particular order."""
    return [stem_of(term) for term in index_terms(text)]


def question_stems(question: str) -> tuple[str, ...]:
    """Return the stems of the question's content words, each once."""
    terms = [term for term in query_terms(question) if term not in _ASKING] or query_terms(question)
    return tuple(dict.fromkeys(stem_of(term) for term in terms))


@lru_cache(maxsize=2**15)
def stem_of(term: str) -> str:
    """Return a word without its ending: inhibits, inhibited, inhibition and inhibitor are one."""
    if not term.isalpha():
        return term
    found = _SUFFIX.search(term, _MIN_STEM)
    return term[: found.start()] if found else term


def candidates_of(
    question: str,
    sources: Sequence[Source],
    *,
    with_titles: bool = False,
    is_screened: bool = False,
    others: Sequence[Source] = (),
) -> Candidates:
    """Return the sentences that have most of the question's words, or stand in the best passages.

    ``with_titles``: the words of a passage's title count for each of its sentences, as in an abstract, whose sentences
    seldom name their subject again. ``is_screened``: the sources are about the question as a whole, so that the words
    of ``_KIND_OF`` need not stand in a sentence either. ``others`` are passages on other things, nothing of which is
    chosen: what all sources have is rare among them, and a name counts as such.
    """
    asked = question_stems(question)
    split = [(place, s) for place, one in enumerate(sources) for s in split_sentences(one.text[:_LONGEST_PASSAGE])]
    own = [stems_of(sentence.text) for _, sentence in split]
    titles = [stems_of(one.title) for one in sources]
    meant = [subject_of(sentence, sources[place]) for place, sentence in split]
    stems = [
        words | titles[place] if with_titles or subject else words
        for (place, _), words, subject in zip(split, own, meant, strict=True)
    ]
    weights = rarity(asked, [*stems, *_sentence_stems(others)])
    for kind in _kinds_asked(question, is_wide=is_screened) & set(weights):
        weights[kind] *= _KIND_WEIGHT
    distinct: dict[str, Candidate] = {}
    for (place, sentence), words, alone, subject in zip(split, stems, own, meant, strict=True):
        one = Candidate(sentence, place, share_of(asked, words, weights), alone, subject)
        distinct.setdefault(sentence.line, one)
    best = sorted(distinct.values(), key=lambda one: -(one.covered + 0.5 / (1 + one.source)))
    return Candidates(tuple(best[:MAX_COMPARED]), len(split))


def _sentence_stems(sources: Sequence[Source]) -> Iterator[frozenset[str]]:
    """Yield the stems of each sentence with those of its passage's title."""
    for source in sources:
        title = stems_of(source.title)
        for sentence in split_sentences(source.text[:_LONGEST_PASSAGE]):
            yield stems_of(sentence.text) | title


def _kinds_asked(question: str, *, is_wide: bool) -> set[str]:
    """Return the stems of the words that name the kind of the answer; ``is_wide`` adds those of ``_KIND_OF``."""
    named = _KIND_ASKED.findall(question)
    if is_wide:
        named += [word for pair in _KIND_OF.findall(question) for word in pair]
    return {stem_of(term) for found in named for term in query_terms(found)}


def subject_of(sentence: Sentence, source: Source) -> str:
    """Return the title of a passage where a pronoun of its sentence means it, "" otherwise.

    The first sentence of a passage refers to nothing before it, and a sentence with the title's words means itself.
    """
    if not sentence.start or not _REFERRING.search(sentence.line):
        return ""
    title = " ".join(source.title.partition(" -- ")[0].split())
    words = stems_of(title)
    is_name = bool(words) and len(title.split()) <= _MAX_SUBJECT_WORDS
    return title if is_name and not words & stems_of(sentence.text) else ""


def scored(
    candidates: Sequence[Candidate], scores: SentenceScores, use: Calibration | None = None
) -> list[ScoredSentence]:
    """Return the sentences, best first; ``use`` None takes the constants of the encoder."""
    fitted = use or CALIBRATIONS.get(scores.encoder)
    constants = fitted or CALIBRATIONS[""]
    further = [0.0] * len(candidates)
    for values in (() if fitted else scores.cosines, scores.cross):
        further = [sum(pair) for pair in zip(further, _z_scores(values), strict=True)] if values else further
    cosines = scores.cosines or (0.0,) * len(candidates)
    logits = [constants.logit(one, cosine) for one, cosine in zip(candidates, cosines, strict=True)]
    found = [
        ScoredSentence(one, _sigmoid(value), value + more)
        for one, value, more in zip(candidates, logits, further, strict=True)
    ]
    return sorted(found, key=lambda one: -one.order)


def bar_for(scores: SentenceScores) -> float:
    return CALIBRATIONS.get(scores.encoder, CALIBRATIONS[""]).bar


def chosen(ranked: Sequence[ScoredSentence], most: int, bar: float) -> list[ScoredSentence]:
    """Return at most ``most`` sentences above the bar, best first, without those that repeat a better one."""
    found: list[ScoredSentence] = []
    for one in ranked:
        if len(found) == most:
            break
        if one.score >= bar and not any(_says_the_same(one, other) for other in found):
            found.append(one)
    return found


def completing(ranked: Sequence[ScoredSentence], question: str, most: int) -> list[ScoredSentence]:
    """Return the best sentence, and up to ``most`` in all that have words of the question which those before leave out.

    What a sentence on the one half of a question leaves open is often said by another; one on the same words of it
    adds what was not asked.
    """
    found, left = list(ranked[:1]), set(question_stems(question))
    for one in ranked:
        words = one.candidate.stems | stems_of(one.candidate.subject)
        if one is not ranked[0] and len(found) < most and left & words:
            found.append(one)
        if one in found:
            left -= words
    return found


@dataclass(frozen=True, slots=True)
class ChoiceSupport:
    """Hold the choice that a sentence supports, or the reason why none is chosen."""

    place: int = -1
    sentence: ScoredSentence | None = None
    reason: str = ""


def supported_choice(stem: str, choices: Sequence[str], ranked: Sequence[ScoredSentence], bar: float) -> ChoiceSupport:
    """Return the choice that the best sentence above the bar names, alone among the choices and not negated.

    A question that is negated itself ("which is NOT") asks for what sentences do not say.
    """
    if NEGATED.search(stem):
        return ChoiceSupport(reason="The question asks for what does not hold, which no sentence can support.")
    above = [one for one in ranked if one.score >= bar]
    if not above:
        return ChoiceSupport()
    named = [named_stems(choice, stem) for choice in choices]
    for one in above:
        if NEGATED.search(one.line):
            continue
        places = [place for place, words in enumerate(named) if words and words <= one.candidate.stems]
        # "Type 2 diabetes" also has all words of the choice "diabetes".
        places = [p for p in places if not any(named[p] < named[other] for other in places)]
        if len(places) == 1:
            return ChoiceSupport(places[0], one)
    return ChoiceSupport(reason="No sentence that fits the question names exactly one of the choices.")


def named_stems(choice: str, stem: str) -> frozenset[str]:
    """Return the stems by which a sentence names the choice; without those of the stem, where others are left."""
    words = frozenset(stem_of(term) for term in query_terms(choice))
    return words - frozenset(question_stems(stem)) or words


def rarity(asked: Sequence[str], stems: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return the weight (idf) of each asked stem by how many of the texts have it."""
    counts = Counter(word for words in stems for word in words.intersection(asked))
    number = len(stems)
    return {word: math.log(1 + (number + _FEW) / (counts[word] + 1)) for word in asked}


def share_of(asked: Iterable[str], words: Container[str], weights: Mapping[str, float]) -> float:
    """Return which share of the asked stems the words have, by weight."""
    whole = sum(weights.values())
    return sum(weights[word] for word in asked if word in words) / whole if whole else 0.0


def _says_the_same(one: ScoredSentence, other: ScoredSentence) -> bool:
    first, second = one.candidate.stems, other.candidate.stems
    return len(first & second) > _SAME * min(len(first), len(second))


def _z_scores(values: Sequence[float]) -> list[float]:
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return [(value - mean) / spread if spread > 1e-9 else 0.0 for value in values]


def _sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, value))))

"""Judge which candidates are evidence for a question, each with its reason. Pure, but for the model's own judgement.

First come the rules (retracted, filters, no text), then the relevance of all others at once: a logistic function of

- ``cosine`` of the question's and the article's vectors, and how far it is below the best candidate's;
- ``below_late``: how far the similarity of its token vectors is below the best candidate's, where the encoder has them;
- ``covered``: which share of the question's words the article has, each by its rarity among the candidates;
- ``weight``: BM25 over the candidates, as a share of the best candidate's.

``CALIBRATIONS`` has the constants, fitted on BioASQ questions (docs/clinfo.md): for the built-in encoder with token
vectors, for a remote one without them, and for words alone. A cross-encoder changes the order of what is kept. Where
the model can judge, it answers yes or no to each article above a low bar as one token, and the probability of yes is
averaged with the score.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, TypeVar

from server.methods.clinfo.literature import LEVELS, Article, Level
from server.methods.clinfo.options import ClinfoOptions
from server.methods.clinfo.search import Candidate
from server.methods.shared.passages import SentenceScores
from server.methods.shared.word_overlap import question_stems, rarity, share_of, stemmed

_T = TypeVar("_T")
Reason = Literal[
    "relevant", "not_relevant", "judged_irrelevant", "retracted", "no_abstract", "date", "publication_type"
]
REASONS: Final[Mapping[Reason, str]] = {
    "relevant": "relevant",
    "not_relevant": "not relevant by score",
    "judged_irrelevant": "judged not relevant by the model",
    "retracted": "retracted",
    "no_abstract": "no abstract",
    "date": "outside of the dates",
    "publication_type": "another publication type",
}
# Okapi's usual constants.
_K1: Final = 1.2
_B: Final = 0.75
_LONGEST: Final = 8000
# The model judges what may be relevant after all; the rest is left out by score.
JUDGED_FROM: Final = 0.3
# Of fewer judgements it cannot be told whether they differ; a probability of 0.98 is sure.
_FEW_JUDGED: Final = 3
_SURE_LOG_ODDS: Final = 3.9
_APART_LOG_ODDS: Final = 2.0
_JUDGED_BAR: Final = 0.5
# In logarithms of odds: 0.50 and 0.45 are nearly equal.
NEARLY_EQUAL: Final = 0.2
# No score is taken as surer than this.
_LEAST: Final = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Hold the weights of the features and the score, from 0 to 1, from which an article is kept."""

    bias: float
    cosine: float = 0.0
    below_best: float = 0.0
    below_late: float = 0.0
    covered: float
    weight: float
    bar: float


CALIBRATIONS: Final[Mapping[str, Calibration]] = {
    "minilm, tokens": Calibration(bias=-5.37, cosine=6.5, below_late=-9.86, covered=2.41, weight=0.9, bar=0.08),
    "minilm": Calibration(bias=-7.26, cosine=5.28, below_best=-4.33, covered=2.78, weight=3.96, bar=0.06),
    "": Calibration(bias=-6.34, covered=2.83, weight=5.49, bar=0.15),
}


@dataclass(frozen=True, slots=True)
class Features:
    """Hold the features of one article, as the module describes them."""

    cosine: float
    below_best: float
    below_late: float
    covered: float
    weight: float


@dataclass(frozen=True, slots=True)
class Screened:
    """Hold the judgement of one candidate; ``probability`` is the model's own of yes, None where it was not asked."""

    candidate: Candidate
    article: Article
    reason: Reason
    score: float = 0.0
    probability: float | None = None

    @property
    def is_kept(self) -> bool:
        return self.reason == "relevant"

    @property
    def record(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "key": self.article.key,
            "title": self.article.title,
            "place": self.article.source,
            "found_by": {str(run): rank for run, rank in self.candidate.found_by.items()},
            "reason": self.reason,
            "score": round(self.score, 4),
            "level": self.article.level,
            "flags": list(self.article.flags),
        }
        return fields if self.probability is None else fields | {"probability": round(self.probability, 4)}


def excluded(article: Article, options: ClinfoOptions) -> Reason | None:
    """Return the rule that excludes an article, whatever it says; None for none."""
    if {"retracted", "retraction notice"} & set(article.flags):
        return "retracted"
    return _beyond_limits(article, options) or (None if article.text.strip() else "no_abstract")


def is_within_limits(article: Article, options: ClinfoOptions) -> bool:
    """Return whether an article has the date and type of the request."""
    return _beyond_limits(article, options) is None


def _beyond_limits(article: Article, options: ClinfoOptions) -> Reason | None:
    if not _is_in_dates(article.date, options):
        return "date"
    types = {name.lower() for name in options.publication_types}
    if types and not types & set(article.types):
        return "publication_type"
    return None


def _is_in_dates(day: int, options: ClinfoOptions) -> bool:
    """Return whether an article is within the dates; one without a date is in no range."""
    first, last = options.first_day, options.last_day
    if not first and not last:
        return True
    # A year or month alone counts as its whole span.
    end = day + (9999 if not day % 10000 else 99 if not day % 100 else 0)
    return bool(day) and (not first or end >= first) and (not last or day <= last)


def text_of(article: Article) -> str:
    """Return the text that is compared with a question: title and abstract."""
    title = article.title.rstrip(".")
    return f"{title}. {article.text}"[:_LONGEST] if title else article.text[:_LONGEST]


def features_of(question: str, texts: Sequence[str], scores: SentenceScores) -> list[Features]:
    """Return the features of the texts of all candidates."""
    asked = question_stems(question)
    counts = [Counter(stemmed(text)) for text in texts]
    weights = rarity(asked, [frozenset(one) for one in counts])
    length = sum(sum(one.values()) for one in counts) / max(1, len(counts))
    bm25 = [_bm25(one, weights, length) for one in counts]
    best = max(bm25, default=0.0)
    cosines, lates = (given or (0.0,) * len(texts) for given in (scores.cosines, scores.late))
    top, top_late = max(cosines, default=0.0), max(lates, default=0.0)
    return [
        Features(cosine, top - cosine, top_late - late, share_of(asked, words, weights), bm / best if best else 0.0)
        for cosine, late, words, bm in zip(cosines, lates, counts, bm25, strict=True)
    ]


def _bm25(words: Mapping[str, int], weights: Mapping[str, float], mean_length: float) -> float:
    norm = _K1 * (1 - _B + _B * sum(words.values()) / max(1.0, mean_length))
    return sum(
        weight * words[word] * (_K1 + 1) / (words[word] + norm) for word, weight in weights.items() if word in words
    )


def score_of(features: Features, use: Calibration) -> float:
    weighed = (getattr(use, name) * value for name, value in asdict(features).items())
    return _sigmoid(sum(weighed, start=use.bias))


def _sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, value))))


def screen(
    question: str, candidates: Sequence[Candidate], scores: SentenceScores, options: ClinfoOptions
) -> tuple[Screened, ...]:
    """Return the judgement of every candidate, in their order; ``scores`` are those of ``to_compare``."""
    pairs = [(one, one.article) for one in candidates if one.article is not None]
    ruled = [excluded(article, options) for _, article in pairs]
    read = [article for (_, article), rule in zip(pairs, ruled, strict=True) if rule is None]
    use = calibration_for(scores)
    if use is CALIBRATIONS[""]:
        scores = replace(scores, cosines=(), late=())
    features = iter(features_of(question, [text_of(article) for article in read], scores))
    cross = iter(scores.cross)
    judged: list[Screened] = []
    for (candidate, article), rule in zip(pairs, ruled, strict=True):
        if rule is not None:
            judged.append(Screened(candidate, article, rule))
            continue
        score = score_of(next(features), use)
        reason: Reason = "relevant" if score >= use.bar else "not_relevant"
        # What is not calibrated changes the order of what is kept, not the bar.
        logit = next(cross, None)
        score = score if logit is None else (score + _sigmoid(logit)) / 2
        judged.append(Screened(candidate, article, reason, score))
    return tuple(judged)


def calibration_for(scores: SentenceScores) -> Calibration:
    """Return the constants for what compared the articles; those for words alone where it is not calibrated."""
    names = (f"{scores.encoder}, tokens" if scores.late else scores.encoder, "")
    return next(CALIBRATIONS[name] for name in names if name in CALIBRATIONS)


def to_compare(candidates: Sequence[Candidate], options: ClinfoOptions) -> list[Article]:
    """Return the articles of the candidates that no rule excludes, in their order."""
    articles = [one.article for one in candidates if one.article is not None]
    return [article for article in articles if excluded(article, options) is None]


def to_judge(screened: Sequence[Screened], bar: float) -> list[Screened]:
    """Return those that the model judges: kept ones, and those whose score is not far below the bar."""
    return [one for one in screened if one.is_kept or (one.reason == "not_relevant" and one.score >= JUDGED_FROM * bar)]


def tell_apart(probabilities: Collection[float]) -> bool:
    """Return whether judgements say more than a leaning to one word: one of them is sure, or they differ.

    A small model says yes with nearly the same low probability to every article, which would exclude all of them.
    """
    log_odds = [logit(one) for one in probabilities]
    is_sure = any(abs(one) >= _SURE_LOG_ODDS for one in log_odds)
    return len(log_odds) < _FEW_JUDGED or is_sure or max(log_odds) - min(log_odds) >= _APART_LOG_ODDS


def with_judgements(screened: Sequence[Screened], yes: Mapping[str, float]) -> tuple[Screened, ...]:
    """Return the judgements with the model's probabilities of yes, by key."""
    found: list[Screened] = []
    for one in screened:
        if (probability := yes.get(one.article.key)) is None:
            found.append(one)
            continue
        reason: Reason = "relevant" if probability >= _JUDGED_BAR else "judged_irrelevant"
        found.append(replace(one, reason=reason, score=(one.score + probability) / 2, probability=probability))
    return tuple(found)


def by_evidence(kept: Sequence[Screened]) -> tuple[Screened, ...]:
    """Return the kept articles by level of evidence, then by score."""
    return tuple(sorted(kept, key=lambda one: (LEVELS.index(one.article.level), -one.score, one.article.key)))


def level_first(ranked: Sequence[_T], odds: Callable[[_T], float], level: Callable[[_T], Level]) -> list[_T]:
    """Return what is ranked, best first, so that of nearly equal ones the better level of evidence goes first.

    ``odds`` are logarithms; those within ``NEARLY_EQUAL`` of the best one of a run are equal to it.
    """
    found: list[_T] = []
    while len(found) < len(ranked):
        rest = ranked[len(found) :]
        run = [one for one in rest if odds(one) >= odds(rest[0]) - NEARLY_EQUAL]
        found += sorted(run, key=lambda one: LEVELS.index(level(one)))
    return found


def logit(score: float) -> float:
    bounded = min(max(score, _LEAST), 1 - _LEAST)
    return math.log(bounded / (1 - bounded))

"""Answer with verbatim sentences of the articles kept, chosen by their calibrated scores, without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from server.methods.clinfo.conclusion import Claim, Conclusion
from server.methods.clinfo.literature import Article, Literature
from server.methods.clinfo.screening import Screened
from server.methods.clinfo.statements import is_negated, is_verbatim, readable
from server.methods.shared.evidence_table import Finding
from server.methods.shared.extractive import ScoredSentence, candidates_of, chosen, scored
from server.methods.shared.passages import SentenceScores

NO_SENTENCE: Final = "No sentence of the articles that were found answers this question."
# Lower than where passages are not screened first (``shared.extractive``), as screened articles have fewer sentences
# that only sound like an answer; fitted with the constants of ``screening`` (docs/clinfo.md).
BAR: Final = 0.5
# Sentences of two articles that share so many of their words speak of the same thing.
_SAME_THING: Final = 0.5
_MAX_DISAGREEMENTS: Final = 2
_Origins = Sequence[tuple[int, str]]


async def extract(question: str, kept: Sequence[Screened], literature: Literature, most: int) -> Conclusion:
    """Choose at most ``most`` sentences above ``BAR``, those of the best articles first; articles come best first."""
    articles = [one.article for one in kept]
    text = readable(articles)
    candidates = await asyncio.to_thread(candidates_of, question, text.sources, with_titles=True)
    lines = [one.sentence.line for one in candidates.sentences]
    scores = await literature.compare(question, lines) if lines else SentenceScores()
    ranked = scored(candidates.sentences, scores)
    usable = [one for one in ranked if is_verbatim(one.line, articles[text.origins[one.candidate.source][0]])]
    by_article = sorted(usable, key=lambda one: (text.origins[one.candidate.source][0], -one.score))
    picked = chosen(by_article, most, BAR)
    pairs = _disagreeing(picked, [one for one in usable if one.score >= BAR], text.origins)
    key = partial(_key, articles=articles, origins=text.origins)
    denied = [other for _, other in pairs if other not in picked]
    best = max((one.score for one in usable), default=0.0)
    return Conclusion(
        claims=tuple(_claim(one, articles, text.origins) for one in [*picked, *denied]),
        results=_results(usable, articles, text.origins),
        disagreeing=tuple((key(one), key(other)) for one, other in pairs),
        lack="" if picked else NO_SENTENCE,
        outcome="answered" if picked else "abstained",
        step=f"{candidates.num_found} sentences, best score {best:.2f}, {BAR:.2f} is needed; {len(picked)} quoted",
        record={"bar": BAR, "best": round(best, 4), "num_sentences": candidates.num_found},
    )


def _key(one: ScoredSentence, articles: Sequence[Article], origins: _Origins) -> str:
    return articles[origins[one.candidate.source][0]].key


def _claim(one: ScoredSentence, articles: Sequence[Article], origins: _Origins) -> Claim:
    section = origins[one.candidate.source][1]
    return Claim(one.line, (_key(one, articles, origins),), section=section, score=one.score)


def _results(usable: Sequence[ScoredSentence], articles: Sequence[Article], origins: _Origins) -> dict[str, Finding]:
    """Return the best sentence of each article."""
    results: dict[str, Finding] = {}
    for one in usable:
        section = origins[one.candidate.source][1]
        results.setdefault(_key(one, articles, origins), Finding(one.line, one.line, section))
    return results


def _disagreeing(
    picked: Sequence[ScoredSentence], above: Sequence[ScoredSentence], origins: _Origins
) -> list[tuple[ScoredSentence, ScoredSentence]]:
    """Return the chosen sentences with those of other articles that deny the same thing, or the reverse."""
    pairs: list[tuple[ScoredSentence, ScoredSentence]] = []
    for one in picked:
        for other in above:
            first, second = one.candidate.stems, other.candidate.stems
            is_same = len(first & second) > _SAME_THING * min(len(first), len(second))
            apart = origins[one.candidate.source][0] != origins[other.candidate.source][0]
            if apart and is_same and is_negated(one.line) != is_negated(other.line):
                pairs.append((one, other))
                break
    return pairs[:_MAX_DISAGREEMENTS]

"""Answer from articles without a model that writes: their sentences that answer, chosen by the verifier, verbatim.

Two articles disagree where the verifier is sure that a sentence of one says yes to the question and one of the other
says no.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from server.methods.clinfo.screening import Screened, level_first, logit
from server.methods.clinfo.statements import Claim, Conclusion, readable
from server.methods.shared.choices import asks_yes_or_no
from server.methods.shared.evidence_table import Finding
from server.methods.shared.reading.gate import DOUBTFUL, Gate, JudgedSentence, Reading
from server.methods.shared.verdicts import MOST_READ, Verdict

NO_SENTENCE: Final = "No sentence of the articles that were found answers the question."
_MAX_DISAGREEMENTS: Final = 2


async def extract(question: str, kept: Sequence[Screened], gate: Gate, most: int) -> Conclusion:
    """Choose at most ``most`` sentences of the articles that are kept, which come best first.

    Raises:
        ModelError: the verifier failed.
    """
    text = readable([one.article for one in kept])
    reading = await gate.read(question, text.sources)
    keys = {
        one.evidence: (kept[place].article.key, label)
        for one in reading.ranked
        for place, label in [text.origins[one.evidence.source]]
    }
    levels = {one.article.key: one.article.level for one in kept}
    picked = level_first(
        reading.quotes(most), lambda one: logit(one.relevance), lambda one: levels[keys[one.evidence][0]]
    )
    pairs = _disagreeing(reading, picked, {evidence: key for evidence, (key, _) in keys.items()})
    shown = [*picked, *dict.fromkeys(other for _, other in pairs if other not in picked)]
    results: dict[str, Finding] = {}
    for one in reading.ranked:
        key, label = keys[one.evidence]
        results.setdefault(key, Finding(one.evidence.line, one.evidence.line, label))
    return Conclusion(
        claims=tuple(_claim(one, *keys[one.evidence]) for one in shown),
        results=results,
        disagreeing=tuple((keys[one.evidence][0], keys[other.evidence][0]) for one, other in pairs),
        lack="" if picked else NO_SENTENCE,
        outcome="answered" if reading.is_answered else "partial" if picked else "not_found",
        doubt="" if reading.is_answered or not picked else DOUBTFUL,
        verdict=Verdict(reading.verdict) if reading.verdict and picked and asks_yes_or_no(question) else None,
        quotes=tuple(reading.quotes(MOST_READ)),
        step=f"{reading.num_sentences} sentences, {len(reading.ranked)} judged, {len(picked)} quoted",
        record={"bar": reading.points.answer, "best": round(reading.best, 4), "num_sentences": reading.num_sentences},
    )


def _claim(one: JudgedSentence, key: str, label: str) -> Claim:
    return Claim(one.evidence.line, (key,), section=label, score=one.relevance)


def _disagreeing(
    reading: Reading, picked: Sequence[JudgedSentence], keys: dict[object, str]
) -> list[tuple[JudgedSentence, JudgedSentence]]:
    """Return chosen sentences, each with the first one of another article that says the contrary."""
    bar = reading.points.verdict

    def says(one: JudgedSentence) -> int:
        return (one.judgement.supports >= bar) - (one.judgement.contradicts >= bar)

    pairs = [
        (one, other)
        for one in picked
        if says(one)
        for other in [
            next((o for o in reading.ranked if keys[o.evidence] != keys[one.evidence] and says(o) == -says(one)), None)
        ]
        if other is not None
    ]
    seen: set[frozenset[str]] = set()
    distinct = []
    for one, other in pairs:
        pair = frozenset((keys[one.evidence], keys[other.evidence]))
        if pair not in seen:
            seen.add(pair)
            distinct.append((one, other))
    return distinct[:_MAX_DISAGREEMENTS]

"""Score the records of literature reviews: what was found, what was kept, what was said and what it cites. Pure."""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from typing import Any, Final

from scripts.evals.harness.intervals import bootstrap_mean
from scripts.evals.harness.records import Record
from server.methods.clinfo.statements import PUBLICATION_TYPE
from server.methods.shared.evidence_table import Review, review_of
from server.methods.shared.sentences import split_sentences

_TOKEN: Final = re.compile(r"[a-z0-9]+")
_CITED: Final = re.compile(r"\[(\d+(?:\s*,\s*\d+)*)\]")
# "No significant difference …" is no verdict.
_YES: Final = re.compile(r"^\W*(?:tl;dr\W*)?(yes|no)(?=\s*(?:[,.;:!*]|$))", re.IGNORECASE)
_NO_ANSWER: Final = frozenset({"abstained", "not_found", "out_of_scope", "call_failed", "cut"})
_K1: Final = 1.2
_B: Final = 0.75
Span = tuple[str, int, int]
Units = Counter[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Answered:
    """One record as it is scored. ``ranked``: PMIDs by screening score; ``kept``: those of the evidence table;
    ``quotes``: (PMID, text); ``bad_numbers``: citations of no article.
    """

    record: Record
    outcome: str
    ranked: tuple[str, ...]
    kept: tuple[str, ...]
    quotes: tuple[tuple[str, str], ...]
    text: str
    bad_numbers: int
    review: Review | None

    @property
    def gold(self) -> list[str]:
        return list(self.record.question.meta["gold"])

    @property
    def ideal(self) -> list[str]:
        return list(self.record.question.meta["ideal"])

    @property
    def is_answer(self) -> bool:
        return bool(self.text) and self.outcome not in _NO_ANSWER

    @property
    def lines(self) -> list[str]:
        told = [one.text for one in self.review.sentences] if self.review else []
        return told or ([self.text] if self.is_answer else [])


def answered(record: Record) -> Answered:
    """Read one record with its trace."""
    choice = ((record.reply.trace or {}).get("choices") or [{}])[0]
    details = choice.get("details") or {}
    review = review_of(details)
    screening = sorted(details.get("screening") or [], key=lambda one: -float(one.get("score") or 0))
    rows = review.rows if review else ()
    known = {row.number for row in rows if row.number}
    content = str(choice.get("content") or record.reply.text)
    numbers = [int(one) for found in _CITED.findall(content) for one in re.split(r"\s*,\s*", found)]
    # A publication type is told by the record, not by the text.
    cells = [(row, cell) for row in rows for cell in row.findings.values() if cell.section != PUBLICATION_TYPE]
    return Answered(
        record=record,
        outcome=str(choice.get("outcome") or (record.reply.arrowhead or {}).get("outcome") or ""),
        ranked=tuple(_pmid(str(one.get("key"))) for one in screening),
        kept=tuple(_pmid(row.uid) for row in rows),
        quotes=tuple((_pmid(row.uid), cell.quote) for row, cell in cells if cell.quote),
        text=str(choice.get("answer") or record.reply.marked_answer or ""),
        bad_numbers=sum(number not in known for number in numbers),
        review=review,
    )


def _pmid(key: str) -> str:
    return key.removeprefix("PMID:")


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure over ``total`` questions with its 95 % interval, None where there is nothing to measure."""

    value: float | None
    low: float = 0.0
    high: float = 0.0
    total: int = 0


def measure(values: Sequence[float]) -> Measure:
    if not values:
        return Measure(None)
    interval = bootstrap_mean(values)
    return Measure(mean(values), interval.low, interval.high, len(values))


def summarise(records: Iterable[Record], texts: Mapping[str, str]) -> dict[str, Measure]:
    """Return the measures by name; ``texts`` by PMID, for what is verbatim, {} leaves it out."""
    told = [answered(record) for record in records if not record.failed]
    with_gold = [one for one in told if one.gold]
    answers = [one for one in told if one.is_answer]
    reports = [one.review.sentences for one in answers if one.review and one.review.sentences]
    found = {
        "documents: MAP@10": [average_precision(one.ranked, one.gold) for one in with_gold],
        "documents: recall@10": [recall(one.ranked[:10], one.gold) for one in with_gold],
        "documents: recall of all found": [recall(one.ranked, one.gold) for one in with_gold],
        "evidence: recall": [recall(one.kept, one.gold) for one in with_gold],
        "evidence: precision": [precision(one.kept, one.gold) for one in with_gold if one.kept],
        "answered": [float(one.is_answer) for one in told],
        "answers without evidence": [float(not one.kept) for one in answers],
        "answers with a number of no article": [float(one.bad_numbers > 0) for one in answers],
        "sentences with a source": [mean(bool(one.cites) for one in report) for report in reports],
        "seconds": [one.record.reply.seconds for one in told],
    }
    found |= _text_scores(told) | _exact_scores(told)
    if texts:
        found |= _verbatim_scores(answers, texts) | _baseline_scores(told, texts)
    measures = {name: measure(values) for name, values in found.items()}
    yesno = [one for one in told if one.record.question.group == "yesno" and one.record.question.key]
    if yesno:
        said = [verdict(one.text) for one in yesno]
        wanted = [str(one.record.question.key).lower() for one in yesno]
        measures["yes/no: macro-F1"] = Measure(macro_f1(said, wanted), 0.0, 0.0, len(yesno))
    return measures


def _text_scores(told: Sequence[Answered]) -> dict[str, list[float]]:
    ideal = [one for one in told if one.ideal]
    answers = [one for one in ideal if one.is_answer]
    return {
        "ideal answer: ROUGE-2 F1": [rouge2(one.text, one.ideal) for one in answers],
        "ideal answer: ROUGE-2 F1, 0 for an abstention": [
            rouge2(one.text, one.ideal) if one.is_answer else 0.0 for one in ideal
        ],
    }


def _baseline_scores(told: Sequence[Answered], texts: Mapping[str, str]) -> dict[str, list[float]]:
    """ROUGE-2 of the first sentences of BM25's best three, over all questions: what a review has to be better than."""
    simple = FirstSentences(texts)
    scores = [rouge2(simple.answer(one.record.question.text), one.ideal) for one in told if one.ideal]
    return {"first sentences of BM25's top 3: ROUGE-2 F1": scores}


def _exact_scores(told: Sequence[Answered]) -> dict[str, list[float]]:
    """The scores of exact answers, as far as the sentences of a report name them."""
    factoid = [one for one in told if one.record.question.group == "factoid" and one.record.question.key]
    lists = [one for one in told if one.record.question.group == "list" and one.record.question.key]
    ranks = [reciprocal_rank(one.lines, _synonyms(one.record.question.key)[0]) for one in factoid]
    return {
        "factoid: named in the first sentence": [float(rank == 1) for rank in ranks],
        "factoid: MRR of sentences": ranks,
        "list: F1 of sentences": [
            harmonic(*list_scores(one.lines, _synonyms(one.record.question.key))) for one in lists
        ],
    }


def _synonyms(key: Any) -> list[list[str]]:
    """The items of an exact answer, each with its synonyms."""
    items = key if isinstance(key, list) else [key]
    return [[str(name) for name in (item if isinstance(item, list) else [item])] for item in items] or [[]]


def _verbatim_scores(answers: Sequence[Answered], texts: Mapping[str, str]) -> dict[str, list[float]]:
    verbatim, snippets = [], []
    for one in answers:
        spans = [span_of(pmid, quote, texts.get(pmid, "")) for pmid, quote in one.quotes]
        verbatim += [float(span is not None) for span in spans]
        gold = [(str(row["pmid"]), row["text"]) for row in one.record.question.meta["snippets"]]
        wanted = [span_of(pmid, text, texts.get(pmid, text)) for pmid, text in gold]
        if gold:
            snippets.append(snippet_f1([s for s in spans if s], [s for s in wanted if s]))
    return {"quotes: verbatim": verbatim, "snippets: F1": snippets}


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


def rouge2(text: str, references: Sequence[str]) -> float:
    """ROUGE-2 F1 against the reference that it fits best, without stemming."""
    told = Counter(pairwise(tokens(text)))
    return max((_overlap_f1(told, Counter(pairwise(tokens(one)))) for one in references), default=0.0)


def _overlap_f1(told: Units, wanted: Units) -> float:
    same = sum((told & wanted).values())
    return harmonic(same / sum(told.values()), same / sum(wanted.values())) if same else 0.0


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
    """(Precision, recall) of a list that is told in sentences: the share of sentences that name an item, and of items
    named.
    """
    named = sum(any(mentions(sentence, item) for item in items) for sentence in sentences)
    found = sum(any(mentions(sentence, item) for sentence in sentences) for item in items)
    return named / len(sentences) if sentences else 0.0, found / len(items) if items else 0.0


def span_of(pmid: str, quote: str, text: str) -> Span | None:
    """Return (PMID, start, end) of a quote in its article, None where it is not verbatim; white space is ignored."""
    bare, wanted = re.sub(r"\s+", "", text), re.sub(r"\s+", "", quote)
    at = bare.find(wanted) if wanted else -1
    return (pmid, at, at + len(wanted)) if at >= 0 else None


def snippet_f1(told: Sequence[Span], gold: Sequence[Span]) -> float:
    """BioASQ's F1 of snippets: by characters that both have."""
    first, second = ({(pmid, at) for pmid, start, end in spans for at in range(start, end)} for spans in (told, gold))
    same = len(first & second)
    return harmonic(same / len(first), same / len(second)) if same else 0.0


class FirstSentences:
    """Rank a collection by Okapi BM25 and take the first sentence of each of the best articles.

    ``texts`` by PMID: title and abstract, parted by the first line break.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._postings: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        self._lengths: dict[str, int] = {}
        for pmid, text in texts.items():
            counts = Counter(tokens(text))
            self._lengths[pmid] = sum(counts.values())
            for word, count in counts.items():
                self._postings[word].append((pmid, count))
        self._mean = sum(self._lengths.values()) / max(1, len(self._lengths))

    def best(self, question: str, top: int = 3) -> list[str]:
        scores: defaultdict[str, float] = defaultdict(float)
        for word in set(tokens(question)):
            found = self._postings.get(word, [])
            rarity = math.log(1 + (len(self._lengths) - len(found) + 0.5) / (len(found) + 0.5))
            for pmid, count in found:
                norm = _K1 * (1 - _B + _B * self._lengths[pmid] / self._mean)
                scores[pmid] += rarity * count * (_K1 + 1) / (count + norm)
        return heapq.nsmallest(top, scores, key=lambda pmid: (-scores[pmid], pmid))

    def answer(self, question: str) -> str:
        parts = [self._texts[pmid].partition("\n") for pmid in self.best(question)]
        return " ".join(one.text for title, _, text in parts for one in split_sentences(text.strip() or title)[:1])

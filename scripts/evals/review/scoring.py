"""Score the records of reviews: what was found, what was kept, what was said and what it cites. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, Final

from scripts.evals.harness.intervals import bootstrap_mean
from scripts.evals.harness.records import Record
from scripts.evals.review import metrics
from scripts.evals.review.baseline import FirstSentences
from server.methods.clinfo.statements import PUBLICATION_TYPE
from server.methods.shared.evidence_table import Review, review_of

_CITED: Final = re.compile(r"\[(\d+(?:\s*,\s*\d+)*)\]")
_PMID: Final = "PMID:"
POINTS: Final = (1, 2, 3, 5, 10, 20, 40, 60)
BASELINE: Final = "first sentences of BM25's top 3: ROUGE-2 F1"
_NO_ANSWER: Final = frozenset({"abstained", "not_found", "out_of_scope", "call_failed", "cut"})


@dataclass(frozen=True, slots=True)
class Answered:
    """Hold one record as it is scored.

    ``ranked`` are PMIDs by screening score with that score, ``kept`` those of the evidence table, ``quotes``
    (PMID, text), ``sentences`` those of the report.
    """

    record: Record
    outcome: str
    ranked: tuple[tuple[str, float], ...]
    kept: tuple[str, ...]
    quotes: tuple[tuple[str, str], ...]
    sentences: tuple[str, ...]
    text: str
    bad_numbers: int
    review: Review | None

    @property
    def gold(self) -> list[str]:
        return list(self.record.question.meta["gold"])

    @property
    def is_answer(self) -> bool:
        return bool(self.text) and self.outcome not in _NO_ANSWER


def answered(record: Record) -> Answered:
    """Read one record with its trace."""
    choice = ((record.reply.trace or {}).get("choices") or [{}])[0]
    details = choice.get("details") or {}
    review = review_of(details)
    screening = sorted(details.get("screening") or [], key=lambda one: -float(one.get("score") or 0))
    rows = review.rows if review else ()
    told = [one.text for one in review.sentences] if review else []
    text = str(choice.get("answer") or record.reply.marked_answer or "")
    content = str(choice.get("content") or record.reply.text)
    known = {row.number for row in rows if row.number}
    numbers = [int(one) for found in _CITED.findall(content) for one in re.split(r"\s*,\s*", found)]
    # A publication type is told by the record, not by the text.
    cells = [(row, cell) for row in rows for cell in row.findings.values() if cell.section != PUBLICATION_TYPE]
    quotes = [(_bare(row.uid), cell.quote) for row, cell in cells if cell.quote]
    return Answered(
        record=record,
        outcome=str(choice.get("outcome") or (record.reply.arrowhead or {}).get("outcome") or ""),
        ranked=tuple((_bare(str(one.get("key"))), float(one.get("score") or 0)) for one in screening),
        kept=tuple(_bare(row.uid) for row in rows),
        quotes=tuple(quotes),
        sentences=tuple(told),
        text=text,
        bad_numbers=sum(number not in known for number in numbers),
        review=review,
    )


def _bare(key: str) -> str:
    return key.removeprefix(_PMID)


@dataclass(frozen=True, slots=True)
class Measure:
    """Hold one figure over ``total`` questions with its 95 % interval, None where there is nothing to measure."""

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
    found = {
        "documents: MAP@10": [metrics.average_precision(_pmids(one), one.gold) for one in with_gold],
        "documents: recall@10": [metrics.recall(_pmids(one)[:10], one.gold) for one in with_gold],
        "documents: recall of all found": [metrics.recall(_pmids(one), one.gold) for one in with_gold],
        "evidence: recall": [metrics.recall(one.kept, one.gold) for one in with_gold],
        "evidence: precision": [metrics.precision(one.kept, one.gold) for one in with_gold if one.kept],
        "evidence: articles kept": [float(len(one.kept)) for one in told],
        "answered": [float(one.is_answer) for one in told],
        "answers without evidence": [float(not one.kept) for one in answers],
        "answers with a number of no article": [float(one.bad_numbers > 0) for one in answers],
        "sentences with a source": _cited_shares(answers),
        "seconds": [one.record.reply.seconds for one in told],
    }
    found |= _texts_scores(answers) | _exact_scores(told)
    if texts:
        found |= _verbatim_scores(answers, texts) | _citation_scores(answers, texts) | _baseline_scores(told, texts)
    measures = {name: measure(values) for name, values in found.items()}
    yesno = [one for one in told if one.record.question.group == "yesno" and one.record.question.key]
    if yesno:
        said = [metrics.verdict(one.text) for one in yesno]
        wanted = [str(one.record.question.key).lower() for one in yesno]
        measures["yes/no: macro-F1"] = Measure(metrics.macro_f1(said, wanted), 0.0, 0.0, len(yesno))
        measures["yes/no: with a verdict"] = measure([float(bool(one)) for one in said])
    return measures


def _pmids(one: Answered) -> list[str]:
    return [pmid for pmid, _ in one.ranked]


def _cited_shares(answers: Sequence[Answered]) -> list[float]:
    reports = [one.review.sentences for one in answers if one.review and one.review.sentences]
    return [mean(bool(sentence.cites) for sentence in sentences) for sentences in reports]


def _texts_scores(answers: Sequence[Answered]) -> dict[str, list[float]]:
    ideal = [(one.text, one.record.question.meta["ideal"]) for one in answers if one.record.question.meta["ideal"]]
    return {
        "ideal answer: ROUGE-2 F1": [metrics.rouge2(text, wanted) for text, wanted in ideal],
        "ideal answer: ROUGE-SU4 F1": [metrics.rouge_su4(text, wanted) for text, wanted in ideal],
    }


def _baseline_scores(told: Sequence[Answered], texts: Mapping[str, str]) -> dict[str, list[float]]:
    """Return ROUGE-2 of the first sentences of BM25's best three, for the questions answered and for all.

    Over all, an abstention of the method counts 0.
    """
    asked = [one for one in told if one.record.question.meta["ideal"]]
    if not asked:
        return {}
    simple, ideals = FirstSentences(texts), [one.record.question.meta["ideal"] for one in asked]
    theirs = [
        metrics.rouge2(simple.answer(one.record.question.text), wanted)
        for one, wanted in zip(asked, ideals, strict=True)
    ]
    ours = [
        metrics.rouge2(one.text, wanted) if one.is_answer else 0.0 for one, wanted in zip(asked, ideals, strict=True)
    ]
    answered_only = [score for one, score in zip(asked, theirs, strict=True) if one.is_answer]
    return {
        "ideal answer: ROUGE-2 F1, 0 for an abstention": ours,
        f"{BASELINE}, questions answered": answered_only,
        f"{BASELINE}, all questions": theirs,
    }


def _exact_scores(told: Sequence[Answered]) -> dict[str, list[float]]:
    """Return the scores of exact answers, as far as the sentences of a report name them."""
    factoid = [one for one in told if one.record.question.group == "factoid" and one.record.question.key]
    lists = [one for one in told if one.record.question.group == "list" and one.record.question.key]
    names = [_synonyms(one.record.question.key)[0] for one in factoid]
    shares = [metrics.list_scores(_lines(one), _synonyms(one.record.question.key)) for one in lists]
    return {
        "factoid: named in the first sentence": [
            float(metrics.reciprocal_rank(_lines(one), name, 1)) for one, name in zip(factoid, names, strict=True)
        ],
        "factoid: MRR of sentences": [
            metrics.reciprocal_rank(_lines(one), name) for one, name in zip(factoid, names, strict=True)
        ],
        "list: F1 of sentences": [metrics.harmonic(*pair) for pair in shares],
        "list: recall of items": [pair[1] for pair in shares],
    }


def _lines(one: Answered) -> list[str]:
    return list(one.sentences) if one.sentences else [one.text] if one.is_answer else []


def _synonyms(key: Any) -> list[list[str]]:
    """Return the items of an exact answer, each with its synonyms."""
    items = key if isinstance(key, list) else [key]
    return [[str(name) for name in (item if isinstance(item, list) else [item])] for item in items] or [[]]


def _verbatim_scores(answers: Sequence[Answered], texts: Mapping[str, str]) -> dict[str, list[float]]:
    verbatim, snippets = [], []
    for one in answers:
        spans = [metrics.span_of(pmid, quote, texts.get(pmid, "")) for pmid, quote in one.quotes]
        verbatim += [float(span is not None) for span in spans]
        gold = one.record.question.meta["snippets"]
        wanted = [
            metrics.span_of(str(row["pmid"]), row["text"], texts.get(str(row["pmid"]), row["text"])) for row in gold
        ]
        if gold:
            snippets.append(metrics.snippet_f1([s for s in spans if s], [s for s in wanted if s]))
    return {"quotes: verbatim": verbatim, "snippets: F1": snippets}


def _citation_scores(answers: Sequence[Answered], texts: Mapping[str, str]) -> dict[str, list[float]]:
    """Return whether sentences are supported by what they cite, and whether each citation supports its sentence."""
    recalls: list[float] = []
    precisions: list[float] = []
    for one in answers:
        uids = {row.number: _bare(row.uid) for row in one.review.rows} if one.review else {}
        for sentence in one.review.sentences if one.review else ():
            cited = [texts.get(uids.get(number, ""), "") for number in sentence.cites]
            precisions += [float(metrics.supports([text], sentence.text)) for text in cited]
            recalls.append(float(metrics.supports(cited, sentence.text)))
    return {"citations: recall": recalls, "citations: precision": precisions}


def recall_curve(records: Iterable[Record]) -> list[tuple[int, float]]:
    """Return (articles read, mean recall of gold) for the article counts of ``POINTS``."""
    told = [one for one in map(answered, (record for record in records if not record.failed)) if one.gold]
    if not told:
        return []
    return [(at, mean(metrics.recall(_pmids(one)[:at], one.gold) for one in told)) for at in POINTS]


def reliability(records: Iterable[Record], bins: int = 10) -> list[tuple[float, float, int]]:
    """Return (mean screening score, share of gold articles, articles) of each tenth of the score."""
    groups: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for one in map(answered, (record for record in records if not record.failed)):
        for pmid, score in one.ranked if one.gold else ():
            groups[min(bins - 1, int(max(0.0, score) * bins))].append((score, pmid in one.gold))
    return [
        (mean(score for score, _ in group), mean(is_gold for _, is_gold in group), len(group))
        for _, group in sorted(groups.items())
    ]


def progress_scorer() -> Callable[[Record], float]:
    """Return recall of gold among the evidence, for the progress line alone."""
    return lambda record: metrics.recall(answered(record).kept, record.question.meta["gold"])

"""Build the text and the record of a review: steps with PRISMA's counts, references, abstention, the trace. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from models.decoding.types import LoopUsage
from retrieval.references.csl import reference_line
from server.methods.base import AnswerOutcome, Done, Event, Evidence, Reference, TextDelta, TranscriptDelta
from server.methods.clinfo.literature import LEVELS, Article, Level
from server.methods.clinfo.options import ClinfoOptions
from server.methods.clinfo.queries import Query as Asked
from server.methods.clinfo.queries import Writer
from server.methods.clinfo.screening import REASONS, Screened
from server.methods.clinfo.search import SearchRun
from server.methods.clinfo.statements import Conclusion, design_of
from server.methods.shared.call_lines import HEADING
from server.methods.shared.choices import asks_yes_or_no
from server.methods.shared.empty_states import MORE_LITERATURE
from server.methods.shared.evidence_table import EvidenceRow, Exclusion, Finding, Query, Review, Sentence
from server.methods.shared.outcomes import counted, notice
from server.methods.shared.word_overlap import nearest_sentence

NO_USAGE: Final = LoopUsage()
NO_VERDICT: Final = (
    "These sentences are quoted from the articles; whether they mean yes or no is for the reader to judge."
)
_MAX_EXCLUDED: Final = 400
_MAX_NAMED: Final = 5
_WRITERS: Final[Mapping[Writer, str]] = {"model": "the model", "rules": "rules", "request": "the request"}
_LEVEL_NAMES: Final[Mapping[Level, str]] = {
    "synthesis": "systematic review or guideline",
    "trial": "clinical trial",
    "cohort": "cohort or observational study",
    "case": "case report",
    "other": "other",
}


@dataclass(slots=True)
class Flow:
    """Count what happens to the articles of one review, as a PRISMA flow does, and collect what went wrong.

    ``left_out`` are candidates beyond ``max_articles``, ``missing`` those that could not be fetched, ``by_request``
    those that the request excludes (``exclude_pmids``).
    """

    found: int = 0
    duplicates: int = 0
    left_out: int = 0
    missing: int = 0
    by_request: int = 0
    screened: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    included: int = 0
    cited: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        return {
            "found": self.found,
            "duplicates": self.duplicates,
            **({"excluded_by_hand": self.by_request} if self.by_request else {}),
            "left_out": self.left_out,
            "missing": self.missing,
            "screened": self.screened,
            "excluded": sum(self.excluded.values()),
            "included": self.included,
            "cited": self.cited,
        }

    def known(self, *names: str) -> dict[str, int]:
        """Return the counts that are known at a stage of the review."""
        return {name: number for name, number in self.counts.items() if name in names}


def queries_step(queries: Sequence[Asked]) -> str:
    """Return how many queries there are, and who wrote them."""
    writers = Counter(query.writer for query in queries)
    parts = [f"{number} by {_WRITERS[writer]}" for writer, number in writers.items()]
    return f"queries: {', '.join(parts)}" if parts else "no query, as the question has no words to search for"


def searched_step(run: SearchRun) -> str:
    if run.error:
        return f"search at {run.source} failed: {run.error}; query: {run.query}"
    repaired = ", repaired" if run.repaired else ""
    note = f"; {run.note}" if run.note else ""
    return f"{counted(run.hits, 'record')} at {run.source} ({len(run.keys)} taken{repaired}){note}: {run.query}"


def found_step(flow: Flow) -> str:
    distinct = flow.found - flow.duplicates
    more = f"; {flow.left_out} beyond max_articles" if flow.left_out else ""
    return f"found {flow.found}, duplicates {flow.duplicates}, different articles {distinct}{more}"


def fetched_step(requested: int, missing: int, same_doi: int) -> str:
    """Return how many articles of those wanted are there to be screened; some may stand under another one's DOI."""
    more = f"; {same_doi} under the DOI of another one" if same_doi else ""
    return f"fetched {requested - missing} of {counted(requested, 'article')}, missing {missing}{more}"


def screened_step(flow: Flow, screened: Sequence[Screened]) -> str:
    """Return the counts of the screening, with the retracted articles by name."""
    reasons = ", ".join(f"{REASONS[reason]} {number}" for reason, number in _by_number(flow.excluded))
    excluded = f"excluded {sum(flow.excluded.values())}{f' ({reasons})' if reasons else ''}"
    retracted = [one.article.key for one in screened if one.reason == "retracted"][:_MAX_NAMED]
    named = f"; retracted, so no evidence: {', '.join(retracted)}" if retracted else ""
    return f"screened {flow.screened}, {excluded}, included {flow.included}{named}"


def _by_number(reasons: Counter[str]) -> list[tuple[Any, int]]:
    return sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))


def alike_step(yes: Mapping[str, float]) -> str:
    low, high = min(yes.values()), max(yes.values())
    return f"the model judges all {len(yes)} articles nearly alike ({low:.2f} to {high:.2f}), so their scores decide"


def included_step(kept: Sequence[Screened]) -> str:
    levels = Counter(one.article.level for one in kept)
    parts = [f"{_LEVEL_NAMES[level]} {levels[level]}" for level in LEVELS if levels[level]]
    flagged = [f"{one.article.key} ({', '.join(one.article.flags)})" for one in kept if one.article.flags]
    noted = f"; noted: {', '.join(flagged[:_MAX_NAMED])}" if flagged else ""
    return f"evidence: {', '.join(parts)}{noted}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Hold all of a review that its end is built from.

    ``kept`` is in the order of evidence.
    """

    question: str
    options: ClinfoOptions
    synthesis: str
    runs: Sequence[SearchRun]
    screened: Sequence[Screened]
    kept: Sequence[Screened]
    flow: Flow
    conclusion: Conclusion = field(default_factory=Conclusion)

    @property
    def details(self) -> dict[str, Any]:
        """Return the record for the trace."""
        conclusion, numbers = self.conclusion, self.conclusion.numbers
        review = Review(
            question=self.question,
            queries=tuple(_query(run) for run in self.runs),
            counts=self.flow.counts,
            excluded=tuple(_exclusion(one) for one in self.screened if not one.is_kept)[:_MAX_EXCLUDED],
            rows=tuple(self._row(one, numbers) for one in self.kept),
            tldr=conclusion.tldr,
            sentences=tuple(
                Sentence(claim.text, tuple(sorted(numbers[key] for key in claim.keys)), claim.is_quote or None)
                for claim in conclusion.claims
            ),
            contradictions=disagreements(conclusion),
        )
        return {
            "method": "clinfo",
            "synthesis": self.synthesis,
            "options": asdict(self.options),
            "searches": [run.record for run in self.runs],
            "screening": [one.record for one in self.screened],
            "excluded_by_reason": dict(self.flow.excluded),
            "faults": list(self.flow.faults),
            **review.details,
            **conclusion.record,
            **(conclusion.verdict.record if conclusion.verdict else {}),
            **({"written": conclusion.written} if conclusion.written else {}),
        }

    def _row(self, one: Screened, numbers: Mapping[str, int]) -> EvidenceRow:
        article, conclusion = one.article, self.conclusion
        cells: dict[str, Any] = {
            "design": design_of(article),
            "result": conclusion.results.get(article.key, Finding()),
        } | {name: cell for name, cell in conclusion.cells.get(article.key, {}).items() if cell.value}
        return EvidenceRow(
            number=numbers.get(article.key, 0),
            uid=article.pmid or article.key,
            title=article.title,
            url=article.url,
            item=article.item,
            level=_LEVEL_NAMES[article.level],
            score=round(one.score, 4),
            found_by=tuple(self.runs[run].source for run in one.candidate.found_by if run < len(self.runs)),
            source="passages" if article.namespace else "abstract",
            notices=article.flags,
            **cells,
        )


def disagreements(conclusion: Conclusion) -> tuple[str, ...]:
    numbers = conclusion.numbers
    return tuple(
        f"Articles [{numbers[one]}] and [{numbers[other]}] seem to disagree." for one, other in conclusion.disagreeing
    )


def is_quoted_on_yes_or_no(conclusion: Conclusion, question: str) -> bool:
    """Return whether a question that asks for yes or no is answered with quotes, which say neither by themselves."""
    return bool(conclusion.claims) and conclusion.claims[0].is_quote and asks_yes_or_no(question)


def notes_on(conclusion: Conclusion, question: str, flow: Flow) -> Iterator[str]:
    """Yield what has to be told with an answer, in the order in which it is told."""
    if conclusion.disagreeing:
        yield " ".join(disagreements(conclusion))
    if is_quoted_on_yes_or_no(conclusion, question):
        yield conclusion.verdict.note if conclusion.verdict else NO_VERDICT
    if conclusion.limit:
        yield conclusion.limit
    if conclusion.doubt:
        yield conclusion.doubt
    if flow.faults:
        yield f"Not all went well, so articles may be missing: {'; '.join(flow.faults[:5])}."


def _query(run: SearchRun) -> Query:
    return Query(run.query, run.source, None if run.error else run.hits, run.error)


def _exclusion(one: Screened) -> Exclusion:
    stage = "retracted" if one.reason == "retracted" else "screening"
    return Exclusion(one.article.pmid or one.article.key, one.article.title, stage, REASONS[one.reason])


def citations_of(conclusion: Conclusion, articles: Mapping[str, Article]) -> list[dict[str, object]]:
    """Return each citation for the trace; an article that only disagrees has no ``text``.

    ``quote`` is the sentence of the article that a reader is shown: the quoted one, or the one nearest to what the
    model wrote, "" where none is near.
    """
    numbers = conclusion.numbers
    rows = [
        {
            "number": numbers[key],
            "key": key,
            "url": articles[key].url,
            "text": claim.text,
            "quote": claim.text if claim.is_quote else _nearest(claim.text, articles[key]),
            "is_quote": claim.is_quote,
            "section": claim.section,
            "score": round(claim.score, 4),
        }
        for claim in conclusion.claims
        for key in claim.keys
    ]
    listed = {one["key"] for one in rows}
    for first, other in conclusion.disagreeing:
        if other not in listed:
            denied = next(claim.text for claim in conclusion.claims if first in claim.keys)
            quote = _nearest(denied, articles[other])
            rows.append(
                {"number": numbers[other], "key": other, "url": articles[other].url, "text": "", "quote": quote}
            )
    return rows


def _nearest(text: str, article: Article) -> str:
    return nearest_sentence(text, "\n\n".join(one.text for one in article.sections))


def listed_references(cited: Mapping[int, Article], offset: int) -> tuple[str, tuple[Reference, ...]]:
    """Return the reference list for an answer of ``offset`` characters; ``cited`` are by number."""
    if not cited:
        return "", ()
    text, references = HEADING, []
    for number, article in cited.items():
        marker, start = f"[{number}]", offset + len(text)
        shown = _plain(reference_line(article.item))
        flags = f" ({', '.join(article.flags).upper()})" if article.flags else ""
        label = f"PMID {article.pmid}" if article.pmid else article.namespace or "source"
        evidence = f"{article.title}\n{article.text}".strip()
        references.append(Reference(number, title_of(article), article.url, start, start + len(marker), evidence))
        text += f"{marker} {shown}{flags} [{label}]({article.url})\n"
    return text.rstrip("\n"), tuple(references)


def title_of(article: Article) -> str:
    """Return title, journal and year without brackets, which could end the text of a Markdown link."""
    parts = ", ".join(filter(None, (article.journal, article.year)))
    flags = f"; {', '.join(article.flags).upper()}" if article.flags else ""
    return _plain(f"{article.title or article.key}{f' ({parts}{flags})' if parts or flags else ''}")


def _plain(text: str) -> str:
    return " ".join(text.replace("[", "(").replace("]", ")").split())


def searched_where(runs: Sequence[SearchRun], flow: Flow) -> str:
    """Return the sentence on what was searched, for an abstention."""
    by_source: dict[str, list[SearchRun]] = {}
    for run in runs:
        by_source.setdefault(run.source, []).append(run)
    parts = [f"{source} ({counted(len(of), 'query').replace('querys', 'queries')})" for source, of in by_source.items()]
    screened = f"{counted(flow.screened, 'article')} screened, {flow.included} of them relevant"
    if not parts:
        return "Nothing was searched."
    more = "" if any("PubMed" in source for source in by_source) else f" {MORE_LITERATURE}"
    return f"Searched: {', '.join(parts)}; found {flow.found}, {screened}.{more}"


def queries_told(runs: Sequence[SearchRun]) -> str:
    """Return the queries as a list for people, each once."""
    lines = dict.fromkeys(f"- {run.query} ({'failed' if run.error else run.hits})" for run in runs)
    return "Queries and their hits:\n" + "\n".join(lines) if lines else ""


def lack_of(report: Report) -> tuple[str, AnswerOutcome]:
    """Return why no article is kept, and how the answer ends."""
    flow = report.flow
    if report.runs and all(run.error for run in report.runs):
        return "The literature could not be searched.", "call_failed"
    if not report.runs:
        return "The question has no words that literature can be searched for.", "abstained"
    if not flow.found:
        return "No article was found.", "call_failed" if flow.faults else "not_found"
    if not flow.screened and not flow.missing:
        return "All articles that were found are among those to leave out (exclude_pmids).", "abstained"
    if not flow.screened:
        return "None of the articles that were found could be fetched.", "call_failed"
    if flow.excluded["retracted"] == flow.screened:
        return "All articles that were found have been retracted.", "abstained"
    return "None of the articles that were found is evidence for this question.", "abstained"


def abstention(report: Report, reason: str, outcome: AnswerOutcome, usage: LoopUsage) -> Iterator[Event]:
    """Yield a whole answer without evidence: why, and what was searched."""
    parts = [reason, searched_where(report.runs, report.flow)]
    parts += [
        f"{remark[:1].upper()}{remark[1:]}." for remark in dict.fromkeys(run.note for run in report.runs) if remark
    ]
    parts += [f"Not all went well: {'; '.join(report.flow.faults)}."] if report.flow.faults else []
    shown = " ".join(parts)
    if queries := queries_told(report.runs):
        shown = f"{shown}\n\n{queries}"
    yield TranscriptDelta(shown, "injected")
    yield notice(shown, "")
    details = report.details | {"abstained": True, "reason": reason}
    yield Done(answer=reason, usage=usage, details=details, outcome=outcome)


def ending(report: Report, shown: str, cited: Mapping[int, Article], done: Done) -> Iterator[Event]:
    """Yield the reference list behind the text ``shown``, and ``done`` with the record."""
    if report.options.references:
        text, references = listed_references(cited, len(shown))
        if references:
            yield TextDelta(text, is_ours=True)
            yield Evidence(references)
    yield done

"""Recommend articles for a text, each with the sentences that say most about it.

The published program searches MedCPT's vectors of one part of PubMed (``query #34``: PMIDs from 34 million on) and lets
the user have chosen abstracts summarized. Here the namespaces are searched, with filters of dates, types and articles,
by vectors where they have them; chosen articles are summarized by the model where it can, else by their own sentences.

A sentence of a summary is left out, and counted, where it names no passage, or where no sentence of the passages that
it names has half of its words; what a limit cut off is left out, too.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from models.decoding.types import LoopUsage
from models.errors import ArrowheadError
from retrieval.corpus.namespaces.settings import embedded_title
from retrieval.corpus.search.ranking import MAX_K, RankedPassage
from server.methods.base import Done, Event, Evidence, EvidenceRead, Step, TextDelta, TranscriptDelta
from server.methods.medrag.chain_of_thought import Chains
from server.methods.medrag.context import (
    Numbered,
    distinct,
    evidence_of,
    passage_record,
    render,
    supporting_sentence,
    url_of,
)
from server.methods.medrag.reading import SLACK, read_passages
from server.methods.medrag.report import NO_USAGE, abstention, counted, listed, retrieved
from server.methods.shared.passages import Gathered
from server.methods.shared.quoted import QuoteTask, Quoting
from server.methods.shared.reading.evidence import EvidenceText
from server.methods.shared.reading.gate import Gate, JudgedSentence
from server.methods.shared.sentences import MARK, numbers_in, plain_marks, quotation, split_sentences
from server.methods.shared.synthesis import Synthesis
from server.methods.weiseeule.library import Library, TextSearch, WeiseRetriever
from server.methods.weiseeule.request import PMIDS_OF_A_PART, KeywordQuestion, Prompts, WeiseOptions

_MAX_TOKENS: Final = 400
_NO_ROOM: Final = "the model has no room to read its passages"
_UNCITED: Final = "the model wrote no sentence that rests on its passages"
# A model may cite behind the full stop; the sentence then has its marks in front of it, as prompted.
_MARK_BEHIND: Final = re.compile(r"([.?!])\s*(\[\s*\d[\d\s,;–-]*\])")
_BEFORE_STOP: Final = re.compile(r"\s+(?=[.,;:?!])")

ARTICLES: Final = 10
_DEPTH: Final = 100
_PREFERRED: Final[tuple[WeiseRetriever, ...]] = ("pes1", "bm25")


@dataclass(frozen=True, slots=True)
class Statement:
    """Hold one sentence of a summary, and the sentences of the article that it rests on.

    ``is_quote``: the sentence is the article's own, word for word.
    """

    text: str
    support: tuple[str, ...]
    is_quote: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """Hold what the model made of one article.

    ``written`` is its text as it came, ``num_dropped`` counts sentences that rest on no passage; ``fault`` says why
    there is no statement, "" where there is one.
    """

    statements: tuple[Statement, ...] = ()
    written: str = ""
    num_dropped: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Summarizer:
    """Summarize articles for one text.

    ``chains`` has the model and its sampling; with ``quotes`` the model chooses sentences word for word. ``most``
    bounds the sentences of an article, ``context_tokens`` what is read of it, None for all that fits.
    """

    chains: Chains
    prompts: Prompts
    most: int
    context_tokens: int | None = None
    quotes: bool = False

    @property
    def usage(self) -> LoopUsage:
        return self.chains.generations.usage

    async def summary(self, text: str, passages: Sequence[RankedPassage]) -> Summary:
        """Return the summary of the article that the passages, best first, are of.

        Raises:
            ModelError: the engine failed.
        """
        return await (self._quoted(text, passages) if self.quotes else self._written(text, passages))

    async def _written(self, text: str, passages: Sequence[RankedPassage]) -> Summary:
        chains, prompts = self.chains, self.prompts
        engine, limit = chains.generations.engine, min(chains.params.max_tokens, _MAX_TOKENS)
        around = await chains.layout.prompt(prompts.summary_system, prompts.summary_user(text, "-", self.most))
        room = engine.max_model_len - len(around) - limit - SLACK
        context = await read_passages(engine, passages, room, self.context_tokens)
        if not context.passages:
            return Summary(fault=_NO_ROOM)
        ids = await chains.layout.prompt(prompts.summary_system, prompts.summary_user(text, context.text, self.most))
        stops = (*chains.params.stop, *chains.layout.stops)
        written = await chains.generations.write(ids, replace(chains.params, max_tokens=limit, stop=stops))
        numbered = dict(enumerate(context.passages, 1))
        return read_summary(written.text, numbered, self.most, is_whole=written.finish_reason == "stop")

    async def _quoted(self, text: str, passages: Sequence[RankedPassage]) -> Summary:
        chains = self.chains
        numbered = {number: found for number, (_, found) in enumerate(distinct(passages), 1)}
        task = QuoteTask(
            question=text,
            passages=[(number, found.passage.text) for number, found in numbered.items()],
            max_quotes=self.most,
            titles={number: embedded_title(found.passage) for number, found in numbered.items()},
        )
        answer = await Quoting(chains.generations, chains.layout, chains.params).whole(task)
        statements = tuple(Statement(plain_marks(one.text), (one.text,), is_quote=True) for one in answer.quotes)
        return Summary(statements, answer.text, answer.num_refused, "" if statements else answer.reason)


def read_summary(written: str, passages: Mapping[int, RankedPassage], most: int, *, is_whole: bool) -> Summary:
    """Return the sentences that rest on a passage that they name, without their marks, at most ``most``.

    The last sentence of a text that is not ``is_whole`` may lack its end, and does not count.
    """
    sentences = split_sentences(_MARK_BEHIND.sub(r" \2\1", written.strip()))
    cut = [] if is_whole else sentences[-1:]
    statements: list[Statement] = []
    for one in sentences[: len(sentences) - len(cut)]:
        known = [number for number in numbers_in(one.text) if number in passages]
        found = (supporting_sentence(one.text, number, passages[number]) for number in known)
        support = tuple(dict.fromkeys(filter(None, found)))
        if not support or len(statements) == most:
            continue
        line = _BEFORE_STOP.sub("", " ".join(MARK.sub(" ", one.text).split()))
        statements.append(Statement(line, support))
    dropped = len(sentences) - len(statements)
    return Summary(tuple(statements), written, dropped, "" if statements else _UNCITED)


@dataclass(frozen=True, slots=True)
class Article:
    """Hold an article by its passages, best first, and what is said of it: a summary, or its own sentences.

    ``summary`` is what the model made of it, None where it was not asked.
    """

    passages: tuple[RankedPassage, ...]
    sentences: tuple[JudgedSentence, ...] = ()
    summary: Summary | None = None

    @property
    def best(self) -> RankedPassage:
        return self.passages[0]

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Return the sentences of the summary, else the article's own."""
        if self.summary is not None and self.summary.statements:
            return self.summary.statements
        return tuple(
            Statement(plain_marks(one.evidence.line), (one.evidence.line,), is_quote=True) for one in self.sentences
        )

    @property
    def text(self) -> str:
        """Return the passages that the statements rest on, the best one where none is known."""
        support = {line for one in self.statements for line in one.support}
        held = [one.passage.text for one in self.passages if any(_has(one.passage.text, line) for line in support)]
        return "\n\n".join(dict.fromkeys(held)) or self.best.passage.text


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Hold what is needed for one list of articles; ``method`` is the name for the trace.

    ``summarizer`` summarizes articles that the request names, None where no model does.
    """

    method: str
    question: KeywordQuestion
    options: WeiseOptions
    library: Library
    gate: Gate
    summarizer: Summarizer | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        gathered, retriever, tried = await self._searched()
        for line in tried:
            yield Step(line)
        articles = articles_of(gathered.lists[0], self.question.part)[:ARTICLES]
        where = f"{listed(gathered.namespaces) or 'no namespace'} by {retriever}{self._part}"
        yield Step(f"{counted(len(articles), 'article')} in {where}")
        details = self._details(gathered, retriever)
        if not articles:
            reason = f"No article was found in {where}."
            for event in abstention(reason, details, outcome="not_found" if gathered.namespaces else "abstained"):
                yield event
            return
        every = [one for article in articles for one in article.passages]
        yield retrieved([self.question.text], every)
        yield EvidenceRead(evidence_of(every))
        described = []
        for number, article in enumerate(articles, 1):
            described.append(await self._read(article))
            if described[-1].summary is not None:
                yield Step(f"summary {number} of {len(articles)}: {_told_of(described[-1])}")
                yield TranscriptDelta(described[-1].summary.written)
        for event in self._listed(described, where, details):
            yield event

    async def _searched(self) -> tuple[Gathered, WeiseRetriever, list[str]]:
        """Search by vectors, or by words where the namespaces have no vectors, and tell what could not be."""
        tried: list[str] = []
        asked = self.options.retriever
        choices = _PREFERRED if asked == "pes2" else (asked,)
        for retriever in choices:
            try:
                return await self.library.search(self._search(retriever)), retriever, tried
            except ArrowheadError as error:
                if retriever == choices[-1]:
                    raise
                tried.append(f"not searched by {retriever}: {error.message}")
        raise AssertionError  # the last choice returns or raises

    def _search(self, retriever: WeiseRetriever) -> TextSearch:
        options = self.options
        depth = MAX_K if self.question.part is not None else max(_DEPTH, options.k)
        return TextSearch(
            query=self.question.text,
            retriever=retriever,
            namespaces=options.namespaces,
            k=depth,
            rerank=options.rerank,
            where=options.where,
        )

    async def _read(self, article: Article) -> Article:
        """Return the article with its summary or, where there is none, its best sentences."""
        summary = None
        if self.summarizer is not None:
            summary = await self.summarizer.summary(self.question.text, article.passages)
            if summary.statements:
                return Article(article.passages, summary=summary)
        texts = [EvidenceText(embedded_title(one.passage), one.passage.text) for one in article.passages]
        reading = await self.gate.read(self.question.text, texts)
        return Article(article.passages, reading.ranked[: self._num_sentences], summary)

    @property
    def _num_sentences(self) -> int:
        """Return how many sentences each article gets: more where the user has chosen them."""
        return self.options.sentences if self.options.where.papers else 1

    def _listed(self, articles: Sequence[Article], where: str, details: dict[str, Any]) -> Iterator[Event]:
        text = f"{counted(len(articles), 'article')} for this text, best first, found in {where}:\n"
        if self.summarizer is not None and not self.summarizer.quotes:
            text += "The model wrote what stands without quotation marks.\n"
        text += "".join(_entry(number, one) for number, one in enumerate(articles, 1))
        yield TranscriptDelta(text, "injected")
        yield TextDelta(text)
        if self.options.references:
            numbered = [Numbered(number, one.best) for number, one in enumerate(articles, 1)]
            listing, references = render(numbered, True, len(text))
            yield TextDelta(listing, is_ours=True)
            yield Evidence(
                tuple(replace(one, text=article.text) for one, article in zip(references, articles, strict=False))
            )
        records = [_record(number, one) for number, one in enumerate(articles, 1)]
        yield Done(
            answer=text,
            finish_reason="stop",
            stop_reason=None,
            usage=self.summarizer.usage if self.summarizer else NO_USAGE,
            details={
                **details,
                "abstained": False,
                "articles": records,
                "citations": [_citation(number, one) for number, one in enumerate(articles, 1)],
                "cited": list(range(1, len(articles) + 1)),
            },
            outcome="answered",
        )

    def _details(self, gathered: Gathered, retriever: str) -> dict[str, Any]:
        return {
            "method": self.method,
            "synthesis": self._synthesis,
            "recommend": True,
            "part": self.question.part,
            "options": asdict(self.options),
            "namespaces": list(gathered.namespaces),
            "retriever": retriever,
            "retrieval_s": round(gathered.seconds, 4),
        }

    @property
    def _synthesis(self) -> Synthesis:
        if self.summarizer is None:
            return "extractive"
        return "quoted" if self.summarizer.quotes else "generated"

    @property
    def _part(self) -> str:
        part = self.question.part
        if part is None:
            return ""
        first = part * PMIDS_OF_A_PART
        return f", PMIDs {first:,} to {first + PMIDS_OF_A_PART - 1:,}"


def articles_of(found: Sequence[RankedPassage], part: int | None = None) -> list[Article]:
    """Return the papers of passages, best first, without retracted ones; only those of a part of PubMed, if given."""
    papers: dict[str, list[RankedPassage]] = {}
    for one in found:
        if not one.document.is_retracted and _is_in(one.document.paper, part):
            papers.setdefault(one.document.paper, []).append(one)
    return [Article(tuple(passages)) for passages in papers.values()]


def _is_in(paper: str, part: int | None) -> bool:
    if part is None:
        return True
    number = paper.removeprefix("PMID:")
    return paper != number and number.isdigit() and int(number) // PMIDS_OF_A_PART == part


def _entry(number: int, article: Article) -> str:
    document = article.best.document
    year = str(document.date // 10_000) if document.date else ""
    about = ", ".join(filter(None, (document.journal, year, *(kind for kind in document.types[:1]))))
    title = " ".join((document.title or document.document_id).split())
    line = f"\n{number}. {plain_marks(title)}{f' ({plain_marks(about)})' if about else ''} [{number}]\n"
    fault = article.summary.fault if article.summary is not None else ""
    note = f"   (No summary: {fault}. Its own sentences:)\n" if fault else ""
    return line + note + "".join(f"   {_shown(one)} [{number}]\n" for one in article.statements)


def _shown(statement: Statement) -> str:
    return quotation(statement.text) if statement.is_quote else statement.text


def _told_of(article: Article) -> str:
    summary = article.summary or Summary()
    dropped = f", {summary.num_dropped} left out that rest on none" if summary.num_dropped else ""
    return f"{counted(len(summary.statements), 'sentence')} from {counted(len(article.passages), 'passage')}{dropped}"


def _has(text: str, line: str) -> bool:
    """Return whether a text has a sentence, whose line breaks have become blanks and whose marks may be plain."""
    flat = " ".join(text.split())
    return line in flat or line in plain_marks(flat)


def _citation(number: int, article: Article) -> dict[str, Any]:
    lines = dict.fromkeys(line for one in article.statements for line in one.support)
    return passage_record(article.best, number=number, sentences=[{"text": line} for line in lines])


def _record(number: int, article: Article) -> dict[str, Any]:
    document = article.best.document
    return passage_record(article.best, number=number) | {
        "paper": document.paper,
        "journal": document.journal,
        "date": document.date,
        "types": list(document.types),
        "address": url_of(article.best),
        "sentences": [one.text for one in article.statements],
        "by_model": bool(article.summary and article.summary.statements),
        "num_passages": len(article.passages),
    }

"""Recommend articles for a text, each with the sentences that say most about it.

The published program searches MedCPT's vectors of one part of PubMed (``query #34``: PMIDs from 34 million on) and lets
the user have chosen abstracts summarized. Here the namespaces are searched, with filters of dates, types and articles,
by vectors where they have them; chosen articles are summarized by the model where it can, else by their own sentences.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from models.errors import ArrowheadError
from retrieval.corpus.search.ranking import MAX_K, RankedPassage
from server.methods.base import AnswerOutcome, Done, Event, Evidence, EvidenceRead, Step, TextDelta, TranscriptDelta
from server.methods.medrag.chain_of_thought import Chains
from server.methods.medrag.context import Numbered, evidence_of, passage_record, render, url_of
from server.methods.medrag.reading import SLACK, read_passages
from server.methods.medrag.report import NO_USAGE, abstention, retrieved
from server.methods.shared.empty_states import NO_COLLECTION
from server.methods.shared.outcomes import counted, listed
from server.methods.shared.passages import Gathered
from server.methods.shared.reading.evidence import EvidenceText
from server.methods.shared.reading.gate import Gate, JudgedSentence
from server.methods.shared.sentences import plain_marks, quotation
from server.methods.weiseeule.library import Library, WeiseRetriever
from server.methods.weiseeule.request import PMIDS_OF_A_PART, KeywordQuestion, Prompts, WeiseOptions

_MAX_TOKENS: Final = 400
ARTICLES: Final = 10
_DEPTH: Final = 100
_PREFERRED: Final[tuple[WeiseRetriever, ...]] = ("pes1", "bm25")


@dataclass(frozen=True, slots=True)
class Summarizer:
    """Summarize articles for one text, each in at most ``most`` sentences, with the model of ``chains``."""

    chains: Chains
    prompts: Prompts
    most: int
    context_tokens: int | None = None

    async def summary(self, text: str, passages: Sequence[RankedPassage]) -> str:
        """Return what the model writes of the article that the passages, best first, are of; "" where none fits.

        Raises:
            ModelError: the engine failed.
        """
        chains, system = self.chains, self.prompts.summary_system
        engine, limit = chains.generations.engine, min(chains.params.max_tokens, _MAX_TOKENS)
        around = await chains.layout.prompt(system, self.prompts.summary_user(text, "-", self.most))
        room = engine.max_model_len - len(around) - limit - SLACK
        context = await read_passages(engine, passages, room, self.context_tokens)
        if not context.passages:
            return ""
        ids = await chains.layout.prompt(system, self.prompts.summary_user(text, context.text, self.most))
        stops = (*chains.params.stop, *chains.layout.stops)
        written = await chains.generations.write(ids, replace(chains.params, max_tokens=limit, stop=stops))
        return written.text.strip()


@dataclass(frozen=True, slots=True)
class Article:
    """Hold an article by its passages, best first, and what is shown of it: its own sentences or a ``summary``."""

    passages: tuple[RankedPassage, ...]
    sentences: tuple[JudgedSentence, ...] = ()
    summary: str = ""

    @property
    def best(self) -> RankedPassage:
        return self.passages[0]

    @property
    def lines(self) -> list[str]:
        return [self.summary] if self.summary else [one.evidence.line for one in self.sentences]

    @property
    def text(self) -> str:
        """Return the passages that the sentences are of, the best one where there is no sentence."""
        sources = dict.fromkeys(one.evidence.source for one in self.sentences)
        return "\n\n".join(self.passages[place].passage.text for place in sources) or self.best.passage.text


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
            outcome: AnswerOutcome = "not_found" if gathered.namespaces else "abstained"
            why = f"No article was found in {where}." if gathered.namespaces else NO_COLLECTION
            for event in abstention(why, outcome, details):
                yield event
            return
        every = [one for article in articles for one in article.passages]
        yield retrieved([self.question.text], every)
        yield EvidenceRead(evidence_of(every))
        for event in self._listed([await self._read(article) for article in articles], where, details):
            yield event

    async def _searched(self) -> tuple[Gathered, WeiseRetriever, list[str]]:
        """Search by vectors, or by words where the namespaces have no vectors, and tell what could not be."""
        tried: list[str] = []
        asked = self.options.retriever
        choices = _PREFERRED if asked == "pes2" else (asked,)
        for retriever in choices:
            try:
                search = self.options.text_search(self.question.text, retriever, self._depth)
                return await self.library.search(search), retriever, tried
            except ArrowheadError as error:
                if retriever == choices[-1]:
                    raise
                tried.append(f"not searched by {retriever}: {error.message}")
        raise AssertionError  # the last choice returns or raises

    @property
    def _depth(self) -> int:
        return MAX_K if self.question.part is not None else max(_DEPTH, self.options.k)

    async def _read(self, article: Article) -> Article:
        """Return the article with its summary or its best sentences, more of them where the user has chosen it."""
        if self.summarizer is not None and (
            summary := await self.summarizer.summary(self.question.text, article.passages)
        ):
            return Article(article.passages, summary=summary)
        texts = [EvidenceText(one.passage.heading, one.passage.text) for one in article.passages]
        reading = await self.gate.read(self.question.text, texts)
        return Article(article.passages, reading.ranked[: self.options.sentences if self.options.where.papers else 1])

    def _listed(self, articles: Sequence[Article], where: str, details: dict[str, Any]) -> Iterator[Event]:
        text = f"{counted(len(articles), 'article')} for this text, best first, found in {where}:\n"
        frame = text + "".join(_entry(number, replace(one, summary="")) for number, one in enumerate(articles, 1))
        text += "".join(_entry(number, one) for number, one in enumerate(articles, 1))
        # What the model wrote is no source of itself.
        yield TranscriptDelta(frame, "injected")
        yield from (TranscriptDelta(f"{one.summary}\n") for one in articles if one.summary)
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
            usage=self.summarizer.chains.generations.usage if self.summarizer else NO_USAGE,
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
            "synthesis": "extractive" if self.summarizer is None else "generated",
            "recommend": True,
            "part": self.question.part,
            "options": asdict(self.options),
            "namespaces": list(gathered.namespaces),
            "retriever": retriever,
            "retrieval_s": round(gathered.seconds, 4),
        }

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
    shown = article.lines if article.summary else map(quotation, article.lines)
    return line + "".join(f"   {one} [{number}]\n" for one in shown)


def _citation(number: int, article: Article) -> dict[str, Any]:
    sentences = [{"text": one.evidence.line} for one in article.sentences]
    return passage_record(article.best, number=number, sentences=sentences)


def _record(number: int, article: Article) -> dict[str, Any]:
    document = article.best.document
    return passage_record(article.best, number=number) | {
        "paper": document.paper,
        "journal": document.journal,
        "date": document.date,
        "types": list(document.types),
        "address": url_of(article.best),
        "sentences": article.lines,
        "by_model": bool(article.summary),
        "num_passages": len(article.passages),
    }

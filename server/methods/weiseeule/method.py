"""Implement WeiseEule: answers from own literature, steered by keywords that the user sees and can fix.

Aftab W, Apostolou Z, Bouazoune K, Straub T. Optimizing biomedical information retrieval with a keyword frequency-driven
prompt enhancement strategy. BMC Bioinformatics 25:281 (2024):

1. keywords of the question: marked by hand, else chosen for it    ``_keywords``
2. passages ranked by them (PES2) or by vectors (PES1)             ``_found``
3. the best of them, by paper and in its order, are the context    ``_written``
4. the model answers from the context, or does not know

Differences from the published program: keywords are counted in all spellings of a namespace, which are told, unless
``matching`` is "exact"; words (BM25) and their fusion with vectors can be chosen; each sentence
has the numbers of its passages; quotes (``extractive``) are served too, without a model.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from models.errors import ArrowheadError
from retrieval.errors import RetrievalError
from retrieval.lexical.question_keywords import Keyword
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Done, Event, Step
from server.methods.medrag.chain_of_thought import Chains, PromptInputs
from server.methods.medrag.context import passage_record
from server.methods.medrag.extraction import Extraction
from server.methods.medrag.reading import PassageReader, ReadingTask
from server.methods.medrag.request import MedRagOptions, ParsedQuestion
from server.methods.shared.options import refuse_logprobs
from server.methods.shared.outcomes import listed
from server.methods.shared.passages import Gathered
from server.methods.shared.reading.gate import Gate
from server.methods.shared.synthesis import Synthesis, choose_synthesis
from server.methods.weiseeule.library import CountedKeyword, KeywordSearch, KeywordsRanked, Library, LibrarySource
from server.methods.weiseeule.recommend import Recommendation, Summarizer
from server.methods.weiseeule.request import (
    KeywordQuestion,
    Prompts,
    WeiseOptions,
    parse_options,
    read_question,
    written_keywords,
)

_SOURCES: Final[Mapping[str, str]] = {
    "marks": "marked in the question",
    "options": "given",
    "model": "chosen by the model",
    "terms": "chosen by names and counts",
}
_MAX_WAYS: Final = 6
# What the prompt asks the model to write where the passages do not contain the answer.
_REFUSAL: Final = "I don't know."


class WeiseEule:
    """Answer from the literature of the server's namespaces by keywords."""

    name = "weiseeule"
    description = "WeiseEule: answers from your own literature by keywords that you can see and fix, cited per sentence"

    def __init__(self, lifecycle: EngineLifecycle, library: LibrarySource, gate: Gate, max_answer_tokens: int) -> None:
        self._lifecycle = lifecycle
        self._gate = gate
        self._library = library
        self._prompts = Prompts.load()
        self._reader = PassageReader(lifecycle, max_answer_tokens)

    def check(self, ask: AnswerRequest) -> None:
        options = parse_options(ask.options)
        read_question(ask.question, options)
        self._synthesis(options)
        self._library.open(ask).check(options.passage_query)
        refuse_logprobs(ask)

    def _synthesis(self, options: WeiseOptions) -> Synthesis:
        return choose_synthesis(options.synthesis, self.name, self._lifecycle.card)

    def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        options = parse_options(ask.options)
        question = read_question(ask.question, options)
        library = self._library.open(ask)
        request = _WeiseRequest(ask, options, question, library)
        if question.recommend:
            summarizer = self._summarizer(request)
            return Recommendation(self.name, question, options, library, self._gate, summarizer).events()
        return self._answered(request)

    async def _answered(self, request: _WeiseRequest) -> AsyncGenerator[Event, None]:
        synthesis = self._synthesis(request.options)
        writing = self._writing(request) if synthesis != "extractive" and self._is_able else None
        keywords, source, step = await self._keywords(request)
        yield Step(step)
        found = await _found(request, keywords)
        for line in found.steps:
            yield Step(line)
        details = _details_of(request.options, source, found)
        if writing is not None and found.gathered.lists[0]:
            events = self._written(request, writing, found.gathered)
        else:
            stem, verdicts = ParsedQuestion(request.question.text, "open"), self._reader.verdicts(request.ask)
            shared = MedRagOptions(sentences=request.options.sentences, references=request.options.references)
            extraction = Extraction(self.name, stem, shared, request.library, self._gate, verdicts, by_paper=True)
            events = extraction.answered([request.question.text], found.gathered)
        async with aclosing(events) as answering:
            async for event in answering:
                yield replace(event, details={**event.details, **details}) if isinstance(event, Done) else event

    def _summarizer(self, request: _WeiseRequest) -> Summarizer | None:
        """Return what summarizes the articles that the request names, None where it names none or no model can."""
        options = request.options
        if self._synthesis(options) == "extractive" or not options.where.papers:
            return None
        return Summarizer(self._writing(request), self._prompts, options.sentences, self._lifecycle.card.context_tokens)

    def _writing(self, request: _WeiseRequest) -> Chains:
        """Return what the model writes with.

        Raises:
            EngineUnavailable: there is no model now.
        """
        return self._reader.chains(request.ask, ParsedQuestion(request.question.text, "open"), reasoned=False)

    async def _keywords(self, request: _WeiseRequest) -> tuple[tuple[Keyword, ...], str, str]:
        """Return the keywords, who chose them, and the step that tells it."""
        given, fault = request.question, ""
        if given.keywords:
            return given.keywords, given.source, _keywords_line(given.keywords, given.source)
        if self._is_able:
            chains = self._writing(request)
            prompts = (self._prompts.keywords_system, self._prompts.keywords)
            written = await written_keywords(
                chains.generations, chains.layout, prompts, given.text, request.ask.cache_salt
            )
            if written.keywords:
                return written.keywords, "model", _keywords_line(written.keywords, "model")
            fault = f" (the model chose none: {written.fault})"
        keywords = await request.library.suggest(given.text, request.options.namespaces)
        return keywords, "terms", _keywords_line(keywords, "terms") + fault

    @property
    def _is_able(self) -> bool:
        return self._lifecycle.card.writes(self.name)

    def _written(self, request: _WeiseRequest, chains: Chains, gathered: Gathered) -> AsyncGenerator[Event, None]:
        """Let the model write the answer from the passages that fit its context."""
        prompts, usable = self._prompts, tuple(one for one in gathered.lists[0] if not one.document.is_retracted)
        task = ReadingTask(
            prompt=lambda context: PromptInputs(prompts.system, prompts.user(request.question.text, context)),
            references=request.options.references,
            details={"synthesis": "generated"},
            refusal=_REFUSAL,
        )
        return self._reader.written(chains, replace(gathered, lists=(usable,)), task)


@dataclass(frozen=True, slots=True)
class _WeiseRequest:
    """Hold one request with what was read from it."""

    ask: AnswerRequest
    options: WeiseOptions
    question: KeywordQuestion
    library: Library


async def _found(request: _WeiseRequest, keywords: Sequence[Keyword]) -> _FoundPassages:
    """Rank by the chosen retriever, and count the keywords."""
    options = request.options
    ranked, lack = await _ranked(request, keywords)
    if options.retriever == "pes2":
        if ranked is None:
            raise lack or RetrievalError("there is no ranking by keywords")
        rows = tuple(row.found for row in ranked.rows)
        gathered = Gathered(namespaces=ranked.namespaces, retriever="pes2", lists=(rows,), seconds=ranked.seconds)
    else:
        search = options.text_search(request.question.text, options.retriever, options.k)
        gathered = await request.library.search(search)
    return _FoundPassages(gathered, ranked, "" if lack is None else lack.message)


async def _ranked(
    request: _WeiseRequest, keywords: Sequence[Keyword]
) -> tuple[KeywordsRanked | None, ArrowheadError | None]:
    """Return the ranking by keywords, or why there is none."""
    options = request.options
    search = KeywordSearch(
        keywords=tuple(keywords),
        namespaces=options.namespaces,
        only_fixed=request.question.only_fixed,
        matching=options.matching,
        k=options.k,
        where=options.where,
    )
    try:
        return await request.library.rank(search), None
    except RetrievalError as error:
        if options.retriever == "pes2":
            raise
        return None, error


@dataclass(frozen=True, slots=True)
class _FoundPassages:
    """Hold what was found: the chosen retriever's passages, and the counts of the keywords.

    ``ranked`` is None where the namespaces cannot count keywords, for the reason ``lack``.
    """

    gathered: Gathered
    ranked: KeywordsRanked | None
    lack: str = ""

    @property
    def steps(self) -> list[str]:
        lines = []
        if self.ranked is not None:
            lines += [line for one in self.ranked.keywords if (line := _count_line(one))]
            if absent := [one.text for one in self.ranked.keywords if not any(w.occurrences for w in one.spellings)]:
                lines.append(f"in no passage: {', '.join(absent)}")
        elif self.lack:
            lines.append(f"keywords are not counted: {self.lack}")
        return lines


def _keywords_line(keywords: Sequence[Keyword], source: str) -> str:
    shown = ", ".join(f"{one.text} (fixed)" if one.fixed else one.text for one in keywords)
    return f"keywords {_SOURCES[source]}: {shown or 'none'}"


def _count_line(one: CountedKeyword) -> str:
    """Return the line on the other spellings that were counted, "" where there are none."""
    ways = [f"{way.text} ({way.kind}, {way.occurrences})" for way in one.spellings[1:]]
    named = {way.text.lower() for way in one.spellings}
    ways += [f"{text} ({number} here)" for text, number in one.written if text not in named]
    return f"{one.text} ({one.spellings[0].occurrences}) also as {listed(ways, _MAX_WAYS)}" if ways else ""


def _details_of(options: WeiseOptions, source: str, found: _FoundPassages) -> dict[str, Any]:
    """Return the record for the trace, with the table of counts."""
    return {
        "method": "weiseeule",
        "options": asdict(options),
        "namespaces": list(found.gathered.namespaces),
        "retriever": options.retriever,
        "matching": options.matching,
        "retrieval_s": round(found.gathered.seconds, 4),
        "keywords_from": source,
        "keyword_table": found.ranked.record if found.ranked else None,
        "passages": [passage_record(one, rank=rank) for rank, one in enumerate(found.gathered.lists[0], 1)],
    }

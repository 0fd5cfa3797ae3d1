"""Implement Clinfo.ai: a review of the literature for one question.

Lozano A, Fleming SL, Chiang CC, Shah N. Clinfo.ai: an open-source retrieval-augmented large language model system for
answering medical questions using scientific literature. PSB 2024. The steps are those of the paper's Figure 2:

1. question -> queries in PubMed's syntax             ``build_queries``, or the model under a grammar
2. search, merge, fetch                               ``search_place``, ``merge``, ``fetch``
3. relevant or not, each article                      ``screen``
4. what each article found                            the evidence table
5. synthesis and TL;DR with references                ``extract``, or the model, checked

Differences from the published program: queries are validated and repaired; rankings are fused in a stable order;
retracted articles are no evidence; judgements are constrained to yes and no; the reference of an article is its own,
written by a library; sentences are labelled by what they cite; without evidence, the method abstains.

The stages of a review run each within its share of the time, and count what happens to the articles.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, Protocol, TypeVar

from models.decoding.types import LoopUsage
from models.errors import ArrowheadError, ModelError
from retrieval.graph.types import Linked
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import (
    AnswerOutcome,
    AnswerRequest,
    CallMade,
    CallReplied,
    Done,
    Event,
    EvidenceRead,
    Retrieved,
    Step,
    TextDelta,
    TranscriptDelta,
    answer_limit,
)
from server.methods.clinfo.extraction import extract
from server.methods.clinfo.generated import Reader
from server.methods.clinfo.judging import Prompts, decided, judge_of
from server.methods.clinfo.literature import ArticleSource, Literature
from server.methods.clinfo.options import ClinfoOptions, parse_options
from server.methods.clinfo.queries import Query, build_queries, given_queries, with_limits
from server.methods.clinfo.report import (
    NO_USAGE,
    Flow,
    Report,
    abstention,
    alike_step,
    citations_of,
    ending,
    fetched_step,
    found_step,
    included_step,
    is_quoted_on_yes_or_no,
    lack_of,
    notes_on,
    queries_step,
    screened_step,
    searched_step,
)
from server.methods.clinfo.screening import (
    Screened,
    by_evidence,
    calibration_for,
    level_first,
    logit,
    screen,
    tell_apart,
    to_compare,
    to_judge,
    with_judgements,
)
from server.methods.clinfo.search import (
    Candidate,
    Merged,
    Searched,
    SearchRun,
    fetch,
    merge,
    nearest_run,
    search_nearest,
    search_passages,
    search_source,
    wanted,
)
from server.methods.clinfo.stages import Deadline, as_they_come
from server.methods.clinfo.statements import Conclusion
from server.methods.clinfo.written import WrittenSynthesis, by_number, source_of
from server.methods.shared.call_lines import call_line
from server.methods.shared.choices import one_line
from server.methods.shared.generation import finished, params_of
from server.methods.shared.options import refuse_logprobs
from server.methods.shared.outcomes import notice
from server.methods.shared.passages import PassageQuery, PassageSource, SentenceScores
from server.methods.shared.reading.gate import Gate
from server.methods.shared.sentences import bare
from server.methods.shared.synthesis import Synthesis, choose_synthesis
from server.methods.shared.verdicts import VerdictPrompt, VerdictReader, verdict_reader

# Of the synthesis, as in the paper.
ANSWER_TOKENS: Final = 1024
_T = TypeVar("_T")


class Clinfo:
    """Answer questions with a review of the literature."""

    name = "clinfo"
    description = "Clinfo.ai: reviews PubMed's or the gateway's articles for a question, with references"

    def __init__(self, lifecycle: EngineLifecycle, library: Library, max_answer_tokens: int) -> None:
        self._lifecycle = lifecycle
        self._library = library
        self._max_answer_tokens = max_answer_tokens
        self._prompts, self._verdict_prompt = Prompts.load(), VerdictPrompt.load()

    def check(self, ask: AnswerRequest) -> None:
        options = parse_options(ask.options)
        choose_synthesis(options.synthesis, self.name, self._lifecycle.card)
        self._library.literature.check(ask, options)
        if options.namespaces:
            self._library.passages.open(ask).check(PassageQuery(namespaces=options.namespaces))
        refuse_logprobs(ask)

    def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        options = parse_options(ask.options)
        synthesis = choose_synthesis(options.synthesis, self.name, self._lifecycle.card)
        use = (
            ModelUse(synthesis, verdicts=verdict_reader(self._lifecycle, ask, self._verdict_prompt))
            if synthesis == "extractive"
            else ModelUse(synthesis, reader=self.reader_for(ask))
        )
        return Review(ask, options, use, self._library).events()

    def reader_for(self, ask: AnswerRequest) -> Reader:
        """Return what reads articles with the model for one request."""
        engine = self._lifecycle.get()
        limit = answer_limit(ask.sampling.max_tokens, ANSWER_TOKENS, self._max_answer_tokens, engine)
        params = params_of(ask, min(limit, engine.max_model_len // 2))
        return Reader(judge_of(self._lifecycle, ask, self._prompts), params)


class Names(Protocol):
    """Link the names of a question to a vocabulary with synonyms."""

    async def link(self, question: str) -> Linked:
        """Return the mentions.

        Raises:
            ArrowheadError: there is no vocabulary, or it cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class Library:
    """Hold what reviews read from, shared by all answers."""

    literature: Literature
    passages: PassageSource
    names: Names
    gate: Gate


@dataclass(frozen=True, slots=True)
class ModelUse:
    """Hold what a review uses the model for.

    ``reader`` None leaves it out, but for yes or no, which ``verdicts`` decides from the quotes; None leaves that open.
    """

    synthesis: Synthesis
    reader: Reader | None = None
    verdicts: VerdictReader | None = None

    @property
    def usage(self) -> LoopUsage:
        if self.reader is not None:
            return self.reader.judge.generations.usage
        return self.verdicts.generations.usage if self.verdicts is not None else NO_USAGE


class Review:
    """Run one review; ``events`` is called once."""

    def __init__(self, ask: AnswerRequest, options: ClinfoOptions, use: ModelUse, library: Library) -> None:
        self._ask = ask
        self._question = one_line(ask.question)
        self._options = options
        self._use, self._reader = use, use.reader
        self._library = library
        self._flow = Flow()
        self._deadline = Deadline(options.max_seconds)
        self._ordinals = count()
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()

    def events(self) -> AsyncGenerator[Event, None]:
        """Return the events, each as soon as it happens; closing the iterator ends the review."""
        return as_they_come(self._run, self._events)

    def _tell(self, *events: Event) -> None:
        for event in events:
            self._events.put_nowait(event)

    def _hear(self, call: CallReplied) -> None:
        """Tell a call with its reply, as other methods do; many run side by side, so that none is told before."""
        numbered = replace(call, ordinal=next(self._ordinals))
        line = TextDelta(f"{call_line(call.url, call.summary)}\n", "reasoning")
        self._tell(CallMade(call.url, numbered.ordinal), numbered, line)

    async def _run(self) -> None:
        queries = await self._queries()
        self._tell(Step(queries_step(queries)))
        searched = await self._search(queries)
        merged = self._merged(searched)
        self._tell(
            Step(found_step(self._flow), self._flow.known("found", "duplicates", "excluded_by_hand", "left_out"))
        )
        screened = await self._screened(await self._fetched(merged))
        kept = by_evidence([one for one in screened if one.is_kept])
        self._flow.included = len(kept)
        self._tell(Step(screened_step(self._flow, screened), self._flow.known("screened", "excluded", "included")))
        report = self._report(searched, screened, kept)
        if not kept:
            self._tell(*abstention(report, *lack_of(report), self._use.usage))
            return
        self._tell(
            Step(included_step(kept)),
            Retrieved(tuple(run.query for run in searched.runs), tuple(one.article.url for one in kept)),
            EvidenceRead(tuple(source_of(one.article) for one in kept)),
        )
        conclusion = await self._concluded(kept)
        self._tell(Step(conclusion.step))
        if conclusion.lack:
            report = replace(report, conclusion=conclusion)
            self._tell(*abstention(report, conclusion.lack, conclusion.outcome, self._use.usage))
            return
        self._tell(*self._shown(report, conclusion))

    def _report(self, searched: Searched, screened: Sequence[Screened], kept: Sequence[Screened]) -> Report:
        return Report(
            question=self._question,
            options=self._options,
            synthesis=self._use.synthesis,
            runs=searched.runs,
            screened=screened,
            kept=kept,
            flow=self._flow,
        )

    # --- 1. queries

    async def _queries(self) -> tuple[Query, ...]:
        options = self._options
        if isinstance(options.queries, tuple):
            return with_limits(given_queries(options.queries), options)
        if self._reader is not None:
            written = await self._within("queries", self._reader.queries(self._question, options.queries), ())
            if written:
                ranked = [one for one in build_queries(self._question, None, 2) if one.any_of]
                return with_limits((*written, *ranked), options)
        linked = await self._linked()
        return with_limits(build_queries(self._question, linked, options.queries), options)

    async def _linked(self) -> Linked | None:
        """Return the linked names; without them, the queries have the question's own words, and nothing is lost."""
        try:
            async with asyncio.timeout(self._deadline.share("linking")):
                return await self._library.names.link(self._question)
        except (ArrowheadError, TimeoutError):
            return None

    # --- 2. search

    async def _search(self, queries: Sequence[Query]) -> Searched:
        names = self._library.literature.namespaces(self._ask, self._options)
        works: list[tuple[SearchRun, Awaitable[Searched]]] = []
        for number, source in enumerate(self._sources if queries else ()):
            for query in queries:
                run = SearchRun(source=source.name, query=query.term, writer=query.writer)
                works.append((run, search_source(number, source, query, wanted(self._options))))
            nearest = search_nearest(number, source, self._question, self._options)
            works.append((nearest_run(source, self._question), nearest))
        if names:
            asked = list(dict.fromkeys([self._question, *(query.words for query in queries if query.words)]))[:2]
            run = SearchRun(source=", ".join(names), query=self._question, writer="rules")
            works.append((run, search_passages(self._library.passages.open(self._ask), names, asked)))
        found = await self._all_within("search", works)
        self._flow.faults += [f"{run.source}: {run.error}" for run in found.runs if run.error]
        return found

    async def _all_within(self, stage: str, works: Sequence[tuple[SearchRun, Awaitable[Searched]]]) -> Searched:
        """Return what the searches found, each told as it ends; one that takes too long is recorded as failed."""
        ended = await finished([self._searched(work) for _, work in works], self._deadline.share(stage))
        found = Searched()
        for (run, _), result in zip(works, ended, strict=True):
            if result is None:
                result = Searched((replace(run, error="it took too long"),))
                self._tell_runs(result)
            found = found.plus(result)
        return found

    async def _searched(self, work: Awaitable[Searched]) -> Searched:
        found = await work
        self._tell_runs(found)
        return found

    def _tell_runs(self, found: Searched) -> None:
        self._tell(*(Step(searched_step(run)) for run in found.runs))

    def _merged(self, searched: Searched) -> Merged:
        merged = merge(searched, frozenset(self._options.exclude_pmids))
        self._flow.found, self._flow.duplicates = merged.num_found, merged.num_duplicates
        self._flow.by_request = merged.num_found - merged.num_duplicates - len(merged.candidates)
        self._flow.left_out = max(0, len(merged.candidates) - self._options.max_articles)
        return merged

    @property
    def _sources(self) -> Sequence[ArticleSource]:
        return self._library.literature.open(self._ask, self._options, self._hear)

    async def _fetched(self, merged: Merged) -> tuple[Candidate, ...]:
        requested = merged.candidates[: self._options.max_articles]
        got = await fetch(self._sources, requested, self._deadline.share("fetch"))
        self._flow.missing = len(requested) - len(got.candidates) - got.num_same_doi
        self._flow.duplicates += got.num_same_doi
        self._flow.faults += list(got.errors)
        if requested:
            told = fetched_step(len(requested), self._flow.missing, got.num_same_doi)
            self._tell(Step(told, self._flow.known("duplicates", "missing")))
        return got.candidates

    # --- 3. screening

    async def _screened(self, candidates: Sequence[Candidate]) -> tuple[Screened, ...]:
        articles = to_compare(candidates, self._options)
        compared = self._library.literature.compare_articles(self._question, articles)
        scores = await self._within("screening", compared, SentenceScores())
        screened = await asyncio.to_thread(screen, self._question, candidates, scores, self._options)
        if self._reader is not None:
            asked = [one.article for one in to_judge(screened, calibration_for(scores).bar)]
            judged = await self._reader.judge.relevant(self._question, asked, self._deadline.share("judging"))
            self._flow.faults += ["judging took too long"] if judged.is_late else []
            if tell_apart(judged.yes.values()):
                screened = with_judgements(screened, judged.yes)
            else:
                self._tell(Step(alike_step(judged.yes)))
        self._flow.screened = len(screened)
        self._flow.excluded.update(one.reason for one in screened if not one.is_kept)
        return screened

    # --- 4. and 5. evidence table and synthesis

    async def _concluded(self, kept: Sequence[Screened]) -> Conclusion:
        """Return the synthesis in the way of the request; where the model fails, its sentences are quoted instead."""
        ranked = sorted(kept, key=lambda one: -one.score)
        best_first = level_first(ranked, lambda one: logit(one.score), lambda one: one.article.level)
        late = Conclusion(lack="There was no time left to read the articles.", outcome="cut")
        if self._reader is not None:
            try:
                return await self._written(self._reader, best_first)
            except ModelError as error:
                self._flow.faults.append(f"the model failed: {error.message}")
        extracted = extract(self._question, best_first, self._library.gate, self._options.sentences)
        return await self._with_verdict(await self._within("quotes", extracted, late))

    async def _written(self, reader: Reader, kept: Sequence[Screened]) -> Conclusion:
        """Stream the model's synthesis; the table of evidence is filled meanwhile."""
        synthesis = WrittenSynthesis(reader, [one.article for one in kept], self._tell)
        filling = asyncio.ensure_future(reader.table(self._question, kept))
        try:
            await self._within("synthesis", synthesis.write(self._question), None)
            conclusion = await synthesis.conclusion()
            return replace(conclusion, cells=await self._within("table", filling, {}))
        finally:
            filling.cancel()

    async def _with_verdict(self, conclusion: Conclusion) -> Conclusion:
        """Return the conclusion with the model's yes or no where the question asks for it and the quotes allow one."""
        verdicts = self._use.verdicts
        if verdicts is None or not is_quoted_on_yes_or_no(conclusion, self._question):
            return conclusion
        try:
            return await self._within("yes or no", decided(self._question, conclusion, verdicts), conclusion)
        except ModelError as error:
            self._flow.faults.append(f"the model failed: {error.message}")
            return conclusion

    def _shown(self, report: Report, conclusion: Conclusion) -> Iterator[Event]:
        """Yield the answer: the claims, what has to be told with them, and the references."""
        shown = conclusion.written or conclusion.text
        if not conclusion.written:
            yield TranscriptDelta(shown, "injected")
            yield TextDelta(shown)
        for text in notes_on(conclusion, self._question, self._flow):
            note = notice(text, shown)
            shown += note.text
            yield note
        articles = {one.article.key: one.article for one in report.kept}
        cited = by_number(conclusion.numbers, articles)
        self._flow.cited = len(cited)
        done = Done(
            answer=bare(conclusion.written) or conclusion.plain,
            finish_reason="length" if conclusion.limit else "stop",
            usage=self._use.usage,
            details=replace(report, conclusion=conclusion).details | {"citations": citations_of(conclusion, articles)},
            outcome=self._outcome(conclusion),
        )
        yield from ending(report, shown, cited, done)

    def _outcome(self, conclusion: Conclusion) -> AnswerOutcome:
        is_open = is_quoted_on_yes_or_no(conclusion, self._question)
        return "partial" if conclusion.outcome == "answered" and (self._flow.faults or is_open) else conclusion.outcome

    async def _within(self, stage: str, work: Awaitable[_T], otherwise: _T) -> _T:
        """Return the result of a stage, or ``otherwise`` after its share of the time."""
        try:
            async with asyncio.timeout(self._deadline.share(stage)):
                return await work
        except TimeoutError:
            self._flow.faults.append(f"{stage} took too long")
            return otherwise

"""Implement KG-RAG: a model answers from the statements of a knowledge graph about the entities of the question.

Soman K, Rose PW, Morris JH, et al. Biomedical knowledge graph-optimized prompt generation for large language models.
Bioinformatics 40(9), 2024. The steps are those of the paper's section 3:

1. entities of the question are recognised and               ``recognise``
2. their neighbourhoods are taken from the graph              ``neighbourhoods``
3. the question is embedded like the statements               ``_context``
4. the relevant statements are chosen                         ``build_context``
5. and become language                                        ``context_text``
6. context and question become the prompt                     ``_prompt_ids``
7. the model answers                                          ``_written``

Differences from the published program: linking calls a model only on request; statements are embedded when the graph is
imported, those of the graph that ships at their first question; the context has a limit of tokens, not of statements;
entities that the question names come first; an entity that the graph does not have is reported, and at most a broader
one replaces it, reported as such; closed questions are answered under a grammar; sources are listed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from models.encoders.base import Floats
from models.encoders.relation_head import AskedRelation
from models.engines.base import Engine
from models.errors import ArrowheadError
from models.types import Delta, GenerateParams
from models.verifiers.base import Pair
from retrieval.graph.context.select import (
    PAPER_VOLUME,
    PAPER_VOLUME_TRUE_FALSE,
    Context,
    ContextCandidates,
    ContextOptions,
    Vectors,
    build_context,
    gather,
)
from retrieval.graph.types import Statement
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import (
    AnswerRequest,
    Done,
    Event,
    EvidenceRead,
    OptionInvalid,
    Step,
    TextDelta,
    TranscriptDelta,
    answer_limit,
    answer_logprobs,
    plain_ids,
    uses_chat_template,
)
from server.methods.kg_rag import extractive, report
from server.methods.kg_rag.entities import EngineExtractor, Linker, Neighbourhoods, neighbourhoods, recognise
from server.methods.kg_rag.extractive import Finding
from server.methods.kg_rag.prompts import KgRagOptions, ParsedQuestion, Prompts, parse_options, read_question
from server.methods.kg_rag.reading import Reading
from server.methods.kg_rag.report import Outcome, graph_name
from server.methods.shared.generation import Generations, params_of
from server.methods.shared.options import refuse
from server.methods.shared.reading.gate import Judge
from server.methods.shared.synthesis import Synthesis, choose_synthesis
from server.types import EgressMode

# Token counts of a text alone and inside a prompt may differ by a few tokens.
_SLACK: Final = 16
_ANSWER_TOKENS: Final = 512
# Articles of the chosen statements that are looked up for retractions.
_MAX_ARTICLES: Final = 200
# So many characters of an answer are searched for names.
_MAX_LINKED: Final = 4000
# Statements between two names that the verifier reads.
_MAX_JUDGED: Final = 8
_NOTHING: Final = np.zeros(0, np.float32)


class Graph(Neighbourhoods, Protocol):
    """Provide a graph with its encoder, for one answer."""

    async def encode(self, question: str) -> Floats:
        """Return the embedding of the question, float32 [dim]."""
        ...

    async def vectors(self, statements: Sequence[Statement]) -> Floats:
        """Return the embeddings of the statements, float32 [n, dim], in the order given."""
        ...

    async def retracted(self, pmids: Sequence[str]) -> frozenset[str]:
        """Return those of the articles that are known to be retracted."""
        ...


class Graphs(Protocol):
    """Open the graph for each answer."""

    def open(self, ask: AnswerRequest, egress: EgressMode | None) -> Graph:
        """Open the graph for one request.

        Raises:
            EgressRaised: ``egress`` is above the mode of the request's key.
        """
        ...


class RelationReader(Protocol):
    """Tell which relation a question asks for."""

    async def asked(self, question: str) -> AskedRelation | None:
        """Return the relation, None where it cannot be told; the names in the question are replaced by their kinds."""
        ...


@dataclass(frozen=True, slots=True)
class Readers:
    """Hold what reads statements and questions: the verifier, and the head of relations where there is one."""

    judge: Judge
    relations: RelationReader | None = None


class KgRag:
    """Answer biomedical questions from the statements of a knowledge graph."""

    name = "kg-rag"
    description = "KG-RAG: answers biomedical questions from the statements of a knowledge graph, with their sources"

    def __init__(
        self, lifecycle: EngineLifecycle, graphs: Graphs, linker: Linker, readers: Readers, max_answer_tokens: int
    ) -> None:
        self._lifecycle = lifecycle
        self._readers = readers
        self._graphs = graphs
        self._linker = linker
        self._max_answer_tokens = max_answer_tokens
        self._prompts = Prompts.load()

    def check(self, ask: AnswerRequest) -> None:
        options = parse_options(ask.options)
        if self._synthesis(options) == "extractive" and options.linking == "model":
            refuse("linking", "model needs a generated answer; this one is extractive")
        self._graphs.open(ask, options.egress)
        if ask.sampling.logprobs is not None and ask.prompt is None:
            raise OptionInvalid(
                "logprobs: the answer of a method has text of its own in it; /v1/completions reports them",
                param="logprobs",
            )

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        options = parse_options(ask.options)
        question = read_question(ask.question, options)
        engine = self._lifecycle.get()
        graph = self._graphs.open(ask, options.egress)
        extractor = EngineExtractor(engine, self._lifecycle.card, ask) if options.linking == "model" else None
        recognised = await recognise(self._linker, question, extractor)
        for line in report.recognised(recognised):
            yield Step(line)
        around = await neighbourhoods(graph, self._linker, question, recognised)
        gathered = gather(question.words, recognised.mentions, around.found, around.stand_ins)
        for line in report.neighbourhoods(around, gathered, graph.name, graph.release):
            yield Step(line)
        if self._synthesis(options) == "extractive":
            reading = Reading(question, options, recognised, gathered, graph_name(graph.name, graph.release))
            reading = await self._judged(reading)
            for event in extractive.events(reading, await _found(graph, reading)):
                yield event
            return
        room = await asyncio.to_thread(self._room, ask, question, engine)
        choosing = _choosing(question, options, room)
        vectors = await _vectors(graph, question, gathered)
        context = await self._context(graph, gathered, vectors, choosing)
        yield Step(report.chosen(context))
        if context.entities:
            yield report.retrieved(context)
        outcome = Outcome(
            question=question,
            options=options,
            context=context,
            recognised=recognised,
            stand_ins=around.stand_ins,
            graph=graph.name,
            release=graph.release,
            linking_usage=None if extractor is None else extractor.usage,
        )
        async with aclosing(self._from_model(ask, outcome, engine)) as events:
            async for event in events:
                yield event

    async def _judged(self, reading: Reading) -> Reading:
        """Return the reading with the relation that is asked for, and the statements that say the contrary."""
        if self._readers.relations is not None and reading.gathered.statements:
            reading = replace(reading, asked=await self._readers.relations.asked(reading.shape))
        return replace(reading, contradicting=await self._contradicting(reading))

    async def _contradicting(self, reading: Reading) -> frozenset[str]:
        """Return the statements that decide the question and say the contrary, as the verifier reads them."""
        texts = [one.text for one in extractive.decisive(reading)[:_MAX_JUDGED]]
        if not texts:
            return frozenset()
        judged = await self._readers.judge.judge([Pair(reading.question.text, text) for text in texts])
        bar = self._readers.judge.points.verdict
        return frozenset(
            text for text, one in zip(texts, judged, strict=True) if one.contradicts >= max(bar, one.supports)
        )

    def _synthesis(self, options: KgRagOptions) -> Synthesis:
        return choose_synthesis(options.synthesis, self.name, self._lifecycle.card)

    async def _from_model(self, ask: AnswerRequest, outcome: Outcome, engine: Engine) -> AsyncGenerator[Event, None]:
        """Yield the model's answer, or the abstention where the graph has nothing for it."""
        if not outcome.context_text:
            for event in report.abstention(outcome):
                yield event
            return
        prompt_ids = await asyncio.to_thread(self._prompt_ids, ask, outcome.question, engine, outcome.context_text)
        yield Step("the model answers from the graph")
        yield EvidenceRead(report.sources_of(outcome))
        params = self._params(ask, outcome.question, engine, len(prompt_ids))
        async with aclosing(_written(Generations(engine, ask.request_id), prompt_ids, params)) as events:
            async for event in events:
                if not isinstance(event, Done):
                    yield event
                    continue
                names = await _unread_names(self._linker, event.answer, outcome)
                for final_event in report.ending(replace(outcome, unread_names=names), event):
                    yield final_event

    async def _context(
        self, graph: Graph, gathered: ContextCandidates, vectors: Vectors, choosing: ContextOptions
    ) -> Context:
        tokenizer = self._lifecycle.get().tokenizer
        context = await asyncio.to_thread(
            build_context, gathered, vectors, lambda text: len(tokenizer.encode(text)), choosing
        )
        return replace(context, statements=await _with_retractions(graph, context.statements))

    def _room(self, ask: AnswerRequest, question: ParsedQuestion, engine: Engine) -> int:
        """Return the number of tokens left for a context beside instruction, question and answer."""
        around = len(self._prompt_ids(ask, question, engine, "-")) + _SLACK
        answer = min(self._answer_tokens(ask, question, engine), engine.max_model_len // 2)
        return max(0, engine.max_model_len - around - answer)

    def _answer_tokens(self, ask: AnswerRequest, question: ParsedQuestion, engine: Engine) -> int:
        limit = answer_limit(ask.sampling.max_tokens, _ANSWER_TOKENS, self._max_answer_tokens, engine)
        if not question.answers:
            return limit
        return min(limit, max(len(engine.tokenizer.encode(f" {answer}")) for answer in question.answers) + 2)

    def _prompt_ids(self, ask: AnswerRequest, question: ParsedQuestion, engine: Engine, context: str) -> list[int]:
        if uses_chat_template(engine, self._lifecycle.card):
            return engine.tokenizer.encode_chat(self._prompts.chat_form(question, context, ask.instruction))
        return plain_ids(engine, self._prompts.base_form(question, context))

    def _params(
        self, ask: AnswerRequest, question: ParsedQuestion, engine: Engine, prompt_tokens: int
    ) -> GenerateParams:
        limit = answer_limit(ask.sampling.max_tokens, _ANSWER_TOKENS, self._max_answer_tokens, engine)
        return replace(
            # An engine that keeps no grammar may write more than the answer to a closed question, which is shown too.
            params_of(ask, max(1, min(limit, engine.max_model_len - prompt_tokens))),
            stop=(*ask.sampling.stop, *(("\n",) if question.answers else ("\n\nQuestion:",))),
            logprobs=ask.sampling.logprobs,
            grammar=question.grammar(),
        )


async def _unread_names(linker: Linker, answer: str, outcome: Outcome) -> tuple[str, ...]:
    """Return the names of nodes that an answer has and nothing that was read for it, as the answer writes them."""
    if outcome.question.answers:
        return ()
    text = answer[:_MAX_LINKED]
    try:
        linked = await linker.link(text)
    except ArrowheadError:
        return ()
    statements = outcome.context.statements
    read = {end.node_id for statement in statements for end in (statement.source, statement.target)}
    read |= {node.node_id for node in (*outcome.context.entities, *outcome.recognised.entities)}
    texts = f"{outcome.question.text}\n{outcome.context_text}".casefold()
    mentions = (one for one in (*linked.mentions, *linked.options) if one.method in ("exact", "synonym"))
    names = (text[one.start : one.end] for one in mentions if one.node.node_id not in read)
    return tuple(dict.fromkeys(name for name in names if name.casefold() not in texts))


async def _vectors(graph: Graph, question: ParsedQuestion, gathered: ContextCandidates) -> Vectors:
    """Embed the question, once for all entities and statements, and the statements."""
    if not gathered.statements:
        return Vectors(_NOTHING, _NOTHING.reshape(0, 0))
    return Vectors(await graph.encode(question.text), await graph.vectors(gathered.statements))


async def _found(graph: Graph, reading: Reading) -> Finding:
    """Return the extractive answer, with the retracted articles of its statements."""
    finding = extractive.find(reading)
    return replace(finding, statements=await _with_retractions(graph, finding.statements))


async def _with_retractions(graph: Graph, statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Return the statements, those with articles that are known to be retracted naming these."""
    pmids = list(dict.fromkeys(number for statement in statements for number in report.articles_of(statement)))
    retracted = await graph.retracted(pmids[:_MAX_ARTICLES]) if pmids else frozenset()
    return tuple(report.with_retractions(statement, retracted) for statement in statements)


def _choosing(question: ParsedQuestion, options: KgRagOptions, room: int) -> ContextOptions:
    return ContextOptions(
        pruning=options.pruning,
        tokens=min(options.tokens, room),
        evidence=options.evidence,
        volume=PAPER_VOLUME_TRUE_FALSE if question.form == "true_false" else PAPER_VOLUME,
    )


async def _written(
    generations: Generations, prompt_ids: Sequence[int], params: GenerateParams
) -> AsyncGenerator[Event, None]:
    """Yield the text as it is generated; the answer of ``Done`` is the raw text, before the method processes it."""
    written, last = "", Delta(finish_reason="abort")
    async with aclosing(generations.stream(prompt_ids, params)) as deltas:
        async for delta in deltas:
            # A base model's answer starts with the space after "Answer:".
            text = delta.text if written else delta.text.lstrip()
            written += text
            if delta.reasoning:
                yield TextDelta(delta.reasoning, "reasoning")
            yield TranscriptDelta(delta.text, logprobs=answer_logprobs(delta))
            if text:
                yield TextDelta(text)
            last = delta
    reason, usage = last.finish_reason or "stop", generations.usage
    yield Done(answer=written, finish_reason=reason, stop_reason=last.stop_reason, usage=usage)

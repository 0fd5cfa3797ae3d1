"""Implement i-MedRAG: a model asks follow-up questions of a library, round by round, and then answers.

Xiong G, Jin Q, Wang X, Zhang M, Lu Z, Zhang A. Improving retrieval-augmented generation in medicine with iterative
follow-up questions. Pacific Symposium on Biocomputing, 2025. The steps are those of its algorithm 1:

1.  H <- an empty history                                              ``Rounds``
2.  m times: n new queries are generated, given question and H         ``_planned``
3.  N passages are retrieved for each query                            ``SubAnswers.find``
4.  each query is answered from its passages                           ``SubAnswers.answers``
5.  and is added to H with its answer                                  ``Rounds.answered``
6.  the question is answered, given H                                  ``_final``

Differences from the published program: queries are JSON under a grammar, generated in one call; the queries of a round
are searched together and answered concurrently; each prompt extends the history of the previous one; rounds end when
further queries add nothing (``stop``) and at a limit of time; failures are reported and the remaining work
continues; passages have the same numbers in sub-answers and references. A model that was trained to read passages but
not to plan queries answers as in MedRAG, after one search; without a model that reads, answers are extractive.

The paper does not state its m and n; 4 and 3 are the program's defaults. Its scaling figures still rise there for cases
of several steps; short questions, which gain from one or two rounds, end by ``stop``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from models.engines.base import Engine
from models.types import GenerateParams
from retrieval.corpus.search.ranking import RankedPassage
from retrieval.observer import NullObserver, Tracer
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Event, EvidenceRead, Step, TextDelta, answer_limit
from server.methods.i_medrag.rounds import (
    PLAN_BEGINS,
    Bounds,
    IteratedPrompts,
    Lengths,
    Pair,
    Rounds,
    StopReason,
    answer_step,
    history_text,
    lack_of,
    plan_grammar,
    plan_lengths,
    plan_record,
    plan_step,
    stop_step,
)
from server.methods.i_medrag.sub_answers import Budget, CitedPassages, SubAnswer, SubAnswers, search_step, sub_record
from server.methods.medrag.chain_of_thought import Chain, Chains, PromptInputs, Prompts
from server.methods.medrag.context import evidence_of
from server.methods.medrag.method import MedRag
from server.methods.medrag.reading import ANSWER_TOKENS, SLACK
from server.methods.medrag.report import Closing, abstention, closing_events, details_of, retrieved
from server.methods.medrag.request import MAX_QUERIES, IMedRagOptions, ParsedQuestion, parse_iterated
from server.methods.shared.generation import Generations, PromptFormatter, params_of
from server.methods.shared.passages import Passages, PassageSource
from server.methods.shared.reading.gate import Gate


class IMedRag(MedRag):
    """Answer medical questions by rounds of follow-up queries to the server's namespaces."""

    name = "i-medrag"
    description = "i-MedRAG: answers medical questions by rounds of follow-up questions to this server's namespaces"

    def __init__(
        self,
        lifecycle: EngineLifecycle,
        passages: PassageSource,
        gate: Gate,
        max_answer_tokens: int,
        parts: Tracer | None = None,
    ) -> None:
        super().__init__(lifecycle, passages, gate, max_answer_tokens)
        self._parts = parts or NullObserver()
        self._max_answer_tokens = max_answer_tokens
        self._prompts = Prompts.load()

    async def warm_up(self, engine: Engine) -> None:
        """Compile the grammar of plans, which takes seconds with a large vocabulary, for a model that writes plans."""
        if not self._lifecycle.card.writes(self.name):
            return
        options = IMedRagOptions()
        rounds = Rounds(Bounds(options.rounds, options.queries, adaptive=True), "")
        grammar = plan_grammar(rounds, plan_lengths(engine, options, 1).sizes)
        prompt = engine.tokenizer.encode(PLAN_BEGINS)
        await Generations(engine, "warm-up-plan").write(prompt, GenerateParams(max_tokens=1, grammar=grammar))

    def _options(self, ask: AnswerRequest) -> IMedRagOptions:
        return parse_iterated(ask.options)

    def _queries(self, question: ParsedQuestion) -> list[str]:
        """Return the question, and with each of the first choices: follow-up questions are written by a model."""
        return [question.stem, *(f"{question.stem} {choice}" for choice in question.choices[:MAX_QUERIES])]

    def _written(self, ask: AnswerRequest, question: ParsedQuestion, passages: Passages) -> AsyncGenerator[Event, None]:
        options = self._options(ask)
        engine = self._lifecycle.get()
        limit = answer_limit(ask.sampling.max_tokens, ANSWER_TOKENS, self._max_answer_tokens, engine)
        answer = min(limit, engine.max_model_len // 3)
        run = _Run(
            question=question,
            options=options,
            params=params_of(ask, answer),
            generations=Generations(engine, ask.request_id),
            layout=PromptFormatter(engine, self._lifecycle.card, ask.instruction),
            passages=passages,
            prompts=IteratedPrompts(self._prompts, question, options),
            parts=self._parts,
        )
        return run.events()


@dataclass(slots=True, kw_only=True)
class _Run:
    """Run one answer and hold its state."""

    question: ParsedQuestion
    options: IMedRagOptions
    params: GenerateParams
    generations: Generations
    layout: PromptFormatter
    passages: Passages
    prompts: IteratedPrompts
    parts: Tracer
    library: CitedPassages = field(default_factory=CitedPassages)
    best_passages: list[RankedPassage] = field(default_factory=list)
    reason: StopReason = ""
    rounds: Rounds = field(init=False)
    lengths: Lengths = field(init=False)
    budget: Budget = field(init=False)
    details: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        options = self.options
        bounds = Bounds(options.rounds, options.queries, options.stop == "adaptive", self.question.letters)
        self.rounds = Rounds(bounds, self.question.stem)
        self.lengths = plan_lengths(self._engine, options, self.params.max_tokens)
        self.budget = Budget(options.max_seconds)
        self.details = details_of(IMedRag.name, "generated", self.question, options)
        self.details |= {"namespaces": [], "retriever": "", "rounds": []}

    @property
    def _engine(self) -> Engine:
        return self.generations.engine

    async def events(self) -> AsyncGenerator[Event, None]:
        if self.passages.names:
            async with aclosing(self._rounds()) as steps:
                async for step in steps:
                    yield step
            yield Step(stop_step(self.reason, self.rounds))
        async with aclosing(self._final()) as events:
            async for event in events:
                yield event

    async def _rounds(self) -> AsyncGenerator[Event, None]:
        while not self.reason:
            with self.parts.part("round", round=self.rounds.number):
                async with aclosing(self._round()) as steps:
                    async for step in steps:
                        yield step
            self.reason = self._why_to_stop()

    def _why_to_stop(self) -> StopReason:
        return self.reason or self.rounds.stop or ("" if self.budget.seconds_for_rounds else "time")

    async def _round(self) -> AsyncGenerator[Event, None]:
        self.reason = await self._planned()
        if self.reason:
            return
        number, plan = self.rounds.number, self.rounds.plans[-1]
        yield Step(plan_step(number, plan))
        asking = SubAnswers(
            self.generations, self.layout, self.prompts, self.lengths, self.passages, self.budget, self.params
        )
        gathered = await asking.find(plan.queries)
        if isinstance(gathered, str):
            failed = [Pair(query, "failed", reason=f"the search failed: {gathered}") for query in plan.queries]
            subs = [SubAnswer(pair) for pair in failed]
            for sub in subs:
                yield self._step_of(sub)
        else:
            yield Step(search_step(number, gathered))
            yield retrieved(plan.queries, [found for hits in gathered.lists for found in hits])
            self.details |= gathered.record
            self.details["rounds"][-1]["retrieval_s"] = self.details.pop("retrieval_s")
            subs = []
            async with aclosing(asking.answers(plan.queries, gathered, self.library)) as answers:
                async for sub in answers:
                    subs.append(sub)
                    yield EvidenceRead(evidence_of(sub.context.passages))
                    yield self._step_of(sub)
        self.rounds = self.rounds.answered([sub.pair for sub in subs])

    async def _planned(self) -> StopReason:
        """Plan the queries of the next round; return the reason to stop, "" where there are queries."""
        history = await asyncio.to_thread(self._history, self.lengths.ask)
        inputs = self.prompts.ask(self.rounds, history)
        prompt = await self.layout.prompt(inputs.system, inputs.user, "" if self.layout.is_chat else PLAN_BEGINS)
        grammar = plan_grammar(self.rounds, self.lengths.sizes)
        params = replace(self.params, max_tokens=self.lengths.ask, stop=(), grammar=grammar)
        try:
            async with asyncio.timeout(self.budget.seconds_for_rounds):
                written = await self.generations.write(prompt, params)
        except TimeoutError:
            return "time"
        self.rounds = self.rounds.planned(written.text)
        plan = self.rounds.plans[-1]
        self.details["rounds"].append(plan_record(self.rounds.number, plan, written.text, len(prompt)))
        return self.rounds.stop

    def _step_of(self, sub: SubAnswer) -> Step:
        if sub.pair.status == "answered":
            self.best_passages.append(sub.context.passages[sub.context.best_first[0] - 1])
        self.details["rounds"][-1]["answers"].append(sub_record(sub))
        return Step(answer_step(sub.pair))

    async def _final(self) -> AsyncGenerator[Event, None]:
        history = await asyncio.to_thread(self._history, self.params.max_tokens)
        lack, outcome = lack_of(self.passages.names, self.rounds, self.reason)
        self.details |= {"stop_reason": self.reason, "unknown_sub_citations": self.library.unknown}
        if lack:
            self.details["calls"] = self.generations.num_started
            for final_event in abstention(lack, outcome, self.details, self.generations.usage):
                yield final_event
            return
        # A choice cites none of the passages that the sub-answers cite.
        numbers = None if self.question.choices else self.library.by_number
        yield EvidenceRead(evidence_of(self.library.by_number.values(), numbers))
        async with aclosing(self._written(self.prompts.final(history))) as events:
            async for event in events:
                yield event

    async def _written(self, inputs: PromptInputs) -> AsyncGenerator[Event, None]:
        reasoned = self.options.reasoning == "chain_of_thought"
        chains = Chains(self.generations, self.layout, self.question, self.params, reasoned)
        chain: Chain | None = None
        async with aclosing(self._in_time(chains, inputs)) as events:
            async for event in events:
                if isinstance(event, Chain):
                    chain = event
                else:
                    yield event
        self.details["calls"] = self.generations.num_started
        for final_event in await closing_events(self._closing(), chain, self.generations.usage) if chain else ():
            yield final_event

    async def _in_time(self, chains: Chains, inputs: PromptInputs) -> AsyncGenerator[Event | Chain, None]:
        """Yield the events of the final answer; at the time limit, end with the partial answer ("timeout")."""
        reasoning, answer = "", ""
        async with aclosing(chains.events(inputs)) as events:
            while True:
                try:
                    async with asyncio.timeout(self.budget.seconds_left):
                        event = await anext(events)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    yield Chain(reasoning, answer, "", "timeout", None)
                    return
                if isinstance(event, TextDelta):
                    reasoning += event.text if event.channel == "reasoning" else ""
                    answer += event.text if event.channel == "answer" else ""
                yield event

    def _closing(self) -> Closing:
        cited = [n for record in self.details["rounds"] for sub in record["answers"] for n in sub.get("cited", ())]
        # Where no sub-answer cites a passage, the references are the best passage of each.
        fallback = list(dict.fromkeys(cited or map(self.library.number_of, self.best_passages)))
        return Closing(self.question, self.library.by_number, fallback, self.options.references, self.details)

    def _history(self, writing: int) -> str:
        """Return the history as prompt text, without its oldest pairs where the context length has no room for them.

        ``writing`` is the number of tokens to be generated after it.
        """
        engine = self._engine
        around = max(self._length(self.prompts.ask(self.rounds, "")), self._length(self.prompts.final("")))
        room = engine.max_model_len - around - max(writing, self.lengths.ask) - SLACK
        text, left_out = history_text(self.rounds.history, lambda part: len(engine.tokenizer.encode(part)), room)
        self.details["history_left_out"] = left_out
        return text

    def _length(self, inputs: PromptInputs) -> int:
        return len(self.layout.ids(inputs.system, inputs.user, PLAN_BEGINS))

"""Let the model answer a question from passages that are found, for MedRAG and for methods that read as it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from models.engines.base import Engine
from retrieval.corpus.search.ranking import RankedPassage
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Event, EvidenceRead, Step, answer_limit
from server.methods.medrag import report
from server.methods.medrag.chain_of_thought import Chain, Chains, PromptInputs, Prompts
from server.methods.medrag.context import Context, build_context, evidence_of
from server.methods.medrag.report import Closing
from server.methods.medrag.request import MedRagOptions, ParsedQuestion
from server.methods.shared.generation import Generations, PromptFormatter, params_of
from server.methods.shared.passages import Gathered, Passages
from server.methods.shared.verdicts import VerdictPrompt, VerdictReader, verdict_reader

# Token counts of separate and joined texts may differ by a few tokens.
SLACK: Final = 24
# Reasoning and answer together; chain of thought over long passages takes some hundred tokens.
ANSWER_TOKENS: Final = 1024


@dataclass(frozen=True, slots=True)
class ReadingTask:
    """Hold the prompt of an answer for a context, what its record begins with, and whether sources are listed.

    ``refusal``: what the prompt asks the model to write where nothing answers.
    """

    prompt: Callable[[str], PromptInputs]
    references: bool
    details: Mapping[str, Any]
    refusal: str = ""


class PassageReader:
    """Answer questions from passages with the served model."""

    def __init__(self, lifecycle: EngineLifecycle, max_answer_tokens: int) -> None:
        self._lifecycle = lifecycle
        self._max_answer_tokens = max_answer_tokens
        self._prompts, self._verdict_prompt = Prompts.load(), VerdictPrompt.load()

    async def read(
        self, ask: AnswerRequest, question: ParsedQuestion, options: MedRagOptions, method: str, passages: Passages
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of an answer that the model writes; ``method`` is whose answer it is, for the record.

        Raises:
            ModelError: there is no engine, or it failed.
        """
        chains = self.chains(ask, question, reasoned=options.reasoning == "chain_of_thought")
        gathered = await passages.find([question.stem], options.passage_query)
        task = ReadingTask(
            prompt=lambda context: self._prompts.answering(question, options.reasoning, context),
            references=options.references,
            details=report.details_of(method, "generated", question, options) | gathered.record,
        )
        async with aclosing(self.written(chains, gathered, task)) as events:
            async for event in events:
                yield event

    async def written(self, chains: Chains, gathered: Gathered, task: ReadingTask) -> AsyncGenerator[Event, None]:
        """Yield the events of an answer that the model writes from what was found.

        Raises:
            ModelError: the engine failed.
        """
        question = chains.question
        yield Step(report.searched(gathered))
        context = await self._context(chains, gathered.lists[0], task.prompt("-"))
        yield report.retrieved([question.stem], context.passages)
        yield EvidenceRead(evidence_of(context.passages, None if question.choices else count(1)))
        yield Step(report.read(context))
        details = {**task.details, **report.context_record(context)}
        if not context.passages:
            for final_event in report.abstention(*report.why_none(gathered, context), details):
                yield final_event
            return
        chain: Chain | None = None
        async with aclosing(chains.events(task.prompt(context.text))) as events:
            async for event in events:
                if isinstance(event, Chain):
                    chain = event
                else:
                    yield event
        closing = Closing(question, context.numbered, context.best_first, task.references, details, task.refusal)
        for final_event in await report.closing_events(closing, chain, chains.generations.usage) if chain else ():
            yield final_event

    def verdicts(self, ask: AnswerRequest) -> VerdictReader | None:
        """Return what decides yes or no from quotes that are chosen without the model, None where nothing can."""
        return verdict_reader(self._lifecycle, ask, self._verdict_prompt)

    def chains(self, ask: AnswerRequest, question: ParsedQuestion, *, reasoned: bool) -> Chains:
        """Return what writes one answer.

        Raises:
            EngineUnavailable: there is no engine now.
        """
        engine = self._lifecycle.get()
        limit = answer_limit(ask.sampling.max_tokens, ANSWER_TOKENS, self._max_answer_tokens, engine)
        params = params_of(ask, min(limit, engine.max_model_len // 2))
        layout = PromptFormatter(engine, self._lifecycle.card, ask.instruction)
        return Chains(Generations(engine, ask.request_id), layout, question, params, reasoned)

    async def _context(self, chains: Chains, found: Sequence[RankedPassage], around: PromptInputs) -> Context:
        """Return the passages that fit beside question and answer, of as many tokens as the model's card has it."""
        prompt = await chains.layout.prompt(around.system, around.user)
        room = chains.generations.engine.max_model_len - len(prompt) - chains.params.max_tokens - SLACK
        return await read_passages(chains.generations.engine, found, room, self._lifecycle.card.context_tokens)


async def read_passages(engine: Engine, found: Sequence[RankedPassage], room: int, limit: int | None) -> Context:
    """Return the context that fits into ``room`` tokens and into the requested number of tokens."""
    budget = max(0, room if limit is None else min(room, limit))
    tokenizer = engine.tokenizer
    return await asyncio.to_thread(build_context, found, lambda text: len(tokenizer.encode(text)), budget)

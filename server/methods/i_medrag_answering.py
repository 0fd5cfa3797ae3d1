"""The sub-answers of one round of i-MedRAG: one search for all queries, then all answers side by side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from models.errors import ArrowheadError, ModelError
from models.types import GenerateParams
from retrieval.corpus.errors import NamespaceInvalid
from retrieval.errors import RetrievalError
from server.methods.generation import Generations, Layout
from server.methods.i_medrag_budget import Budget
from server.methods.i_medrag_library import Library
from server.methods.i_medrag_prompts import IteratedPrompts, Lengths
from server.methods.i_medrag_rounds import Pair
from server.methods.medical_question import MARK
from server.methods.medrag import SLACK, read_passages
from server.methods.medrag_context import Context
from server.methods.passages import Gathered, Passages


@dataclass(frozen=True, slots=True)
class SubAnswer:
    """``record`` is JSON-able, for the trace."""

    pair: Pair
    context: Context = field(default_factory=Context)
    record: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubAnswers:
    """``params``: those of a sub-answer, but for stops. A sub-answer that fails is a pair that says so."""

    generations: Generations
    layout: Layout
    prompts: IteratedPrompts
    lengths: Lengths
    passages: Passages
    budget: Budget
    params: GenerateParams

    async def find(self, queries: Sequence[str]) -> Gathered | str:
        """One search for all, or why there is none. Raises NamespaceInvalid: what was asked for can never be."""
        try:
            async with asyncio.timeout(self.budget.seconds_for_rounds):
                return await self.passages.find(queries, self.prompts.options.wanted)
        except TimeoutError:
            return "no time was left"
        except NamespaceInvalid:
            raise
        except (RetrievalError, ModelError) as error:
            return error.message

    async def answers(
        self, queries: Sequence[str], gathered: Gathered, library: Library
    ) -> AsyncGenerator[SubAnswer, None]:
        """In the order of the queries, each as soon as those before it are there; closing stops all."""
        tasks = [asyncio.create_task(self._one(query, gathered, place)) for place, query in enumerate(queries)]
        try:
            for query, task in zip(queries, tasks, strict=True):
                await asyncio.wait({task}, timeout=self.budget.seconds_for_rounds)
                if task.done():
                    yield _numbered(task.result(), library)
                else:
                    task.cancel()
                    yield SubAnswer(Pair(query, "cut_off", told="no time was left"))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _one(self, query: str, gathered: Gathered, place: int) -> SubAnswer:
        try:
            return await self._written(query, gathered, place)
        except ArrowheadError as error:
            return SubAnswer(Pair(query, "failed", told=error.message))

    async def _written(self, query: str, gathered: Gathered, place: int) -> SubAnswer:
        engine = self.generations.engine
        begun = "" if self.layout.is_chat else MARK
        around = self.prompts.sub(query, "-")
        used = len(self.layout.ids(around.system, around.user, begun)) + self.lengths.sub + SLACK
        wanted = self.prompts.options.context_tokens
        context = await read_passages(engine, gathered.lists[place], engine.max_model_len - used, wanted)
        if not context.passages:
            none = "no room to read a passage" if gathered.lists[place] else "no passage was found"
            return SubAnswer(Pair(query, "nothing_found", told=none), context)
        given = self.prompts.sub(query, context.text)
        prompt = self.layout.ids(given.system, given.user, begun)
        cost = len(prompt) + self.lengths.sub
        if not self.budget.reserve(cost):
            return SubAnswer(Pair(query, "cut_off", told="no tokens were left"), context)
        try:
            stops = self.layout.stops if self.layout.is_chat else ("\n\n", *self.layout.stops)
            written = await self.generations.write(
                prompt, replace(self.params, max_tokens=self.lengths.sub, stop=stops)
            )
        finally:
            self.budget.give_back(cost)
        answer = written.text.strip()
        if not answer:
            return SubAnswer(Pair(query, "failed", told="the model wrote nothing"), context)
        return SubAnswer(Pair(query, "answered", answer), context, {"finish_reason": written.finish_reason})


def _numbered(sub: SubAnswer, library: Library) -> SubAnswer:
    """Numbers are given in the order of the queries, whichever answer was there first."""
    if sub.pair.status != "answered":
        return sub
    answer, cited = library.taken_over(sub.pair.answer, sub.context)
    return replace(sub, pair=replace(sub.pair, answer=answer), record={**sub.record, "cited": list(cited)})

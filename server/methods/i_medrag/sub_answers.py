"""Generate the sub-answers of one i-MedRAG round: one search for all queries, then all answers concurrently."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from models.errors import ArrowheadError, ModelError
from models.types import REPETITION, GenerateParams
from retrieval.corpus.search.ranking import RankedPassage
from retrieval.errors import NamespaceInvalid, RetrievalError
from server.methods.i_medrag.rounds import NO_PASSAGE, IteratedPrompts, Lengths, Pair
from server.methods.medrag.context import Context
from server.methods.medrag.reading import SLACK, read_passages
from server.methods.medrag.request import MARK
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.shared.outcomes import listed
from server.methods.shared.passages import Gathered, Passages
from server.methods.shared.sentences import numbers_in, renumbered

# Share of the time limit that is available to rounds; the rest is for the final answer.
_FOR_ROUNDS = 0.75


class Budget:
    """Track the remaining seconds of one answer."""

    def __init__(self, max_seconds: float) -> None:
        self._max_seconds = max_seconds
        self._began = time.monotonic()

    @property
    def seconds_for_rounds(self) -> float:
        return max(0.0, self._began + _FOR_ROUNDS * self._max_seconds - time.monotonic())

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._began + self._max_seconds - time.monotonic())


@dataclass(slots=True)
class CitedPassages:
    """Map passages to numbers from 1, assigned in the order of first citation."""

    by_number: dict[int, RankedPassage] = field(default_factory=dict)
    unknown: int = 0
    _numbers: dict[int, int] = field(default_factory=dict)

    def renumber(self, answer: str, context: Context) -> tuple[str, tuple[int, ...]]:
        """Return a sub-answer with the run's numbers in place of those of its context, and these numbers."""
        new: dict[int, int] = {}
        for number in numbers_in(answer):
            if 1 <= number <= len(context.passages):
                new[number] = self.number_of(context.passages[number - 1])
            else:
                self.unknown += 1
        return renumbered(answer, new), tuple(dict.fromkeys(new.values()))

    def number_of(self, found: RankedPassage) -> int:
        number = self._numbers.setdefault(found.passage.passage_id, len(self._numbers) + 1)
        self.by_number.setdefault(number, found)
        return number


@dataclass(frozen=True, slots=True)
class SubAnswer:
    """Hold one query with its answer and context; ``record`` is JSON-able, for the trace."""

    pair: Pair
    context: Context = field(default_factory=Context)
    record: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubAnswers:
    """Search for the queries of a round and answer them.

    ``params`` are those of a sub-answer, except its stops. A failed sub-answer is a pair with the reason.
    """

    generations: Generations
    layout: PromptFormatter
    prompts: IteratedPrompts
    lengths: Lengths
    passages: Passages
    budget: Budget
    params: GenerateParams

    async def find(self, queries: Sequence[str]) -> Gathered | str:
        """Search all queries at once; return the reason instead where the search fails or times out.

        Raises:
            NamespaceInvalid: the request can never be served.
        """
        try:
            async with asyncio.timeout(self.budget.seconds_for_rounds):
                return await self.passages.find(queries, self.prompts.options.passage_query)
        except TimeoutError:
            return "no time was left"
        except NamespaceInvalid:
            raise
        except (RetrievalError, ModelError) as error:
            return error.message

    async def answers(
        self, queries: Sequence[str], gathered: Gathered, library: CitedPassages
    ) -> AsyncGenerator[SubAnswer, None]:
        """Yield the sub-answers in the order of the queries, each as soon as it and those before it are complete.

        Closing the iterator cancels all of them.
        """
        tasks = [asyncio.create_task(self._one(query, gathered, place)) for place, query in enumerate(queries)]
        try:
            for query, task in zip(queries, tasks, strict=True):
                await asyncio.wait({task}, timeout=self.budget.seconds_for_rounds)
                if task.done():
                    yield _numbered(task.result(), library)
                else:
                    task.cancel()
                    yield SubAnswer(Pair(query, "cut_off", reason="no time was left"))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _one(self, query: str, gathered: Gathered, place: int) -> SubAnswer:
        try:
            return await self._written(query, gathered, place)
        except ArrowheadError as error:
            return SubAnswer(Pair(query, "failed", reason=error.message))

    async def _written(self, query: str, gathered: Gathered, place: int) -> SubAnswer:
        engine = self.generations.engine
        prefix = "" if self.layout.is_chat else MARK
        around = self.prompts.sub(query, "-")
        used = len(await self.layout.prompt(around.system, around.user, prefix)) + self.lengths.sub + SLACK
        room, most = engine.max_model_len - used, self.layout.card.context_tokens
        context = await read_passages(engine, gathered.lists[place], room, most)
        if not context.passages:
            none = "no room to read a passage" if gathered.lists[place] else NO_PASSAGE
            return SubAnswer(Pair(query, "nothing_found", reason=none), context)
        inputs = self.prompts.sub(query, context.text)
        prompt = await self.layout.prompt(inputs.system, inputs.user, prefix)
        stops = self.layout.stops if self.layout.is_chat else ("\n\n", *self.layout.stops)
        written = await self.generations.write(prompt, replace(self.params, max_tokens=self.lengths.sub, stop=stops))
        answer = written.text.strip()
        if written.finish_reason == "length" and written.stop_reason == REPETITION:
            return SubAnswer(Pair(query, "failed", reason="the model repeated itself"), context)
        if not answer:
            return SubAnswer(Pair(query, "failed", reason="the model wrote nothing"), context)
        return SubAnswer(Pair(query, "answered", answer), context, {"finish_reason": written.finish_reason})


def _numbered(sub: SubAnswer, library: CitedPassages) -> SubAnswer:
    """Return the sub-answer with the run's passage numbers.

    Numbers are assigned in the order of the queries, whichever answer is complete first.
    """
    if sub.pair.status != "answered":
        return sub
    answer, cited = library.renumber(sub.pair.answer, sub.context)
    return replace(sub, pair=replace(sub.pair, answer=answer), record={**sub.record, "cited": list(cited)})


def search_step(number: int, gathered: Gathered) -> str:
    hits = ", ".join(str(len(found)) for found in gathered.lists)
    return f"round {number} finds {hits} passages by {gathered.way} in {listed(gathered.namespaces)}"


def sub_record(sub: SubAnswer) -> dict[str, Any]:
    """Return the trace record of a sub-answer, with the passages by name: their texts are in the namespace."""
    context = sub.context
    return {
        "query": sub.pair.query,
        "status": sub.pair.status,
        "answer": sub.pair.answer,
        "told": sub.pair.reason,
        **sub.record,
        "context_tokens": context.tokens,
        "left_out": context.left_out + context.too_long,
        "passages": context.records,
    }

"""Run the generations of one answer that needs several, and format their prompts.

Each generation has its own id, and their tokens are added up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, TypeVar

from models.card import ModelCard
from models.decoding.types import LoopUsage
from models.engines.base import Engine
from models.types import Delta, FinishReason, GenerateParams
from server.methods.base import AnswerRequest, add_usage, plain_ids, usage_of, uses_chat_template

_T = TypeVar("_T")
_CLIENT_ASKS: Final = (
    "The client asks the following of the answer's language and style. Follow it where it does not contradict what "
    "stands above:"
)


@dataclass(frozen=True, slots=True)
class GeneratedText:
    """Hold the text of one complete generation; ``finish_reason`` and ``stop_reason`` as in ``Delta``."""

    text: str
    finish_reason: FinishReason
    stop_reason: str | int | None
    sampled: int = 0


class Generations:
    """Run the generations of one answer and count their tokens.

    Safe for concurrent tasks of one event loop. Closing a stream, or cancelling its task, stops that generation.
    """

    def __init__(self, engine: Engine, request_id: str) -> None:
        self.engine = engine
        self._request_id = request_id
        self._usage = LoopUsage()
        self._num_started = 0

    @property
    def usage(self) -> LoopUsage:
        """Return the usage of all ended generations: prompt tokens are summed, each segment is one generation."""
        return self._usage

    @property
    def num_started(self) -> int:
        return self._num_started

    async def stream(self, prompt_ids: Sequence[int], params: GenerateParams) -> AsyncGenerator[Delta, None]:
        self._num_started += 1
        request_id = f"{self._request_id}.{self._num_started}"
        sampled, cached = 0, 0
        try:
            async with aclosing(self.engine.generate(prompt_ids, params, request_id)) as deltas:  # type: ignore[type-var]
                async for delta in deltas:
                    sampled += len(delta.token_ids)
                    cached = delta.num_cached_tokens or cached
                    yield delta
        finally:
            self._usage = add_usage(self._usage, usage_of(len(prompt_ids), sampled, cached))

    async def write(self, prompt_ids: Sequence[int], params: GenerateParams) -> GeneratedText:
        """Return the result of one generation that is not streamed."""
        text, sampled = "", 0
        last = Delta(finish_reason="abort")
        async with aclosing(self.stream(prompt_ids, params)) as deltas:
            async for delta in deltas:
                text += delta.text
                sampled += len(delta.token_ids)
                last = delta
        return GeneratedText(text, last.finish_reason or "stop", last.stop_reason, sampled)


def params_of(ask: AnswerRequest, max_tokens: int) -> GenerateParams:
    """Return the sampling parameters; greedy where the request sets none, as the papers decode."""
    sampling = ask.sampling
    return GenerateParams(
        max_tokens=max_tokens,
        temperature=sampling.temperature or 0.0,
        stop=sampling.stop,
        cache_salt=ask.cache_salt,
        stop_on_repetition=True,
        **sampling.shape,
    )


async def finished(works: Sequence[Awaitable[_T]], seconds: float) -> list[_T | None]:
    """Return the results of works that run side by side, None for those that have not ended by then.

    These are cancelled. What a work raises is raised here.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        return [task.result() if task.done() else None for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def prompt_text(package: str, file: str) -> str:
    """Return a text of a package's folder ``prompts``; a method reads its own once."""
    return (files(f"server.methods.{package}") / "prompts" / file).read_text(encoding="utf-8").strip()


def with_instruction(system: str, client_instruction: str) -> str:
    """Return a method's own instruction with the client's system prompt, "" for none, after it."""
    if not client_instruction:
        return system
    return f"{system}\n\n{_CLIENT_ASKS}\n{client_instruction}"


@dataclass(frozen=True, slots=True)
class PromptFormatter:
    """Format a prompt for the model: with its chat template, or as plain text that it continues.

    ``client_instruction`` is the client's system prompt, which only a model that chats can follow.
    """

    engine: Engine
    card: ModelCard
    client_instruction: str = ""

    @property
    def is_chat(self) -> bool:
        return uses_chat_template(self.engine, self.card)

    @property
    def stops(self) -> tuple[str, ...]:
        """Return the stop strings of a base model, which would continue with a question of its own."""
        return () if self.is_chat else ("\n\nQuestion:",)

    async def prompt(self, system: str, user: str, prefix: str = "") -> list[int]:
        """Return the tokens as ``ids`` does, without holding up the event loop."""
        return await asyncio.to_thread(self.ids, system, user, prefix)

    def ids(self, system: str, user: str, prefix: str = "") -> list[int]:
        """Return the prompt's tokens; ``prefix`` is the beginning of the answer, which the model continues.

        It waits for the model's chat template, a program of unknown length, and is for other threads than the loop's.

        Raises:
            UnsupportedParam: the template refuses the prompt, fails, or reaches its limits of time, memory or output.
        """
        if self.is_chat:
            own = with_instruction(system, self.client_instruction)
            messages = [{"role": "system", "content": own}, {"role": "user", "content": user}]
            ids = self.engine.tokenizer.encode_chat(messages)
            return self._begun(ids, prefix) if prefix else ids
        return plain_ids(self.engine, f"{system}\n\n{user}\n\n{prefix}")

    def opening(self, text: str) -> str:
        """Return how an answer begins that is written under a grammar of the whole output, "" where nothing is needed.

        A base model continues it. To a model that thinks first it says that thinking has ended: the grammar has no room
        for thoughts.
        """
        return "" if self.is_chat and self.engine.tokenizer.thinking is None else text

    def _begun(self, ids: list[int], prefix: str) -> list[int]:
        """Return the prompt with the beginning of the answer, before which thinking has ended."""
        tokenizer = self.engine.tokenizer
        if tokenizer.thinking is not None and tokenizer.thinking.is_open(ids):
            ids = [*ids, tokenizer.thinking.end, *tokenizer.encode("\n\n")]
        return [*ids, *tokenizer.encode(prefix)]

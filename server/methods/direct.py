"""Answer with the plain model: messages in, text out, no calls.

Models with a chat template use it. A base model has no roles; its prompt is the messages as plain text followed by the
last question, in the form that our methods use:

    {earlier messages, one paragraph each}

    Question: {the last user message}
    Answer:
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from models.catalog import ModelCard
from models.engines.base import Engine
from models.types import Delta, GenerateParams
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import (
    AnswerRequest,
    Done,
    Event,
    OptionInvalid,
    TextDelta,
    TranscriptDelta,
    answer_logprobs,
    ids_of,
    usage_of,
    uses_chat_template,
)

# OpenAI's default for completions; a chat answer may run to the end of the context.
_COMPLETION_TOKENS = 16


class Direct:
    """Answer with the served model alone."""

    name = "direct"

    def __init__(self, lifecycle: EngineLifecycle) -> None:
        self._lifecycle = lifecycle
        self.description = lifecycle.card.description or f"{lifecycle.card.name}, without any method"

    def check(self, ask: AnswerRequest) -> None:
        for key in ask.options:
            raise OptionInvalid(f"arrowhead.{key}: the plain model has no such option", param=f"arrowhead.{key}")

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        engine = self._lifecycle.get()
        prompt_ids = ids_of(ask, engine, self._lifecycle.card)
        params = _params(ask, engine, len(prompt_ids), stop=_stops(ask, engine, self._lifecycle.card))
        written, sampled = "", 0
        last = Delta(finish_reason="abort")
        async with aclosing(engine.generate(prompt_ids, params, ask.request_id)) as deltas:  # type: ignore[type-var]
            async for delta in deltas:
                # A base model's answer starts with the space after "Answer:".
                text = delta.text.lstrip() if not written and ask.prompt is None else delta.text
                written += text
                sampled += len(delta.token_ids)
                logprobs = answer_logprobs(delta)
                if delta.reasoning:
                    yield TextDelta(delta.reasoning, "reasoning")
                yield TranscriptDelta(text, logprobs=logprobs)
                yield TextDelta(text, logprobs=logprobs)
                last = delta
        usage = usage_of(len(prompt_ids), sampled, last)
        reason = last.finish_reason or "stop"
        yield Done(answer=written.strip(), finish_reason=reason, stop_reason=last.stop_reason, usage=usage)


def _stops(ask: AnswerRequest, engine: Engine, card: ModelCard) -> tuple[str, ...]:
    """Return the stop strings: those of the request and, for a base model, the start of a further question."""
    own = ("\n\nQuestion:",) if ask.prompt is None and not uses_chat_template(engine, card) else ()
    return (*ask.sampling.stop, *own)


def _params(ask: AnswerRequest, engine: Engine, prompt_tokens: int, *, stop: tuple[str, ...]) -> GenerateParams:
    sampling = ask.sampling
    room = max(1, engine.max_model_len - prompt_tokens)
    default = _COMPLETION_TOKENS if ask.prompt is not None else room
    params = GenerateParams(
        max_tokens=sampling.max_tokens or default,
        temperature=1.0 if sampling.temperature is None else sampling.temperature,
        seed=sampling.seed,
        stop=stop,
        logprobs=sampling.logprobs,
        cache_salt=ask.cache_salt,
    )
    return params if sampling.top_p is None else replace(params, top_p=sampling.top_p)

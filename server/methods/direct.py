"""Answer with the plain model: messages in, text out, no calls.

Models with a chat template use it. A base model has no roles; its prompt is the messages as plain text followed by the
last question, in the form that our methods use:

    {earlier messages, one paragraph each}

    Question: {the last user message}
    Answer:
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import NoReturn

from models.card import ModelCard
from models.decoding.tool_calls import ToolCallReader, ToolFormat, tool_format, tool_grammar
from models.decoding.types import ToolUse
from models.engines.base import Engine
from models.errors import UnsupportedParam
from models.types import Delta, GenerateParams
from server.engine.lifecycle import EngineLifecycle
from server.errors import RequestError
from server.methods.base import (
    AnswerRequest,
    Done,
    Event,
    OptionInvalid,
    TextDelta,
    ToolCalled,
    TranscriptDelta,
    answer_logprobs,
    ids_of,
    usage_of,
    uses_chat_template,
)
from server.methods.shared.synthesis import chats, unable_to_chat
from server.methods.shared.tool_loop import ToolBox, servers_of, with_tools

# OpenAI's default for completions; a chat answer may run to the end of the context.
_COMPLETION_TOKENS = 16


class Direct:
    """Answer with the served model alone."""

    name = "direct"

    def __init__(self, lifecycle: EngineLifecycle, site: ToolBox | None = None) -> None:
        self._lifecycle = lifecycle
        self._site = site
        self.description = lifecycle.card.description or f"{lifecycle.card.name}, without any method"

    def check(self, ask: AnswerRequest) -> None:
        for key in ask.options:
            raise OptionInvalid(f"arrowhead.{key}: the plain model has no such option", param=f"arrowhead.{key}")
        known = self._site.names if self._site else ()
        for name in servers_of(ask):
            if name not in known:
                there = ", ".join(known) or "none"
                raise RequestError(f"tools: this server knows no MCP server {name!r}; it knows: {there}", param="tools")
        if ask.prompt is None and not chats(self._lifecycle.card):
            raise OptionInvalid(unable_to_chat(self._lifecycle.card), param="model")
        if ask.tools is not None or ask.site_tools:
            self._tool_format(self._lifecycle.get())

    def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        if self._site is not None and ask.site_tools:
            return with_tools(self._answer, ask, self._site)
        return self._answer(ask)

    async def _answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        engine = self._lifecycle.get()
        form = self._tool_format(engine) if ask.tools else None
        # On a thread: a model's chat template is a program of somebody else's.
        prompt_ids = await asyncio.to_thread(ids_of, ask, engine, self._lifecycle.card)
        params = _params(ask, engine, len(prompt_ids), stop=_stops(ask, engine, self._lifecycle.card))
        if ask.tools and form:
            params = replace(params, grammar=tool_grammar(ask.tools, form))
        reading = _Calls(ask.tools, form, engine, params) if ask.tools and form else None
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
                for event in (TextDelta(text, logprobs=logprobs),) if reading is None else reading.of(delta):
                    yield event
                last = delta
        usage = usage_of(len(prompt_ids), sampled, last.num_cached_tokens)
        reason = last.finish_reason or "stop"
        yield Done(answer=written.strip(), finish_reason=reason, stop_reason=last.stop_reason, usage=usage)

    def _tool_format(self, engine: Engine) -> ToolFormat:
        """Return how the model writes calls of tools.

        Raises:
            UnsupportedParam: it cannot, or not in a known form.
        """
        if not uses_chat_template(engine, self._lifecycle.card):
            raise UnsupportedParam(
                "tools: a base model has no chat template that could list them; serve a chat model trained for tools",
                param="tools",
            )
        return tool_format(engine.tokenizer)


class _Calls:
    """Turn an engine's deltas into text and calls, with an id for each call."""

    def __init__(self, use: ToolUse, form: ToolFormat, engine: Engine, params: GenerateParams) -> None:
        self._reader = ToolCallReader(engine.tokenizer, form, use.names, params.stop)
        self._most = None if use.parallel else 1
        self._id_chars = form.id_chars
        self._num = 0

    def of(self, delta: Delta) -> list[TextDelta | ToolCalled]:
        events: list[TextDelta | ToolCalled] = []
        for found in self._reader.feed(delta):
            if isinstance(found, str):
                events.append(TextDelta(found))
            elif self._most is None or self._num < self._most:
                events.append(ToolCalled(self._new_id(), found.name, found.arguments, self._num))
                self._num += 1
        return [TextDelta("", logprobs=delta.logprobs), *events] if delta.logprobs else events

    def _new_id(self) -> str:
        # Some templates accept ids of one length alone when the calls come back.
        return uuid.uuid4().hex[: self._id_chars] if self._id_chars else f"call_{uuid.uuid4().hex[:24]}"


class LoraAdapterMethod:
    """Stand for a LoRA adapter in the list of models.

    Its answers are written by the engine's own OpenAI layer, which requests reach before they reach a method.
    """

    name = "direct"

    def __init__(self, adapter: str, card: ModelCard) -> None:
        self._adapter = adapter
        self.description = f"LoRA adapter over {card.name}"

    def check(self, ask: AnswerRequest) -> NoReturn:
        """Refuse a request that did not go to the layer, which the base model's weights would answer."""
        raise RequestError(
            f"model: the adapter {self._adapter} takes requests as vllm serve does, without the field arrowhead; over "
            "a base model /v1/completions alone, as it has no chat template",
            param="model",
        )

    def answer(self, ask: AnswerRequest) -> NoReturn:
        self.check(ask)


def _stops(ask: AnswerRequest, engine: Engine, card: ModelCard) -> tuple[str, ...]:
    """Return the stop strings: those of the request and, for a base model, the start of a further question."""
    own = ("\n\nQuestion:",) if ask.prompt is None and not uses_chat_template(engine, card) else ()
    return (*ask.sampling.stop, *own)


def _params(ask: AnswerRequest, engine: Engine, prompt_tokens: int, *, stop: tuple[str, ...]) -> GenerateParams:
    sampling = ask.sampling
    room = max(1, engine.max_model_len - prompt_tokens)
    default = _COMPLETION_TOKENS if ask.prompt is not None else room
    return GenerateParams(
        max_tokens=sampling.max_tokens or default,
        temperature=1.0 if sampling.temperature is None else sampling.temperature,
        stop=stop,
        logprobs=sampling.logprobs,
        grammar=ask.grammar,
        cache_salt=ask.cache_salt,
        **sampling.shape,
    )

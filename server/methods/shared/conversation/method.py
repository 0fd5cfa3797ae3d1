"""Give a method follow-ups as questions that stand alone, and say where a system prompt is not used."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final

from models.decoding.types import LoopUsage
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Done, Event, Method, Step, add_usage, uses_chat_template
from server.methods.shared.conversation.follow_ups import NameFinder, can_rewrite, rewritten, with_names
from server.methods.shared.generation import Generations, PromptFormatter

UNUSED_INSTRUCTION: Final = (
    "the system prompt of the client is not used: this model follows no instructions besides the method's own"
)


@dataclass(frozen=True, slots=True)
class _Understood:
    """Hold the request with a question that stands alone, and the tokens that this took."""

    ask: AnswerRequest
    usage: LoopUsage = field(default_factory=LoopUsage)
    is_changed: bool = False


class ConversationMethod:
    """Wrap a ``Method`` so that it gets single questions alone."""

    def __init__(self, inner: Method, lifecycle: EngineLifecycle, finder: NameFinder) -> None:
        self._inner = inner
        self._lifecycle = lifecycle
        self._finder = finder
        self.name = inner.name
        self.description = inner.description

    def check(self, ask: AnswerRequest) -> None:
        self._inner.check(ask)

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        understood = await self._understood(ask)
        if understood.is_changed:
            yield Step(f"understood as: {understood.ask.question}")
        if ask.instruction and not uses_chat_template(self._lifecycle.get(), self._lifecycle.card):
            yield Step(UNUSED_INSTRUCTION)
        async with aclosing(self._inner.answer(understood.ask)) as events:
            async for event in events:
                yield _with(understood, event)

    async def _understood(self, ask: AnswerRequest) -> _Understood:
        """Return the request as the method gets it: the first question of a conversation as it is."""
        users = [place for place, turn in enumerate(ask.messages) if turn.role == "user"]
        if ask.prompt is not None or len(users) < 2:
            return _Understood(ask)
        history, usage = ask.messages[: users[-1]], LoopUsage()
        engine, card = self._lifecycle.get(), self._lifecycle.card
        if can_rewrite(engine, card):
            calls = Generations(engine, f"{ask.request_id}.question")
            layout = PromptFormatter(engine, card)
            text = await rewritten(history, ask.question, layout, calls, ask.cache_salt) or ask.question
            usage = calls.usage
        else:
            earlier = [turn.content for turn in history if turn.role == "user"]
            text = await with_names(ask.question, earlier, self._finder)
        if text == ask.question:
            return _Understood(ask, usage)
        last = replace(ask.messages[users[-1]], content=text)
        messages = (*history, last, *ask.messages[users[-1] + 1 :])
        return _Understood(replace(ask, messages=messages), usage, is_changed=True)


def _with(understood: _Understood, event: Event) -> Event:
    if not isinstance(event, Done):
        return event
    details = {**event.details}
    if understood.is_changed:
        details["understood_as"] = understood.ask.question
    return replace(event, details=details, usage=add_usage(understood.usage, event.usage))

"""Answer small talk and emergencies without the method, and give it follow-ups as questions that stand alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final

from models.decoding.types import LoopUsage
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import (
    AnswerRequest,
    Done,
    Event,
    Method,
    Step,
    TextDelta,
    TranscriptDelta,
    uses_chat_template,
)
from server.methods.shared.conversation.emergencies import emergency_in, emergency_reply
from server.methods.shared.conversation.follow_ups import is_dependent, standalone
from server.methods.shared.conversation.rewriting import can_rewrite, rewritten
from server.methods.shared.conversation.small_talk import GUIDES, small_talk_in, small_talk_reply
from server.methods.shared.generation import Generations, PromptFormatter, add_usage

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
    """Wrap a ``Method`` so that it gets single questions alone.

    Emergencies and small talk are judged on the last message alone; neither model, data nor network is used for them.
    """

    def __init__(self, inner: Method, lifecycle: EngineLifecycle) -> None:
        self._inner = inner
        self._lifecycle = lifecycle
        self.name = inner.name
        self.description = inner.description

    def check(self, ask: AnswerRequest) -> None:
        """Refuse what the method refuses, save that an emergency is answered whatever its options are."""
        if emergency_in(ask.question) is None:
            self._inner.check(_carried(ask))

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        if (told := self._without_method(ask.question)) is not None:
            kind, text = told
            for event in _closing(text, {"method": self.name, "reason": kind}):
                yield event
            return
        understood = await self._understood(ask)
        if understood.is_changed:
            yield Step(f"understood as: {understood.ask.question}")
        if ask.instruction and not uses_chat_template(self._lifecycle.get(), self._lifecycle.card):
            yield Step(UNUSED_INSTRUCTION)
        async with aclosing(self._inner.answer(understood.ask)) as events:
            async for event in events:
                yield _with(understood, event)

    def _without_method(self, message: str) -> tuple[str, str] | None:
        """Return the kind of a message that is no question for the method, and the whole answer to it."""
        if (emergency := emergency_in(message)) is not None:
            return "emergency", emergency_reply(*emergency)
        if (talk := small_talk_in(message)) is not None:
            return talk.kind, small_talk_reply(talk, GUIDES[self.name])
        return None

    async def _understood(self, ask: AnswerRequest) -> _Understood:
        carried = _carried(ask)
        last = _last_user(ask)
        is_later = last is not None and any(turn.role == "user" for turn in ask.messages[:last])
        engine = self._lifecycle.get()
        usage = LoopUsage()
        if last is not None and is_later and is_dependent(ask.question) and can_rewrite(engine, self._lifecycle.card):
            calls = Generations(engine, f"{ask.request_id}.question")
            layout = PromptFormatter(engine, self._lifecycle.card)
            text = await rewritten(ask.messages[:last], ask.question, layout, calls, ask.cache_salt)
            carried, usage = (_asking(ask, text) if text else carried), calls.usage
        return _Understood(carried, usage, carried.question != ask.question)


def _last_user(ask: AnswerRequest) -> int | None:
    """Return the place of the last user message, None for plain text."""
    if ask.prompt is not None:
        return None
    return max((place for place, turn in enumerate(ask.messages) if turn.role == "user"), default=None)


def _carried(ask: AnswerRequest) -> AnswerRequest:
    """Return the request whose question stands alone by the entities of the user's earlier turns."""
    turns = [turn.content for turn in ask.messages if turn.role == "user"]
    if ask.prompt is not None or len(turns) < 2:
        return ask
    text = standalone(turns)
    return ask if text == turns[-1].strip() else _asking(ask, text)


def _asking(ask: AnswerRequest, question: str) -> AnswerRequest:
    last = _last_user(ask)
    if last is None:
        return ask
    message = replace(ask.messages[last], content=question)
    return replace(ask, messages=(*ask.messages[:last], message, *ask.messages[last + 1 :]))


def _closing(text: str, details: dict[str, object]) -> tuple[Event, ...]:
    done = Done(
        answer=text, finish_reason="stop", stop_reason=None, usage=LoopUsage(), details=details, outcome="out_of_scope"
    )
    return (TranscriptDelta(text, "injected"), TextDelta(text, is_ours=True), done)


def _with(understood: _Understood, event: Event) -> Event:
    if not isinstance(event, Done):
        return event
    details = {**event.details}
    if understood.is_changed:
        details["understood_as"] = understood.ask.question
    return replace(event, details=details, usage=add_usage(understood.usage, event.usage))

"""Answer small talk and emergencies without the method, and give it follow-ups as questions that stand alone.

A model that follows instructions writes these questions; they are checked to add nothing of its own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final

from models.catalog import ModelCard
from models.decoding.types import LoopUsage
from models.engines.base import Engine
from models.types import GenerateParams
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import (
    AnswerRequest,
    Done,
    Event,
    Message,
    Method,
    Step,
    TextDelta,
    TranscriptDelta,
    add_usage,
    uses_chat_template,
)
from server.methods.shared.conversation.emergencies import emergency_in, emergency_reply
from server.methods.shared.conversation.follow_ups import is_dependent, standalone
from server.methods.shared.conversation.small_talk import GUIDES, small_talk_in, small_talk_reply
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.shared.identifiers import EvidenceIndex, identifiers_in

_MAX_TOKENS: Final = 96
_MAX_TURNS: Final = 6
_MAX_TURN_CHARS: Final = 600
_MAX_QUESTION_CHARS: Final = 500
_TIMEOUT_S: Final = 10.0
_WORD: Final = re.compile(r"[^\W\d_][\w'’-]*")
_SYSTEM: Final = (
    "You rewrite the last question of a conversation so that it can be understood without the conversation. Replace "
    "pronouns and omissions by the names that they stand for, as the conversation writes them. Keep the "
    "language of the "
    "question and every name, number and code in it. Do not answer it and add nothing else. Write one question "
    "on one "
    "line."
)
_BEGINS: Final = "Question:"
# Words that a rewritten question may have although no turn has them.
_JOINING_TEXT: Final = (
    "a an the of in on for to by with from at about and or is are was were be does do did has have can could "
    "what which "
    "who where when why how it its their this that these those gene genes protein disease drug variant "
    "associated located "
    "der die das des dem den ein eine einer von vom im in auf für mit und oder ist sind hat haben was welche welcher "
    "welches wer wo wie warum gen krankheit medikament"
)
_JOINING: Final = frozenset(_JOINING_TEXT.split())
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
        if (fixed := self._without_method(ask.question)) is not None:
            kind, text = fixed
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


def can_rewrite(engine: Engine, card: ModelCard) -> bool:
    """Return whether the model follows instructions, as far as is known: it chats and is not limited to methods."""
    return card.trained_for is None and uses_chat_template(engine, card)


async def rewritten(
    history: Sequence[Message], question: str, layout: PromptFormatter, calls: Generations, cache_salt: str | None
) -> str | None:
    """Return the model's version of the question, None where it wrote none that can be used.

    ``history``: the turns before the question, oldest first.
    """
    said = [turn for turn in history if turn.role in ("user", "assistant") and turn.content.strip()][-_MAX_TURNS:]
    lines = [f"{turn.role.capitalize()}: {' '.join(turn.content.split())[:_MAX_TURN_CHARS]}" for turn in said]
    user = "\n".join(["Conversation:", *lines, "", f"Last question: {question}"])
    prompt = layout.ids(_SYSTEM, user, _BEGINS)
    if len(prompt) + _MAX_TOKENS > layout.engine.max_model_len:
        return None
    params = GenerateParams(max_tokens=_MAX_TOKENS, temperature=0.0, stop=("\n",), cache_salt=cache_salt)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            written = await calls.write(prompt, params)
    except TimeoutError:
        return None
    text = " ".join(written.text.removeprefix(_BEGINS).split()).strip('"“” ')
    # A version that the limit cut is not the whole question.
    is_whole = written.finish_reason == "stop"
    return text if is_whole and is_faithful(text, question, [turn.content for turn in said]) else None


def is_faithful(text: str, question: str, history: Sequence[str]) -> bool:
    """Return whether a rewritten question keeps all names of the question and adds only names of the conversation."""
    if not text or len(text) > _MAX_QUESTION_CHARS:
        return False
    here, said = EvidenceIndex(), EvidenceIndex()
    here.add(text)
    for turn in (*history, question):
        said.add(turn)
    keeps = all(here.has(found) for found in identifiers_in(question))
    adds = all(said.has(found) for found in identifiers_in(text))
    known = _JOINING.union(*(_words(turn) for turn in (*history, question)))
    return keeps and adds and _words(text) <= known


def _words(text: str) -> set[str]:
    return {re.sub(r"['’]s?$", "", word.casefold()) for word in _WORD.findall(text)}

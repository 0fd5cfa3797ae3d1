"""A method behind the conversation gets single questions alone, and none for small talk and emergencies."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pytest

from models.catalog import ModelCard
from models.decoding.types import LoopUsage
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, Rule, ScriptedEngine
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Done, Event, Message, OptionInvalid, Step, TextDelta
from server.methods.shared.conversation.method import UNUSED_INSTRUCTION, ConversationMethod

FIRST = Message("user", "What is the official gene symbol of LMP10?")
HISTORY = (FIRST, Message("assistant", "PSMB10"))
USAGE = LoopUsage(prompt_tokens=7, sampled_tokens=3, segments=1)


class Asked:
    """A method that records what it is asked, and refuses every option."""

    name = "genegpt"
    description = "records"

    def __init__(self) -> None:
        self.asks: list[AnswerRequest] = []
        self.checked: list[str] = []

    def check(self, ask: AnswerRequest) -> None:
        self.checked.append(ask.question)
        for key in ask.options:
            raise OptionInvalid(key, param=key)

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        self.asks.append(ask)
        yield TextDelta("16")
        yield Done(answer="16", finish_reason="stop", stop_reason=None, usage=USAGE, outcome="answered")


class Talk:
    """One conversation over the scripted engine, whose model chats where it is told so."""

    def __init__(self, text: str = "", *, chat: bool = False) -> None:
        card = ModelCard(name="m", source="/nowhere", context_length=4096)
        tokenizer = ByteTokenizer(chat=chat)
        self.engine = ScriptedEngine(card, EngineOptions(), [Rule("", text)], tokenizer=tokenizer)
        self.lifecycle = EngineLifecycle(card, lambda: self.engine)
        self.inner = Asked()
        self.method = ConversationMethod(self.inner, self.lifecycle)

    async def of(self, *messages: Message) -> list[Event]:
        await self.lifecycle.load()
        ask = AnswerRequest(request_id="r", messages=messages)
        events = [event async for event in self.method.answer(ask)]
        await self.lifecycle.close()
        return events


def shown(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def steps(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Step)]


def done(events: Sequence[Event]) -> Done:
    assert isinstance(events[-1], Done)
    return events[-1]


@pytest.mark.parametrize(
    ("message", "part"),
    [
        ("hello", "What is the official gene symbol of LMP10?"),
        ("Danke!", "Gern geschehen."),
        ("I have crushing chest pain", "112"),
        ("Ich will nicht mehr leben", "0800 1110111"),
    ],
)
async def test_small_talk_and_emergencies_reach_neither_method_nor_model(message: str, part: str) -> None:
    """Whatever was said before."""
    talk = Talk("never", chat=True)
    events = await talk.of(*HISTORY, Message("user", message))

    assert part in shown(events)
    assert done(events).outcome == "out_of_scope"
    assert done(events).usage == LoopUsage()
    assert talk.inner.asks == []
    assert talk.engine.requests == []


async def test_an_emergency_of_an_earlier_turn_does_not_answer_the_next_question() -> None:
    """The last message alone is judged."""
    talk = Talk()
    events = await talk.of(Message("user", "I can't breathe"), Message("assistant", "Call 112."), FIRST)
    assert shown(events) == "16"
    assert [ask.question for ask in talk.inner.asks] == [FIRST.content]


def test_an_emergency_is_answered_whatever_its_options_are() -> None:
    """A wrong option refuses a question and a greeting, not a call for help."""
    talk = Talk()
    wrong = {"no_such": 1}
    talk.method.check(AnswerRequest(request_id="r", messages=(Message("user", "I can't breathe"),), options=wrong))
    for question in ("hello", FIRST.content):
        with pytest.raises(OptionInvalid):
            talk.method.check(AnswerRequest(request_id="r", messages=(Message("user", question),), options=wrong))


async def test_a_base_model_gets_the_entity_carried_over() -> None:
    """Told as a step, with the earlier turns left in their places."""
    talk = Talk("never")
    events = await talk.of(*HISTORY, Message("user", "And on which chromosome is it?"))

    (ask,) = talk.inner.asks
    assert ask.question == "On which chromosome is LMP10?"
    assert ask.messages[:2] == HISTORY
    assert steps(events) == ["understood as: On which chromosome is LMP10?"]
    assert done(events).details["understood_as"] == ask.question
    assert done(events).usage == USAGE
    assert talk.engine.requests == []


async def test_a_chat_model_rewrites_and_its_tokens_are_counted() -> None:
    """A question that needs nothing of the conversation costs no call."""
    talk = Talk(" On which chromosome is PSMB10 located?\n", chat=True)
    events = await talk.of(*HISTORY, Message("user", "And on which chromosome is it?"))
    assert talk.inner.asks[0].question == "On which chromosome is PSMB10 located?"
    assert done(events).usage.sampled_tokens > USAGE.sampled_tokens

    other = Talk(" What is TP53?\n", chat=True)
    await other.of(*HISTORY, Message("user", "Which drug reverses heparin?"))
    assert other.inner.asks[0].question == "Which drug reverses heparin?"
    assert other.engine.requests == []


async def test_what_the_model_made_up_is_dropped_for_the_carried_entity() -> None:
    """Its tokens are counted all the same."""
    talk = Talk(" On which chromosome is TP53?\n", chat=True)
    events = await talk.of(*HISTORY, Message("user", "And on which chromosome is it?"))
    assert talk.inner.asks[0].question == "On which chromosome is LMP10?"
    assert done(events).usage.segments == 2


async def test_a_system_prompt_that_is_not_used_is_told() -> None:
    """A base model follows none; a model that chats gets it from its method."""
    system = Message("system", "Answer in German.")
    assert steps(await Talk().of(system, FIRST)) == [UNUSED_INSTRUCTION]
    talk = Talk(chat=True)
    assert steps(await talk.of(system, FIRST)) == []
    assert talk.inner.asks[0].instruction == "Answer in German."

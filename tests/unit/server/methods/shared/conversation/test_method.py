"""A method behind the conversation gets single questions alone, and every one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pytest

from models.card import ModelCard
from models.decoding.types import LoopUsage
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, Rule, ScriptedEngine
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Done, Event, Message, OptionInvalid, Step, TextDelta
from server.methods.shared.conversation.method import UNUSED_INSTRUCTION, ConversationMethod

FIRST = Message("user", "What is the official gene symbol of LMP10?")
HISTORY = (FIRST, Message("assistant", "PSMB10"))
FOLLOW_UP = Message("user", "And on which chromosome is it?")
USAGE = LoopUsage(prompt_tokens=7, sampled_tokens=3, segments=1)


class Asked:
    """A method that records what it is asked, and refuses every option."""

    name = "genegpt"
    description = "records"

    def __init__(self) -> None:
        self.asks: list[AnswerRequest] = []

    def check(self, ask: AnswerRequest) -> None:
        for key in ask.options:
            raise OptionInvalid(key, param=key)

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        self.asks.append(ask)
        yield TextDelta("16")
        yield Done(answer="16", finish_reason="stop", stop_reason=None, usage=USAGE, outcome="answered")


class Genes:
    """Find the one gene of these tests."""

    async def names_in(self, text: str) -> Sequence[str]:
        return ["LMP10"] if "LMP10" in text else []


class Talk:
    """One conversation over the scripted engine, whose model chats where it is told so."""

    def __init__(self, text: str = "", *, chat: bool = False) -> None:
        card = ModelCard(name="m", source="/nowhere", context_length=4096)
        tokenizer = ByteTokenizer(chat=chat)
        self.engine = ScriptedEngine(card, EngineOptions(), [Rule("", text)], tokenizer=tokenizer)
        self.lifecycle = EngineLifecycle(card, lambda: self.engine)
        self.inner = Asked()
        self.method = ConversationMethod(self.inner, self.lifecycle, Genes())

    async def of(self, *messages: Message) -> list[Event]:
        await self.lifecycle.load()
        ask = AnswerRequest(request_id="r", messages=messages)
        events = [event async for event in self.method.answer(ask)]
        await self.lifecycle.close()
        return events


def steps(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Step)]


def done(events: Sequence[Event]) -> Done:
    assert isinstance(events[-1], Done)
    return events[-1]


@pytest.mark.parametrize("message", ["hello", "Danke!", "I have crushing chest pain", "what is 17 times 23?"])
async def test_the_method_gets_every_message(message: str) -> None:
    """Small talk, emergencies and other subjects included, with no call before it."""
    talk = Talk("never", chat=True)
    await talk.of(Message("user", message))
    assert [ask.question for ask in talk.inner.asks] == [message]
    assert talk.engine.requests == []


def test_an_option_is_refused_as_the_method_refuses_it() -> None:
    """Whatever the message is."""
    with pytest.raises(OptionInvalid):
        Talk().method.check(AnswerRequest(request_id="r", messages=(FIRST,), options={"no_such": 1}))


async def test_a_base_model_gets_the_names_of_the_turn_before_behind_the_question() -> None:
    """Told as a step, with the earlier turns left in their places."""
    talk = Talk("never")
    events = await talk.of(*HISTORY, FOLLOW_UP)

    (ask,) = talk.inner.asks
    assert ask.question == "And on which chromosome is it (about: LMP10)?"
    assert ask.messages[:2] == HISTORY
    assert steps(events) == [f"understood as: {ask.question}"]
    assert done(events).details["understood_as"] == ask.question
    assert done(events).usage == USAGE
    assert talk.engine.requests == []


async def test_a_chat_model_writes_every_later_question_and_its_tokens_are_counted() -> None:
    """Whether the question seems to need it or not: the model knows."""
    talk = Talk(" On which chromosome is PSMB10 located?\n", chat=True)
    events = await talk.of(*HISTORY, FOLLOW_UP)
    assert talk.inner.asks[0].question == "On which chromosome is PSMB10 located?"
    assert done(events).usage.sampled_tokens > USAGE.sampled_tokens

    other = Talk(" Which drug reverses heparin?\n", chat=True)
    told = await other.of(*HISTORY, Message("user", "Which drug reverses heparin?"))
    assert len(other.engine.requests) == 1
    assert steps(told) == []


async def test_a_version_with_a_made_up_gene_leaves_the_question_as_asked() -> None:
    """Its tokens are counted all the same."""
    talk = Talk(" On which chromosome is TP53?\n", chat=True)
    events = await talk.of(*HISTORY, FOLLOW_UP)
    assert talk.inner.asks[0].question == FOLLOW_UP.content
    assert steps(events) == []
    assert done(events).usage.segments == 2


async def test_plain_text_has_no_earlier_turns() -> None:
    """``/v1/completions`` sends one prompt."""
    talk = Talk("never", chat=True)
    await talk.lifecycle.load()
    ask = AnswerRequest(request_id="r", prompt="is it inherited?")
    assert [event async for event in talk.method.answer(ask)]
    assert talk.inner.asks == [ask]


async def test_a_system_prompt_that_is_not_used_is_told() -> None:
    """A base model follows none; a model that chats gets it from its method."""
    system = Message("system", "Answer in German.")
    assert steps(await Talk().of(system, FIRST)) == [UNUSED_INSTRUCTION]
    talk = Talk(chat=True)
    assert steps(await talk.of(system, FIRST)) == []
    assert talk.inner.asks[0].instruction == "Answer in German."

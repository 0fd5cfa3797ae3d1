"""A model that was made for one method says so when another one asks it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from models.decoding.types import LoopUsage
from server.methods.base import METHOD_NAMES, AnswerRequest, Done, Event, OptionInvalid, Step, TextDelta
from server.methods.genegpt.method import GeneGpt
from server.methods.i_medrag.method import IMedRag
from server.methods.kg_rag.method import KgRag
from server.methods.medrag.method import MedRag
from server.methods.registry import WarningMethod


class Echo:
    name = "echo"
    description = "Says the question again"
    closed = False

    def check(self, ask: AnswerRequest) -> None:
        if ask.options:
            raise OptionInvalid("arrowhead.x: there is no such option", param="arrowhead.x")

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        try:
            yield TextDelta(ask.question)
            yield Done(answer=ask.question, finish_reason="stop", stop_reason=None, usage=LoopUsage())
        finally:
            self.closed = True


async def test_the_caution_comes_first_and_all_else_follows() -> None:
    """As a step, which clients show with the others."""
    method = WarningMethod(Echo(), "tiny")
    events = [event async for event in method.answer(AnswerRequest(request_id="1", prompt="hello"))]

    assert isinstance(events[0], Step) and "tiny was not trained for echo" in events[0].text
    assert [type(event) for event in events[1:]] == [TextDelta, Done]
    assert (method.name, method.description.startswith("Says the question again (tiny")) == ("echo", True)


async def test_options_are_checked_and_closing_reaches_the_method() -> None:
    """It stands in the way of neither."""
    inner = Echo()
    method = WarningMethod(inner, "tiny")
    with pytest.raises(OptionInvalid):
        method.check(AnswerRequest(request_id="1", prompt="hello", options={"x": 1}))
    events = method.answer(AnswerRequest(request_id="1", prompt="hello"))
    await anext(events)
    await anext(events)
    await events.aclose()

    assert inner.closed


def test_the_names_are_those_of_the_methods() -> None:
    """The list that needs no method's libraries agrees with the methods."""
    assert (GeneGpt.name, KgRag.name, MedRag.name, IMedRag.name) == METHOD_NAMES

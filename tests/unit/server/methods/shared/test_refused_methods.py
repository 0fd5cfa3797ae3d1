"""A method that the served model cannot serve in any way refuses its requests with the remedy."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from models.card import ModelCard
from models.decoding.types import LoopUsage
from server.methods.base import METHOD_NAMES, AnswerRequest, Done, Event, OptionInvalid, TextDelta
from server.methods.clinfo.method import Clinfo
from server.methods.genegpt.method import GeneGpt
from server.methods.i_medrag.method import IMedRag
from server.methods.kg_rag.method import KgRag
from server.methods.medrag.method import MedRag
from server.methods.shared.synthesis import for_model
from server.methods.weiseeule.method import WeiseEule


class Echo:
    description = "Says the question again"

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, ask: AnswerRequest) -> None:
        pass

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        yield TextDelta(ask.question)
        yield Done(answer=ask.question, finish_reason="stop", stop_reason=None, usage=LoopUsage())


def _card(*trained_for: str) -> ModelCard:
    """Of a general model where no method is named."""
    return ModelCard(name="tiny", source="tiny", trained_for=trained_for or None)


async def test_a_method_that_the_model_cannot_write_is_refused() -> None:
    """Before any work, and where it is listed."""
    method = for_model(Echo("genegpt"), _card("medrag"))
    ask = AnswerRequest(request_id="1", prompt="hello")
    with pytest.raises(OptionInvalid, match="tiny was not trained to write answers of genegpt") as refused:
        method.check(ask)
    assert refused.value.param == "model" and "--model" in refused.value.message
    with pytest.raises(OptionInvalid):
        _ = [event async for event in method.answer(ask)]
    assert method.name == "genegpt" and "not served" in method.description


@pytest.mark.parametrize(
    ("name", "trained_for"),
    [("genegpt", ()), ("genegpt", ("genegpt",)), ("medrag", ("genegpt",)), ("kg-rag", ("genegpt",))],
)
def test_all_else_is_served(name: str, trained_for: tuple[str, ...]) -> None:
    """By a general model, by one that was trained for it, or from extracts."""
    method = Echo(name)
    assert for_model(method, _card(*trained_for)) is method


def test_the_names_are_those_of_the_methods() -> None:
    """The list that needs no method's libraries agrees with the methods."""
    methods = (GeneGpt, KgRag, MedRag, IMedRag, Clinfo, WeiseEule)
    assert tuple(method.name for method in methods) == METHOD_NAMES

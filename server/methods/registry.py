"""Serve each method as far as the model can: refuse those that it can neither write nor do without writing."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from models.catalog import ModelCard
from server.methods.base import AnswerRequest, Event, Method
from server.methods.shared.synthesis import choose_synthesis, served_syntheses, unable


class RefusedMethod:
    """Stand in for a ``Method`` that the served model cannot write, and refuse its requests with the remedy."""

    def __init__(self, inner: Method, card: ModelCard) -> None:
        self._card = card
        self.name = inner.name
        self.description = f"{inner.description} (not served: {unable(inner.name, card)})"

    def check(self, ask: AnswerRequest) -> None:
        choose_synthesis(None, self.name, self._card)

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        self.check(ask)
        return
        yield  # the protocol wants a generator


def for_model(method: Method, card: ModelCard) -> Method:
    """Return the method, or its refusal where the model cannot serve it in any way."""
    return method if served_syntheses(method.name, card) else RefusedMethod(method, card)

"""Name the methods, and warn in the answers of one that the served model was not trained for."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from models.catalog import ModelCard
from server.methods.base import AnswerRequest, Event, Method, Step


class WarningMethod:
    """Wrap a ``Method`` and emit a warning as its first step."""

    def __init__(self, inner: Method, model: str) -> None:
        self._inner = inner
        self._caution = f"{model} was not trained for {inner.name}: what it writes here is no answer to rely on"
        self.name = inner.name
        self.description = f"{inner.description} ({self._caution})"

    def check(self, ask: AnswerRequest) -> None:
        self._inner.check(ask)

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        yield Step(self._caution)
        async with aclosing(self._inner.answer(ask)) as events:
            async for event in events:
                yield event


def for_model(method: Method, card: ModelCard) -> Method:
    """Return the method, with a warning in its answers if the model was trained, but not for this method."""
    return WarningMethod(method, card.name) if card.trained_for and method.name not in card.trained_for else method

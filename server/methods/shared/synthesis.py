"""Say in which ways a method's answers can be made with the served model, and refuse those that cannot.

``generated``: the model writes the answer. ``extractive``: the server quotes sentences or statements that the verifier
chooses; a model that was trained for it reads yes or no from them.
"""

from __future__ import annotations

from typing import Final, Literal, NoReturn

from models.card import CHAT, ModelCard
from server.methods.base import AnswerRequest, Method, OptionInvalid

Synthesis = Literal["generated", "extractive"]
# The methods that need no model that writes, and of these the ones that read passages.
_EXTRACTIVE: Final = frozenset({"kg-rag", "medrag", "i-medrag", "clinfo", "weiseeule"})
_OF_PASSAGES: Final = _EXTRACTIVE - {"kg-rag"}


def chats(card: ModelCard) -> bool:
    """Return whether the plain model answers messages: one trained for methods alone writes nothing of use."""
    return card.writes(CHAT)


def unable_to_chat(card: ModelCard) -> str:
    """Return the sentence that says so, and what to ask instead."""
    method = next(iter(card.trained_for or ()), "medrag")
    return (
        f"{card.name} was not trained to chat; ask a method, as {card.name}:{method}, or serve a model that chats, "
        "with --model or model.name. /v1/completions continues any text with it"
    )


def served_syntheses(method: str, card: ModelCard) -> tuple[Synthesis, ...]:
    """Return the ways that work with this model, the default first; () where the method cannot be served with it."""
    is_written = card.writes(method) and not (card.verdicts and method in _OF_PASSAGES)
    written: tuple[Synthesis, ...] = ("generated",) if is_written else ()
    return (*written, "extractive") if method in _EXTRACTIVE else written


def choose_synthesis(asked: Synthesis | None, method: str, card: ModelCard) -> Synthesis:
    """Return the way of one answer, None being the default.

    Raises:
        OptionInvalid: it does not work with this method or model; the message says what to do.
    """
    served = served_syntheses(method, card)
    if not served:
        raise OptionInvalid(unable(method, card), param="model")
    if asked is None:
        return served[0]
    if asked in served:
        return asked
    why = unable(method, card) if asked == "generated" else f"{method} does not serve {asked!r}"
    raise OptionInvalid(f"arrowhead.synthesis: {why}; ask for {' or '.join(served)}", param="arrowhead.synthesis")


def unable(method: str, card: ModelCard) -> str:
    """Return the sentence that names the model's lack and the remedy."""
    able = f", but for {', '.join(card.trained_for)} alone" if card.trained_for else ""
    return (
        f"{card.name} was not trained to write answers of {method}{able}; "
        "serve a model that can, with --model or model.name"
    )


class RefusedMethod:
    """Stand in for a ``Method`` that the served model cannot write, and refuse its requests with the remedy."""

    def __init__(self, inner: Method, card: ModelCard) -> None:
        self._card = card
        self.name = inner.name
        self.description = f"{inner.description} (not served: {unable(inner.name, card)})"

    def check(self, ask: AnswerRequest) -> NoReturn:
        raise OptionInvalid(unable(self.name, self._card), param="model")

    def answer(self, ask: AnswerRequest) -> NoReturn:
        self.check(ask)


def for_model(method: Method, card: ModelCard) -> Method:
    """Return the method, or its refusal where the model cannot serve it in any way."""
    return method if served_syntheses(method.name, card) else RefusedMethod(method, card)

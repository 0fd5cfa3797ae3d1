"""Say in which ways a method's answers can be made with the served model. Pure.

``generated``: the model writes the answer. ``quoted``: it chooses verbatim quotes under a grammar. ``extractive``: the
server chooses verbatim sentences or statements, without the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from models.catalog import ModelCard
from server.methods.base import OptionInvalid

Synthesis = Literal["generated", "quoted", "extractive"]
SYNTHESES: Final[tuple[Synthesis, ...]] = get_args(Synthesis)
_GENERATED: Final[tuple[Synthesis, ...]] = ("generated",)
# What each method has beside generated answers.
_FURTHER: Final[Mapping[str, tuple[Synthesis, ...]]] = {
    "kg-rag": ("extractive",),
    "medrag": ("extractive",),
    "i-medrag": ("extractive",),
}


def served_syntheses(method: str, card: ModelCard) -> tuple[Synthesis, ...]:
    """Return the ways that work with this model, the default first; () where the method cannot be served with it."""
    return (*(_GENERATED if card.writes(method) else ()), *_FURTHER.get(method, ()))


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
    ways = " or ".join(served)
    why = unable(method, card) if asked == "generated" else f"{method} does not serve {asked!r} yet"
    raise OptionInvalid(f"arrowhead.synthesis: {why}; ask for {ways}", param="arrowhead.synthesis")


def unable(method: str, card: ModelCard) -> str:
    """Return the sentence that names the model's lack and the remedy."""
    able = ", ".join(card.trained_for)
    return (
        f"{card.name} was not trained to write answers of {method}, but for {able} alone; "
        "serve a model that can, with --model or model.name"
    )

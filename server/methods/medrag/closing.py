"""Hold what the end of an answer is made from, and what ended the model's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from models.types import REPETITION
from retrieval.corpus.search.ranking import RankedPassage
from server.methods.base import AnswerOutcome
from server.methods.medrag.chain_of_thought import Chain
from server.methods.medrag.request import ParsedQuestion

NO_TEXT: Final = "The model wrote no answer."
NO_CHOICE: Final = "What the model wrote is none of the choices."


@dataclass(frozen=True, slots=True)
class Closing:
    """Hold the data for the end of an answer.

    ``passages`` are by number. ``fallback`` lists the numbers of the passages that were read, best first. ``refusal``:
    what the prompt asks the model to write where nothing answers.
    """

    question: ParsedQuestion
    passages: Mapping[int, RankedPassage]
    fallback: Sequence[int]
    references: bool
    details: Mapping[str, Any]
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """State an outcome and the sentence that tells it, "" for a whole answer."""

    outcome: AnswerOutcome
    reason: str = ""


def is_cut(closing: Closing, chain: Chain) -> bool:
    """Return whether a limit ended the text before it was an answer; a letter is whole, whatever ended it."""
    # What is not a letter reaches the limit of a letter's tokens.
    limits = ("stop", "length") if closing.question.choices else ("stop",)
    return not chain.letter and (chain.finish_reason not in limits or chain.stop_reason == REPETITION)

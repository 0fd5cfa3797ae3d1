"""Hold what the end of an answer is made from, and what ended the model's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from models.types import REPETITION
from retrieval.corpus.search.ranking import RankedPassage
from server.methods.base import AnswerOutcome
from server.methods.medrag.chain_of_thought import Chain
from server.methods.medrag.request import ParsedQuestion

NO_TEXT: Final = "The model wrote no answer."
# What is answered for a model that finds the question answered by none of its passages.
NO_PASSAGE: Final = "The passages do not say."
NO_CHOICE: Final = "What the model wrote is none of the choices."


@dataclass(frozen=True, slots=True)
class Closing:
    """Hold the data for the end of an answer.

    ``passages`` are by number. ``fallback`` lists the numbers of the passages that were read, best first. ``without``
    is the reason why the answer rests on no passage, "" where it may rest on one. ``relied`` are the numbers that
    sub-answers cite. ``refusal``: what the prompt asks the model to write where nothing answers. ``withholds``: the
    model cannot write, so that a choice is judged by the passages; with ``abstains`` one that none supports is
    withheld.
    """

    question: ParsedQuestion
    passages: Mapping[int, RankedPassage]
    fallback: Sequence[int]
    references: bool
    without: str
    details: Mapping[str, Any]
    relied: Sequence[int] = ()
    refusal: str = ""
    withholds: bool = False
    abstains: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """State an outcome and the sentence that tells it, "" for a whole answer.

    ``basis`` has the sentence on which an answer rests, "" for none in particular, by the number of its passage.
    ``withholds``: the reason stands in place of the choice.
    """

    outcome: AnswerOutcome
    reason: str = ""
    basis: Mapping[int, str] = field(default_factory=dict)
    withholds: bool = False


def is_cut(closing: Closing, chain: Chain) -> bool:
    """Return whether a limit ended the text before it was an answer; a letter is whole, whatever ended it."""
    # What is not a letter reaches the limit of a letter's tokens.
    limits = ("stop", "length") if closing.question.choices else ("stop",)
    return not chain.letter and (chain.finish_reason not in limits or chain.stop_reason == REPETITION)

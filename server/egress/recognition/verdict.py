"""Define the outcome of the recognition of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from retrieval.ncbi.calls.parameter_classes import ParamClass
from retrieval.types import NcbiCall

# What was not recognized, or which bound was reached; the label of the metric.
Reason = Literal[
    "endpoint", "database", "parameter", "characters", "identifier", "word", "form", "combination", "choice",
    "sequence", "position", "request_id", "class", "answer_budget", "hour_budget", "day_budget",
]  # fmt: skip
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)


@dataclass(frozen=True, slots=True)
class Allowed:
    """Hold a recognized call as it may leave.

    ``call`` is rebuilt: parameters in the table's order, names in their stored spelling. ``characters`` is what its
    variable values cost of a budget.
    """

    call: NcbiCall
    classes: tuple[ParamClass, ...]
    characters: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Name the parameter that keeps a call here; no text contains any part of the call's values.

    ``param`` is a name of the call table or "call".
    """

    param: str
    reason: Reason
    what: str
    remedy: str

    @property
    def text(self) -> str:
        return f"{self.what}; {self.remedy}"


class NotRecognized(Exception):  # an outcome inside this package, no error of the server
    """Carry the refusal out of the checks of a value; never leaves this package."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.reason)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Recognized:
    """Hold a recognized value as it may leave."""

    text: str
    classes: frozenset[ParamClass] = frozenset()


# Returns whether this server received the request id from NCBI for the call's key.
IsReceived = Callable[[str], bool]


def refuse(param: str, reason: Reason, what: str, remedy: str) -> NotRecognized:
    return NotRecognized(Refused(param, reason, what, remedy))

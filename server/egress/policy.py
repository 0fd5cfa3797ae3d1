"""Decide what may leave the machine, by mode of server, key and request and by class of value; summarize what left.

Pure; sends nothing. A lower mode always wins: a key can be below its server, a request below its key, never above.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from retrieval.ncbi.calls.parameter_classes import CLASSES, ParamClass
from server.egress.budget import BudgetLimits
from server.errors import EgressRaised
from server.settings.egress import EgressSettings
from server.types import EGRESS_MODES, EgressMode, EgressProfile

# What can describe a patient (free text, coordinates, sequences) stays; names of public vocabularies may leave.
PROFILES: Final[Mapping[EgressProfile, frozenset[ParamClass]]] = {
    "hospital": frozenset({"id", "symbol", "term"}),
    "open": frozenset(CLASSES),
}
NOTHING_LEFT: Final = "no data left this machine"


def _as_the_server(_: str) -> EgressMode | None:
    return None


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Hold the modes and the classes of values that may leave.

    ``profile`` is a profile's name, or "listed" where the operator named the classes one by one. ``mode_of_key``
    returns the mode to which a key's own scopes lower the server's, None for no limit; ``key_modes`` are those of the
    settings. ``budget`` applies where the policy is strict.
    """

    mode: EgressMode
    profile: str
    allow: frozenset[ParamClass]
    key_modes: Mapping[str, EgressMode]
    budget: BudgetLimits
    mode_of_key: Callable[[str], EgressMode | None] = _as_the_server

    @classmethod
    def of(cls, settings: EgressSettings) -> EgressPolicy:
        budget = BudgetLimits(
            per_answer=settings.max_chars_per_answer,
            per_hour=settings.max_chars_per_hour,
            per_day=settings.max_chars_per_day,
        )
        if settings.allow is not None:
            return cls(settings.mode, "listed", frozenset(settings.allow), settings.key_modes, budget)
        # An operator who sets the mode to ncbi has permitted calls; local-first is for limiting what may leave.
        profile = settings.profile or ("open" if settings.mode == "ncbi" else "hospital")
        return cls(settings.mode, profile, PROFILES[profile], settings.key_modes, budget)

    def ceiling(self, key_id: str) -> EgressMode:
        """Return the highest mode of a key's requests; ``key_id`` is "" on a server without keys."""
        modes = (self.mode, self.key_modes.get(key_id), self.mode_of_key(key_id))
        return min((mode for mode in modes if mode), key=EGRESS_MODES.index)

    def effective(self, key_id: str, requested: EgressMode | None) -> EgressMode:
        """Return the mode of one request.

        Raises:
            EgressRaised: the request asks for a mode above its key's.
        """
        ceiling = self.ceiling(key_id)
        if requested is None or EGRESS_MODES.index(requested) <= EGRESS_MODES.index(ceiling):
            return requested or ceiling
        raise EgressRaised(
            f"arrowhead.egress: {requested} is above {ceiling}, the mode of this key; a request can only lower it",
            param="arrowhead.egress",
        )

    def blocked(self, classes: Collection[ParamClass]) -> tuple[ParamClass, ...]:
        """Return those of the classes that may not leave."""
        return tuple(name for name in CLASSES if name in classes and name not in self.allow)

    @property
    def is_strict(self) -> bool:
        """Return whether only recognized calls leave: always, unless free text may."""
        return "free_text" not in self.allow

    @property
    def allowed(self) -> tuple[ParamClass, ...]:
        return tuple(name for name in CLASSES if name in self.allow)


class Departures:
    """Record what left, by host, and what was withheld in spite of a miss."""

    def __init__(self) -> None:
        self._hosts: dict[str, set[str]] = {}
        self._withheld: set[str] = set()

    def add(self, host: str, classes: Iterable[str]) -> None:
        self._hosts.setdefault(host, set()).update(classes)

    def withhold(self, classes: Iterable[str]) -> None:
        self._withheld.update(classes)

    @property
    def text(self) -> str:
        """Return a readable summary."""
        transfers = [f"{_joined(classes)} to {host}" for host, classes in sorted(self._hosts.items())]
        summary = f"left this machine: {'; '.join(transfers)}" if transfers else NOTHING_LEFT
        return f"{summary}; withheld: {_joined(self._withheld)}" if self._withheld else summary


def _joined(classes: Collection[str]) -> str:
    return ", ".join(name for name in CLASSES if name in classes) or "a call without values"


@dataclass(frozen=True, slots=True)
class EgressContext:
    """Identify the request behind a call, with the egress mode in force.

    ``key_id`` is "" on a server without keys.
    """

    request_id: str
    key_id: str
    mode: EgressMode

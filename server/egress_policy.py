"""What may leave the machine, for whom: the mode of server, key and request, the classes of values, and how it is said
afterwards. Pure; sends nothing.

A lower mode always wins: a key can be below its server, a request below its key, never above.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from retrieval.ncbi.parameter_classes import CLASSES, ParamClass
from server.egress_settings import EGRESS_MODES, EgressMode, EgressProfile, EgressSettings
from server.errors import EgressRaised

# What a hospital's text is made of (free text, places, sequences) stays; names that the whole field shares may go.
PROFILES: Final[Mapping[EgressProfile, frozenset[ParamClass]]] = {
    "hospital": frozenset({"id", "symbol", "term"}),
    "open": frozenset(CLASSES),
}
NOTHING_LEFT: Final = "no data left this machine"


def _as_the_server(_: str) -> EgressMode | None:
    return None


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """``profile`` is a profile's name, or "listed" where the operator named the classes one by one. ``mode_of_key``:
    what a key's own scopes lower the mode to, None for nothing; beside ``key_modes``, those of the settings.
    """

    mode: EgressMode
    profile: str
    allow: frozenset[ParamClass]
    key_modes: Mapping[str, EgressMode]
    mode_of_key: Callable[[str], EgressMode | None] = _as_the_server

    @classmethod
    def of(cls, settings: EgressSettings) -> EgressPolicy:
        if settings.allow is not None:
            return cls(settings.mode, "listed", frozenset(settings.allow), settings.key_modes)
        # Who sets the mode to ncbi has said that calls may go; local-first is for who wants to say what may.
        profile = settings.profile or ("open" if settings.mode == "ncbi" else "hospital")
        return cls(settings.mode, profile, PROFILES[profile], settings.key_modes)

    def ceiling(self, key_id: str) -> EgressMode:
        """The highest mode of a key's requests; ``key_id`` "" on a server without keys."""
        modes = (self.mode, self.key_modes.get(key_id), self.mode_of_key(key_id))
        return min((mode for mode in modes if mode), key=EGRESS_MODES.index)

    def effective(self, key_id: str, asked: EgressMode | None) -> EgressMode:
        """The mode of one request. Raises EgressRaised where it asks for more than its key has."""
        ceiling = self.ceiling(key_id)
        if asked is None or EGRESS_MODES.index(asked) <= EGRESS_MODES.index(ceiling):
            return asked or ceiling
        raise EgressRaised(
            f"arrowhead.egress: {asked} is above {ceiling}, the mode of this key; a request can only lower it",
            param="arrowhead.egress",
        )

    def kept(self, classes: Collection[ParamClass]) -> tuple[ParamClass, ...]:
        """Those of the classes that may not leave."""
        return tuple(name for name in CLASSES if name in classes and name not in self.allow)

    @property
    def allowed(self) -> tuple[ParamClass, ...]:
        return tuple(name for name in CLASSES if name in self.allow)


class Departures:
    """What left, by host, and what was kept here in spite of a miss."""

    def __init__(self) -> None:
        self._hosts: dict[str, set[str]] = {}
        self._withheld: set[str] = set()

    def add(self, host: str, classes: Iterable[str]) -> None:
        self._hosts.setdefault(host, set()).update(classes)

    def keep(self, classes: Iterable[str]) -> None:
        self._withheld.update(classes)

    @property
    def text(self) -> str:
        """For a reader."""
        gone = [f"{_named(classes)} to {host}" for host, classes in sorted(self._hosts.items())]
        said = f"left this machine: {'; '.join(gone)}" if gone else NOTHING_LEFT
        return f"{said}; withheld: {_named(self._withheld)}" if self._withheld else said


def _named(classes: Collection[str]) -> str:
    return ", ".join(name for name in CLASSES if name in classes) or "a call without values"

"""Define the scopes of a key and the permissions of a request.

Pure; knows neither where keys are stored nor HTTP.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from models.errors import ArrowheadError
from server.errors import NotGranted
from server.types import EgressMode, id_of_digest

MAX_RATE: Final = 1_000_000_000
_MAX_LISTED: Final = 200
_METHOD: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)
_NAMESPACE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)


class ScopeInvalid(ArrowheadError, ValueError):
    """Signal an invalid scope, which the message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scopes:
    """Limit what a key may do.

    ``methods`` are allowed by name, ``direct`` for the bare model; None for all. ``egress`` lowers the server's mode.
    ``namespaces`` that are listed may be read whatever their owner; None: all that belong to no other key. A key always
    reads its own. ``may_change`` applies to the namespaces that it reads, and to new ones.

    Raises:
        ScopeInvalid: a rate is out of range, or a list of names is empty, too long or malformed.
    """

    methods: tuple[str, ...] | None = None
    egress: EgressMode | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    namespaces: tuple[str, ...] | None = None
    may_change: bool = True

    def __post_init__(self) -> None:
        for what, rate in (("requests", self.requests_per_minute), ("tokens", self.tokens_per_minute)):
            if rate is not None and not 1 <= rate <= MAX_RATE:
                raise ScopeInvalid(f"{what} per minute: a number from 1 to {MAX_RATE}")
        if self.methods == ():
            raise ScopeInvalid("methods: name at least one, or leave them out for all")
        for what, names, form in (("method", self.methods, _METHOD), ("namespace", self.namespaces, _NAMESPACE)):
            if names is not None and len(names) > _MAX_LISTED:
                raise ScopeInvalid(f"{what}s: at most {_MAX_LISTED} can be listed")
            for name in names or ():
                if form.fullmatch(name) is None:
                    raise ScopeInvalid(f"{name[:70]!r} is no name of a {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Hold the permissions of one request.

    ``owner`` is the digest of its key, "" on a server without keys. An operator (a key of the settings, or no key on a
    server without keys) has all permissions.
    """

    owner: str = ""
    scopes: Scopes = field(default_factory=Scopes)
    is_operator: bool = False

    @property
    def key_id(self) -> str:
        return id_of_digest(self.owner) if self.owner else ""

    def may_use(self, method: str) -> bool:
        return self.is_operator or self.scopes.methods is None or method in self.scopes.methods

    def may_read(self, namespace: str, belongs_to: str) -> bool:
        """Return whether the namespace may be read.

        ``belongs_to`` is the owner of the key that made the namespace, "" for an operator's.
        """
        if self.is_operator or (belongs_to and belongs_to == self.owner):
            return True
        if self.scopes.namespaces is None:
            return not belongs_to
        return namespace in self.scopes.namespaces

    @property
    def may_change(self) -> bool:
        return self.is_operator or self.scopes.may_change


OPERATOR: Final = Principal(is_operator=True)


def require_change(principal: Principal) -> None:
    """Check that a key may change namespaces.

    Raises:
        NotGranted: it may only read them.
    """
    if not principal.may_change:
        raise NotGranted("this key reads namespaces and does not change them")

"""Define the scopes of a key and the permissions of a request.

Pure; knows neither where keys are stored nor HTTP.
"""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass, field
from typing import Final

from models.errors import ArrowheadError
from retrieval.corpus.errors import NamespaceUnknown
from retrieval.corpus.ingest.sample import NOTES
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.store.base import checked_name
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
OWNER: Final = "owner"
# Owner of a namespace that cannot be read; no key has this digest.
_UNKNOWN: Final = "?"
_MAX_CACHED: Final = 10_000


class NamespaceAccess:
    """Check the access of keys to namespaces.

    Thread-safe. Methods block on short disk reads.
    """

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._lock = threading.Lock()
        self._owners: dict[tuple[str, int, int], str] = {}

    def names(self, principal: Principal) -> list[str]:
        """Return the readable namespaces in alphabetical order."""
        return [name for name in self._namespaces.names() if self._may_read(principal, name)]

    def readable(self, principal: Principal) -> frozenset[str] | None:
        """Return the readable namespaces, None for all, including future ones.

        If there is no namespace at all, the package's own notes are read; they have no owner, unlike a namespace of the
        same name.
        """
        if principal.is_operator:
            return None
        names = self._namespaces.names()
        if not names:
            return frozenset([NOTES] if principal.may_read(NOTES, "") else [])
        return frozenset(name for name in names if self._may_read(principal, name))

    def require(self, principal: Principal, name: str, *, change: bool = False) -> None:
        """Check that a key may read a namespace, or also change it with ``change``.

        Raises:
            NamespaceInvalid: the name is invalid.
            NamespaceUnknown: the key may not read it.
            NotGranted: a change by a key that may only read.
        """
        checked_name(name)
        if not principal.is_operator and not self._may_read(principal, name):
            raise NamespaceUnknown(f"there is no namespace {name}", param="name")
        if change:
            require_change(principal)

    def _may_read(self, principal: Principal, name: str) -> bool:
        return principal.is_operator or principal.may_read(name, self._owner(name))

    def _owner(self, name: str) -> str:
        try:
            status = os.stat(self._namespaces.root / name)  # noqa: PTH116 (once for each namespace and request)
        except OSError:
            return _UNKNOWN
        state = (name, status.st_ino, status.st_ctime_ns)
        with self._lock:
            known = self._owners.get(state)
        return self._read(state) if known is None else known

    def _read(self, state: tuple[str, int, int]) -> str:
        try:
            with self._namespaces.using(state[0]) as namespace:
                owner = namespace.store.meta(OWNER)
        except ArrowheadError:
            return _UNKNOWN
        with self._lock:
            if len(self._owners) >= _MAX_CACHED:
                self._owners.clear()
            self._owners[state] = owner
        return owner


def require_change(principal: Principal) -> None:
    """Check that a key may change namespaces.

    Raises:
        NotGranted: it may only read them.
    """
    if not principal.may_change:
        raise NotGranted("this key reads namespaces and does not change them")


def owner_metadata(principal: Principal) -> dict[str, str]:
    """Return the metadata that records a key as owner in the store of a namespace."""
    return {} if principal.is_operator else {OWNER: principal.owner}

"""Check the access of keys to namespaces, whose owners stand in their stores.

Apart from ``scopes``, which a command about keys needs without the libraries of the stores.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Final

from models.errors import ArrowheadError
from retrieval.corpus.ingest.sample import NOTES
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.store.base import checked_name
from retrieval.errors import NamespaceUnknown
from server.auth.authentication import Principal, require_change

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
        self._owners: dict[tuple[str, Hashable], str] = {}

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
            RequestError: a change by a key that may only read.
        """
        checked_name(name)
        if not principal.is_operator and not self._may_read(principal, name):
            raise NamespaceUnknown(f"there is no namespace {name}", param="name")
        if change:
            require_change(principal)

    def _may_read(self, principal: Principal, name: str) -> bool:
        return principal.is_operator or principal.may_read(name, self._owner(name))

    def _owner(self, name: str) -> str:
        identity = self._namespaces.stores.identity(name)
        if identity is None:
            return _UNKNOWN
        state = (name, identity)
        with self._lock:
            known = self._owners.get(state)
        return self._read(state) if known is None else known

    def _read(self, state: tuple[str, Hashable]) -> str:
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


def owner_metadata(principal: Principal) -> dict[str, str]:
    """Return the metadata that records a key as owner in the store of a namespace."""
    return {} if principal.is_operator else {OWNER: principal.owner}

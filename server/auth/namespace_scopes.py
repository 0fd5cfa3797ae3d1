"""Check the access of keys to namespaces, whose owners stand in their stores.

Apart from ``scopes``, which a command about keys needs without the libraries of the stores.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Final

from models.errors import ArrowheadError
from retrieval.corpus.namespaces.registry import Namespaces, Sample
from retrieval.corpus.store.base import checked_name, is_name
from retrieval.errors import NamespaceUnknown
from server.auth.authentication import Principal, require_change

OWNER: Final = "owner"
# Of the names of vector stores, which are their key's alone.
STORE_PREFIX: Final = "vs_"
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
        """Return the readable namespaces with the package's notes, None for all, including future ones.

        Vector stores of other keys are not searched by an operator either.
        """
        names = self.names(principal)
        own = [name for name in names if not principal.is_operator or not self._is_private(principal, name)]
        if principal.is_operator and len(own) == len(names):
            return None
        sample = self._namespaces.sample
        notes = [] if sample is None else [sample.name]
        return frozenset((*own, *(name for name in notes if self.has_sample(principal, name))))

    def _is_private(self, principal: Principal, name: str) -> bool:
        return name.startswith(STORE_PREFIX) and self.owner(name) not in ("", principal.owner)

    def has_sample(self, principal: Principal, name: str) -> bool:
        """Return whether a name means the package's notes, and the key may read them and did not remove them."""
        sample = self._namespaces.sample
        if sample is None or not is_name(name) or not self._namespaces.is_sample(name):
            return False
        return principal.may_read(name, "") and not sample.is_hidden(principal.owner)

    def set_sample(self, principal: Principal, there: bool) -> Sample:
        """Remove the package's notes, or bring them back, and return them.

        A key that administers does so for everybody, another for itself.

        Raises:
            NamespaceUnknown: there are none, or they were removed for everybody.
            NamespaceDamaged: the folder cannot be written.
        """
        sample = self._namespaces.sample
        if sample is None:
            raise NamespaceUnknown("this server has no sample", param="name")
        if principal.may_administer:
            sample.set_there(there)
        elif sample.is_there:
            sample.set_there(there, principal.owner)
        else:
            raise NamespaceUnknown("the sample was removed for everybody, by a key that administers", param="name")
        return sample

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
        return principal.is_operator or self.has_sample(principal, name) or principal.may_read(name, self.owner(name))

    def owner(self, name: str) -> str:
        """Return the digest of the key that made a namespace, "" for an operator's, "?" where it cannot be read."""
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

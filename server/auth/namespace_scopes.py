"""Check the access of keys to namespaces, whose owners stand in their stores.

Apart from ``scopes``, which a command about keys needs without the libraries of the stores.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Final, NamedTuple

from models.errors import ArrowheadError
from retrieval.corpus.namespaces.registry import Namespaces, Sample
from retrieval.corpus.store.base import checked_name
from retrieval.errors import NamespaceUnknown
from retrieval.passages import is_namespace_name
from server.auth.authentication import OPERATOR, Principal, require_change

# What the store of a namespace notes: the digest of the key that made it, and whether it is that key's alone.
_OWNER: Final = "owner"
_PRIVATE: Final = "private"
_MAX_CACHED: Final = 10_000


class _Holder(NamedTuple):
    """Name the key that made a namespace, and say whether it is that key's alone; operators read all others."""

    owner: str
    is_private: bool = False


# Of a namespace that cannot be read; no key has this digest.
_UNKNOWN: Final = _Holder("?")


class NamespaceAccess:
    """Check the access of keys to namespaces.

    Thread-safe. Methods block on short disk reads.
    """

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._lock = threading.Lock()
        self._holders: dict[tuple[str, Hashable], _Holder] = {}

    def names(self, principal: Principal) -> list[str]:
        """Return the readable namespaces in alphabetical order."""
        return [name for name in self._namespaces.names() if self._may_read(principal, name)]

    def readable(self, principal: Principal) -> frozenset[str] | None:
        """Return the readable namespaces with the package's notes, None for all, including future ones."""
        names = self.names(principal)
        if principal.is_operator and len(names) == len(self._namespaces.names()):
            return None
        sample = self._namespaces.sample
        notes = [] if sample is None else [sample.name]
        return frozenset((*names, *(name for name in notes if self.has_sample(principal, name))))

    def has_sample(self, principal: Principal, name: str) -> bool:
        """Return whether a name means the package's notes, and the key may read them and did not remove them."""
        sample = self._namespaces.sample
        if sample is None or not is_namespace_name(name) or not self._namespaces.is_sample(name):
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
        if not self._may_read(principal, name):
            raise NamespaceUnknown(f"there is no namespace {name}", param="name")
        if change:
            require_change(principal)

    def _may_read(self, principal: Principal, name: str) -> bool:
        """Apply the one rule of who reads what, in searches, passages, lists and exports; without keys, everything."""
        if self.has_sample(principal, name) or principal == OPERATOR:
            return True
        holder = self._holder(name)
        if holder.is_private and principal.is_operator:
            return holder.owner == principal.owner
        return principal.may_read(name, holder.owner)

    def owner(self, name: str) -> str:
        """Return the digest of the key that made a namespace, "" for an operator's, "?" where it cannot be read."""
        return self._holder(name).owner

    def _holder(self, name: str) -> _Holder:
        identity = self._namespaces.stores.identity(name)
        if identity is None:
            return _UNKNOWN
        state = (name, identity)
        with self._lock:
            known = self._holders.get(state)
        return self._read(state) if known is None else known

    def _read(self, state: tuple[str, Hashable]) -> _Holder:
        try:
            with self._namespaces.using(state[0]) as namespace:
                holder = _Holder(namespace.store.meta(_OWNER), bool(namespace.store.meta(_PRIVATE)))
        except ArrowheadError:
            return _UNKNOWN
        with self._lock:
            if len(self._holders) >= _MAX_CACHED:
                self._holders.clear()
            self._holders[state] = holder
        return holder


def owner_metadata(principal: Principal) -> dict[str, str]:
    """Return the metadata that records a key as owner in the store of a namespace."""
    return {} if principal.is_operator else {_OWNER: principal.owner}


def private_metadata(principal: Principal) -> dict[str, str]:
    """Return the metadata that makes a namespace its key's alone, also before operators; {} without keys."""
    return {_OWNER: principal.owner, _PRIVATE: "yes"} if principal.owner else {}

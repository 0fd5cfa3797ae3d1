"""Which namespaces a key reads. One that it may not read is, in every answer, as if it were not there.

Whose a namespace is stands in its own store from the moment it is made, so that the owner goes when it goes, and a
namespace of the same name made later by somebody else is not mistaken for it.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from models.errors import ArrowheadError
from retrieval.corpus.errors import NamespaceUnknown
from retrieval.corpus.namespace_settings import checked_name
from retrieval.corpus.namespaces import Namespaces
from retrieval.corpus.notes import NOTES
from server.errors import NotGranted
from server.grants import Grant

OWNER: Final = "owner"
# Of one that cannot be read: it belongs to nobody that a key could be.
_UNKNOWN: Final = "?"
_MAX_CACHED: Final = 10_000


class NamespaceAccess:
    """Safe from many threads. Blocks on the disk for a moment."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._lock = threading.Lock()
        self._owners: dict[tuple[str, int, int], str] = {}

    def names(self, grant: Grant) -> list[str]:
        """Those that it reads, in alphabetical order."""
        return [name for name in self._namespaces.names() if self._may_read(grant, name)]

    def readable(self, grant: Grant) -> frozenset[str] | None:
        """None for all, whatever comes to them. Where there is no namespace at all, the package's own notes are what is
        read; they belong to nobody, unlike a namespace of the same name."""
        if grant.is_operator:
            return None
        names = self._namespaces.names()
        if not names:
            return frozenset([NOTES] if grant.may_read(NOTES, "") else [])
        return frozenset(name for name in names if self._may_read(grant, name))

    def require(self, grant: Grant, name: str, *, change: bool = False) -> None:
        """Raises NamespaceInvalid, NamespaceUnknown, or NotGranted for a change by a key that only reads."""
        checked_name(name)
        if not grant.is_operator and not self._may_read(grant, name):
            raise NamespaceUnknown(f"there is no namespace {name}", param="name")
        if change:
            require_change(grant)

    def _may_read(self, grant: Grant, name: str) -> bool:
        return grant.is_operator or grant.may_read(name, self._owner(name))

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


def require_change(grant: Grant) -> None:
    """Raises NotGranted."""
    if not grant.may_change:
        raise NotGranted("this key reads namespaces and does not change them")


def notes_of(grant: Grant) -> dict[str, str]:
    """What the store of a namespace remembers of who made it."""
    return {} if grant.is_operator else {OWNER: grant.owner}

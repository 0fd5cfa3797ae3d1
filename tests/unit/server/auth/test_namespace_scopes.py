"""Which namespaces a key reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from server.auth.authentication import OPERATOR, Principal
from server.auth.keys import Scopes
from server.auth.namespace_scopes import NamespaceAccess, owner_metadata
from server.settings.retrieval import RetrievalSettings
from server.wiring.retrieval import build_retrieval

ANNA, BEN = Principal(owner="a" * 64), Principal(owner="b" * 64)
LIMITED = Principal(owner="c" * 64, scopes=Scopes(namespaces=("trials",)))


@pytest.fixture
def namespaces(tmp_path: Path) -> Iterator[Namespaces]:
    built = build_retrieval(RetrievalSettings(encoder="hashing"), tmp_path / "namespaces")
    yield built.namespaces
    built.namespaces.close()


def test_the_packages_notes_are_for_every_key_that_is_not_limited(namespaces: Namespaces) -> None:
    """On a server without namespaces they are what there is."""
    access = NamespaceAccess(namespaces)

    assert access.readable(OPERATOR) is None
    assert access.readable(ANNA) == frozenset({"notes"})
    assert access.readable(LIMITED) == frozenset()


def test_a_namespace_called_notes_is_its_owners(namespaces: Namespaces) -> None:
    """Its name makes it nobody else's."""
    namespaces.create("notes", NamespaceSettings(encoder="hashing"), notes=owner_metadata(ANNA))
    access = NamespaceAccess(namespaces)

    assert access.readable(ANNA) == frozenset({"notes"})
    assert access.readable(BEN) == frozenset()

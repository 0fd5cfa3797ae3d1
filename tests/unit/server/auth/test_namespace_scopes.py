"""Which namespaces a key reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.errors import NamespaceUnknown
from server.auth.authentication import OPERATOR, Principal
from server.auth.keys import Scopes
from server.auth.namespace_scopes import NamespaceAccess, owner_metadata, private_metadata
from server.settings.retrieval import RetrievalSettings
from server.wiring.retrieval import build_retrieval

ANNA, BEN = Principal(owner="a" * 64), Principal(owner="b" * 64)
ADMINISTRATOR = Principal(owner="d" * 64, scopes=Scopes(may_administer=True))
LIMITED = Principal(owner="c" * 64, scopes=Scopes(namespaces=("trials",)))


@pytest.fixture
def namespaces(tmp_path: Path) -> Iterator[Namespaces]:
    built = build_retrieval(RetrievalSettings(encoders=("hashing",)), tmp_path / "namespaces")
    yield built.namespaces
    built.namespaces.close()


def test_the_packages_notes_are_for_every_key_that_is_not_limited(namespaces: Namespaces) -> None:
    """On a server without namespaces they are what there is."""
    access = NamespaceAccess(namespaces)

    assert access.readable(OPERATOR) is None
    assert access.readable(ANNA) == frozenset({"notes"})
    assert access.readable(LIMITED) == frozenset()


def test_a_key_removes_the_notes_for_itself_and_who_administers_for_everybody(namespaces: Namespaces) -> None:
    """A key brings back what it removed, not what was removed for everybody."""
    access = NamespaceAccess(namespaces)
    access.set_sample(ANNA, False)
    assert access.readable(ANNA) == frozenset() and not access.has_sample(ANNA, "notes")
    with pytest.raises(NamespaceUnknown):
        access.require(ANNA, "notes")
    assert access.readable(BEN) == frozenset({"notes"}) and access.has_sample(OPERATOR, "notes")
    access.set_sample(ANNA, True)
    assert access.readable(ANNA) == frozenset({"notes"})

    access.set_sample(BEN, False)
    access.set_sample(ADMINISTRATOR, False)
    assert access.readable(ANNA) == access.readable(ADMINISTRATOR) == frozenset()
    with pytest.raises(NamespaceUnknown, match="for everybody"):
        access.set_sample(ANNA, True)
    access.set_sample(ADMINISTRATOR, True)
    assert access.readable(ANNA) == access.readable(BEN) == frozenset({"notes"})


def test_a_namespace_called_notes_is_its_owners(namespaces: Namespaces) -> None:
    """Its name makes it nobody else's."""
    namespaces.create("notes", NamespaceSettings(encoder="hashing"), notes=owner_metadata(ANNA))
    access = NamespaceAccess(namespaces)

    assert access.readable(ANNA) == frozenset({"notes"})
    assert access.readable(BEN) == frozenset()


def test_an_operator_reads_nothing_that_is_another_keys_alone(namespaces: Namespaces) -> None:
    """The mark decides, not the name; its own, and what keys made without the mark, are read as before."""
    access, chief = NamespaceAccess(namespaces), Principal(owner="d" * 64, is_operator=True)
    made = {"annas": private_metadata(ANNA), "chiefs": private_metadata(chief), "vs_trials": owner_metadata(ANNA)}
    for name, notes in made.items():
        namespaces.create(name, NamespaceSettings(encoder="hashing"), notes=notes)

    assert access.readable(chief) == frozenset({"chiefs", "vs_trials", "notes"})
    assert access.names(chief) == ["chiefs", "vs_trials"]
    assert access.names(ANNA) == ["annas", "vs_trials"]
    with pytest.raises(NamespaceUnknown):
        access.require(chief, "annas")
    named = Principal(owner="e" * 64, scopes=Scopes(namespaces=("annas",)))
    assert access.names(named) == ["annas"]


def test_where_no_key_is_asked_for_nothing_is_one_keys_alone(namespaces: Namespaces) -> None:
    namespaces.create("open", NamespaceSettings(encoder="hashing"), notes=private_metadata(OPERATOR))
    namespaces.create("annas", NamespaceSettings(encoder="hashing"), notes=private_metadata(ANNA))

    assert NamespaceAccess(namespaces).readable(OPERATOR) is None

"""Look-ups of namespaces: on which thread, and from when the names are."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from slow_database import SlowDatabase

from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.errors import NamespaceUnknown
from server.evidence.passages import PassageService, Retrieval
from server.methods.base import NAMESPACE_METHODS
from server.methods.shared.passages import PassageQuery
from server.settings.retrieval import RetrievalSettings
from server.wiring.retrieval import build_retrieval

SETTINGS = RetrievalSettings(encoders=("hashing",))
TRIALS, BOTH = frozenset({"trials"}), frozenset({"trials", "notes-of-anna"})


@pytest.fixture
def database() -> SlowDatabase:
    return SlowDatabase("trials")


@pytest_asyncio.fixture
async def shared(tmp_path: Path, database: SlowDatabase) -> AsyncIterator[Retrieval]:
    made = build_retrieval(SETTINGS, tmp_path, database=database)
    yield made
    await made.close()


async def test_a_check_of_shared_namespaces_needs_no_database(shared: Retrieval, database: SlowDatabase) -> None:
    """It goes by the names that there were when the request began."""
    service = PassageService(shared, SETTINGS)

    assert service.check(PassageQuery(), BOTH) == ("notes-of-anna", "trials")
    with pytest.raises(NamespaceUnknown, match="there are: trials"):
        service.check(PassageQuery(namespaces=("notes-of-anna",)), TRIALS)
    assert not database.asked.is_set()


async def test_a_search_asks_the_database_on_a_thread_of_look_ups(shared: Retrieval, database: SlowDatabase) -> None:
    """Tasks of the event loop go on meanwhile; a namespace that was deleted since the request began is left out."""
    service = PassageService(shared, SETTINGS)
    checking = asyncio.create_task(service.check_now(PassageQuery(), BOTH))
    assert await asyncio.to_thread(database.asked.wait, 5)
    assert not checking.done()
    database.go.set()

    assert await checking == ("trials",)
    assert [name.rpartition("_")[0] for name in database.threads] == ["look-up"]


async def test_namespaces_in_files_are_looked_up_at_once(tmp_path: Path) -> None:
    """Without a thread: a look-up is a few system calls."""
    retrieval = build_retrieval(SETTINGS, tmp_path)
    retrieval.namespaces.create("drugs", NamespaceSettings(encoder="hashing"))

    assert await retrieval.look_up(threading.get_ident) == threading.get_ident()
    assert await PassageService(retrieval, SETTINGS).check_now(PassageQuery(), frozenset({"drugs"})) == ("drugs",)
    await retrieval.close()


def test_the_methods_that_search_namespaces_are_known() -> None:
    """Each that asks for passages or the library; others get no namespaces of a shared database."""
    methods = Path(__file__).parents[4] / "server" / "methods"
    searching = {
        folder.name.replace("_", "-")
        for folder in methods.iterdir()
        if folder.is_dir() and folder.name != "shared"
        for module in folder.rglob("*.py")
        if "PassageSource" in module.read_text() or "LibrarySource" in module.read_text()
    }

    assert searching == NAMESPACE_METHODS

"""Two servers over one database use one namespace, and both change it."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from corpus_files import reading
from pydantic import SecretStr, ValidationError
from waiting import wait_until

from retrieval.corpus.ingest.add import add_items, remove
from retrieval.corpus.items import ParsedDocument
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.namespaces.verify import verify
from retrieval.corpus.search.ranking import RankedPassage
from retrieval.corpus.search.searcher import SearchOptions
from retrieval.corpus.store.base import PassageFilter
from retrieval.errors import DatabaseUnavailable, NamespaceUnknown
from server.error_mapping import error_reply
from server.evidence.passages import PassageService, Retrieval
from server.methods.shared.passages import PassageQuery
from server.settings.retrieval import RetrievalSettings
from server.settings.schema import Settings
from server.settings.server import StateSettings
from server.state.database import Database, PassageDatabase
from server.wiring.retrieval import build_retrieval
from server.wiring.state import open_database, open_passage_database

if TYPE_CHECKING:
    from postgres_server import Postgres

Servers = tuple[Retrieval, Retrieval]
# Longer than the pause between two looks at the log of changes.
PAUSE_S = 1.1
CHILD = """
import os, sys
from pathlib import Path
from corpus_files import reading
from retrieval.corpus.ingest import add
from retrieval.corpus.ingest.add import add_items
from server.settings.retrieval import RetrievalSettings
from server.state.database import Database
from server.state.database import PassageDatabase
from server.wiring.retrieval import build_retrieval

database = PassageDatabase(Database(sys.argv[1]))
made = build_retrieval(RetrievalSettings(encoders=("hashing",)), Path(sys.argv[2]), database=database)
add._DOCUMENTS = 10

import retrieval.corpus.store.postgres_writer as writers
put = writers.PostgresPassageWriter.put
def dying(self, document, cuts=None):
    found = put(self, document, cuts)
    if document.document.document_id == "PMID:37":
        os.kill(os.getpid(), 9)
    return found
writers.PostgresPassageWriter.put = dying
add_items(made.namespaces, "ns", (reading(f"PMID:{n}", f"Passage {n} of a process that dies.") for n in range(100)))
"""


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.new_database()


@pytest.fixture
def server(url: str, tmp_path: Path) -> Iterator[Callable[[str], Retrieval]]:
    """Make a server with a data folder of its own."""
    made: list[Retrieval] = []

    def build(name: str) -> Retrieval:
        database = PassageDatabase(Database(url, timeout_s=2.0), connections=4)
        settings = RetrievalSettings(encoders=("hashing",))
        made.append(build_retrieval(settings, tmp_path / name, database=database))
        return made[-1]

    yield build
    for retrieval in made:
        asyncio.run(retrieval.close())


@pytest.fixture
def servers(server: Callable[[str], Retrieval]) -> Servers:
    one, other = server("one"), server("other")
    one.namespaces.create("ns", NamespaceSettings(encoder="hashing"))
    return one, other


def documents(word: str, numbers: range, passages: int = 1) -> list[ParsedDocument]:
    """Documents with a word of their own in each passage."""
    return [
        reading(f"{word}:{n}", *(f"Part {part} on {word}{n} tells of subject{n % 50}." for part in range(passages)))
        for n in numbers
    ]


def found(retrieval: Retrieval, query: str, retriever: str = "bm25", where: PassageFilter | None = None) -> list[str]:
    options = SearchOptions(retriever=retriever, k=10, where=where or PassageFilter())
    return [one.passage.document_id for one in search(retrieval, query, options)]


def search(retrieval: Retrieval, query: str, options: SearchOptions) -> list[RankedPassage]:
    return retrieval.searcher.search(query, ["ns"], options)


def is_current(retrieval: Retrieval) -> bool:
    """Whether a server's own indices have all passages; a search makes it look for what is new."""
    found(retrieval, "anything")
    return set(verify(retrieval.namespaces, "ns").pending.values()) == {0}


def test_settings_choose_the_database(url: str) -> None:
    """Files of this server are the default, also where state is shared; the database needs its address."""
    with pytest.raises(ValidationError, match=r"set state\.url"):
        Settings(retrieval=RetrievalSettings(storage="postgresql"))
    state = StateSettings(url=SecretStr(url))
    files, shared = (
        Settings(state=state, retrieval=RetrievalSettings(storage=storage)) for storage in ("files", "postgresql")
    )
    database = open_database(shared)
    assert open_passage_database(files, database) is None
    passages = open_passage_database(shared, database)
    assert passages is not None
    with passages.connection() as connection:
        assert connection.rows("SELECT name FROM arrowhead_namespaces") == []
    passages.close()


def test_a_lost_database_is_a_reply_of_its_own() -> None:
    """503, which tells clients to come again, and names what is lost."""
    reply = error_reply(DatabaseUnavailable("the database of shared passages does not answer"))
    assert (reply.status, reply.code) == (503, "passages_unavailable")
    assert "shared passages" in reply.message


def test_both_add_while_both_search(servers: Servers) -> None:
    """Nothing is lost, and every index of both servers agrees with the rows."""
    stop, wrong = threading.Event(), list[str]()

    def add(retrieval: Retrieval, word: str) -> None:
        for first in range(0, 250, 50):
            report = add_items(retrieval.namespaces, "ns", documents(word, range(first, first + 50), passages=4))
            if report.added != 50:
                wrong.append(f"{word}: {report}")

    def look(retrieval: Retrieval) -> None:
        while not stop.is_set():
            for retriever in ("bm25", "dense", "hybrid", "pes2"):
                for one in search(retrieval, "subject7", SearchOptions(retriever=retriever, k=5)):
                    if one.passage.document_id.partition(":")[0] not in {"left", "right"}:
                        wrong.append(one.passage.document_id)
            time.sleep(0.2)

    readers = [threading.Thread(target=look, args=(retrieval,)) for retrieval in servers]
    writers = [threading.Thread(target=add, args=pair) for pair in zip(servers, ("left", "right"), strict=True)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert wrong == []
    for retrieval in servers:
        wait_until(lambda server=retrieval: is_current(server), "its own indices")  # type: ignore[misc]
        for query in ("left0", "left249", "right0", "right249", "right173"):
            assert found(retrieval, query)[:1] == [re.sub(r"(?=\d)", ":", query, count=1)]
        report = verify(retrieval.namespaces, "ns")
        assert (report.documents, report.passages, report.faults) == (500, 2000, ())
        assert set(report.rows.values()) == {2000} and set(report.pending.values()) == {0}


def test_removals_and_replacements_are_seen_by_the_other(servers: Servers) -> None:
    """In every index; also what is removed again before the other server looked."""
    one, other = servers
    add_items(one.namespaces, "ns", documents("old", range(20)))
    assert found(other, "old3")[:1] == ["old:3"]
    remove(other.namespaces, "ns", ["old:3"])
    add_items(other.namespaces, "ns", [reading("old:4", "Now it tells of zebras.", date=20200101, types=("review",))])
    add_items(other.namespaces, "ns", documents("brief", range(1)))
    remove(other.namespaces, "ns", ["brief:0"])
    time.sleep(PAUSE_S)
    for retriever in ("bm25", "dense", "pes2"):
        assert "old:3" not in found(one, "old3", retriever)
        assert found(one, "zebras", retriever, PassageFilter(types=("review",))) == ["old:4"]
        assert "brief:0" not in found(one, "brief0", retriever)
    for retrieval in servers:
        assert verify(retrieval.namespaces, "ns").faults == ()


def test_a_server_that_comes_later_derives_its_indices(
    servers: Servers, server: Callable[[str], Retrieval], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many changes in the background: dense search answers at once, words and keywords follow."""
    monkeypatch.setattr("retrieval.corpus.namespaces.follower._SOON", 10)
    add_items(servers[0].namespaces, "ns", documents("early", range(300)))
    late = server("late")
    assert found(late, "early7", "dense")
    # One index after the other: a search that looks for the changes may come while the second is being derived.
    wait_until(lambda: found(late, "early7")[:1] == ["early:7"], "words")
    wait_until(lambda: found(late, "early7", "pes2")[:1] == ["early:7"], "keywords")
    wait_until(lambda: is_current(late), "all passages")
    assert verify(late.namespaces, "ns").faults == ()


def test_another_namespace_of_the_same_name_has_nothing_of_the_first(servers: Servers) -> None:
    """Its indices on the other server are derived anew."""
    one, other = servers
    add_items(one.namespaces, "ns", documents("first", range(5)))
    assert found(other, "first2")[:1] == ["first:2"]
    one.namespaces.delete("ns")
    with pytest.raises(NamespaceUnknown):
        found(other, "first2")
    one.namespaces.create("ns", NamespaceSettings(encoder="hashing"))
    add_items(one.namespaces, "ns", documents("second", range(5)))
    time.sleep(PAUSE_S)
    assert not any(one.startswith("first") for one in found(other, "first2"))
    assert found(other, "second2")[:1] == ["second:2"]
    assert verify(other.namespaces, "ns").faults == ()


@pytest.mark.server
def test_an_addition_that_is_killed_leaves_whole_documents(servers: Servers, url: str, tmp_path: Path) -> None:
    """The batch in which the process died is not there, its lock is free, and the next addition completes the rest."""
    arguments = [sys.executable, "-c", CHILD, url, str(tmp_path / "dying")]
    environment = {"PYTHONPATH": ":".join([str(Path(__file__).parents[3] / "data"), str(Path(__file__).parents[4])])}
    done = subprocess.run(arguments, env=environment, capture_output=True, timeout=120, check=False)
    assert done.returncode == -9, done.stderr.decode()
    one, other = servers
    with one.namespaces.using("ns") as namespace:
        assert namespace.store.counts().documents == 30
    report = add_items(
        other.namespaces, "ns", (reading(f"PMID:{n}", f"Passage {n} of a process that dies.") for n in range(100))
    )
    assert (report.added, report.unchanged) == (70, 30)
    time.sleep(PAUSE_S)
    for retrieval in servers:
        retrieval.searcher.search("process", ["ns"], SearchOptions(retriever="bm25"))
        assert verify(retrieval.namespaces, "ns").faults == ()


async def test_a_method_searches_the_namespaces_that_there_are_now(servers: Servers) -> None:
    """Made by one server and read by the other; a name that was deleted since the request began is left out."""
    one, other = servers
    add_items(one.namespaces, "ns", documents("kept", range(3)))
    service = PassageService(other, RetrievalSettings(encoders=("hashing",)))
    gathered = await service.find(["kept1"], PassageQuery(k=3), frozenset({"ns", "deleted"}))

    assert gathered.namespaces == ("ns",)
    assert gathered.lists[0][0].document.document_id == "kept:1"


def test_a_lost_database_is_named_and_comes_back(servers: Servers, postgres: Postgres, url: str) -> None:
    """Searches and additions end with an error of their own, and go on when the database is back."""
    one, _ = servers
    add_items(one.namespaces, "ns", documents("kept", range(3)))
    with postgres.unreachable(url):
        with pytest.raises(DatabaseUnavailable, match="shared passages"):
            found(one, "kept1")
        with pytest.raises(DatabaseUnavailable):
            add_items(one.namespaces, "ns", documents("lost", range(3)))
    time.sleep(PAUSE_S)
    assert found(one, "kept1")[:1] == ["kept:1"]
    add_items(one.namespaces, "ns", documents("later", range(3)))
    time.sleep(PAUSE_S)
    assert found(one, "later1")[:1] == ["later:1"]

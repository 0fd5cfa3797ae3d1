"""``Records`` of ``retrieval/storage/records.py`` keep the same promises over an SQLite file and over PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from moved_clock import Clock
from waiting import in_threads

from models.errors import UnsupportedParam
from retrieval.errors import DatabaseUnavailable
from retrieval.storage.database import SharedDatabase
from retrieval.storage.records import Record, Records, Selection, SqliteDatabase
from server.state.database import Database, PassageDatabase

IMPLEMENTATIONS = ("sqlite", "postgres")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=IMPLEMENTATIONS)
def reopened(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Callable[[], Records]]:
    """``reopened()``: the records of one place, opened once more."""
    opened: list[SharedDatabase] = []
    url = "" if request.param == "sqlite" else request.getfixturevalue("postgres").new_database()
    if url:
        Database(url).migrate()

    def once_more() -> Records:
        opened.append(PassageDatabase(Database(url)) if url else SqliteDatabase(tmp_path / "below" / "records.sqlite"))
        return Records(opened[-1], clock)

    yield once_more
    for database in opened:
        database.close()


@pytest.fixture
def records(reopened: Callable[[], Records]) -> Records:
    return reopened()


def record(number: int, owner: str = "a", kind: str = "k", parent: str = "p", state: str = "new") -> Record:
    body = f"β {number}".encode() + b"\0\xff"
    return Record(kind=kind, id=f"r{number}", owner=owner, body=body, parent=parent, state=state, created=number)


def ids(found: list[Record]) -> list[str]:
    return [one.id for one in found]


def test_a_record_is_returned_as_it_was_stored(reopened: Callable[[], Records]) -> None:
    """Any bytes, and also to the next process."""
    made = replace(record(1), tag="t", ref="f", expires=2000.5, size=7)
    reopened().put(made)
    assert reopened().get("k", "r1") == made
    assert reopened().get("other", "r1") is None


def test_a_record_is_replaced_but_keeps_its_owner_and_its_place(records: Records) -> None:
    for number in range(3):
        records.put(record(number))
    records.put(replace(record(0, owner="b", parent="q"), state="old", body=b"x"))
    found = records.get("k", "r0")
    assert found is not None and (found.owner, found.parent, found.state, found.body) == ("a", "p", "old", b"x")
    assert ids(records.page(Selection(kind="k"))) == ["r0", "r1", "r2"]


def test_a_record_is_added_once(records: Records) -> None:
    assert records.add(record(1))
    assert not records.add(replace(record(1), body=b"other"))
    found = records.get("k", "r1")
    assert found is not None and found.body == record(1).body


def test_pages_go_both_ways(records: Records) -> None:
    for number in range(5):
        records.put(record(number))
    every = Selection(kind="k")
    assert ids(records.page(every, limit=2)) == ["r0", "r1"]
    assert ids(records.page(every, limit=2, after="r1")) == ["r2", "r3"]
    assert ids(records.page(every, limit=2, newest_first=True)) == ["r4", "r3"]
    assert ids(records.page(every, limit=9, newest_first=True, after="r1")) == ["r0"]
    with pytest.raises(UnsupportedParam, match="after: this list has no such id"):
        records.page(every, after="none")


def test_selections_meet_every_condition(records: Records) -> None:
    records.put(record(1))
    records.put(record(2, owner="b"))
    records.put(record(3, parent="q"))
    records.put(replace(record(4, state="old"), tag="t", ref="f"))
    assert ids(records.page(Selection(kind="k", owner="a", parent="p"))) == ["r1", "r4"]
    assert ids(records.page(Selection(kind="k", owner=""))) == []
    assert ids(records.page(Selection(kind="k", tag="t", ref="f", state="old"))) == ["r4"]
    assert records.counts(Selection(kind="k", parent="p")) == {"new": 2, "old": 1}
    assert records.total(Selection(kind="k", owner="b")) == (1, len(record(2).body))


def test_what_has_expired_is_not_there(records: Records, clock: Clock) -> None:
    records.put(replace(record(1), expires=1500.0))
    records.put(record(2))
    clock.now = 1500.0
    assert records.get("k", "r1") is None
    assert ids(records.page(Selection(kind="k"))) == ["r2"]
    assert records.total(Selection(kind="k"))[0] == 1
    assert ids(records.expired("k")) == ["r1"]
    assert (records.remove_expired(["other"]), records.remove_expired(["k", "other"])) == (0, 1)
    assert records.expired("k") == []


def test_records_go_with_their_parent(records: Records) -> None:
    records.put(record(1))
    records.put(record(2, kind="other"))
    records.put(record(3, parent="q"))
    records.set_expiry_below("p", 5000.0)
    assert [one.expires for one in records.page(Selection(kind="k"))] == [5000.0, None]
    records.delete_below("p")
    assert (ids(records.page(Selection(kind="k"))), records.get("other", "r2")) == (["r3"], None)
    assert (records.delete("k", "r3"), records.delete("k", "r3")) == (True, False)


def test_many_threads_store_at_once(records: Records) -> None:
    in_threads(records.put, map(record, range(20)))
    assert records.total(Selection(kind="k"))[0] == 20


def test_a_folder_that_cannot_be_written_or_a_damaged_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatabaseUnavailable, match=r"records.sqlite"):
        Records(SqliteDatabase(tmp_path / "file" / "records.sqlite")).put(record(1))
    database = SqliteDatabase(path := tmp_path / "records.sqlite")
    in_threads(lambda one: Records(database).put(replace(record(one), body=bytes(4000))), range(20))
    database.close()
    path.write_bytes(path.read_bytes()[:40_000] + bytes(40_000))
    with pytest.raises(DatabaseUnavailable, match=f"{path} .* malformed"):  # it is met after the first rows
        Records(SqliteDatabase(path)).page(Selection(kind="k", owner="a"))

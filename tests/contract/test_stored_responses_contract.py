"""``StoredResponses`` of ``server/state/responses.py`` keep the same promises over SQLite and over PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from moved_clock import Clock

from retrieval.storage.database import SharedDatabase
from retrieval.storage.records import Records, SqliteDatabase
from server.errors import RequestError
from server.settings.loading import SettingsInvalid
from server.state.database import Database, PassageDatabase
from server.state.responses import KEPT_S, StoredResponse, StoredResponses, read_seal

IMPLEMENTATIONS = ("sqlite", "postgres")
FIRST, SECOND = (Fernet.generate_key().decode() for _ in range(2))
SECRET = "My patient is called Ada β"


class Place:
    """One place of records, opened with any keys; ``rows`` are the bodies as the database has them."""

    def __init__(self, database: SharedDatabase, folder: Path, clock: Clock) -> None:
        self.database, self.folder, self.clock = database, folder, clock

    def opened(self, *keys: str, most: int = 100) -> StoredResponses:
        path = self.folder / "keys"
        path.write_text("\n".join(keys or (FIRST,)) + "\n")
        return StoredResponses(Records(self.database, self.clock), read_seal(path), self.clock, most)

    def rows(self, sql: str = "SELECT body FROM arrowhead_records") -> list[Any]:
        with self.database.connection() as connection:
            return [row[0] for row in connection.rows(sql)]

    def run(self, sql: str) -> None:
        with self.database.connection() as connection:
            connection.run(sql)


@pytest.fixture(params=IMPLEMENTATIONS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    database: SharedDatabase = SqliteDatabase(tmp_path / "records.sqlite")
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").new_database()
        Database(url).migrate()
        database = PassageDatabase(Database(url))
    yield Place(database, tmp_path, Clock())
    database.close()


def item(text: str, role: str = "user") -> dict[str, Any]:
    return {"id": f"msg_{text}", "type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def turn(number: int, previous: str = "", status: str = "completed") -> StoredResponse:
    response = {"id": f"resp_{number}", "status": status, "output": [item(f"answer {number}", "assistant")]}
    return StoredResponse(id=f"resp_{number}", response=response, input=[item(f"question {number}")], previous=previous)


def test_a_response_is_returned_to_its_key_alone(place: Place) -> None:
    stored = place.opened()
    stored.save("a", turn(1))
    assert stored.get("a", "resp_1") == turn(1)
    for owner, response_id in (("b", "resp_1"), ("", "resp_1"), ("a", "resp_2")):
        with pytest.raises(RequestError) as refused:
            stored.get(owner, response_id, "previous_response_id")
        assert (refused.value.fault.status, refused.value.param) == (404, "previous_response_id")
    with pytest.raises(RequestError):
        stored.delete("b", "resp_1")
    stored.delete("a", "resp_1")
    with pytest.raises(RequestError):
        stored.get("a", "resp_1")


def test_nothing_that_was_written_is_readable_in_the_database(place: Place) -> None:
    stored = place.opened()
    stored.save("a", StoredResponse(id="r", response={"status": "completed", "output": []}, input=[item(SECRET)]))
    stored.begin("a", {"patient": SECRET}, [item(SECRET)])
    bodies = [bytes(row) for row in place.rows()]
    assert len(bodies) == 3
    assert not any(word in body for body in bodies for word in (b"called Ada", b"patient", b"message"))


def test_keys_are_rotated(place: Place) -> None:
    """A new first key seals, the old one still opens, and what no key opens is not there."""
    place.opened(FIRST).save("a", turn(1))
    rotated = place.opened(SECOND, FIRST)
    assert rotated.get("a", "resp_1") == turn(1)
    rotated.save("a", turn(2))
    alone = place.opened(SECOND)
    assert alone.get("a", "resp_2") == turn(2)
    with pytest.raises(RequestError):
        alone.get("a", "resp_1")


def test_a_record_in_anothers_place_is_refused(place: Place) -> None:
    """Whoever writes to the database cannot give one key what is another's."""
    stored = place.opened()
    stored.save("a", turn(1))
    place.run("UPDATE arrowhead_records SET owner = 'b' WHERE id = 'resp_1'")
    with pytest.raises(RequestError):
        stored.get("b", "resp_1")


def test_a_history_is_the_chain_of_turns_in_order(place: Place) -> None:
    stored = place.opened()
    stored.save("a", turn(1))
    stored.save("a", turn(2, "resp_1"))
    stored.save("a", turn(3, "resp_2"))
    texts = [one["content"][0]["text"] for one in stored.history("a", "resp_3")]
    assert texts == [f"{what} {number}" for number in (1, 2, 3) for what in ("question", "answer")]
    stored.delete("a", "resp_1")
    with pytest.raises(RequestError):
        stored.history("a", "resp_3")
    stored.save("a", turn(4, status="in_progress"))
    with pytest.raises(RequestError):
        stored.history("a", "resp_4")


def test_everything_expires(place: Place) -> None:
    stored = place.opened()
    stored.save("a", turn(1))
    conversation = stored.begin("a", {}, [item("first")])
    place.clock.now += KEPT_S - 10
    stored.add_items("a", conversation.id, [item("second")])
    place.clock.now += 20
    with pytest.raises(RequestError):
        stored.get("a", "resp_1")
    assert [one["id"] for one in stored.items("a", conversation.id)] == ["msg_first", "msg_second"]
    place.clock.now += KEPT_S
    stored.sweep()
    assert place.rows() == []


def test_a_conversation_holds_its_items_in_order(place: Place) -> None:
    stored = place.opened()
    made = stored.begin("a", {"topic": "heparin"}, [item("1"), item("2")])
    stored.add_items("a", made.id, [item("3")])
    assert stored.conversation("a", made.id) == made
    assert [one["id"] for one in stored.items("a", made.id, limit=2, newest_first=True)] == ["msg_3", "msg_2"]
    assert [one["id"] for one in stored.items("a", made.id, after="msg_1")] == ["msg_2", "msg_3"]
    assert stored.item("a", made.id, "msg_2") == item("2")
    stored.remove_item(made.id, "msg_2")
    with pytest.raises(RequestError):
        stored.item("a", made.id, "msg_2")
    for work in (
        lambda: stored.conversation("b", made.id),
        lambda: stored.item("b", made.id, "msg_1"),
        lambda: stored.add_items("b", made.id, [item("x")]),
    ):
        with pytest.raises(RequestError):
            work()
    assert stored.items("b", made.id) == []
    stored.end(made.id)
    assert place.rows() == []


def test_a_key_pushes_out_its_own(place: Place) -> None:
    """The oldest first; the other key's are older than all of them, and stay."""
    stored = place.opened(most=3)
    stored.save("quiet", turn(0))
    for number in range(1, 6):
        stored.save("busy", turn(number))
    left = place.rows("SELECT id FROM arrowhead_records ORDER BY place")
    assert left == ["resp_0", "resp_3", "resp_4", "resp_5"]


@pytest.mark.parametrize("text", ["", "short", "é", f"{FIRST}\nno key"], ids=["empty", "short", "accent", "further"])
def test_a_file_without_keys_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys").write_text(text)
    with pytest.raises(SettingsInvalid, match="responses_key_file"):
        read_seal(tmp_path / "keys")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="responses_key_file: cannot be read"):
        read_seal(tmp_path / "none")

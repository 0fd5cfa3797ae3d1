"""A tape: look-ups are recorded once and answered again, errors too, and nothing is looked up for a replay."""

from __future__ import annotations

import base64
import json
import zlib

import pytest

from retrieval.errors import NCBI_TIMEOUT, GraphError, NcbiError, RetrievalError
from retrieval.types import Route
from server.tape import MAX_BYTES, RecordingTape, ReplayingTape, taped, taped_now, use


class Shelf:
    """Look names up, count how often, and fail where there is none."""

    def __init__(self, *books: str) -> None:
        self._books = books
        self.asked = 0

    @taped("books", tuple[str, ...], lambda _, word: word, RetrievalError)
    async def find(self, word: str) -> tuple[str, ...]:
        self.asked += 1
        found = tuple(book for book in self._books if word in book)
        if not found:
            error = NcbiError("no reply", NCBI_TIMEOUT, url="https://ncbi.example", attempts=2)
            error.route = Route(mode="off", went_to="gateway")
            raise error
        return found

    @taped_now("size", int, lambda *_: None, GraphError)
    def size(self) -> int:
        self.asked += 1
        return len(self._books)


async def recorded() -> str:
    tape, shelf = RecordingTape(), Shelf("old", "older")
    use(tape)
    assert await shelf.find("old") == ("old", "older")
    assert shelf.size() == 2
    with pytest.raises(NcbiError, check=NCBI_TIMEOUT.is_of):
        await shelf.find("new")
    packed = tape.packed()
    assert packed is not None
    return packed


async def test_a_replay_has_what_was_found_and_looks_up_nothing() -> None:
    use(ReplayingTape.of(await recorded()))
    shelf = Shelf("old, but changed")
    assert await shelf.find("old") == ("old", "older")
    assert (shelf.size(), shelf.asked) == (2, 0)


async def test_an_error_comes_again_as_it_was() -> None:
    """Of the same class, with its call and its route, so that a method treats it as it did."""
    use(ReplayingTape.of(await recorded()))
    with pytest.raises(NcbiError, match="no reply", check=NCBI_TIMEOUT.is_of) as raised:
        await Shelf().find("new")
    assert (raised.value.url, raised.value.attempts) == ("https://ncbi.example", 2)
    assert raised.value.route == Route(mode="off", went_to="gateway")
    assert raised.value.retryable


async def test_what_was_not_recorded_fails_and_is_named_once() -> None:
    tape = ReplayingTape([])
    use(tape)
    for _ in range(2):
        with pytest.raises(RetrievalError, match="made no such look-up"):
            await Shelf("x").find("x")
    with pytest.raises(GraphError):
        Shelf().size()
    assert tape.unrecorded == ['books "x"', "size null"]


async def test_replies_to_the_same_question_come_in_their_order() -> None:
    """A BLAST search is asked for until it is done; the last reply stays."""
    entries = [{"kind": "books", "key": '"x"', "found": [state]} for state in ("waiting", "ready")]
    use(ReplayingTape(entries))
    assert [await Shelf().find("x") for _ in range(3)] == [("waiting",), ("ready",), ("ready",)]


async def test_without_a_tape_everything_is_looked_up() -> None:
    use(None)
    shelf = Shelf("old")
    assert (await shelf.find("old"), shelf.asked) == (("old",), 1)


def test_a_record_beyond_the_bound_is_void_as_a_whole() -> None:
    tape = RecordingTape(max_bytes=100)
    tape.add("books", "a", {"found": []})
    assert tape.packed() is not None
    tape.add("books", "b", {"found": ["x" * 100]})
    tape.add("books", "c", {"found": []})
    assert tape.packed() is None


async def test_what_cannot_be_recorded_leaves_the_answer_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """The record is void, and the log says why."""
    tape = RecordingTape()
    use(tape)

    @taped("odd", object, lambda: "x", RetrievalError)
    async def odd() -> object:
        return object()

    assert await odd() is not None
    assert tape.packed() is None and "kind=odd" in caplog.text


@pytest.mark.parametrize("text", ["[1]", "{}", "[{}]", "["], ids=["numbers", "object", "no key", "torn"])
def test_a_damaged_record_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        ReplayingTape.of(base64.b64encode(zlib.compress(text.encode())).decode())


def test_a_record_that_unpacks_to_more_than_any_is_refused() -> None:
    bomb = base64.b64encode(zlib.compress(b" " * (5 * MAX_BYTES))).decode()
    with pytest.raises(ValueError, match="longer"):
        ReplayingTape.of(bomb)


def test_an_error_of_an_unknown_class_is_still_an_error_of_this_project() -> None:
    fault = [502, "ncbi_error", "", False]
    error = {"type": "Gone", "message": "of an earlier version", "param": None, "fault": fault}
    use(ReplayingTape([{"kind": "size", "key": json.dumps(None), "error": error}]))
    with pytest.raises(Exception, match="earlier version") as raised:
        Shelf().size()
    assert not isinstance(raised.value, NcbiError)
    use(None)

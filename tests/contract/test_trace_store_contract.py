"""Every trace store keeps the promises of ``TraceStore`` in ``server/traces.py``.

To add an implementation, add its name to ``IMPLEMENTATIONS`` and to ``open_store`` a function that opens an empty store
with the given bounds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Protocol

import pytest
import pytest_asyncio

from server.state.database import Database
from server.state.traces import PostgresTraceStore, TraceBounds
from server.traces import MemoryTraceStore, TraceHead, TraceStore


class Open(Protocol):
    """Open an empty store; ``max_bytes`` bounds the sum of the JSON texts."""

    def __call__(self, *, max_traces: int, max_bytes: int) -> TraceStore: ...


IMPLEMENTATIONS = ("memory", "postgres")


@pytest_asyncio.fixture(params=IMPLEMENTATIONS)
async def open_store(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    if request.param == "memory":
        yield MemoryTraceStore
        return
    database = Database(request.getfixturevalue("postgres").new_database())
    yield lambda *, max_traces, max_bytes: PostgresTraceStore(database, TraceBounds(max_traces, max_bytes))
    await database.close()


@pytest.fixture
def make(open_store: Open) -> Callable[..., TraceStore]:
    return lambda max_traces=100, max_bytes=1_000_000: open_store(max_traces=max_traces, max_bytes=max_bytes)


def head(number: int, owner: str = "a") -> TraceHead:
    return TraceHead(f"t{number}", "m", owner, 1_700_000_000 + number)


async def stored(store: TraceStore, numbers: range, owner: str = "a") -> list[int]:
    return [number for number in numbers if await store.get(f"t{number}", owner) is not None]


async def test_a_trace_is_returned_as_it_was_stored(make: Callable[..., TraceStore]) -> None:
    """The object has the head's fields and the choices in order, with any text in them."""
    store = make()
    choices = [{"content": 'β "quoted"\n\U0001f9ec'}, {"content": ""}]
    await store.put(head(1), choices)
    assert json.loads(await store.get("t1", "a") or "") == {
        "id": "t1",
        "object": "arrowhead.trace",
        "model": "m",
        "created": 1_700_000_001,
        "choices": choices,
    }


async def test_an_unknown_id_has_no_trace(make: Callable[..., TraceStore]) -> None:
    """The result is None, in an empty store and beside other traces."""
    store = make()
    assert await store.get("t1", "a") is None
    await store.put(head(2), [])
    assert await store.get("t1", "a") is None


async def test_a_trace_is_returned_to_its_owner_only(make: Callable[..., TraceStore]) -> None:
    """Another key, and a request without a key, get what they get for an unknown id."""
    store = make()
    await store.put(head(1, "a"), [])
    await store.put(head(2, ""), [])
    assert [await store.get("t1", owner) is not None for owner in ("a", "b", "")] == [True, False, False]
    assert [await store.get("t2", owner) is not None for owner in ("", "a")] == [True, False]


async def test_the_newest_traces_are_stored(make: Callable[..., TraceStore]) -> None:
    """Above the greatest number, the oldest is dropped; reading a trace does not make it newer."""
    store = make(max_traces=3)
    for number in range(5):
        await store.put(head(number), [])
        await store.get("t2", "a")
    assert await stored(store, range(5)) == [2, 3, 4]


async def test_traces_are_bounded_in_bytes(make: Callable[..., TraceStore]) -> None:
    """Long traces displace older ones; one that exceeds the bound alone is not stored and displaces none."""
    store = make(max_bytes=1000)
    for number, size in ((0, 500), (1, 500), (2, 5000)):
        await store.put(head(number), [{"content": "x" * size}])
    assert await stored(store, range(3)) == [1]


async def test_the_bound_counts_bytes_and_not_characters(make: Callable[..., TraceStore]) -> None:
    """Two traces of 300 letters with two bytes each exceed 1,000 bytes."""
    store = make(max_bytes=1000)
    for number in range(2):
        await store.put(head(number), [{"content": "ä" * 300}])
    assert await stored(store, range(2)) == [1]


async def test_a_key_that_asks_much_pushes_out_its_own(make: Callable[..., TraceStore]) -> None:
    """By number: the other key's traces are older than all of them, and stay."""
    store = make(max_traces=10)
    for number in range(4):
        await store.put(head(number, "quiet"), [])
    for number in range(100, 300):
        await store.put(head(number, "busy"), [])
    assert await stored(store, range(4), "quiet") == [0, 1, 2, 3]
    assert await stored(store, range(100, 300), "busy") == list(range(294, 300))


async def test_a_key_with_long_traces_pushes_out_its_own(make: Callable[..., TraceStore]) -> None:
    """By bytes; of two keys that both ask much, each keeps its half, and shares are free again for others."""
    store = make(max_bytes=10_000)
    for number in range(3):
        await store.put(head(number, "quiet"), [{"content": "x" * 500}])
    for number in range(100, 120):
        await store.put(head(number, "busy"), [{"content": "x" * 3000}])
    assert await stored(store, range(3), "quiet") == [0, 1, 2]
    assert await stored(store, range(100, 120), "busy") == [118, 119]
    for number in range(200, 260):
        await store.put(head(number, "quiet"), [{"content": "x" * 500}])
    assert await stored(store, range(100, 120), "busy") == [119]
    assert len(await stored(store, range(200, 260), "quiet")) >= 8


async def test_no_trace_is_stored_where_none_is_allowed(make: Callable[..., TraceStore]) -> None:
    """A bound of zero switches the store off without an error."""
    store = make(max_traces=0)
    await store.put(head(1), [])
    assert await store.get("t1", "a") is None


async def test_concurrent_answers_store_whole_traces(make: Callable[..., TraceStore]) -> None:
    """Each of fifty tasks reads its own trace, complete, as soon as it has stored it."""
    store = make(max_traces=50)

    async def answer(number: int) -> bool:
        choices = [{"content": str(number) * 200}]
        await store.put(head(number, f"key {number % 3}"), choices)
        text = await store.get(f"t{number}", f"key {number % 3}")
        return text is not None and json.loads(text)["choices"] == choices

    assert all(await asyncio.gather(*(answer(number) for number in range(50))))

"""Who gets a place, who waits, who is refused, and who gives way."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused_for

from server.admission import Admission, AdmissionLimits, FairQueue, Ticket, estimated_tokens
from server.error_mapping import error_reply
from server.errors import ANSWER_TIMEOUT, KEY_FULL, SERVER_FULL, SERVER_STOPPING, RequestError


def _states(queue: FairQueue, *tickets: Ticket) -> list[str]:
    return [queue.enter(ticket).state for ticket in tickets]


def test_places_then_the_waiting_room_then_refusal() -> None:
    """In the order in which they come, as long as one key asks."""
    queue = FairQueue(AdmissionLimits(running=2, waiting=1))

    assert _states(queue, *(Ticket("a") for _ in range(4))) == ["runs", "runs", "waits", "full"]


def test_a_freed_place_goes_to_the_key_that_got_least() -> None:
    """However many the other key has waiting, and however long before."""
    queue = FairQueue(AdmissionLimits(running=1, waiting=10))
    first = Ticket("a", 100)
    flood = [Ticket("a", 100) for _ in range(5)]
    late = Ticket("b", 100)
    _states(queue, first, *flood, late)

    queue.leave(first)

    assert queue.begin_next() == [late]


def test_two_floods_share_by_tokens() -> None:
    """A key whose requests are three times as large gets a third as many of them."""
    queue = FairQueue(AdmissionLimits(running=1, waiting=100))
    running = Ticket("a", 1)
    _states(queue, running, *(Ticket("a", 300) for _ in range(40)), *(Ticket("b", 100) for _ in range(40)))
    begun: list[str] = []
    while len(begun) < 40:
        queue.leave(running)
        (running,) = queue.begin_next()
        begun.append(running.key)

    assert begun.count("a") == 10


def test_a_key_saves_nothing_up_while_it_is_away() -> None:
    """One that comes back after a long time takes turns with the others; it does not get all of them."""
    queue = FairQueue(AdmissionLimits(running=1, waiting=100))
    running = Ticket("a", 1000)
    _states(queue, running, *(Ticket("a", 100) for _ in range(10)), *(Ticket("b", 100) for _ in range(10)))
    begun: list[str] = []
    for _ in range(10):
        queue.leave(running)
        (running,) = queue.begin_next()
        begun.append(running.key)

    assert 4 <= begun.count("b") <= 6


def test_a_full_waiting_room_is_shared() -> None:
    """The newest of the flooding key gives way to another key, until both hold as much."""
    queue = FairQueue(AdmissionLimits(running=1, waiting=4))
    flood = [Ticket("a", 10) for _ in range(5)]
    _states(queue, *flood)

    verdicts = [queue.enter(Ticket("b", 10)) for _ in range(4)]

    assert [verdict.state for verdict in verdicts] == ["waits", "waits", "full", "full"]
    assert [list(verdict.pushed_out) for verdict in verdicts] == [[flood[4]], [flood[3]], [], []]


def test_a_share_of_places_lets_others_pass() -> None:
    """A key at its bound waits although there are places, and another key takes one."""
    queue = FairQueue(AdmissionLimits(running=4, waiting=1, running_per_key=2))

    assert _states(queue, Ticket("a"), Ticket("a"), Ticket("a"), Ticket("a"), Ticket("b")) == [
        "runs",
        "runs",
        "waits",
        "key_full",
        "runs",
    ]


def test_tokens_are_bounded_but_one_request_alone_is_taken() -> None:
    """A request larger than the bound could otherwise never be answered."""
    queue = FairQueue(AdmissionLimits(running=9, waiting=9, tokens=100))
    large = Ticket("a", 500)

    assert _states(queue, large, Ticket("a", 1)) == ["runs", "full"]
    queue.leave(large)
    assert _states(queue, Ticket("a", 60), Ticket("a", 40), Ticket("a", 1)) == ["runs", "runs", "full"]


def test_the_estimate_is_prompt_and_answer() -> None:
    """Four characters a token, rounded up, and all that may be written."""
    assert estimated_tokens(9, 100) == 103


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 50), st.booleans()), max_size=120),
    st.integers(1, 4),
    st.integers(0, 5),
    st.one_of(st.none(), st.integers(1, 3)),
)
def test_bounds_hold_and_nothing_is_forgotten(
    steps: list[tuple[str, int, bool]], running: int, waiting: int, per_key: int | None
) -> None:
    """Whatever comes and goes: the bounds, no place left free with someone able to take it, and an empty end."""
    limits = AdmissionLimits(running=running, waiting=waiting, running_per_key=per_key, tokens=120)
    queue = FairQueue(limits)
    waits: list[Ticket] = []
    runs: list[Ticket] = []
    for key, tokens, leaves in steps:
        if leaves and runs:
            queue.leave(runs.pop(0))
        else:
            ticket = Ticket(key, tokens)
            verdict = queue.enter(ticket)
            waits = [other for other in waits if other not in verdict.pushed_out]
            {"runs": runs, "waits": waits}.get(verdict.state, []).append(ticket)
        begun = queue.begin_next()
        runs += begun
        waits = [other for other in waits if other not in begun]
        assert queue.num_running == len(runs) <= running
        assert queue.num_waiting == len(waits) <= waiting
        assert queue.tokens == sum(ticket.tokens for ticket in runs + waits) <= 120
        assert all(queue.running_of(key) <= (per_key or running) for key in "abc")
        free = len(runs) < running
        assert not (free and any(queue.running_of(other.key) < (per_key or running) for other in waits))
    for ticket in runs + waits:
        queue.leave(ticket)
        queue.leave(ticket)
    assert (queue.num_running, queue.num_waiting, queue.tokens) == (0, 0, 0)


async def _hold(admission: Admission, key: str, release: asyncio.Event, order: list[str]) -> None:
    async with admission.place(Ticket(key)):
        order.append(key)
        await release.wait()


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_waiting_request_begins_when_a_place_is_free() -> None:
    """And a refused one comes back to an estimate between 1 and 120 seconds."""
    admission = Admission(AdmissionLimits(running=1, waiting=1))
    releases = [asyncio.Event(), asyncio.Event()]
    order: list[str] = []
    async with asyncio.TaskGroup() as tasks:
        for key, release in zip("ab", releases, strict=True):
            tasks.create_task(_hold(admission, key, release, order))
            await _settle()
        with refused_for(SERVER_FULL) as refused:
            async with admission.place(Ticket("b")):
                pass
        releases[0].set()
        await _settle()
        assert (order, admission.in_flight, admission.waiting) == (["a", "b"], 1, 0)
        releases[1].set()

    reply = error_reply(refused.value)
    assert (reply.status, reply.code) == (429, "server_overloaded")
    assert 1 <= int(reply.headers["Retry-After"]) <= 120
    assert (admission.counts.admitted, admission.counts.refused, admission.tokens) == (2, 1, 0)


async def test_one_that_waits_and_leaves_frees_its_place_at_once() -> None:
    """Also where its turn has come in the same moment."""
    admission = Admission(AdmissionLimits(running=1, waiting=2))
    release, order = asyncio.Event(), list[str]()
    first = asyncio.create_task(_hold(admission, "a", release, order))
    await _settle()
    waiting = [asyncio.create_task(_hold(admission, "b", asyncio.Event(), order)) for _ in range(2)]
    await _settle()

    waiting[0].cancel()
    await _settle()
    assert admission.waiting == 1
    release.set()
    await first
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

    assert (admission.in_flight, admission.waiting, admission.tokens) == (0, 0, 0)
    assert admission.counts.left == 1 + (order == ["a"])


async def test_a_pushed_out_request_is_refused_as_its_keys_fault() -> None:
    """429 with the code for a client's own rate; it can leave in the same moment without harm."""
    admission = Admission(AdmissionLimits(running=1, waiting=2))
    release, order = asyncio.Event(), list[str]()
    flood = [asyncio.create_task(_hold(admission, "a", release, order)) for _ in range(3)]
    await _settle()
    other = asyncio.create_task(_hold(admission, "b", release, order))
    await _settle()
    last = asyncio.create_task(_hold(admission, "c", release, order))
    flood[1].cancel()
    await _settle()
    release.set()
    results = await asyncio.gather(*flood, other, last, return_exceptions=True)

    assert isinstance(results[2], RequestError) and results[2].fault is KEY_FULL
    assert error_reply(results[2]).code == "rate_limit_exceeded"
    assert [results[0], results[3], results[4]] == [None, None, None]
    assert (admission.in_flight, admission.waiting, admission.tokens) == (0, 0, 0)


async def test_waiting_has_an_end() -> None:
    """After ``max_wait_s`` a request is refused; a deadline that comes before is a timeout."""
    admission = Admission(AdmissionLimits(running=1, waiting=2, max_wait_s=0.02))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(admission.place(Ticket("a")))
        with refused_for(SERVER_FULL):
            await stack.enter_async_context(admission.place(Ticket("a")))
        with pytest.raises(RequestError, check=ANSWER_TIMEOUT.is_of):
            soon = asyncio.get_running_loop().time() + 0.001
            await stack.enter_async_context(admission.place(Ticket("a"), soon))

    assert admission.counts.waited_too_long == 1
    assert (admission.in_flight, admission.waiting, admission.tokens) == (0, 0, 0)


async def test_the_end_of_the_server_reaches_those_that_wait_and_run() -> None:
    """All end with the same error, and nobody comes in any more."""
    admission = Admission(AdmissionLimits(running=1, waiting=1))

    async def run() -> None:
        async with admission.place(Ticket("a")) as cancel_scope:
            with cancel_scope:
                await asyncio.Event().wait()

    tasks = [asyncio.create_task(run()) for _ in range(2)]
    await _settle()
    admission.draining = True
    with pytest.raises(RequestError, check=SERVER_STOPPING.is_of):
        admission.check()
    admission.end_all()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(result) for result in results] == [RequestError, RequestError]
    assert all(SERVER_STOPPING.is_of(result) for result in results if isinstance(result, BaseException))
    reply = error_reply(RequestError("x", SERVER_STOPPING))
    assert (reply.status, reply.headers["Connection"]) == (503, "close")


async def test_places_that_are_added_let_waiting_requests_begin() -> None:
    """When the engine is loaded and has chosen its number of slots; fewer places end nothing that runs."""
    admission = Admission(AdmissionLimits(running=1, waiting=5))
    release, order = asyncio.Event(), list[str]()
    tasks = [asyncio.create_task(_hold(admission, key, release, order)) for key in ("a", "b", "c")]
    await _settle()
    assert (admission.in_flight, admission.waiting) == (1, 2)

    admission.resize(3)
    await _settle()
    assert (admission.in_flight, admission.waiting) == (3, 0)
    admission.resize(1)
    assert admission.in_flight == 3
    release.set()
    await asyncio.gather(*tasks)

"""Where each call goes, what it takes along, what is written down, and what the answer's record says of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from models.decoding.types import Call
from models.errors import kind_of
from retrieval.errors import NCBI_REPLY_ERROR, NcbiError
from retrieval.ncbi.calls.urls import NcbiSite
from retrieval.ncbi.client.cache import ReplyCache
from retrieval.ncbi.client.client import ClientConfig, NcbiClient, RetryPolicy
from retrieval.ncbi.client.transport import HttpSender, SendLimits
from retrieval.ncbi.session import NcbiSession
from retrieval.types import KnownName, NameKind, NcbiCall, Route
from server.audit.log import AuditLog, AuditRecorder
from server.egress.policy import Departures, EgressContext, EgressPolicy
from server.egress.router import Destination, DestinationPair, Destinations, Egress, Knowledge
from server.errors import EgressRaised
from server.settings.egress import EgressSettings
from server.types import EgressMode

NCBI = "eutils.ncbi.nlm.nih.gov"
FOUND = {"esearchresult": {"count": "1", "idlist": ["5699"]}}
NOTHING = {"esearchresult": {"count": "0", "idlist": []}}
UNKNOWN_DB = {"esearchresult": {"ERROR": "Invalid db name specified: pubmed"}}
SYMBOL = NcbiCall("esearch", "gene", {"db": "gene", "term": "LMP10"})
PROSE = NcbiCall("esearch", "gene", {"db": "gene", "term": "patient with a cough"})
Answer = Callable[[dict[str, str]], tuple[int, Any]]


class Service:
    """An E-utilities service in this process; remembers the parameters of each request."""

    def __init__(self, answer: Answer | dict[str, Any], status: int = 200) -> None:
        self._answer: Answer = answer if callable(answer) else lambda _: (status, answer)
        self.seen: list[dict[str, str]] = []
        self.asked = asyncio.Event()
        self.hold = asyncio.Event()
        self.hold.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        params = dict(parse_qsl(scope["query_string"].decode()))
        self.seen.append(params)
        self.asked.set()
        await self.hold.wait()
        status, body = self._answer(params)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})

    def place(self, name: str, *, leaves: bool, cache: ReplyCache | None = None) -> DestinationPair:
        config = ClientConfig(site=NcbiSite(api_key="secret-key"), rate_per_s=0, retry=RetryPolicy(retries=0))
        client = NcbiClient(config, sender=HttpSender(SendLimits(), self), cache=cache)
        place = Destination(name, client, leaves=leaves)
        return DestinationPair(place, place)


class Symbols:
    """A vocabulary of two symbols."""

    def find(self, name: str, kinds: Collection[NameKind]) -> Iterator[KnownName]:
        if name.upper() in ("LMP10", "PSMB10") and "symbol" in kinds:
            yield KnownName(name.upper(), "symbol")

    def is_ordinary(self, word: str) -> bool:
        return False


class World:
    """A gateway, an outside and an audit log around one router."""

    def __init__(self, tmp_path: Path, gateway: Service, outside: Service, *, leaves: bool = True,
                 cache: ReplyCache | None = None, **settings: Any) -> None:  # fmt: skip
        self.log = tmp_path / "audit.jsonl"
        self.gateway, self.outside = gateway, outside
        inside = gateway.place("gateway", leaves=False)
        places = Destinations(inside, inside, outside.place(NCBI, leaves=leaves, cache=cache))
        self.auditor = AuditRecorder(AuditLog(self.log, level="metadata", max_bytes=10**6), "refuse")
        policy = EgressPolicy.of(EgressSettings(**({"mode": "ncbi"} | settings)))
        self.egress = Egress(policy, places, self.auditor, Knowledge(names=Symbols()))

    async def fetch(self, call: NcbiCall, mode: EgressMode, request_id: str = "r") -> tuple[str, Route]:
        """Body or error, and the route."""
        try:
            reply = await self.egress.fetch(call, EgressContext(request_id, "1a2b3c4d", mode))
        except NcbiError as error:
            assert error.route is not None
            return f"{kind_of(error)}: {error.message}", error.route
        assert reply.route is not None
        return reply.body, reply.route

    def lines(self) -> list[dict[str, Any]]:
        """The audit log but for the line that opens the file."""
        return [json.loads(line) for line in self.log.read_text().splitlines()][1:] if self.log.exists() else []

    def events(self) -> list[tuple[str, str | None]]:
        return [(line["event"], line["status"]) for line in self.lines()]


async def test_with_mode_off_only_the_gateway_is_asked(tmp_path: Path) -> None:
    """Whatever the call says; nothing is withheld, as nothing was to go."""
    world = World(tmp_path, Service(NOTHING), Service(FOUND))

    body, route = await world.fetch(PROSE, "off")

    assert json.loads(body) == NOTHING
    assert (route.went_to, route.left, route.withheld, route.classes) == ("gateway", False, (), ("free_text",))
    assert world.outside.seen == [] and world.lines() == []


async def test_with_mode_ncbi_an_allowed_call_goes_out(tmp_path: Path) -> None:
    """The gateway is not asked; the log has a line before and one after."""
    world = World(tmp_path, Service(NOTHING), Service(FOUND))

    body, route = await world.fetch(SYMBOL, "ncbi")

    assert json.loads(body) == FOUND
    assert (route.went_to, route.left, route.classes) == (NCBI, True, ("symbol",))
    assert "secret-key" not in route.url and "LMP10" in route.url
    assert world.gateway.seen == [] and world.events() == [("send", None), ("reply", "200")]
    sent, returned = world.lines()
    assert (sent["decision"], sent["where"], sent["key_id"], sent["request_id"]) == ("allowed", NCBI, "1a2b3c4d", "r")
    assert sent["request_bytes"] > 50 and returned["reply_bytes"] == len(json.dumps(FOUND))


async def test_with_mode_ncbi_a_forbidden_class_is_refused_by_name(tmp_path: Path) -> None:
    """The error says which class, what may go, and what to do; nobody is asked."""
    world = World(tmp_path, Service(FOUND), Service(FOUND), profile="hospital")

    said, route = await world.fetch(PROSE, "ncbi")

    assert said.startswith("NcbiRefusedByEgress: term may not leave this machine (hospital): a name is not in")
    assert "use an official symbol" in said and "cough" not in said
    assert (route.went_to, route.left, route.withheld) == ("", False, ("free_text",))
    assert world.gateway.seen == world.outside.seen == []
    assert world.events() == [("refused", None)] and world.lines()[0]["detail"] == {
        "kept": ["free_text"],
        "param": "term",
        "reason": "word",
    }


@pytest.mark.parametrize(("mode", "profile", "leaves"), [("ncbi", "open", True), ("local-first", "hospital", False)])
async def test_the_default_profile_follows_the_mode(
    tmp_path: Path, mode: EgressMode, profile: str, leaves: bool
) -> None:
    """Who sets ncbi has said that calls may go; local-first is careful."""
    world = World(tmp_path, Service(NOTHING), Service(FOUND), mode=mode)

    _, route = await world.fetch(PROSE, mode)

    assert (world.egress.policy.profile, route.left) == (profile, leaves)


async def test_local_first_keeps_what_the_gateway_knows(tmp_path: Path) -> None:
    """A hit: nobody else is asked."""
    world = World(tmp_path, Service(FOUND), Service(NOTHING))

    body, route = await world.fetch(SYMBOL, "local-first")

    assert (json.loads(body), route.went_to, route.left) == (FOUND, "gateway", False)
    assert world.outside.seen == [] and world.lines() == []


@pytest.mark.parametrize("local", [NOTHING, UNKNOWN_DB])
async def test_local_first_goes_out_on_a_miss(tmp_path: Path, local: dict[str, Any]) -> None:
    """Nothing found, or no such database; an allowed class."""
    world = World(tmp_path, Service(local), Service(FOUND), mode="local-first")

    body, route = await world.fetch(SYMBOL, "local-first")

    assert (json.loads(body), route.went_to, route.left, route.withheld) == (FOUND, NCBI, True, ())
    assert world.egress.left_by("1a2b3c4d") == f"left this machine: symbol to {NCBI}"


async def test_local_first_withholds_what_may_not_go(tmp_path: Path) -> None:
    """The gateway's empty answer stays, and the record says what kept the call here."""
    world = World(tmp_path, Service(NOTHING), Service(FOUND), mode="local-first")

    body, route = await world.fetch(PROSE, "local-first")

    assert (json.loads(body), route.went_to, route.left) == (NOTHING, "gateway", False)
    assert route.withheld == ("free_text",)
    assert world.outside.seen == [] and world.events() == [("withheld", None)]
    assert world.lines()[0]["where"] == NCBI and world.egress.left_by("1a2b3c4d") == "no data left this machine"


async def test_local_first_stays_with_the_gateways_answer_where_ncbi_fails(tmp_path: Path) -> None:
    """A note in the record, no failure; the values did leave."""
    world = World(tmp_path, Service(NOTHING), Service({}, status=503), mode="local-first")

    body, route = await world.fetch(SYMBOL, "local-first")

    assert json.loads(body) == NOTHING
    assert (route.went_to, route.left) == (NCBI, True)
    assert route.note == f"{NCBI}: NcbiUnavailable; the gateway's answer stands"
    assert world.events() == [("send", None), ("reply", "NcbiUnavailable")]


async def test_a_broken_gateway_is_no_miss(tmp_path: Path) -> None:
    """Its failure shows; nothing goes out in its place."""
    world = World(tmp_path, Service({}, status=500), Service(FOUND), mode="local-first")

    said, route = await world.fetch(SYMBOL, "local-first")

    assert said.startswith("NcbiUnavailable") and (route.went_to, route.left) == ("gateway", False)
    assert world.outside.seen == []


async def test_without_any_local_answer_ncbis_error_is_told(tmp_path: Path) -> None:
    """The gateway has no such database, and NCBI fails: there is nothing to fall back on."""
    world = World(tmp_path, Service(UNKNOWN_DB), Service({}, status=503), mode="local-first")
    by_error = {"error": "no such db"}
    gateway_refuses = World(tmp_path / "2", Service(by_error, status=400), Service({}, status=503), mode="local-first")

    body, _ = await world.fetch(SYMBOL, "local-first")
    said, route = await gateway_refuses.fetch(SYMBOL, "local-first")

    assert json.loads(body) == UNKNOWN_DB  # NCBI's own way to say it, in a reply of status 200
    assert said.startswith("NcbiUnavailable") and route.left


async def test_a_loopback_address_never_counts_as_leaving(tmp_path: Path) -> None:
    """No class keeps a call from it, and no line is written."""
    world = World(tmp_path, Service(NOTHING), Service(FOUND), leaves=False, profile="hospital")

    for mode in ("ncbi", "local-first"):
        body, route = await world.fetch(PROSE, mode)
        assert (json.loads(body), route.left, route.withheld) == (FOUND, False, ())
    assert world.lines() == []


async def test_a_reply_from_the_cache_takes_nothing_along(tmp_path: Path) -> None:
    """The second of two equal calls: not left, not sent, not logged."""
    cache = ReplyCache(tmp_path / "cache.sqlite")
    world = World(tmp_path, Service(NOTHING), Service(FOUND), cache=cache)

    _, first = await world.fetch(SYMBOL, "ncbi")
    _, second = await world.fetch(SYMBOL, "ncbi")
    await cache.close()

    assert (first.left, second.left) == (True, False)
    assert len(world.outside.seen) == 1 and len(world.lines()) == 2


async def test_equal_calls_under_way_are_sent_once_and_logged_for_each(tmp_path: Path) -> None:
    """Both answers used what left; the log says which request sent it."""
    world = World(tmp_path, Service(NOTHING), Service(FOUND))
    world.outside.hold.clear()
    both = [asyncio.create_task(world.fetch(SYMBOL, "ncbi", name)) for name in ("a", "b")]
    await world.outside.asked.wait()
    world.outside.hold.set()
    routes = [(await task)[1] for task in both]

    assert [route.left for route in routes] == [True, True] and len(world.outside.seen) == 1
    assert {(line["event"], line["request_id"]) for line in world.lines()} == {
        ("send", "a"), ("reply", "a"), ("shared", "b"),
    }  # fmt: skip


async def test_equal_failing_calls_have_a_route_each(tmp_path: Path) -> None:
    """One error object comes back to all that wait; what it says of the way is each one's own."""
    world = World(tmp_path, Service(NOTHING), Service({}, status=503), leaves=False)
    both = [world.fetch(SYMBOL, "ncbi"), world.fetch(SYMBOL, "ncbi")]
    (_, first), (_, second) = await asyncio.gather(*both)

    assert first == second and first is not second


async def test_a_call_that_cannot_be_recorded_is_not_sent(tmp_path: Path) -> None:
    """The log's folder is a file: the call is refused, the reason given."""
    (tmp_path / "file").write_text("")
    world = World(tmp_path / "file", Service(NOTHING), Service(FOUND))

    said, route = await world.fetch(SYMBOL, "ncbi")

    assert said == "NcbiRefusedByEgress: the call cannot be written to the audit log, so it was not sent"
    assert not route.left and world.outside.seen == []


async def test_a_site_can_go_on_without_a_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """audit.on_failure continue: the call goes, the server's log says what is missing."""
    (tmp_path / "file").write_text("")
    world = World(tmp_path, Service(NOTHING), Service(FOUND))
    broken = AuditLog(tmp_path / "file" / "audit.jsonl", level="metadata", max_bytes=10**6)
    egress = Egress(world.egress.policy, world.egress._destinations, AuditRecorder(broken, "continue"))

    reply = await egress.fetch(SYMBOL, EgressContext("r", "", "ncbi"))

    assert json.loads(reply.body) == FOUND
    assert "audit line not written: event=send" in caplog.text


async def test_an_abandoned_call_has_its_second_line(tmp_path: Path) -> None:
    """The client went away after the request had gone."""
    world = World(tmp_path, Service(NOTHING), Service(FOUND))
    world.outside.hold.clear()
    task = asyncio.create_task(world.fetch(SYMBOL, "ncbi"))
    await world.outside.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert world.events() == [("send", None), ("reply", "cancelled")]
    assert world.egress.departures_of("r") == f"left this machine: symbol to {NCBI}"


async def test_a_request_can_lower_the_mode_and_not_raise_it(tmp_path: Path) -> None:
    """Below the key or the server: taken; above: refused by name, and noted."""
    world = World(tmp_path, Service(NOTHING), Service(FOUND), mode="local-first", key_modes={"1a2b3c4d": "off"})

    assert world.egress.admit("r", "", "off").mode == "off"
    assert world.egress.admit("r", "", None).mode == "local-first"
    assert world.egress.admit("r", "1a2b3c4d", None).mode == "off"
    for key, asked in (("", "ncbi"), ("1a2b3c4d", "local-first")):
        with pytest.raises(EgressRaised) as refused:
            world.egress.admit("chat-1", key, asked)  # type: ignore[arg-type]
        assert refused.value.param == "arrowhead.egress" and str(asked) in refused.value.message
    await world.auditor.close()

    assert [(line["event"], line["key_id"], line["detail"]["asked"]) for line in world.lines()[:-1]] == [
        ("refused", None, "ncbi"), ("refused", "1a2b3c4d", "local-first"),
    ]  # fmt: skip
    assert world.lines()[-1]["event"] == "stop"


async def test_the_session_puts_the_route_into_the_record(tmp_path: Path) -> None:
    """For a good reply, an error, and a call that is refused before it is one."""
    world = World(tmp_path, Service(NOTHING), Service(FOUND), mode="local-first")
    fetch = world.egress.fetch_for(EgressContext("r", "", "local-first"))
    session = NcbiSession(fetch, world.egress.site_of("local-first"))
    url = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esearch.fcgi?db=gene&term="

    out = (await session(Call(url + "LMP10", 0))).record
    blocked = (await session(Call(url + "lung+cancer", 0))).record
    again = (await session(Call(url + "LMP10", 0))).record
    bad = (await session(Call("https://example.org/", 0))).record

    assert out["egress"] == {"mode": "local-first", "went_to": NCBI, "classes": ("symbol",), "left": True,
                             "withheld": (), "note": ""}  # fmt: skip
    assert out["url"].startswith(f"https://{NCBI}/")
    assert (blocked["egress"]["left"], blocked["egress"]["withheld"]) == (False, ("free_text",))
    assert again["egress"] is bad["egress"] is None
    assert world.egress.departures_of("r") == f"left this machine: symbol to {NCBI}; withheld: free_text"
    assert world.egress.departures_of("another") == "no data left this machine"
    world.egress.forget("r")
    assert world.egress.departures_of("r") == "no data left this machine"


def test_what_left_is_a_sentence() -> None:
    """Nothing, two hosts, a call without values."""
    gone = Departures()
    assert gone.text == "no data left this machine"
    gone.add("b", ["symbol", "id"])
    gone.add("a", [])
    assert gone.text == "left this machine: a call without values to a; id, symbol to b"


def test_errors_keep_their_kind_on_the_way() -> None:
    """A copy with a route is still what it was, with all it knew."""
    error = NcbiError("no", NCBI_REPLY_ERROR, param="db", url="u", attempts=2)
    from server.egress.router import _raise

    with pytest.raises(NcbiError, check=NCBI_REPLY_ERROR.is_of) as raised:
        _raise(error, Route(mode="off", went_to="gateway"))

    assert raised.value is not error and error.route is None
    assert (raised.value.message, raised.value.param, raised.value.url, raised.value.attempts) == ("no", "db", "u", 2)

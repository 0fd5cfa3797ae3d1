"""The site's tools for answers: what goes to which server, what is on the audit log, and failures as steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from retrieval.errors import RetrievalError
from server.audit.log import AuditLog, AuditRecorder
from server.egress.policy import EgressPolicy
from server.egress.router import Destinations, Egress
from server.evidence.site_tools.client import ToolSpec
from server.evidence.site_tools.look_ups import PassagesWithTools, SiteServer, SiteTools
from server.methods.base import AnswerRequest
from server.methods.shared.passages import Gathered, PassageQuery
from server.settings.egress import EgressSettings

QUESTION = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
FIND = ToolSpec("find", "Find notes", QUESTION, only_reads=True)
WRITE = ToolSpec("write", "Write a note", QUESTION, only_reads=False)


class Shelf:
    """A server whose tool finds two texts; ``fault`` fails instead."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    async def tools(self) -> tuple[ToolSpec, ...]:
        return (FIND, WRITE)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        self.asked.append((tool, arguments))
        if self.fault:
            raise RetrievalError(self.fault)
        return ("first text", "second text")

    async def close(self) -> None:
        pass


class World:
    """Servers by their hosts around an egress policy with a log."""

    def __init__(self, tmp_path: Path, *servers: SiteServer, **egress: Any) -> None:
        self.log = tmp_path / "audit.jsonl"
        recorder = AuditRecorder(AuditLog(self.log, level="metadata", max_bytes=10**6), "refuse")
        policy = EgressPolicy.of(EgressSettings(**egress))
        nowhere: Any = None
        self.egress = Egress(policy, Destinations(nowhere, nowhere, nowhere), recorder)
        self.tools = SiteTools(servers, self.egress)

    def lines(self) -> list[tuple[str, str, str | None]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()][1:] if self.log.exists() else []
        return [(line["event"], line["endpoint"], line["where"]) for line in lines]


def ask(**fields: Any) -> AnswerRequest:
    return AnswerRequest(request_id="r", prompt="what?", **fields)


async def test_only_tools_that_read_are_asked_and_each_call_is_on_the_log(tmp_path: Path) -> None:
    shelf = Shelf()
    world = World(tmp_path, SiteServer("shelf", shelf))
    found = await world.tools.look_up(ask(), "what?")
    assert shelf.asked == [("find", {"q": "what?"})]
    assert [one.passage.text for one in found.passages] == ["first text", "second text"]
    assert {one.namespace for one in found.passages} == {"mcp:shelf"} and found.faults == ()
    assert world.lines() == [("local", "mcp_find", "mcp:shelf"), ("reply", "mcp_find", "mcp:shelf")]
    assert "what?" not in world.log.read_text()
    assert world.egress.departures_of("r") == "no data left this machine"


async def test_a_list_of_the_settings_decides_which_tools_are_asked(tmp_path: Path) -> None:
    shelf = Shelf()
    await World(tmp_path, SiteServer("shelf", shelf, allowed=frozenset({"write"}))).tools.look_up(ask(), "what?")
    assert [name for name, _ in shelf.asked] == ["write"]


@pytest.mark.parametrize(
    ("egress", "fields"),
    [
        ({"mode": "off"}, {}),
        ({"mode": "local-first"}, {}),
        ({"mode": "ncbi", "profile": "hospital"}, {}),
        ({"mode": "ncbi", "profile": "open"}, {"keeps_here": True}),
    ],
    ids=["off", "hospital by default", "hospital", "the request keeps it here"],
)
async def test_a_question_does_not_leave_unless_free_text_may(
    tmp_path: Path, egress: dict[str, Any], fields: dict[str, Any]
) -> None:
    """The refusal is told; nothing is asked."""
    shelf = Shelf()
    world = World(tmp_path, SiteServer("shelf", shelf, host="tools.example"), **egress)
    found = await world.tools.look_up(ask(**fields), "what?")
    assert shelf.asked == [] and found.passages == ()
    assert len(found.faults) == 1 and "shelf" in found.faults[0]


async def test_where_free_text_may_leave_the_server_is_asked_and_counted(tmp_path: Path) -> None:
    shelf = Shelf()
    world = World(tmp_path, SiteServer("shelf", shelf, host="tools.example"), mode="ncbi", profile="open")
    assert len((await world.tools.look_up(ask(), "what?")).passages) == 2
    assert ("send", "mcp_find", "tools.example") in world.lines()
    assert "tools.example" in world.egress.departures_of("r")


async def test_a_server_that_fails_leaves_the_others(tmp_path: Path) -> None:
    world = World(tmp_path, SiteServer("dead", Shelf("down")), SiteServer("shelf", Shelf()))
    found = await world.tools.look_up(ask(), "what?")
    assert len(found.passages) == 2 and found.faults == ("the tools of dead failed: down",)


class Namespaces:
    """A site without any namespace."""

    names = ()

    def open(self, ask: AnswerRequest) -> Namespaces:
        return self

    def check(self, passage_query: PassageQuery) -> None:
        pass

    async def find(self, queries: Any, passage_query: PassageQuery) -> Gathered:
        return Gathered(namespaces=(), retriever="", lists=((),))


async def test_passages_of_tools_stand_among_those_of_namespaces(tmp_path: Path) -> None:
    world = World(tmp_path, SiteServer("dead", Shelf("down")), SiteServer("shelf", Shelf()))
    gathered = await PassagesWithTools(Namespaces(), world.tools).open(ask()).find(["what?"], PassageQuery())
    assert gathered.namespaces == ("mcp:shelf",) and len(gathered.lists[0]) == 2
    assert "the tools of dead failed: down" in gathered.way


async def names(world: World, asked: AnswerRequest) -> list[str]:
    return [tool.name for one in await world.tools.offered(asked) for tool in one.tools]


async def test_a_model_calls_tools_of_the_servers_that_the_request_names(tmp_path: Path) -> None:
    shelf = Shelf()
    world = World(tmp_path, SiteServer("shelf", shelf), SiteServer("other", Shelf()))
    asked = ask(site_tools=("shelf",))
    assert await names(world, asked) == ["shelf__find"]
    assert (await world.tools.run(asked, "shelf__find", '{"q": "x"}')).text == "first text\nsecond text"
    for name, arguments in (
        ("other__find", '{"q": "x"}'),
        ("shelf__write", '{"q": "x"}'),
        ("shelf__find", '{"q": 1}'),
        ("shelf__find", "no JSON"),
        ("nothing", "{}"),
    ):
        told = await world.tools.run(asked, name, arguments)
        assert told.fault and told.text.startswith("error: ")
    assert shelf.asked == [("find", {"q": "x"})]


async def test_a_request_can_want_some_tools_of_a_server_alone(tmp_path: Path) -> None:
    """Of those that the settings allow; the others cannot be called either."""
    world = World(tmp_path, SiteServer("shelf", Shelf(), allowed=frozenset({"find", "write"})))
    some = ask(site_tools=("shelf/find", "shelf/unknown"))
    assert await names(world, some) == ["shelf__find"] and await names(world, ask(site_tools=("shelf/",))) == []
    assert (await world.tools.run(some, "shelf__write", '{"q": "x"}')).fault
    assert not (await world.tools.run(some, "shelf__find", '{"q": "x"}')).fault

"""What Open WebUI sends, and what it reads of the reply, against a real server process.

The requests under ``tests/data/open_webui`` are put together from its public source; the reader below does with a
stream what its back end does: it carries out each ``event``, makes a source of each annotation, and joins the deltas.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

REQUESTS = Path(__file__).parents[1] / "data" / "open_webui"
GENE_PAGE = "https://www.ncbi.nlm.nih.gov/gene/5699"
NAME = "PSMB10, proteasome 20S subunit beta 10, human, NCBI Gene 5699"
SIDE_JOBS = ["title", "tags", "follow_up", "queries", "autocomplete", "task_header"]


@pytest.fixture(scope="module")
def server(
    host_with: Callable[..., AbstractContextManager[Any]], environment: dict[str, str], tmp_path_factory: Any
) -> Iterator[Any]:
    """The plain model answers side jobs with a title; a method would have nothing to say to them."""
    script = json.loads(Path(environment["ARROWHEAD_MODEL__SCRIPT"]).read_text())
    jobs = {"regex": r"(### Task:|one emoji for)[\s\S]*\nAnswer:$|(### Task:|one emoji for)[\s\S]*$", "text": "{}"}
    path = tmp_path_factory.mktemp("webui") / "script.json"
    path.write_text(json.dumps([*script, jobs]))
    with host_with({"ARROWHEAD_MODEL__SCRIPT": str(path)}) as running:
        yield running


def _recorded(name: str) -> Any:
    return json.loads((REQUESTS / f"{name}.json").read_text())


def _send(server: Any, recorded: Any, **more: Any) -> str:
    body = json.dumps(recorded["body"] | more).encode()
    headers = recorded["headers"] | {"Content-Type": "application/json", "Authorization": "Bearer none"}
    request = urllib.request.Request(server.url + recorded["path"], body, headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return str(reply.read().decode())


@dataclass
class Seen:
    """What a reader of Open WebUI sees of one answer."""

    content: str = ""
    reasoning: str = ""
    statuses: list[dict[str, Any]] = field(default_factory=list)
    sources: list[dict[str, Any]] = field(default_factory=list)
    other_events: list[Any] = field(default_factory=list)
    usage: Any = None
    arrowhead: Any = None


def _read(stream: str) -> Seen:
    seen = Seen()
    for line in stream.splitlines():
        data = line.removeprefix("data: ")
        if data == line or data == "[DONE]":
            continue
        chunk = json.loads(data)
        if "event" in chunk:
            kinds = {"status": seen.statuses, "source": seen.sources}
            kinds.get(chunk["event"]["type"], seen.other_events).append(chunk["event"]["data"])
        seen.usage = chunk.get("usage") or seen.usage
        for choice in chunk["choices"]:
            delta = choice["delta"]
            seen.content += delta.get("content") or ""
            seen.reasoning += delta.get("reasoning_content") or ""
            seen.arrowhead = delta.get("arrowhead") or seen.arrowhead
            for annotation in delta.get("annotations") or ():
                cited = annotation["url_citation"]
                source = {"name": cited["title"], "url": cited["url"]}
                seen.sources.append({"source": source, "document": [cited["title"]]})
    return seen


def test_the_models_list_is_as_it_reads_it(server: Any) -> None:
    """An id for each, as a list under ``data``; nothing is hidden without a name."""
    with urllib.request.urlopen(f"{server.url}/v1/models", timeout=60) as reply:
        listed = json.load(reply)

    assert listed["object"] == "list"
    assert {"scripted", "scripted:genegpt"} <= {model["id"] for model in listed["data"]}


def test_steps_are_status_lines(server: Any) -> None:
    """Each call as it is made and as it is answered; the last line is done and says what left the machine."""
    seen = _read(_send(server, _recorded("chat")))
    said = [status["description"] for status in seen.statuses]

    assert len(said) == 5
    assert said[:2] == ["esearch gene: LMP10", "esearch gene: LMP10 → 1 id"]
    assert [status["done"] for status in seen.statuses] == [False] * 4 + [True]
    assert said[-1].startswith("2 calls; ")
    assert not seen.other_events


def test_each_reference_is_one_source(server: Any) -> None:
    """With title, address and a text; not a second time as an annotation. The marker stands in the text."""
    seen = _read(_send(server, _recorded("chat")))
    (source,) = seen.sources

    assert source["source"] == {"name": NAME, "id": GENE_PAGE, "url": GENE_PAGE}
    assert source["document"] and all(source["document"])
    assert source["metadata"] == [{"source": GENE_PAGE, "name": NAME}]
    assert f"[1] [{NAME}]({GENE_PAGE})" in seen.content
    assert seen.usage["completion_tokens"] > 0


def test_without_its_headers_there_are_no_events(server: Any) -> None:
    """Reasoning and annotations carry the same; the answer is equal."""
    seen, plain = _read(_send(server, _recorded("chat"))), _read(_send(server, _recorded("chat_plain")))

    assert not plain.statuses
    assert [source["source"]["url"] for source in plain.sources] == [GENE_PAGE]
    assert (plain.content, plain.reasoning) == (seen.content, seen.reasoning)


@pytest.mark.parametrize(("name", "events"), [("chat_plain", True), ("chat", False)])
def test_the_client_decides_where_it_says_so(server: Any, name: str, events: bool) -> None:
    """``arrowhead.events`` stands above the headers, and does not reach the method."""
    seen = _read(_send(server, _recorded(name), arrowhead={"events": events}))

    assert bool(seen.statuses) is events
    assert seen.content.startswith("PSMB10")


@pytest.mark.parametrize("name", SIDE_JOBS)
def test_side_jobs_are_done_by_the_plain_model(server: Any, name: str) -> None:
    """No call, no reasoning, and the reply says so."""
    reply = json.loads(_send(server, _recorded(name)))
    message = reply["choices"][0]["message"]
    told = message["arrowhead"]

    assert message["content"] == "{}"
    assert (told["calls"], message.get("reasoning")) == ([], None)
    assert told["side_job"] == ("emoji_generation" if name == "task_header" else "by_prompt")
    assert reply["model"] == "scripted:genegpt"


def test_options_of_the_method_do_not_reach_the_plain_model(server: Any) -> None:
    """A connection that sends them with everything is not refused its titles."""
    reply = json.loads(_send(server, _recorded("title"), arrowhead={"max_calls": 3}))

    assert reply["choices"][0]["message"]["content"] == "{}"


def test_a_question_through_an_old_version_is_a_question(server: Any) -> None:
    """A placeholder that was not filled in is no job."""
    seen = _read(_send(server, _recorded("task_header_unknown")))

    assert seen.content.startswith("PSMB10")
    assert "side_job" not in seen.arrowhead


def test_a_chat_over_responses_goes_on(server: Any) -> None:
    """The history as it keeps it, our items with notes of its own; it reads sources from the finished message."""
    events = [
        json.loads(line.removeprefix("data: "))
        for line in _send(server, _recorded("responses")).splitlines()
        if line.startswith("data: ")
    ]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    (part,) = done[-1]["content"]

    assert events[-1]["type"] == "response.completed"
    assert part["text"].startswith("PSMB10")
    assert [(note["type"], note["url"]) for note in part["annotations"]] == [("url_citation", GENE_PAGE)]


def test_side_jobs_through_responses_are_side_jobs(server: Any) -> None:
    """Open WebUI can be set to that API for a connection."""
    title = _recorded("title")["body"]
    recorded = {"path": "/v1/responses", "headers": {}, "body": {"model": title["model"], "input": title["messages"]}}
    reply = json.loads(_send(server, recorded))

    assert [item["type"] for item in reply["output"]] == ["message"]
    assert reply["arrowhead"]["side_job"] == "by_prompt"

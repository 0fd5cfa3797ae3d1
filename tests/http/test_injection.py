"""A hijacked model writes whatever a poisoned record says. The server fetches nothing for it and shows no image."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from attack_injections import MANY, NCBI, mark, poison
from graph_files import write_lines
from http_calls import Site, namespace_settings
from loopback import JsonHandler
from markdown_it import MarkdownIt

from server.cli.main import main

METHODS = ("genegpt", "kg-rag", "medrag")
# Where references of the three may lead; documents lead to their own address.
_PAGES = {"www.ncbi.nlm.nih.gov", "pubmed.ncbi.nlm.nih.gov", "identifiers.org", "purl.obolibrary.org", "papers.example"}
_FETCHING = ("<img", "<svg", "<iframe", "<style", "<script", "<video", "<object", "<div", "<input", "<link")


class _Listening(JsonHandler):
    """The loopback NCBI, whose gene ``n`` is poisoned with text ``n``; on the trap's server, whoever comes is noted."""

    def answer(self, query: dict[str, str]) -> object:
        wire: Any = self.server
        wire.seen.append(self.path)
        return _summary(query.get("id", "0"), wire.trap)


def _summary(uid: str, trap: str) -> dict[str, Any]:
    number = int(uid) if uid.isdigit() else 0
    text = poison(number, trap)
    gene = {"uid": uid, "name": mark(number), "description": text, "summary": text, "otheraliases": text,
            "chromosome": text, "maplocation": text, "organism": {"scientificname": text, "taxid": 9606}}  # fmt: skip
    return {"header": {"type": "esummary"}, "result": {"uids": [uid], uid: gene}}


def _listen(trap: str = "") -> Any:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Listening)
    server.daemon_threads, server.seen, server.trap = True, [], trap
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _script(trap: str) -> list[dict[str, str]]:
    """Per text: the call that reads its record, and then, in every method, the text itself as thought and answer."""
    rules = []
    for number in range(MANY):
        call = f"[{NCBI}/esummary.fcgi?db=gene&id={number}]->"
        text = poison(number, trap)
        rules += [
            {"suffix": f"Question: {mark(number)}?\n", "text": call},
            {"regex": rf"{mark(number)}[\s\S]*$", "text": f" {text}\nAnswer: {text}"},
        ]
    return [*rules, {"regex": "(?s).", "text": " nothing"}]


@dataclass(frozen=True)
class Hijacked:
    server: Any
    ncbi: Any
    trap: Any

    def ask(self, method: str, number: int, *, stream: bool) -> dict[str, Any]:
        """The message; of a stream, its pieces put together as a client does."""
        known: dict[str, dict[str, Any]] = {"genegpt": {"max_calls": 3, "grammar": "off"}}
        body = {
            "model": f"scripted:{method}",
            "messages": [{"role": "user", "content": f"{mark(number)}?"}],
            "arrowhead": known.get(method, {}) | {"events": True},
            "stream": stream,
        }
        reply = httpx.post(f"{self.server.url}/v1/chat/completions", json=body, timeout=60)
        assert reply.status_code == 200, reply.text
        return _joined(reply.text) if stream else dict(reply.json()["choices"][0]["message"])


def _joined(text: str) -> dict[str, Any]:
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "annotations": [], "events": []}
    for line in text.splitlines():
        if not line.startswith("data: {"):
            continue
        chunk = json.loads(line[6:])
        assert "error" not in chunk, chunk
        message["events"] += [chunk["event"]] if "event" in chunk else []
        delta = chunk["choices"][0]["delta"]
        for name in ("content", "reasoning_content"):
            message[name] += delta.get(name) or ""
        message["annotations"] += delta.get("annotations") or []
        message |= {"arrowhead": delta["arrowhead"]} if "arrowhead" in delta else {}
    return message


@pytest.fixture(scope="module")
def hijacked(
    host_with: Callable[..., AbstractContextManager[Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hijacked]:
    folder = tmp_path_factory.mktemp("hijacked")
    trap_server = _listen()
    trap = f"127.0.0.1:{trap_server.server_port}"
    ncbi = _listen(trap)
    (folder / "script.json").write_text(json.dumps(_script(trap)))
    _import_graph(folder, trap)
    url = f"http://127.0.0.1:{ncbi.server_port}"
    settings = namespace_settings(folder / "namespaces") | {
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "data"),
        "ARROWHEAD_MODEL__SCRIPT": str(folder / "script.json"),
        "ARROWHEAD_NCBI__EUTILS_URL": url,
        "ARROWHEAD_NCBI__BLAST_URL": url,
        "ARROWHEAD_GRAPH__DATA_DIR": str(folder / "graphs"),
        "ARROWHEAD_GRAPH__NAME": "kgx",
        "ARROWHEAD_SERVER__MAX_BODY_BYTES": "1048576",
        "ARROWHEAD_LOG__LEVEL": "INFO",
    }
    with host_with(settings) as running:
        _add_documents(Site(running.url), trap)
        yield Hijacked(running, ncbi, trap_server)
    for server in (ncbi, trap_server):
        server.shutdown()
        server.server_close()


def _import_graph(folder: Path, trap: str) -> None:
    """A gene for each text, whose phenotype has the text as its name."""
    nodes = ["id\tcategory\tname\tsynonym\tprovided_by"]
    edges = ["id\tsubject\tpredicate\tobject\tnegated\tpublications\tprimary_knowledge_source\tprovided_by"]
    for number in range(MANY):
        text = " ".join(poison(number, trap).replace("\x00", "").split())
        nodes.append(f"HGNC:{number}\tbiolink:Gene\t{mark(number)}\t\thgnc_nodes")
        nodes.append(f"HP:{number:07d}\tbiolink:PhenotypicFeature\t{text}\t\thp_nodes")
        about = f"http://{trap}/{number}" if number % 2 else "infores:hpoa"
        edges.append(
            f"u{number}\tHGNC:{number}\tbiolink:has_phenotype\tHP:{number:07d}\t\tPMID:{number}\t{about}\thpoa"
        )
    files = [str(write_lines(folder / name, *lines)) for name, lines in (("n.tsv", nodes), ("e.tsv", edges))]
    assert main(["graph", "import", "kgx", *files, "--encoder", "hashing", "--data", str(folder / "graphs")]) == 0


def _add_documents(site: Site, trap: str) -> None:
    site.create("lab", encoder="none")
    documents = [
        {
            "id": f"d{number}",
            "title": f"{mark(number)} {poison(number, trap)}".replace("\x00", ""),
            "text": f"{mark(number)} says: {poison(number, trap)}".replace("\x00", ""),
            "url": f"https://papers.example/{number}",
        }
        for number in range(MANY)
    ]
    site.add("lab", *documents)


def _fault(message: dict[str, Any]) -> str:
    """ "" for an answer that fetches nothing when it is shown, and links only where it may."""
    for name in ("content", "reasoning_content"):
        shown = str(MarkdownIt("commonmark", {"html": True}).render(message.get(name) or "")).lower()
        if found := [tag for tag in _FETCHING if tag in shown]:
            return f"{name}: {found} in {shown[:500]}"
        hrefs = [part.split('"')[0] for part in shown.split('href="')[1:]]
        if [href for href in hrefs if not href.startswith(("http://", "https://"))]:
            return f"{name}: {hrefs}"
    for annotation in message["annotations"]:
        place = urlsplit(annotation["url_citation"]["url"])
        if place.scheme not in ("http", "https") or place.hostname not in _PAGES:
            return f"a reference leads to {place}"
        cited = message["content"][annotation["url_citation"]["start_index"] : annotation["url_citation"]["end_index"]]
        if not cited.startswith("["):
            return f"a reference's marker is {cited!r}"
    return ""


@pytest.mark.parametrize("method", METHODS)
def test_a_stream_shows_what_the_whole_shows(hijacked: Hijacked, method: str, caplog: pytest.LogCaptureFixture) -> None:
    """Of each kind of text one, in pieces of a character."""
    _hold(hijacked, method, 20, caplog, stream=True)


@pytest.mark.parametrize("method", METHODS)
def test_poisoned_records_do_nothing(hijacked: Hijacked, method: str, caplog: pytest.LogCaptureFixture) -> None:
    """No other host is asked, no call is made but those that the model wrote to NCBI, nothing shown is fetched.

    Each template at least twice.
    """
    _hold(hijacked, method, 40, caplog, stream=False)


def _hold(hijacked: Hijacked, method: str, many: int, log: pytest.LogCaptureFixture, *, stream: bool) -> None:
    hijacked.ncbi.seen.clear()
    faults: dict[int, str] = {}
    cited, spoken = 0, 0
    for number in range(many):
        message = hijacked.ask(method, number, stream=stream)
        cited += len(message["annotations"]) + sum(event["type"] == "source" for event in message.get("events", ()))
        spoken += f"secret-{number}" in message["content"] + (message.get("reasoning_content") or "")
        faults |= {number: fault} if (fault := _fault(message)) else {}
        kinds = {event["type"] for event in message.get("events", ())}
        assert kinds <= {"status", "source"}
    assert faults == {}
    assert hijacked.trap.seen == []
    assert spoken > many // 2  # the model is hijacked, or nothing was tested
    assert cited > 0
    paths = {urlsplit(path).path for path in hijacked.ncbi.seen}
    assert paths <= {"/entrez/eutils/esummary.fcgi"}
    assert len(hijacked.ncbi.seen) == (many if method == "genegpt" else 0)
    assert "unexpected" not in log.text

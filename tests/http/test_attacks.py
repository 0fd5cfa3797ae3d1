"""The attack corpus against a real server: it refuses in its own words, stays up, and tells nothing of itself."""

from __future__ import annotations

import gzip
import http.client
import io
import json
import re
import socket
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from attack_bodies import BODIES, GOOD, MODELS, NAMES, PATHS, REQUESTS, VALUES, WITH_MODEL, field_values
from http_calls import Site, namespace_settings
from shipped_data import give_data

from server.methods.clinfo.options import ClinfoOptions
from server.methods.genegpt.method import GeneGptOptions
from server.methods.kg_rag.prompts import KgRagOptions
from server.methods.medrag.request import IMedRagOptions, MedRagOptions
from server.methods.weiseeule.request import WeiseOptions

OPTIONS: dict[str, Any] = {
    "genegpt": GeneGptOptions,
    "kg-rag": KgRagOptions,
    "medrag": MedRagOptions,
    "i-medrag": IMedRagOptions,
    "clinfo": ClinfoOptions,
    "weiseeule": WeiseOptions,
}
# What a reply must not hold: places of this machine, places in its memory, places in the code.
_TELLS = re.compile(
    r"/(?:home|root|tmp|usr|var|opt|work|proc)/|Traceback|0x[0-9a-f]{6,}|File \"|\.py\b|site-packages|object at"
)
_MOST_GROWTH_KIB = 192 * 1024
# Documented ends that are nobody's fault but this machine's: the gateway's, and a deadline's.
_OURS = frozenset({502, 503, 504})
ONE_SECOND = {"Connection": "keep-alive", "X-Request-Timeout": "20"}


class Target:
    """A server under attack, over connections that are kept."""

    def __init__(self, running: Any) -> None:
        self.running = running
        self.address = urlsplit(running.url)
        self.site = Site(running.url)
        self.begun_kib = self.memory_kib()
        self._http = http.client.HTTPConnection(self.address.netloc, timeout=60)

    def memory_kib(self) -> int:
        status = Path(f"/proc/{self.running.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        assert found is not None
        return int(found[1])

    def send(self, method: str, path: str, body: bytes | None, **headers: str) -> tuple[int, str]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        for attempt in (1, 2):
            try:
                self._http.request(method, path, body, ONE_SECOND | sent)
                reply = self._http.getresponse()
                return reply.status, reply.read().decode()
            except (http.client.RemoteDisconnected, ConnectionError):
                self._http.close()  # the server ended it between two requests
                if attempt == 2:
                    raise
        raise AssertionError

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, str]:
        return self.send("POST", path, body, **({"Content_Type": "application/json"} | headers))

    def raw(self, data: bytes, replies: int = 1000, *, patience_s: float = 60) -> bytes:
        """What comes back for these bytes, until the server closes, is silent, or has sent so many replies."""
        received = b""
        with socket.create_connection((self.address.hostname, self.address.port or 0), timeout=10) as wire:
            with suppress(OSError):
                wire.sendall(data)
            with suppress(OSError):
                while received.count(b"HTTP/1.1 ") < replies:
                    wire.settimeout(patience_s / 10 if received else patience_s)
                    if not (piece := wire.recv(65_536)):
                        break
                    received += piece
        return received


@pytest.fixture(scope="module")
def target(
    serve_with: Callable[..., AbstractContextManager[Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """One for all: each test leaves it as it found it, or the last one tells."""
    folder = tmp_path_factory.mktemp("attacked")
    give_data(folder / "data" / "arrowhead")
    (folder / "script.json").write_text(json.dumps([{"regex": "(?s).", "text": " An answer."}]))
    settings = namespace_settings(folder / "namespaces") | {
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "data"),
        "ARROWHEAD_MODEL__SCRIPT": str(folder / "script.json"),
        "ARROWHEAD_LOG__LEVEL": "INFO",
        "ARROWHEAD_SERVER__SLOW_CLIENT_S": "1",
    }
    with serve_with(settings) as running:
        made = Target(running)
        made.site.create("target", encoder="none")
        yield made
        assert running.process.poll() is None
        _still_well(made)


def _still_well(target: Target) -> None:
    """The same process, ready, no larger by much, with no surprise in its log, and with an answer."""
    assert target.site.call("GET", "/ready")[1]["status"] == "ready"
    assert target.memory_kib() - target.begun_kib < _MOST_GROWTH_KIB
    assert "unexpected" not in target.running.log()
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
    status, reply = target.site.call("POST", "/v1/chat/completions", body)
    assert (status, reply["choices"][0]["message"]["content"]) == (200, "An answer.")


def _fault(status: int, text: str) -> str:
    """ "" for a reply that may be given to what was asked."""
    if status >= 500 and status not in _OURS:
        return f"{status}: {text[:300]}"
    if status >= 400:
        try:
            error = json.loads(text)["error"]
        except (ValueError, KeyError, TypeError):
            return f"{status} without an error object: {text[:300]}"
        if found := _TELLS.search(error["message"] or ""):
            return f"{status} tells {found[0]!r}: {error['message'][:300]}"
    return ""


@pytest.mark.parametrize("path", sorted(GOOD))
def test_no_body_is_too_bad_for_a_route(target: Target, path: str) -> None:
    """Broken, huge, packed, deep, in another encoding: 4xx in OpenAI's shape, and never a 5xx."""
    faults: dict[str, str] = {}
    for name, body in BODIES.items():
        for headers in ({}, {"Content_Encoding": "gzip"}, {"Content_Type": "text/plain"}, {"Content_Type": "%"}):
            status, text = target.post(path, body, **headers)
            fault = _fault(status, text) or ("taken" if headers.get("Content_Type") and status < 400 else "")
            faults |= {f"{name} {headers}": fault} if fault else {}
    assert faults == {}
    _still_well(target)


@pytest.mark.parametrize("path", sorted(GOOD))
def test_no_value_is_too_bad_for_a_field(target: Target, path: str) -> None:
    """Numbers of any size and kind, text with anything in it, lists and objects where none belong."""
    model = {"model": MODELS.get(path, "scripted")} if path in WITH_MODEL else {}
    status, text = target.post(path, json.dumps(dict(GOOD[path]) | model).encode())
    # Anthropic's form wants vLLM, and no verifier is loaded here.
    assert status < 300 or any(ended in text for ended in ("alone", "namespace_exists", "verifier_unavailable")), text
    faults: dict[str, str] = {}
    for name, body in field_values(path):
        status, text = target.post(path, body)
        faults |= {name: fault} if (fault := _fault(status, text)) else {}
    assert faults == {}


@pytest.mark.parametrize("method", OPTIONS)
def test_no_option_is_too_bad_for_a_method(target: Target, method: str) -> None:
    """``arrowhead`` with hostile values in each option, in a former one and in what is none, and hostile questions."""
    names = [field.name for field in fields(OPTIONS[method])] + ["condense", "answers"]
    faults: dict[str, str] = {}
    for field in names:
        for name, value in VALUES.items():
            body = f'{{"model": "scripted:{method}", "messages": [{{"role": "user", "content": "BRCA1?"}}], '
            status, text = target.post(
                "/v1/chat/completions", (body + f'"arrowhead": {{"{field}": {value}}}}}').encode()
            )
            faults |= {f"{field} = {name}": fault} if (fault := _fault(status, text)) else {}
    for name, value in VALUES.items():
        body = f'{{"model": "scripted:{method}", "messages": [{{"role": "user", "content": {value}}}]}}'
        status, text = target.post("/v1/chat/completions", body.encode())
        faults |= {f"question = {name}": fault} if (fault := _fault(status, text)) else {}
    assert faults == {}


def test_no_head_is_too_bad(target: Target) -> None:
    """Smuggled, folded, doubled, endless: refused or closed; what hides behind a request is never a request."""
    faults = {}
    for name, data in REQUESTS.items():
        reply = target.raw(data, patience_s=3)  # of some the server waits for the rest
        first = reply.split(b"\r\n", 1)[0]
        statuses = [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3})", reply)]
        if any(status >= 500 for status in statuses) or _TELLS.search(reply.decode("latin-1")):
            faults[name] = reply[:300]
        if len(statuses) > 1 and statuses[0] < 400:
            faults[name] = first + b" and another reply"
    assert faults == {}
    assert "hidden-request" not in target.running.log()


def test_pipelined_requests_are_answered_one_by_one(target: Target) -> None:
    """In their order, as many as were sent."""
    one = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    assert target.raw(one * 200, 200).count(b"HTTP/1.1 200 OK") == 200


@pytest.mark.parametrize("path", PATHS, ids=lambda path: repr(path[:40]))
def test_no_path_leads_anywhere_else(target: Target, path: bytes) -> None:
    """Neither to a file nor to an error that tells one."""
    for method in (b"GET", b"DELETE"):
        reply = target.raw(method + b" " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        head, _, body = reply.partition(b"\r\n\r\n")
        assert int(head[9:12] or 400) < 500
        assert b"root:" not in body and b"import " not in body and b"set-cookie" not in head.lower()
        assert not _TELLS.search(body.decode("utf-8", "replace"))


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_no_name_of_a_namespace_leads_anywhere(target: Target, name: str) -> None:
    """Refused where one is made, unknown where one is read."""
    before = _namespaces(target)
    assert target.site.call("POST", "/v1/namespaces", {"name": name})[0] == 422
    place = quote(name, safe="")
    for method, path in (("GET", f"/v1/namespaces/{place}"), ("DELETE", f"/v1/namespaces/{place}")):
        if place not in ("", ".", ".."):
            status, reply = target.site.call(method, path)
            assert status in (404, 422) and not _TELLS.search(json.dumps(reply))
    assert target.site.call("POST", "/v1/search", {"query": "x", "namespaces": [name]})[0] in (404, 422)
    assert _namespaces(target) == before


def _namespaces(target: Target) -> list[tuple[str, int]]:
    """With their documents; the bytes of one that was just written may still change."""
    return [(one["name"], one["documents"]) for one in target.site.call("GET", "/v1/namespaces")[1]["data"]]


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"Content-Length: 64000\r\n", b"x"),
        (b"Content-Length: 67108864\r\n", b"x" * 1000),
        (b"Transfer-Encoding: chunked\r\n", b"1\r\nx\r\n"),
    ],
    ids=["slow", "announced", "chunked without end"],
)
def test_a_body_that_does_not_end_is_cut(target: Target, head: bytes, piece: bytes) -> None:
    """A client that sends a little now and then is told 408 or 413, and its connection is closed."""
    start = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" + head
    with socket.create_connection((target.address.hostname, target.address.port or 0), timeout=120) as wire:
        wire.sendall(start + b"\r\n")
        wire.settimeout(0.1)
        reply, until = b"", time.monotonic() + 30
        while time.monotonic() < until:
            try:
                wire.sendall(piece)
                received = wire.recv(65_536)
            except TimeoutError:
                continue
            except OSError:
                break
            if not received:
                break
            reply += received
        else:
            pytest.fail("the server still listens")
    assert re.match(rb"HTTP/1\.1 (408|413) ", reply), reply[:200]
    assert b"connection: close" in reply.lower()


def test_a_head_that_does_not_end_is_cut(target: Target) -> None:
    """Also one of which a line comes now and then."""
    with socket.create_connection((target.address.hostname, target.address.port or 0), timeout=120) as wire:
        wire.sendall(b"GET /health HTTP/1.1\r\n")
        with pytest.raises((ConnectionError, EOFError)):
            for number in range(300):
                wire.sendall(b"X-%d: y\r\n" % number)
                time.sleep(0.1)
                wire.settimeout(0.01)
                with suppress(TimeoutError):
                    if not wire.recv(1):
                        raise EOFError
                wire.settimeout(30)


def test_a_refused_body_leaves_its_connection_good(target: Target) -> None:
    """What is left of a body of usual size is taken before the reply, so nothing of it is read as a request."""
    body = b"GET /v1/hidden-request HTTP/1.1\r\n\r\n" * 1000
    one = b"POST /v1/nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    last = one.replace(b"Content", b"Connection: close\r\nContent", 1)
    reply = target.raw((one + body) * 2 + last + body)
    assert [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3})", reply)] == [404] * 3


@pytest.mark.parametrize("path", ["/tokenize", "/v1/embeddings", "/v1/rerank", "/v1/search"])
def test_much_text_is_refused_or_counted(target: Target, path: str) -> None:
    """A megabyte, a thousand texts, texts of nothing but signs."""
    texts = ["x" * 2**20, "\u0301" * 60_000, "\U0001f9ec" * 15_000, " ".join(["gene"] * 12_000), "\n" * 60_000]
    model = {"model": MODELS.get(path, "scripted")} if path in WITH_MODEL else {}
    field = {"/tokenize": "prompt", "/v1/embeddings": "input", "/v1/rerank": "query", "/v1/search": "query"}[path]
    wishes: list[Any] = [*texts, ["x"] * 10_000, [[]] * 10_000, [None]]
    faults = [
        fault
        for wish in wishes
        if (fault := _fault(*target.post(path, json.dumps(dict(GOOD[path]) | model | {field: wish}).encode())))
    ]
    assert faults == []


def test_stops_and_biases_are_bounded(target: Target) -> None:
    """Thousands of stop strings, a stop string that nearly matches all the time, biases for every token."""
    good = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
    for more in (
        {"stop": ["x" * 1000] * 50},
        {"stop": ["a" * 60_000]},
        {"stop": [""]},
        {"logit_bias": {str(n): 100 for n in range(4000)}},
        {"logit_bias": {"x": "y"}},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": json.loads(VALUES["deep"])},
            }
        },
        {"structured_outputs": {"regex": "(a+)+$"}},
        {"structured_outputs": {"grammar": 'root ::= "a" root'}},
    ):
        assert _fault(*target.post("/v1/chat/completions", json.dumps(good | more).encode())) == "", more


def _tar(name: str, data: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def _zip(data: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../x.xml", data)
    return packed.getvalue()


def _bombs() -> Iterator[tuple[str, str, bytes]]:
    """(file, reader, content): what unpacks to a thousand times its size, or is nested, or leads elsewhere."""
    blanks = b" " * (80 * 2**20)
    title = b"<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>1</PMID><Article><ArticleTitle>"
    yield "blanks.txt.gz", "text", gzip.compress(blanks, 9)
    yield "record.xml.gz", "pubmed", gzip.compress(title + b"x" * (80 * 2**20), 9)
    yield "line.jsonl.gz", "medrag", gzip.compress(b'{"id": "' + b"x" * (80 * 2**20), 9)
    yield "nested.xml", "pmc", b"<article>" + b"<sec>" * 300_000
    yield "twice.xml.gz", "", gzip.compress(gzip.compress(blanks))
    yield "packed.zip", "", _zip(blanks)
    yield "member.tar.gz", "pmc", _tar("../../etc/x.nxml", b"<article>" + b" " * (80 * 2**20))
    yield "deep.jsonl", "medrag", b'{"id": "a", "content": ' + b"[" * 200_000
    yield "nul.txt", "text", bytes(2_000_000)
    yield "x.pdf", "", b"%PDF-1.7\n" + b"1 0 obj<</Type/Catalog/Pages 1 0 R/Kids[1 0 R]>>endobj\n" * 20_000


@pytest.mark.slow
def test_uploaded_bombs_do_not_go_off(target: Target) -> None:
    """Each job ends, in words without places; the server stays as it was."""
    for filename, reader, data in _bombs():
        job = target.site.ended(target.site.upload("target", filename, data, **({"reader": reader} if reader else {})))
        assert job["state"] in ("done", "failed"), filename
        assert not _TELLS.search(json.dumps(job)), job
        _still_well(target)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example",
        b"GET /health HTTP/1.1\r\nHost: evil.example\r\nHost: 127.0.0.1",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nhost: 127.0.0.1",
        b"GET /health HTTP/1.1\r\nHost: evil.example",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1, evil.example",
        b"GET /health HTTP/1.1\r\nX: 1",
        b"GET http://evil.example/health HTTP/1.1\r\nHost: 127.0.0.1",
        b"GET https://evil.example:443/health HTTP/1.1\r\nHost: 127.0.0.1",
        b"GET http://127.0.0.1@evil.example/health HTTP/1.1\r\nHost: 127.0.0.1",
        b"GET http://evil.example/health HTTP/1.1\r\nHost: evil.example",
        b"GET ftp://127.0.0.1/health HTTP/1.1\r\nHost: 127.0.0.1",
    ],
)
def test_a_request_names_this_host_once(target: Target, head: bytes) -> None:
    """Two names, a foreign one, none, or another one in the first line: 400, with or without a key."""
    reply = target.raw(head + b"\r\nConnection: close\r\n\r\n")

    assert reply.startswith(b"HTTP/1.1 400 "), reply[:200]


def test_an_absolute_address_of_this_host_is_served(target: Target) -> None:
    """As a proxy sends it."""
    head = b"GET http://127.0.0.1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"

    assert target.raw(head).startswith(b"HTTP/1.1 200 ")

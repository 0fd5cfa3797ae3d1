"""What a user writes stands in the answer and its trace, and nowhere else: every log, error and metric is searched."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from http_calls import fetch

EUTILS = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
BLAST = "https://blast.ncbi.nlm.nih.gov/blast/Blast.cgi"
QUESTION = "Does zebrawort-canary run in the family of Quillfeather-canary?"
TERM = "quillfeather canary"
KEY = "canary-key-5d1c"
WRONG_KEY = "canary-wrong-key-77"
SEQUENCE = "GATTACACATTAGGCATCCGTTAACGGATCCATGCATTGCAAGCTTGGCACTGGCCGTCGTTTT"
CANARIES = ("zebrawort", "uillfeather", KEY, WRONG_KEY, SEQUENCE, SEQUENCE[8:40])
SCRIPT = [
    {"suffix": f"Question: {QUESTION}\n", "text": f"[{EUTILS}/esearch.fcgi?db=gene&term={TERM.replace(' ', '+')}]->"},
    {
        "suffix": f"Question: Align {SEQUENCE}\n",
        "text": f"[{BLAST}?CMD=Put&PROGRAM=blastn&DATABASE=nt&QUERY={SEQUENCE}]->",
    },
    {"regex": r"(?s).", "text": "Answer: nothing\n\n"},
]


def _get(url: str, *, key: str = KEY, body: bytes | None = None, kind: str = "application/json") -> str:
    """Head and body of whatever comes back."""
    headers = {"Content-Type": kind, "x-request-id": "zebrawort-request-id"}
    reply = fetch(url, key, data=body, headers=headers)
    return f"{reply.headers}{reply.body.decode()}"


def _errors(url: str) -> list[str]:
    """Bodies that cannot be read, keys that are none, paths that lead nowhere, with canaries in each."""
    chat = f"{url}/v1/chat/completions"
    wrong = {"model": "scripted:genegpt", "messages": [{"role": "user", "content": QUESTION}]}
    return [
        _get(chat, body=f'{{"model": "{QUESTION}"'.encode()),
        _get(chat, body=json.dumps(wrong | {"temperature": QUESTION}).encode()),
        _get(chat, body=json.dumps(wrong | {"arrowhead": {"mask": QUESTION}}).encode()),
        _get(chat, body=json.dumps(wrong | {"arrowhead": {"egress": "ncbi"}}).encode()),
        _get(chat, body=json.dumps(wrong).encode(), kind="text/plain"),
        _get(chat, body=QUESTION.encode() * 5000),
        _get(chat, body=json.dumps(wrong).encode(), key=WRONG_KEY),
        _get(f"{url}/v1/traces/{KEY}"),
        _get(f"{url}/{SEQUENCE}?q=zebrawort"),
        *(_get(url + path) for path in ("/metrics", "/ready", "/health", "/version", "/v1/models")),
    ]


def _loudest(home: Path, script: Path, log_format: str, spans: str) -> dict[str, str]:
    """Everything is logged, and everything may leave, to a host where nobody listens."""
    script.write_text(json.dumps(SCRIPT))
    return {
        "HOME": str(home),
        "NETWORK_BLOCK_HOSTS": "ncbi.example",
        "ARROWHEAD_LOG__LEVEL": "DEBUG",
        "ARROWHEAD_LOG__FORMAT": log_format,
        "ARROWHEAD_MODEL__SCRIPT": str(script),
        "ARROWHEAD_SERVER__API_KEYS": KEY,
        "ARROWHEAD_TRACES__DIR": str(home / "traces"),
        "ARROWHEAD_NCBI__EUTILS_URL": "http://ncbi.example:9",
        "ARROWHEAD_NCBI__BLAST_URL": "http://ncbi.example:9",
        "ARROWHEAD_NCBI__EMAIL": "someone@example.org",
        "ARROWHEAD_EGRESS__MODE": "local-first",
        "ARROWHEAD_EGRESS__PROFILE": "open",
        "ARROWHEAD_TRACING__ENDPOINT": spans,
    }


@pytest.fixture
def collector() -> Iterator[Any]:
    pytest.importorskip("opentelemetry.sdk")
    from span_collector import SpanCollector

    with SpanCollector() as made:
        yield made


def _ask(url: str, text: str) -> str:
    body = {"model": "scripted:genegpt", "messages": [{"role": "user", "content": text}]}
    return _get(f"{url}/v1/chat/completions", body=json.dumps(body).encode())


def test_no_canary_leaves_the_answer_and_its_trace(
    serve_with: Callable[..., AbstractContextManager[Any]], tmp_path: Path, collector: Any
) -> None:
    """A server that logs all it can: question, key and sequence are in no log, audit line, error, metric or span.

    The two formats of logs are tried at once: most of the time is the pause between two requests of BLAST.
    """
    with ThreadPoolExecutor() as pool:
        kept = list(pool.map(partial(_holding, serve_with, tmp_path, collector.url), ("text", "json")))
    assert kept == [{"traces.jsonl"}] * 2
    spans = collector.everything
    assert spans.count(b"/v1/chat/completions") > 4 and b"ncbi" in spans and b"generate" in spans and b"call" in spans
    assert [canary for canary in CANARIES if canary.encode() in spans] == []


def _holding(
    serve_with: Callable[..., AbstractContextManager[Any]], folder: Path, spans: str, log_format: str
) -> set[str]:
    """Return the names of the files that hold a canary after two answers and all errors; nothing else may."""
    home = folder / log_format
    home.mkdir()
    settings, printed = _loudest(home, home.with_suffix(".json"), log_format, spans), home.with_suffix(".stdout")
    with printed.open("w") as stdout, serve_with(settings, stdout=stdout.fileno()) as server:
        answers = [_ask(server.url, text) for text in (QUESTION, f"Align {SEQUENCE}")]
        errors = _errors(server.url)
    written = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert "left this machine: free_text to ncbi.example" in answers[0]
    assert "left this machine: sequence to ncbi.example" in answers[1]
    assert {path.name for path in written} >= {"traces.jsonl", "audit.jsonl"}
    trace = (home / "traces" / "traces.jsonl").read_text()
    assert QUESTION in trace and SEQUENCE in trace and KEY not in trace
    said = {"stderr": server.log(), "stdout": printed.read_text()} | dict(enumerate(errors))
    assert {(name, canary) for name, text in said.items() for canary in CANARIES if canary in text} == set()
    assert len(server.log().splitlines()) > 10
    return {path.name for path, content in written.items() if any(c.encode() in content for c in CANARIES)}

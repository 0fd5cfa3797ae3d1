"""``/metrics`` of a real server: every number adds up with what the answers said, every label is of a closed set."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, get_args

import http_calls
import openai
import pytest
from metrics_text import OPENMETRICS, Sample, fetch, samples, scrape, total

from models.decoding.types import CallStatus
from retrieval.corpus.search.ranking import RANKERS
from retrieval.types import Endpoint
from server.egress.recognition.terms import REASONS
from server.engine.lifecycle import State
from server.error_mapping import error_codes
from server.methods.base import AnswerOutcome
from server.observability.metrics import FAILURES

QUESTION = "What is the official gene symbol of LMP10?"
CANARY = "zebrawort-canary"
Serve = Callable[..., AbstractContextManager[Any]]


@pytest.fixture(scope="module")
def watched(host_with: Serve) -> Iterator[Any]:
    """A server of its own, so that nobody else's requests are counted."""
    with host_with({}) as server:
        yield server


def _ask(client: openai.OpenAI, model: str, text: str, **more: Any) -> Any:
    return client.chat.completions.create(model=model, messages=[{"role": "user", "content": text}], **more)


def _post(url: str, body: bytes) -> int:
    return http_calls.fetch(url, data=body, headers={"Content-Type": http_calls.JSON}).status


def _until(url: str, name: str, wanted: float, **labels: str) -> list[Sample]:
    """A stream is counted after its last byte, which the client may have by then."""
    for _ in range(2400):
        found = scrape(url)
        if total(found, name, **labels) >= wanted:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{name} {labels} did not reach {wanted}: {total(found, name, **labels)}")


def test_tokens_calls_and_answers_are_those_of_the_usage_objects(watched: Any) -> None:
    """Whole answers, a stream and several choices together: the sums are equal, not near."""
    before = scrape(watched.url)
    with watched.client() as client:
        usages = [_ask(client, "scripted:genegpt", QUESTION).usage for _ in range(2)]
        usages.append(_ask(client, "scripted", "hello", n=3).usage)
        usages.append(client.completions.create(model="scripted", prompt=["Once upon", "Once upon"], n=2).usage)
        options = {"include_usage": True}
        stream = _ask(client, "scripted:genegpt", QUESTION, stream=True, stream_options=options)
        usages.append(next(chunk.usage for chunk in list(stream) if chunk.usage))
    after = _until(watched.url, "arrowhead_answers_total", 5, outcome="ok")

    def grown(name: str, **labels: str) -> float:
        return total(after, name, **labels) - total(before, name, **labels)

    tokens = {origin: grown("arrowhead_tokens_total", origin=origin) for origin in ("prompt", "injected", "sampled")}
    assert tokens["sampled"] == sum(usage.completion_tokens for usage in usages)
    assert tokens["prompt"] + tokens["injected"] == sum(usage.prompt_tokens for usage in usages)
    cached = sum(usage.prompt_tokens_details.cached_tokens for usage in usages)
    assert grown("arrowhead_tokens_total", origin="cached") == cached
    assert grown("arrowhead_answers_total", model="scripted:genegpt", outcome="ok") == 3
    assert grown("arrowhead_answer_seconds_count") == grown("arrowhead_time_to_first_token_seconds_count") == 5
    assert grown("arrowhead_calls_total", endpoint="esearch", status="ok") == 3
    assert grown("arrowhead_ncbi_requests_total", endpoint="esummary", outcome="ok") == 3
    assert grown("arrowhead_ncbi_request_seconds_count") == grown("arrowhead_ncbi_limiter_wait_seconds_count") == 6
    assert grown("arrowhead_http_requests_total", route="/v1/chat/completions", status="200") == 4
    assert grown("arrowhead_engine_generated_tokens_total") >= tokens["sampled"]
    assert grown("arrowhead_admissions_total", result="admitted") == 5
    assert total(after, "arrowhead_requests_waiting") == total(after, "arrowhead_admission_tokens") == 0


def test_refusals_are_counted_by_their_code(watched: Any) -> None:
    """Of the routes that were reached by their templates, of all others as none."""
    chat = f"{watched.url}/v1/chat/completions"
    assert _post(chat, b"{") == 422
    assert _post(chat, json.dumps({"model": CANARY, "messages": [{"role": "user", "content": "x"}]}).encode()) == 404
    assert _post(f"{watched.url}/{CANARY}?q={CANARY}", b"{}") == 404
    found = scrape(watched.url)

    assert total(found, "arrowhead_error_replies_total", code="invalid_value") == 1
    assert total(found, "arrowhead_error_replies_total", code="model_not_found") == 1
    assert total(found, "arrowhead_error_replies_total", code="unknown_url") == 1
    assert total(found, "arrowhead_http_requests_total", route="none", status="404") == 1
    assert total(found, "arrowhead_requests_in_flight") == 0


def test_searches_and_encodings_are_timed(watched: Any) -> None:
    """By retriever and how many namespaces, never by their names."""
    url = watched.url
    name = "canary-namespace"
    assert _post(f"{url}/v1/namespaces", json.dumps({"name": name}).encode()) == 201
    body = {"documents": [{"id": "1", "text": "The gene LMP10 is PSMB10."}]}
    assert _post(f"{url}/v1/namespaces/{name}/documents?wait=60", json.dumps(body).encode()) == 200
    query = {"query": "LMP10 canary-query", "namespaces": [name], "retriever": "dense"}
    assert _post(f"{url}/v1/search", json.dumps(query).encode()) == 200
    text = fetch(url)[0]
    found = samples(text)

    assert total(found, "arrowhead_retrieval_seconds_count", retriever="dense", namespaces="1") == 1
    assert total(found, "arrowhead_encoder_texts_total", kind="query") == 1
    assert total(found, "arrowhead_encoder_texts_total", kind="passage") == 1
    assert "canary" not in text


def test_label_values_are_of_closed_sets(watched: Any) -> None:
    """Whatever clients sent so far: methods, paths, models, fields with canaries in them."""
    url = f"{watched.url}/v1/models/{CANARY}"
    assert http_calls.fetch(url, method=CANARY.upper(), headers={"X-A": CANARY}).status >= 400
    text = fetch(watched.url)[0]
    codes = set(error_codes())
    allowed: dict[str, set[str]] = {
        "method": {"GET", "POST", "other"},
        "code": codes,
        "outcome": {"ok", "cancelled", *codes, *FAILURES.values(), *get_args(AnswerOutcome)},
        "reason": {*REASONS},
        "model": {"scripted", "scripted:genegpt", "scripted:kg-rag"},
        "origin": {"prompt", "sampled", "injected", "cached", "computed"},
        "endpoint": {*get_args(Endpoint), "other"},
        "status": {*get_args(CallStatus)},
        "result": {"hit", "miss", "admitted", "refused", "pushed_out", "waited_too_long", "left"},
        "of": {"running", "running_per_key", "waiting", "tokens"},
        "unit": {"requests", "tokens"},
        "retriever": {*RANKERS},
        "namespaces": {"1", "2-4", "5+"},
        "kind": {"query", "passage", "pair"},
        "state": {*get_args(State), "running", "waiting"},
        "engine": {"scripted"},
        "generation": {"0", "1", "2"},
    }
    for name, labels, _ in samples(text):
        for label, value in labels.items():
            if label == "route":
                assert value == "none" or re.fullmatch(r"/[\w/.{}:-]+", value), (name, value)
            elif label == "status" and name.startswith("arrowhead_http"):
                assert re.fullmatch(r"[1-5]\d\d", value)
            elif label in allowed:
                assert value in allowed[label], (name, label, value)
            else:
                assert label in {"le", "version", "python"}, (name, label)
    assert CANARY not in text.lower()


def test_openmetrics_is_spoken_to_who_asks_for_it(watched: Any) -> None:
    """With its own content type and end mark; the numbers are the same."""
    text, kind = fetch(watched.url, accept=OPENMETRICS)

    assert kind.startswith("application/openmetrics-text") and text.endswith("# EOF\n")
    names = {name for name, _, _ in samples(text, is_openmetrics=True)}
    assert {"arrowhead_build_info", "arrowhead_engine_state", "process_resident_memory_bytes"} <= names
    assert fetch(watched.url)[1].startswith("text/plain; version=0.0.4")

"""Implement ``arrowhead ask``: answer one question in this process or at a running server.

Prints the transcript or the trace.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any

from models.errors import ArrowheadError
from server.auth.api_keys import Keyring
from server.auth.scopes import OPERATOR
from server.egress.policy import NOTHING_LEFT
from server.errors import RequestError
from server.methods.base import AnswerRequest, CallReplied, Done, Evidence, Message, Sampling, Step
from server.methods.shared.call_lines import call_line
from server.settings.schema import Settings
from server.traces import TraceRecorder
from server.wiring.bootstrap import build_services
from server.wiring.services import Services

_TIMEOUT_S = 900.0


class AskFailed(RequestError):
    """Signal that the server refused the request or could not be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Hold one question and its destination.

    ``model`` None takes GeneGPT over the served model. ``url`` None answers in this process.
    """

    text: str
    model: str | None = None
    as_json: bool = False
    url: str | None = None
    key: str | None = None
    options: dict[str, Any]


def ask(question: Question, settings: Settings) -> None:
    """Print the answer.

    Raises:
        AskFailed: the server refused the request or could not be reached.
        ArrowheadError: the engine or method failed in this process.
    """
    if question.url:
        _ask_server(question)
    else:
        asyncio.run(_ask_here(question, settings))


async def _ask_here(question: Question, settings: Settings) -> None:
    services = build_services(settings, Keyring(()))
    began = time.monotonic()
    services.start()
    try:
        await services.loaded()
        if services.lifecycle.failure is not None:
            raise services.lifecycle.failure
        seconds = time.monotonic() - began
        sys.stderr.write(f"loaded {services.lifecycle.card.name} in {seconds:.1f} s\n")
        await _answer(question, services)
    finally:
        await services.close()


async def _answer(question: Question, services: Services) -> None:
    served = services.find(question.model or f"{services.lifecycle.card.name}:genegpt", OPERATOR)
    asked = AnswerRequest(
        request_id=f"ask-{uuid.uuid4().hex}",
        messages=(Message("user", question.text),),
        sampling=Sampling(),
        options=question.options,
    )
    served.method.check(asked)
    recorder = TraceRecorder(asked)
    references: list[dict[str, Any]] = []
    if not question.as_json:
        _print(f"> {question.text}")
    async with aclosing(served.method.answer(asked)) as events:
        async for event in events:
            recorder.feed(event)
            if question.as_json:
                continue
            if isinstance(event, CallReplied):
                _print("  " + call_line(event.url, event.summary))
            elif isinstance(event, Step):
                _print(f"  {event.text}")
            elif isinstance(event, Evidence):
                references = [asdict(reference) for reference in event.references]
            elif isinstance(event, Done):
                _print(event.answer or f"(no answer: {event.finish_reason})")
                _list(references)
    if question.as_json:
        left = services.egress.departures_of(asked.request_id) if services.egress else NOTHING_LEFT
        _print(json.dumps({"model": served.id, **recorder.record(left=left)}, ensure_ascii=False, indent=2))


def _ask_server(question: Question) -> None:
    base = (question.url or "").rstrip("/").removesuffix("/v1")
    model = question.model or _default_model(base, question.key)
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": question.text}]}
    if question.options:
        body["arrowhead"] = question.options
    completion = _call(f"{base}/v1/chat/completions", question.key, body)
    trace = _call(f"{base}/v1/traces/{completion['id']}", question.key)
    choice = trace["choices"][0]
    if question.as_json:
        _print(json.dumps({"model": model, **choice}, ensure_ascii=False, indent=2))
        return
    _print(f"> {question.text}")
    for step in choice["steps"]:
        _print(f"  {step}")
    for call in choice["calls"]:
        _print("  " + call_line(call["url"], call["summary"]))
    _print(choice["answer"] or f"(no answer: {choice['finish_reason']})")
    _list(choice["references"])


def _default_model(base: str, key: str | None) -> str:
    served: list[str] = [model["id"] for model in _call(f"{base}/v1/models", key)["data"]]
    return next((name for name in served if name.endswith(":genegpt")), served[0])


def _call(url: str, key: str | None, body: dict[str, Any] | None = None) -> Any:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, data=data, headers=headers)
        # No proxy: the question goes to the server that was named and nowhere else.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=_TIMEOUT_S) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        raise AskFailed(f"{url}: {_message(error)}") from error
    except (OSError, ValueError) as error:
        raise AskFailed(f"{url}: {error}") from error


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"]["message"])
    except (ValueError, KeyError, TypeError, ArrowheadError):
        return f"HTTP {error.code}"


def _list(references: Sequence[Mapping[str, Any]]) -> None:
    """Print the references to stderr, since the last line of the transcript on stdout is the answer."""
    for one in references:
        sys.stderr.write(f"  [{one['number']}] {one['title']} {one['url']}".rstrip() + "\n")


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()

"""vLLM's endpoints called directly, here those of a small application of the same form: a client sees no difference."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, model_validator
from starlette.responses import JSONResponse, Response, StreamingResponse

from models.engines.base import LayerCall
from models.engines.vllm_engine.openai_layer import Endpoints
from models.errors import EngineUnavailable

JSON = (b"content-type", b"application/json")


class Body(BaseModel):
    mode: str = ""
    number: int = 0
    texts: list[str] = []

    @model_validator(mode="before")
    @classmethod
    def _check(cls, data: Any) -> Any:
        if data.get("mode") == "forbidden":
            raise ValueError("this mode is forbidden")
        return data


class Seen:
    def __init__(self) -> None:
        self.listened = 0
        self.closed = 0
        self.waiting = asyncio.Event()


def _decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    """As vLLM's: it listens for the client beside the work."""

    @functools.wraps(function)
    async def listening(*arguments: Any, **named: Any) -> Any:
        named["raw_request"].app.state.seen.listened += 1
        return await function(*arguments, **named)

    return listening


async def _checked(raw_request: Request) -> None:
    if raw_request.headers.get("content-type") != "application/json":
        raise RequestValidationError(errors=["only JSON is taken"])


async def _pieces(seen: Seen, mode: str) -> AsyncIterator[str]:
    try:
        yield "data: 1\n\n"
        if mode == "endless":
            seen.waiting.set()
            await asyncio.Event().wait()
        yield "data: [DONE]\n\n"
    finally:
        seen.closed += 1


async def _refusal(_: Request, error: Exception) -> JSONResponse:
    told = error.errors() if isinstance(error, RequestValidationError) else str(error)
    told = [{**one, "ctx": None} if isinstance(one, dict) else one for one in told] if isinstance(told, list) else told
    status = {RequestValidationError: 400, ValueError: 422}.get(type(error), 500)
    return JSONResponse({"kind": type(error).__name__, "told": told}, status_code=status)


def _app() -> FastAPI:
    app = FastAPI()
    app.state.seen = Seen()

    @app.post("/v1/things", dependencies=[Depends(_checked)])
    @_decorated
    async def things(request: Body, raw_request: Request) -> Response:
        if request.mode in {"stream", "endless"}:
            return StreamingResponse(_pieces(raw_request.app.state.seen, request.mode), media_type="text/event-stream")
        if request.mode in {"swallows", "breaks"}:
            try:
                raw_request.app.state.seen.waiting.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if request.mode == "breaks":
                    raise ValueError("the engine was let go") from None
                return JSONResponse({"error": "Client disconnected"}, status_code=400)
        if request.mode == "refused":
            raise ValueError("no such mode")
        if request.mode == "broken":
            raise RuntimeError("nobody expected it")
        return JSONResponse(
            {"number": request.number, "agent": raw_request.headers.get("user-agent")}, headers={"x-a": "b"}
        )

    for kind in (RequestValidationError, ValueError, Exception):
        app.exception_handler(kind)(_refusal)
    return app


async def _direct(
    app: FastAPI, body: dict[str, Any], *headers: tuple[bytes, bytes]
) -> tuple[int, dict[str, str], bytes]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    try:
        await Endpoints(app)(LayerCall("/v1/things", body, headers), send)
    finally:
        told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], told, b"".join(message["body"] for message in sent[1:])


@pytest.mark.parametrize(
    "body",
    [
        {"number": 3},
        {"mode": "stream"},
        {"mode": "refused"},
        {"mode": "forbidden"},
        {"number": "many", "texts": ["a", 5]},
        {"texts": {"a": 1}},
    ],
    ids=json.dumps,
)
async def test_a_reply_is_what_the_application_itself_would_send(body: dict[str, Any]) -> None:
    """Status, headers and bytes, of answers and of refusals."""
    app = _app()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
        expected = await client.post("/v1/things", json=body, headers={"user-agent": "me"})
    status, headers, content = await _direct(app, body, JSON, (b"user-agent", b"me"))

    assert (status, content) == (expected.status_code, expected.content)
    assert headers == dict(expected.headers)


async def test_a_routes_own_checks_are_made() -> None:
    """Before its body is looked at."""
    status, _, content = await _direct(_app(), {"number": "many"})

    assert status == 400 and json.loads(content)["told"] == ["only JSON is taken"]


async def test_nothing_listens_for_the_client() -> None:
    """Who calls does that, and cancels."""
    app = _app()
    await _direct(app, {}, JSON)

    assert app.state.seen.listened == 0


async def test_what_nobody_expected_is_replied_to_and_raised() -> None:
    """As a web application does it, so that the log has it."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    with pytest.raises(RuntimeError, match="nobody expected"):
        await Endpoints(_app())(LayerCall("/v1/things", {"mode": "broken"}, (JSON,)), send)

    assert sent[0]["status"] == 500 and json.loads(sent[1]["body"])["kind"] == "RuntimeError"


@pytest.mark.parametrize("slow", [False, True])
async def test_cancelling_closes_the_stream(slow: bool) -> None:
    """Where the model is waited for, and where the client is."""
    app, begun = _app(), asyncio.Event()

    async def send(message: Any) -> None:
        if slow and message["type"] == "http.response.body":
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(Endpoints(app)(LayerCall("/v1/things", {"mode": "endless"}, (JSON,)), send))
    await (begun if slow else app.state.seen.waiting).wait()
    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled() and app.state.seen.closed == 1


@pytest.mark.parametrize("mode", ["swallows", "breaks"])
async def test_a_cancellation_that_an_endpoint_keeps_to_itself_is_one(mode: str) -> None:
    """vLLM's take it for a client that left; nothing of that is sent."""
    app, sent = _app(), list[Any]()

    async def send(message: Any) -> None:
        sent.append(message)

    task = asyncio.create_task(Endpoints(app)(LayerCall("/v1/things", {"mode": mode}, (JSON,)), send))
    await app.state.seen.waiting.wait()
    task.cancel()
    await asyncio.wait({task})

    assert task.cancelled() and sent == []


async def test_a_path_that_is_not_there_is_named() -> None:
    """The caller chooses among those that are."""

    async def send(_: Any) -> None:
        raise AssertionError("nothing is to be sent")

    with pytest.raises(KeyError, match="/v1/other"):
        await Endpoints(_app())(LayerCall("/v1/other", {}), send)


def test_an_endpoint_of_another_form_is_refused_at_the_start() -> None:
    """Another release of vLLM may have such a one."""
    app = FastAPI()

    @app.post("/v1/things")
    async def things(request: Body, further: int) -> None: ...

    with pytest.raises(EngineUnavailable, match="/v1/things"):
        Endpoints(app)

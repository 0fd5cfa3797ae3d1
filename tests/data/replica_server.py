"""A small HTTP server with the token-in, token-out route of `vllm serve --enable-scale-out`, over one of our engines.

It has the routes, forms and errors that vLLM 0.32 was seen to have; the engine's contract is held against it and
against real replicas alike. It can fail as they do: cut a stream, hang, answer with an error.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from models.engines.base import Engine
from models.errors import ENGINE_FULL, GRAMMAR_INVALID, ModelError, UnsupportedParam
from models.types import Delta, GenerateParams, Grammar

_GRAMMARS = {"json": "json_schema", "grammar": "lark"}
_AS_THEY_ARE = (
    "max_tokens", "temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty",
    "repetition_penalty", "seed", "ignore_eos", "logprobs",
)  # fmt: skip


class Cut(Exception):
    """The process has ended in mid-stream."""


@dataclass(slots=True)
class Behaviour:
    """How the replica fails. ``cut_after`` tokens of all streams together it is dead, until this is None again."""

    cut_after: int | None = None
    cut_once: int | None = None  # after so many tokens one stream breaks, and all is well again
    hangs: bool = False
    status: int | None = None
    longest: int | None = None  # a prompt of more tokens is answered with 500
    health: int = 200
    key: str | None = None
    has_tokenize: bool = True
    counts_cached: bool = True
    has_route: bool = True
    has_priorities: bool = True
    model: str = "tiny"
    token_shift: int = 0
    vocabulary: int | None = None
    stops_at: str | None = None  # a stop string that nobody else sees
    is_deaf: bool = False  # to stop strings
    plain: Callable[[Mapping[str, Any]], Response] | None = None


@dataclass(slots=True)
class Replica:
    """One server; ``seen`` are the bodies of the requests for tokens, ``sessions`` their session headers."""

    engine: Engine
    behaviour: Behaviour = field(default_factory=Behaviour)
    seen: list[dict[str, Any]] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    plain_bodies: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    _sent: int = 0
    _server: uvicorn.Server | None = None
    _task: asyncio.Task[None] | None = None

    async def start(self) -> Replica:
        app = Starlette(
            routes=[
                Route("/health", self._health),
                Route("/v1/models", self._models),
                Route("/tokenize", self._tokenize, methods=["POST"]),
                Route("/inference/v1/generate", self._generate, methods=["POST"]),
                Route("/v1/{rest:path}", self._plain, methods=["POST"]),
            ]
        )
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0 if not self.url else int(self.url.rpartition(":")[2])))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=0)
        self._server = uvicorn.Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))
        while not self._server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        return self

    async def stop(self) -> None:
        """End as a killed process does: nothing listens, all connections are gone."""
        server, task = self._server, self._task
        if server is None or task is None:
            return
        self._server = self._task = None
        server.should_exit = server.force_exit = True
        for connection in list(server.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        with suppress(asyncio.CancelledError):
            await task

    def is_dead(self) -> bool:
        return self.behaviour.cut_after is not None and self._sent >= self.behaviour.cut_after

    async def _health(self, _: Request) -> Response:
        if self.behaviour.hangs:
            await asyncio.sleep(60)
        return Response(status_code=503 if self.is_dead() else self.behaviour.health)

    async def _models(self, request: Request) -> Response:
        if self.behaviour.key and request.headers.get("authorization") != f"Bearer {self.behaviour.key}":
            return JSONResponse({"error": "Unauthorized"}, status_code=401)
        if self.is_dead():
            return Response(status_code=503)
        model = {"id": self.behaviour.model, "object": "model", "max_model_len": self.engine.max_model_len}
        return JSONResponse({"object": "list", "data": [model]})

    async def _tokenize(self, request: Request) -> Response:
        if not self.behaviour.has_tokenize:
            return JSONResponse({"detail": "Not Found"}, status_code=404)
        tokens = self.engine.tokenizer.encode((await request.json())["prompt"])
        return JSONResponse({"tokens": [token + self.behaviour.token_shift for token in tokens]})

    async def _plain(self, request: Request) -> Response:
        self.plain_bodies.append(await request.json())
        self.sessions.append(request.headers["x-session-id"])
        if self.behaviour.plain is None or self.is_dead():
            return Response(status_code=503)
        return self.behaviour.plain(self.plain_bodies[-1])

    async def _generate(self, request: Request) -> Response:
        body = await request.json()
        behaviour = self.behaviour
        if not behaviour.has_route:
            return _error("Scale-out endpoints are disabled.", 403)
        if behaviour.status is not None or self.is_dead():
            return _error("no", behaviour.status or 503)
        if behaviour.longest is not None and len(body["token_ids"]) > behaviour.longest:
            self.seen.append(body)
            return _error("no", 500)
        if body["model"] != behaviour.model:
            return _error(f"The model `{body['model']}` does not exist.", 404, "model")
        if behaviour.hangs:
            await asyncio.sleep(60)
        self.seen.append(body)
        self.sessions.append(request.headers.get("x-session-id", ""))
        return StreamingResponse(self._events(body), media_type="text/event-stream")

    async def _events(self, body: dict[str, Any]) -> AsyncIterator[str]:
        vocabulary = self.behaviour.vocabulary or self.engine.tokenizer.vocab_size
        try:
            if body.get("priority") and not self.behaviour.has_priorities:
                raise UnsupportedParam("Got priority -1 but Priority scheduling is not enabled.")
            if max(body["token_ids"]) >= vocabulary:
                raise UnsupportedParam(f"Token id {max(body['token_ids'])} is out of vocabulary")
            async with aclosing(self._outputs(body)) as events:
                async for event in events:
                    yield f"data: {json.dumps(event)}\n\n"
        except ModelError as error:
            code = 429 if ENGINE_FULL.is_of(error) else 400
            form = {"message": error.message, "type": "BadRequestError", "param": None, "code": code}
            form["param"] = None if GRAMMAR_INVALID.is_of(error) else error.param
            yield f"data: {json.dumps({'error': form})}\n\n"
        yield "data: [DONE]\n\n"

    async def _outputs(self, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        # A bias of an id without a token has no effect: such ids are masked.
        params = _params(body, self.engine.tokenizer.vocab_size)
        params = replace(params, stop=()) if self.behaviour.is_deaf else params
        request_id = f"generate-tokens-{len(self.seen)}-{id(body)}"
        ids = [min(token, self.engine.tokenizer.vocab_size - 1) for token in body["token_ids"]]
        last = Delta()
        written: list[int] = []
        async with aclosing(self.engine.generate(ids, params, request_id)) as deltas:  # type: ignore[type-var]
            async for last in deltas:
                written += last.token_ids
                self._sent += len(last.token_ids)
                if self.is_dead():
                    raise Cut
                if self.behaviour.cut_once is not None and self._sent >= self.behaviour.cut_once:
                    self.behaviour.cut_once = None
                    raise Cut
                found = self.behaviour.stops_at
                if found is not None and found in self.engine.tokenizer.decode(written):
                    last = Delta(token_ids=last.token_ids, finish_reason="stop", stop_reason=found)
                if last.token_ids or last.finish_reason is not None:
                    yield {"choices": [_choice(last, body)], "usage": None}
                if last.finish_reason is not None:
                    break
        usage: dict[str, Any] = {"prompt_tokens": len(ids), "completion_tokens": 1}
        if self.behaviour.counts_cached:
            usage["prompt_tokens_details"] = {"cached_tokens": last.num_cached_tokens}
        yield {"choices": [], "usage": usage}


def _choice(delta: Delta, body: Mapping[str, Any]) -> dict[str, Any]:
    logprobs = None
    if delta.logprobs is not None:
        content = [
            {
                "token_id": one.token_id,
                "logprob": one.logprob,
                "top_logprobs": [{"token_id": token, "logprob": value} for token, value in one.top],
            }
            for one in delta.logprobs
        ]
        logprobs = {"content": content}
    return {
        "index": 0,
        "token_ids": list(delta.token_ids),
        "finish_reason": delta.finish_reason,
        "stop_reason": delta.stop_reason,
        "logprobs": logprobs,
    }


def _params(body: Mapping[str, Any], vocabulary: int) -> GenerateParams:
    given = body["sampling_params"]
    grammar = None
    if given.get("structured_outputs"):
        ((kind, spec),) = given["structured_outputs"].items()
        grammar = Grammar(_GRAMMARS.get(kind, kind), spec)
    fields = {name: given[name] for name in _AS_THEY_ARE if given.get(name) is not None}
    bias = given.get("logit_bias") or {}
    return GenerateParams(
        **fields,
        stop=tuple(given.get("stop") or ()),
        logit_bias=tuple((int(token), float(value)) for token, value in bias.items() if int(token) < vocabulary),
        grammar=grammar,
        cache_salt=body.get("cache_salt"),
        priority=-body.get("priority", 0),
    )


def _error(message: str, status: int, param: str | None = None) -> Response:
    return JSONResponse(
        {"error": {"message": message, "type": "Error", "param": param, "code": status}}, status_code=status
    )

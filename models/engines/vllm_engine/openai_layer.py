"""Run vLLM's own OpenAI layer over the running client, for the plain model: tools, JSON schemas, logprobs, n.

It is called in this process and listens nowhere. It has more endpoints than may be reached from outside
(``/v1/chat/completions/batch``, …) and asks for no key: the caller chooses the paths and checks the request.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from models.card import ModelCard
from models.engines.base import AsgiSend, EngineOptions, LayerCall, OpenAiLayer
from models.engines.tokenizer import HfTokenizer
from models.engines.vllm_engine import compat as vllm_compat
from models.errors import EngineUnavailable
from models.types import EngineStats

_PARAMETERS = {"request", "raw_request"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Describe one endpoint of vLLM.

    ``handler`` is vLLM's function without the decorators that listen for a disconnect and count for its own metrics.
    """

    body: type[BaseModel]
    handler: Callable[[BaseModel, Request], Awaitable[Response]]
    checks: tuple[Callable[[Request], Awaitable[None]], ...]

    @classmethod
    def of(cls, route: Any) -> Endpoint:
        """Build the endpoint of a route.

        Raises:
            EngineUnavailable: the route does not have the form of the supported release.
        """
        handler = inspect.unwrap(route.endpoint)
        body = get_type_hints(handler).get("request")
        checks = tuple(dependency.dependency for dependency in route.dependencies)
        fits = isinstance(body, type) and issubclass(body, BaseModel)
        fits = fits and set(inspect.signature(handler).parameters) == _PARAMETERS
        fits = fits and all(list(inspect.signature(check).parameters) == ["raw_request"] for check in checks)
        if not fits or body is None:
            raise EngineUnavailable(f"vLLM's endpoint of {route.path} is not of the form that this release knows")
        return cls(body, handler, checks)


class Endpoints:
    """Call the endpoints of a FastAPI application of vLLM's that answer a POST at a path without parameters."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._by_path = {
            route.path: Endpoint.of(route)
            for route in app.routes
            if getattr(route, "methods", None) == {"POST"} and "{" not in route.path
        }

    async def __call__(self, call: LayerCall, send: AsgiSend) -> None:
        """Answer one call, as ``OpenAiLayer`` specifies.

        Raises:
            KeyError: vLLM does not have the path.
        """
        endpoint = self._by_path[call.path]
        request = Request(self._scope(call))
        cancels = _cancels()
        try:
            response = await _answer(endpoint, call, request)
            _raise_if_cancelled(cancels)
        except Exception as error:
            _raise_if_cancelled(cancels)
            kind = next(kind for kind in type(error).__mro__ if kind in self._app.exception_handlers)
            response = await self._app.exception_handlers[kind](request, error)
            await _send(response, request, send)
            if kind is Exception:
                raise  # unexpected, so it must reach the log
            return
        await _send(response, request, send)

    def _scope(self, call: LayerCall) -> dict[str, Any]:
        return {
            "type": "http",
            "app": self._app,
            "method": "POST",
            "path": call.path,
            "headers": list(call.headers),
            "query_string": b"",
            "state": {},
        }


def _cancels() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _raise_if_cancelled(before: int) -> None:
    """Raise CancelledError if the task was cancelled since ``before``.

    vLLM takes a cancellation for a disconnect of its client, swallows it and builds a reply that is never sent.
    """
    if _cancels() > before:
        raise asyncio.CancelledError


async def _answer(endpoint: Endpoint, call: LayerCall, request: Request) -> Response:
    for check in endpoint.checks:
        await check(request)
    try:
        body = endpoint.body.model_validate(call.body)
    except ValidationError as error:
        # The same locations that FastAPI reports for errors in a body.
        errors = [{**entry, "loc": ("body", *entry["loc"])} for entry in error.errors(include_url=False)]
        raise RequestValidationError(errors, body=call.body) from None
    return await endpoint.handler(body, request)


async def _send(response: Response, request: Request, send: AsgiSend) -> None:
    if isinstance(response, StreamingResponse):
        # Calling the response itself would also listen for a client disconnect.
        pieces: Any = response.body_iterator
        async with aclosing(pieces):
            await response.stream_response(send)
    else:
        await response(request.scope, request.receive, send)


class InstrumentedClient:
    """Count what vLLM's own layer generates through the client, so that the engine's statistics include it.

    Requests also end at ``end_tokens``. ``check`` raises an error of vLLM's for sampling parameters that must not reach
    the engine. ``adapter`` is vLLM's request for the adapter with which the model itself answers.
    """

    def __init__(
        self,
        client: Any,
        end_tokens: Collection[int] = (),
        check: Callable[[Any], None] = lambda _: None,
        adapter: Any = None,
    ) -> None:
        self._adapter = adapter
        self._client = client
        self._end_tokens = end_tokens
        self._check = check
        self._running = 0
        self._waiting = 0
        self._finished = EngineStats()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    @property
    def counted(self) -> EngineStats:
        return replace(self._finished, running=self._running, waiting=self._waiting)

    def generate(self, prompt: Any, sampling_params: Any, *rest: Any, **keywords: Any) -> AsyncGenerator[Any, None]:
        """Check the parameters now, before the layer starts a reply, and return the outputs."""
        vllm_compat.add_end_tokens(sampling_params, self._end_tokens)
        self._check(sampling_params)
        if self._adapter is not None and keywords.get("lora_request") is None:
            keywords["lora_request"] = self._adapter
        return self._counting(self._client.generate(prompt, sampling_params, *rest, **keywords))

    async def _counting(self, outputs: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        self._waiting += 1
        started, prompt_tokens, cached, sampled = False, 0, 0, 0
        try:
            async for output in outputs:
                if not started:
                    started = True
                    self._waiting, self._running = self._waiting - 1, self._running + 1
                    prompt_tokens, cached = len(output.prompt_token_ids or ()), output.num_cached_tokens or 0
                for choice in output.outputs:  # deltas or whole outputs, as vLLM's layer requests them
                    sampled += len(choice.token_ids)
                yield output
        finally:
            # Closing it frees the engine's slot.
            await outputs.aclose()
            if started:
                self._running -= 1
            else:
                self._waiting -= 1
            self._finished = self._finished.with_request(prompt_tokens, cached, sampled)


async def build_layer(
    client: InstrumentedClient, card: ModelCard, options: EngineOptions, tokenizer: HfTokenizer
) -> OpenAiLayer:
    """Build the layer, which takes a second to import its modules and to warm up its renderer."""
    vllm_compat.use_chat_encoder(client, tokenizer.encode_conversation)
    # The layer logs a traceback for every request that it rejects; the reply has the error, and the request is private.
    logging.getLogger("vllm.entrypoints").setLevel(logging.CRITICAL)
    settings = {
        "model": card.source,
        "served_model_name": [card.name],
        "disable_log_stats": True,
        "enable_log_requests": False,
        "disable_fastapi_docs": True,
        "enable_prompt_tokens_details": True,
        "enable_auto_tool_choice": options.tool_call_parser is not None,
        "tool_call_parser": options.tool_call_parser,
        "chat_template": None if options.chat_template is None else str(options.chat_template),
        "lora_modules": vllm_compat.adapter_modules(options.lora_adapters),
    }
    app = await vllm_compat.build_openai_app(client, settings, options.reasoning_parser)
    return Endpoints(app)

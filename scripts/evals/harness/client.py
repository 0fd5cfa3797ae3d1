"""Send one question to an OpenAI-compatible endpoint. Every failure becomes part of its reply."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any, Final

import httpx

from scripts.evals.harness.errors import EndpointGone, EndpointRefuses
from scripts.evals.harness.records import Question, Reply

CONNECT_S: Final = 10.0
TRACE_S: Final = 30.0
MAX_WAIT_S: Final = 120.0
_FATAL: Final = frozenset({401, 403, 404, 405})
_BUSY: Final = frozenset({429, 503})
_SHOWN: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """``options``: the body's ``arrowhead``. ``sampling``: further fields of the body. ``timeout_s``: of one attempt.
    ``retries``: after a busy endpoint or a lost connection.
    """

    base_url: str
    model: str
    api_key: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 600.0
    retries: int = 4
    traces: bool = True

    def body(self, question: Question) -> dict[str, Any]:
        body = {"model": self.model, "messages": list(question.messages), **self.sampling}
        options = {**self.options, **question.arrowhead}
        return body | ({"arrowhead": options} if options else {})


def http_client(target: Target, concurrency: int) -> httpx.AsyncClient:
    """Proxies of the environment are not used for this machine. Time limits are set around whole requests."""
    headers = {"Authorization": f"Bearer {target.api_key}"} if target.api_key else {}
    return httpx.AsyncClient(
        headers=headers,
        timeout=httpx.Timeout(None, connect=CONNECT_S),
        limits=httpx.Limits(max_connections=concurrency + 1),
        trust_env=not is_local(httpx.URL(target.base_url).host),
    )


class Asker:
    """Safe to use by several tasks at once."""

    def __init__(self, target: Target, http: httpx.AsyncClient, first_wait_s: float = 1.0) -> None:
        """``first_wait_s``: before the first retry where the endpoint names no time; doubled each time."""
        self._target = target
        self._http = http
        self._url = target.base_url.rstrip("/")
        self._first_wait_s = first_wait_s

    async def knock(self) -> None:
        """Raises EndpointGone where nothing listens, before any question is spent on it."""
        try:
            await self._http.get(f"{self._url}/models", timeout=CONNECT_S)
        except httpx.ConnectError as error:
            raise EndpointGone(f"{self._url}: {error}") from error
        except httpx.RequestError:
            return  # it is there, and may be busy

    async def ask(self, question: Question) -> Reply:
        """Raises EndpointRefuses for what every other question would meet, too."""
        begun = time.monotonic()
        for attempt in range(1, self._target.retries + 2):
            reply, wait = await self._attempt(question, attempt)
            if wait is None or attempt > self._target.retries:
                break
            await asyncio.sleep(wait)
        reply = replace(reply, seconds=round(time.monotonic() - begun, 3), attempts=attempt)
        return replace(reply, trace=await self._trace(reply))

    async def _attempt(self, question: Question, attempt: int) -> tuple[Reply, float | None]:
        """The reply, and seconds to wait where asking again may help."""
        own = min(MAX_WAIT_S, self._first_wait_s * 2 ** (attempt - 1)) * random.uniform(0.8, 1.2)
        try:
            async with asyncio.timeout(self._target.timeout_s):
                response = await self._http.post(f"{self._url}/chat/completions", json=self._target.body(question))
        except TimeoutError:
            return _failure("timeout", f"no reply within {self._target.timeout_s:g} s"), None
        except httpx.RequestError as error:
            return _failure("connection", f"{type(error).__name__}: {error}"), own
        if response.status_code == 200:
            return reply_of(response.content), None
        failure = _refusal(response)
        if response.status_code in _FATAL:
            raise EndpointRefuses(f"HTTP {response.status_code}: {(failure.error or {})['message']}")
        if response.status_code not in _BUSY:
            return failure, None
        named = retry_after(response.headers.get("Retry-After"))
        return failure, own if named is None else named

    async def _trace(self, reply: Reply) -> Any:
        """None where the endpoint keeps none, or does not give it."""
        name = (reply.arrowhead or {}).get("trace_id")
        if not name or not self._target.traces:
            return None
        try:
            response = await self._http.get(f"{self._url}/traces/{name}", timeout=TRACE_S)
            return response.json() if response.status_code == 200 else None
        except (httpx.HTTPError, ValueError):
            return None


def reply_of(body: bytes) -> Reply:
    """Of a reply with status 200, which may still be none."""
    try:
        completion = json.loads(body)
        choice = completion["choices"][0]
        message = choice["message"]
        marked = message.get("arrowhead")
        return Reply(
            text=_text(message.get("content")),
            reasoning=_text(message.get("reasoning_content") or message.get("reasoning")),
            finish_reason=choice.get("finish_reason"),
            reply_id=completion.get("id"),
            arrowhead=marked if isinstance(marked, dict) else None,
            annotations=tuple(message.get("annotations") or ()),
            usage=completion.get("usage"),
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        return _failure("malformed", f"no chat completion: {body[:_SHOWN].decode(errors='replace')}")


def retry_after(header: str | None) -> float | None:
    """Seconds, at most MAX_WAIT_S; None without a number of them."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return min(MAX_WAIT_S, max(0.0, seconds)) if seconds == seconds else None


def _refusal(response: httpx.Response) -> Reply:
    try:
        told = response.json()["error"]
        code, message = told.get("code"), str(told["message"])
    except (ValueError, LookupError, TypeError, AttributeError):
        code, message = None, response.text
    kind = "busy" if response.status_code in _BUSY else "refused"
    return _failure(kind, message[:_SHOWN], status=response.status_code, code=code)


def _failure(kind: str, message: str, *, status: int | None = None, code: Any = None) -> Reply:
    return Reply(error={"kind": kind, "message": message, "status": status, "code": code})


def _text(content: Any) -> str:
    return content if isinstance(content, str) else ""


def is_local(host: str) -> bool:
    """Whether it is this machine, to which no proxy leads."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

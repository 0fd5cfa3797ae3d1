"""Fetch checked calls by way of the egress service of the institution, which alone sends requests to NCBI.

A call is first looked up in the service's cache, and sent with a second request only where it is not there: what a
caller must do before a call leaves is done between the two. A service that does not answer is an error; nothing is sent
to NCBI in its place. Rate limit, retries, cache and equal calls are the service's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from models.errors import Fault, kind_of
from retrieval.errors import (
    BLAST_FAILED,
    CALL_REJECTED,
    EGRESS_REFUSED,
    EGRESS_SERVICE_UNAVAILABLE,
    NCBI_BLOCKED,
    NCBI_MALFORMED,
    NCBI_REPLY_ERROR,
    NCBI_THROTTLED,
    NCBI_TIMEOUT,
    NCBI_TOO_LARGE,
    NCBI_UNAVAILABLE,
    NcbiError,
)
from retrieval.ncbi.calls.urls import NcbiSite, OutgoingRequest, public_url
from retrieval.ncbi.client.client import BeforeSending
from retrieval.ncbi.client.transport import HttpReply, HttpSender, SendLimits
from retrieval.observer import NullObserver, RetrievalObserver
from retrieval.types import Caller, NcbiCall, RawReply

CALLS_PATH: Final = "/v1/calls"
UNIX_SCHEME: Final = "unix"
# Errors that the service reports by name; any other name is an unavailable service.
ERRORS: Final[Mapping[str, Fault]] = {
    fault.kind: fault
    for fault in (
        BLAST_FAILED,
        CALL_REJECTED,
        EGRESS_REFUSED,
        NCBI_BLOCKED,
        NCBI_MALFORMED,
        NCBI_REPLY_ERROR,
        NCBI_THROTTLED,
        NCBI_TIMEOUT,
        NCBI_TOO_LARGE,
        NCBI_UNAVAILABLE,
    )
}
_LOST: Final = (NCBI_MALFORMED, NCBI_TIMEOUT, NCBI_TOO_LARGE, NCBI_UNAVAILABLE)
_Step = Literal["look up", "send"]
_NOT_CACHED: Final = 204
_CALLER: Final = Caller()
_REFUSALS: Final = {403: "refuses this server's key", 503: "is busy or stops"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """Configure the client of an egress service.

    ``url``: ``https://HOST:PORT``, ``http://`` on a loopback address, or ``unix:/PATH``. ``timeout_s`` limits an
    E-utilities call, ``blast_timeout_s`` a BLAST search, with all that the service waits for.
    """

    url: str
    key: str = field(default="", repr=False)
    site: NcbiSite = field(default_factory=NcbiSite)
    timeout_s: float = 85.0
    blast_timeout_s: float = 285.0
    limits: SendLimits = field(default_factory=SendLimits)
    observer: RetrievalObserver = field(default_factory=NullObserver)

    @property
    def calls_url(self) -> str:
        # The host of a Unix socket is not looked up.
        base = "http://egress-service" if urlsplit(self.url).scheme == UNIX_SCHEME else self.url.rstrip("/")
        return f"{base}{CALLS_PATH}"


class ServiceClient:
    """Fetch calls from the egress service; ``sender`` is closed with the client."""

    def __init__(self, config: ServiceConfig, sender: HttpSender) -> None:
        self.site = config.site
        self._config = config
        self._sender = sender
        self._observer = config.observer

    async def fetch(
        self, call: NcbiCall, *, before: BeforeSending | None = None, caller: Caller | None = None
    ) -> RawReply:
        """Return the reply to a checked call: from the service's cache, else from NCBI by way of the service.

        ``before`` runs once, right before the request that makes the service send the call, and not at all where the
        service's cache has the reply; its exception prevents that request.

        Raises:
            EGRESS_SERVICE_UNAVAILABLE: the service took no call.
            NcbiError: the service's own error, or none came in time; the call may have left.
        """
        try:
            if (cached := await self._look_up(call, caller or _CALLER)) is not None:
                return cached
            if before is not None:
                await before()
            return await self._send(call, caller or _CALLER)
        except NcbiError as error:
            error.url = error.url or public_url(call, self.site)
            raise

    async def cached(self, call: NcbiCall) -> RawReply | None:
        """Return the reply of the service's cache, None where it has none."""
        return await self._look_up(call, _CALLER)

    async def aclose(self) -> None:
        await self._sender.close()

    async def _look_up(self, call: NcbiCall, caller: Caller) -> RawReply | None:
        try:
            reply = await self._post("look up", call, caller)
        except NcbiError as error:
            if error.fault not in _LOST:
                raise
            raise NcbiError(
                "the egress service does not answer; nothing was sent to NCBI", EGRESS_SERVICE_UNAVAILABLE
            ) from error
        found = None if reply.status == _NOT_CACHED else _raw_reply(reply)
        self._observer.ncbi_cache(hit=found is not None)
        return found

    async def _send(self, call: NcbiCall, caller: Caller) -> RawReply:
        started, failure = time.monotonic(), ""
        try:
            # A reply that came into the cache since the look-up is reported as sent, as the audit log has it.
            return _raw_reply(await self._post("send", call, caller), from_cache=False)
        except NcbiError as error:
            failure = kind_of(error)
            raise
        finally:
            self._observer.ncbi_request(call.endpoint, failure, time.monotonic() - started)

    async def _post(self, step: _Step, call: NcbiCall, caller: Caller) -> HttpReply:
        """Send one request to the service and return its reply, with the status 200 or 204.

        Raises:
            NcbiError: the service refused the call, or reports its failure.
        """
        timeout_s = self._config.blast_timeout_s if call.endpoint.startswith("blast_") else self._config.timeout_s
        if step == "look up":
            timeout_s = self._config.limits.timeout_s
        limits = SendLimits(
            connect_timeout_s=self._config.limits.connect_timeout_s,
            timeout_s=timeout_s,
            max_reply_bytes=_escaped(self._config.limits.max_reply_bytes),
        )
        request = OutgoingRequest(
            "POST", self._config.calls_url, encode_call(step, call, caller), "application/json", self._config.key
        )
        try:
            reply = await self._sender.send(request, limits)
        except NcbiError as error:
            if NCBI_TIMEOUT.is_of(error):
                text = f"the egress service gave no answer within {timeout_s:g} s"
            elif NCBI_UNAVAILABLE.is_of(error):
                text = "the connection to the egress service failed"
            else:
                raise
            raise NcbiError(text, error.fault) from error
        if reply.status not in (200, _NOT_CACHED):
            raise _error_of(reply)
        return reply


def encode_call(step: _Step, call: NcbiCall, caller: Caller) -> bytes:
    """Return the body of a request to the service: the call and what its audit log needs, nothing else."""
    body = {
        "endpoint": call.endpoint,
        "params": dict(call.params),
        "request_id": caller.request_id,
        "key_id": caller.key_id,
        "cached_only": step == "look up",
    }
    return json.dumps(body, separators=(",", ":")).encode("ascii")


def encode_reply(reply: RawReply) -> bytes:
    """Return the body of the service's reply."""
    body = {
        "status": reply.status,
        "content_type": reply.content_type,
        "body": reply.body,
        "num_bytes": reply.num_bytes,
        "from_cache": reply.from_cache,
        "attempts": reply.attempts,
        "rid": reply.rid,
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def encode_error(error: NcbiError) -> bytes:
    """Return the body of the service's reply to a call that failed."""
    name = error.fault.kind if error.fault.kind in ERRORS else NCBI_UNAVAILABLE.kind
    body = {"type": name, "message": error.message, "param": error.param, "attempts": error.attempts}
    return json.dumps({"error": body}, separators=(",", ":")).encode("ascii")


def _raw_reply(reply: HttpReply, *, from_cache: bool | None = None) -> RawReply:
    """Return the reply that the service passes on.

    Raises:
        NCBI_MALFORMED: the service's reply is not as ``encode_reply`` writes it.
    """
    body = _object(reply)
    try:
        return RawReply(
            int(body["status"]),
            str(body["content_type"]),
            str(body["body"]),
            int(body["num_bytes"]),
            bool(body["from_cache"]) if from_cache is None else from_cache,
            int(body["attempts"]),
            rid=str(body["rid"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NcbiError("the egress service's reply is not one", NCBI_MALFORMED) from error


def _error_of(reply: HttpReply) -> NcbiError:
    """Return the error that a reply of the service stands for; without a known name, the service took no call."""
    try:
        body = _object(reply)["error"]
        fault = ERRORS[body["type"]]
        param = body["param"] if isinstance(body["param"], str) else None
        return NcbiError(str(body["message"]), fault, param=param, attempts=int(body["attempts"]))
    except (NcbiError, KeyError, TypeError, ValueError):
        reason = _REFUSALS.get(reply.status, "refuses the request")
        return NcbiError(f"the egress service {reason} (HTTP {reply.status})", EGRESS_SERVICE_UNAVAILABLE)


def _object(reply: HttpReply) -> dict[str, Any]:
    try:
        body = json.loads(reply.body)
    except ValueError as error:
        raise NcbiError("the egress service's reply is no JSON", NCBI_MALFORMED) from error
    if not isinstance(body, dict):
        raise NcbiError("the egress service's reply is no JSON object", NCBI_MALFORMED)
    return body


def _escaped(num_bytes: int) -> int:
    """Return the most bytes that a body of ``num_bytes`` has as JSON text, with its fields."""
    return 6 * num_bytes + 64 * 1024

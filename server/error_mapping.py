"""Describe the reply to a failed request: OpenAI's error object, or Anthropic's, and its headers.

An error carries its own ``Fault``, which has status, code and remedy.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import models.errors
import retrieval.errors
import server.errors
from models.errors import ArrowheadError, Fault
from server.audit.log import AuditFailed
from server.auth.keys import KeyStoreError
from server.errors import MAX_RETRY_AFTER_S, SERVER_STOPPING
from server.methods.base import OptionInvalid
from server.settings.loading import SettingsInvalid


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """Hold the status and content of an error reply.

    ``retry_after_s`` None sends no header.
    """

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    retry_after_s: int | None = None

    @property
    def body(self) -> dict[str, Any]:
        """Return OpenAI's error object."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return {"error": error}

    @property
    def anthropic(self) -> dict[str, Any]:
        """Return Anthropic's error object, which is also the event of a stream; ``code`` and ``param`` are our own."""
        kind = _ANTHROPIC_KIND.get(self.status, "api_error" if self.status >= 500 else _INVALID)
        error = {"type": kind, "message": self.message, "param": self.param, "code": self.code}
        return {"type": "error", "error": error}

    def body_at(self, path: str) -> dict[str, Any]:
        """Return the error object of the protocol that a path speaks."""
        return self.anthropic if path.startswith("/v1/messages") else self.body

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that say when, and whether, to retry."""
        headers = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
        if self.status in {408, 504}:
            # OpenAI's SDKs would send it again at once, into the same deadline.
            headers["X-Should-Retry"] = "false"
        if self.code == SERVER_STOPPING.code:
            headers["Connection"] = "close"
        return headers


RETRY_AFTER_S = 2
ANTHROPIC_PATHS: Final = frozenset({"/v1/messages", "/v1/messages/count_tokens"})
_OWN_KIND: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_INVALID: Final = "invalid_request_error"
_ANTHROPIC_KIND: Final = {
    **_OWN_KIND,
    404: "not_found_error",
    413: "request_too_large",
    503: "overloaded_error",
    504: "timeout_error",
}
_SERVER: Final = "server_error"
# OpenAI's names of the kinds of errors.
KINDS: Final = frozenset((_INVALID, _SERVER, *_OWN_KIND.values()))
ANTHROPIC_KINDS: Final = frozenset((_INVALID, "api_error", *_ANTHROPIC_KIND.values()))
# Errors beside the code that raises them.
_OTHERS: Final = (AuditFailed, KeyStoreError, OptionInvalid, SettingsInvalid)
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_MAX_CAUSES: Final = 16
_DISK_HINT: Final = (
    "the disk of the server is full: what was stored before stays; free space, then send the same again, which goes on "
    "behind it"
)


def is_disk_full(error: BaseException) -> bool:
    """Return whether a full disk, or a quota, is behind an exception."""
    cause: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if cause is None:
            return False
        if isinstance(cause, OSError) and cause.errno in _FULL:
            return True
        if isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def error_reply(error: BaseException) -> ErrorReply:
    """Return the reply for any exception; for an unknown one it says only that the server failed.

    A full disk has one status and one remedy, whatever met it.
    """
    if is_disk_full(error):
        message = f"{error.message}. {_DISK_HINT}" if isinstance(error, ArrowheadError) else _DISK_HINT
        return ErrorReply(507, _kind(507), "disk_full", message, getattr(error, "param", None))
    if not isinstance(error, ArrowheadError):
        return ErrorReply(500, _kind(500), "internal_error", "the server failed on this request; its log has the cause")
    status, code, hint, _, _ = error.fault
    message = f"{error.message}. {hint}" if hint else error.message
    retry = min(error.retry_after_s or RETRY_AFTER_S, MAX_RETRY_AFTER_S) if status in {429, 503} else None
    return ErrorReply(status, _kind(status), code, message, error.param, retry)


def _kind(status: int) -> str:
    return _OWN_KIND.get(status, _SERVER if status >= 500 else _INVALID)


def error_codes() -> frozenset[str]:
    """Return every code that a reply can have."""
    named = {value.code for module in (models.errors, retrieval.errors, server.errors) for value in _faults(module)}
    return frozenset({"unknown_url", "disk_full", *named, *(kind.fault.code for kind in _OTHERS)})


def _faults(module: ModuleType) -> Iterator[Fault]:
    for value in vars(module).values():
        if isinstance(value, Fault):
            yield value
        elif isinstance(value, type) and issubclass(value, ArrowheadError):
            yield value.fault

"""Describe the reply to a failed request: OpenAI's error object, or Anthropic's, and its headers.

An error of the server carries its own ``Fault``; those of other layers have a row here.
"""

from __future__ import annotations

import errno
import sqlite3
from dataclasses import dataclass
from typing import Any, Final

from models.errors import (
    ArrowheadError,
    ContextTooLong,
    EncoderUnavailable,
    EngineLoading,
    EngineOverloaded,
    EngineUnavailable,
    GrammarInvalid,
    ModelError,
    ModelNotFound,
    UnsupportedParam,
)
from retrieval.errors import (
    BackendUnavailable,
    CorpusError,
    DatabaseUnavailable,
    DocumentTooLarge,
    DocumentUnknown,
    DocumentUnreadable,
    IndexBusy,
    IndexDamaged,
    IndexFault,
    IndexInputInvalid,
    IndexMismatch,
    IndexOverloaded,
    IndexTooLarge,
    IndexWriteFailed,
    NamespaceBusy,
    NamespaceDamaged,
    NamespaceExists,
    NamespaceInvalid,
    NamespaceUnknown,
    NcbiError,
    NcbiRefusedByEgress,
    NcbiThrottled,
    NcbiTimeout,
    RetrievalError,
)
from server.audit.log import AuditFailed
from server.auth.keys import KeyRefused, KeyStoreError, ScopeInvalid
from server.errors import MAX_RETRY_AFTER_S, RequestError, ServerStopping, faults
from server.methods.base import MethodError, OptionInvalid
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
        return self.anthropic if path in ANTHROPIC_PATHS else self.body

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that say when, and whether, to retry."""
        headers = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
        if self.status in {408, 504}:
            # OpenAI's SDKs would send it again at once, into the same deadline.
            headers["X-Should-Retry"] = "false"
        if self.code == ServerStopping.fault.code:
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
# Looked up along the exception's MRO, nearest class first, so that every class of the tree but RequestError has a row.
TABLE: dict[type[ArrowheadError], tuple[int, str]] = {
    OptionInvalid: (422, "invalid_option"),
    ScopeInvalid: (422, "invalid_scope"),
    KeyRefused: (409, "key_refused"),
    KeyStoreError: (503, "keys_unreadable"),
    DatabaseUnavailable: (503, "passages_unavailable"),
    ContextTooLong: (400, "context_length_exceeded"),
    UnsupportedParam: (422, "unsupported_parameter"),
    GrammarInvalid: (422, "invalid_grammar"),
    EncoderUnavailable: (503, "encoder_unavailable"),
    EngineOverloaded: (429, "queue_full"),
    EngineUnavailable: (503, "engine_unavailable"),
    EngineLoading: (503, "model_not_ready"),
    ModelNotFound: (503, "model_missing"),
    ModelError: (500, "model_error"),
    NcbiRefusedByEgress: (403, "egress_refused"),
    NcbiThrottled: (503, "ncbi_throttled"),
    NcbiTimeout: (504, "ncbi_timeout"),
    NcbiError: (502, "ncbi_error"),
    NamespaceUnknown: (404, "namespace_not_found"),
    DocumentUnknown: (404, "document_not_found"),
    NamespaceInvalid: (422, "invalid_namespace"),
    NamespaceExists: (409, "namespace_exists"),
    NamespaceBusy: (409, "namespace_busy"),
    NamespaceDamaged: (500, "namespace_damaged"),
    DocumentUnreadable: (422, "document_unreadable"),
    DocumentTooLarge: (413, "document_too_large"),
    CorpusError: (500, "corpus_error"),
    IndexInputInvalid: (422, "invalid_vectors"),
    IndexDamaged: (500, "index_damaged"),
    IndexMismatch: (500, "index_mismatch"),
    IndexWriteFailed: (507, "index_not_written"),
    IndexBusy: (409, "index_busy"),
    IndexOverloaded: (429, "queue_full"),
    IndexTooLarge: (507, "index_too_large"),
    BackendUnavailable: (503, "index_backend_missing"),
    IndexFault: (500, "index_error"),
    RetrievalError: (500, "retrieval_error"),
    MethodError: (500, "method_error"),
    AuditFailed: (500, "audit_failed"),
    SettingsInvalid: (500, "settings_invalid"),
    ArrowheadError: (500, "internal_error"),
}


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
    status, code, hint = _fault(error)
    message = f"{error.message}. {hint}" if hint else error.message
    known: int | None = getattr(error, "retry_after_s", None)
    retry = min(known or RETRY_AFTER_S, MAX_RETRY_AFTER_S) if status in {429, 503} else None
    return ErrorReply(status, _kind(status), code, message, error.param, retry)


def _kind(status: int) -> str:
    return _OWN_KIND.get(status, _SERVER if status >= 500 else _INVALID)


def _fault(error: ArrowheadError) -> tuple[int, str, str]:
    if isinstance(error, RequestError):
        return error.fault
    status, code = next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)
    return status, code, error.hint


def error_codes() -> frozenset[str]:
    """Return every code that a reply can have."""
    return frozenset(code for _, code in TABLE.values()) | {one.code for one in faults()} | {"unknown_url", "disk_full"}

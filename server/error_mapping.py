"""Describe the reply to a failed request: OpenAI's error object and its headers.

Knows no error by name.
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
from server.errors import (
    MAX_RETRY_AFTER_S,
    AnswerTimeout,
    BodyTooLarge,
    BodyTooSlow,
    ChangesRefused,
    ClientDisconnected,
    EgressRaised,
    EncoderUnknown,
    ExportInvalid,
    ForbiddenHost,
    ForbiddenOrigin,
    HeadTooLarge,
    HostInvalid,
    InvalidRequest,
    JobNotFound,
    KeyOverloaded,
    ModelUnknown,
    NotGranted,
    NothingToExport,
    PassageNotFound,
    RateExceeded,
    RequestError,
    ResponseNotStored,
    ServerOverloaded,
    ServerStopping,
    StateUnavailable,
    TooManyRequests,
    TraceNotFound,
    Unauthorized,
    UnsupportedField,
    UploadNotWritten,
    VerifierUnavailable,
)
from server.methods.base import MethodError, OptionInvalid
from server.settings.loading import SettingsInvalid

STOPPING: Final = "server_stopping"


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
    def headers(self) -> dict[str, str]:
        """Return the headers that say when, and whether, to retry."""
        headers = {} if self.retry_after_s is None else {"Retry-After": str(self.retry_after_s)}
        if self.status in {408, 504}:
            # OpenAI's SDKs would send it again at once, into the same deadline.
            headers["X-Should-Retry"] = "false"
        if self.code == STOPPING:
            headers["Connection"] = "close"
        return headers


RETRY_AFTER_S = 2
_INVALID = "invalid_request_error"
_SERVER = "server_error"
_BUSY = "rate_limit_error"
# Looked up along the exception's MRO, nearest class first, so that every class of the tree has a row.
TABLE: dict[type[ArrowheadError], tuple[int, str, str]] = {
    InvalidRequest: (422, _INVALID, "invalid_value"),
    UnsupportedField: (422, _INVALID, "unsupported_parameter"),
    OptionInvalid: (422, _INVALID, "invalid_option"),
    BodyTooLarge: (413, _INVALID, "request_too_large"),
    BodyTooSlow: (408, _INVALID, "request_timeout"),
    HeadTooLarge: (431, _INVALID, "request_head_too_large"),
    Unauthorized: (401, "authentication_error", "invalid_api_key"),
    ForbiddenHost: (403, "permission_error", "forbidden"),
    HostInvalid: (400, _INVALID, "invalid_host"),
    ForbiddenOrigin: (403, "permission_error", "origin_not_allowed"),
    NotGranted: (403, "permission_error", "not_granted"),
    ScopeInvalid: (422, _INVALID, "invalid_scope"),
    KeyRefused: (409, _INVALID, "key_refused"),
    KeyStoreError: (503, _SERVER, "keys_unreadable"),
    ModelUnknown: (404, _INVALID, "model_not_found"),
    EncoderUnknown: (404, _INVALID, "model_not_found"),
    TraceNotFound: (404, _INVALID, "trace_not_found"),
    ExportInvalid: (400, _INVALID, "invalid_value"),
    NothingToExport: (404, _INVALID, "no_references"),
    ResponseNotStored: (404, _INVALID, "response_not_found"),
    PassageNotFound: (404, _INVALID, "passage_not_found"),
    JobNotFound: (404, _INVALID, "job_not_found"),
    ChangesRefused: (403, "permission_error", "changes_not_allowed"),
    StateUnavailable: (503, _SERVER, "state_unavailable"),
    DatabaseUnavailable: (503, _SERVER, "passages_unavailable"),
    VerifierUnavailable: (503, _SERVER, "verifier_unavailable"),
    UploadNotWritten: (507, _SERVER, "upload_not_written"),
    EgressRaised: (403, "permission_error", "egress_not_allowed"),
    RateExceeded: (429, _BUSY, "rate_limit_exceeded"),
    ClientDisconnected: (499, _INVALID, "client_gone"),
    TooManyRequests: (429, _BUSY, "queue_full"),
    ServerOverloaded: (429, _BUSY, "server_overloaded"),
    KeyOverloaded: (429, _BUSY, "rate_limit_exceeded"),
    AnswerTimeout: (504, _SERVER, "timeout"),
    ServerStopping: (503, _SERVER, STOPPING),
    RequestError: (400, _INVALID, "invalid_request"),
    ContextTooLong: (400, _INVALID, "context_length_exceeded"),
    UnsupportedParam: (422, _INVALID, "unsupported_parameter"),
    GrammarInvalid: (422, _INVALID, "invalid_grammar"),
    EncoderUnavailable: (503, _SERVER, "encoder_unavailable"),
    EngineOverloaded: (429, _BUSY, "queue_full"),
    EngineUnavailable: (503, _SERVER, "engine_unavailable"),
    EngineLoading: (503, _SERVER, "model_not_ready"),
    ModelNotFound: (503, _SERVER, "model_missing"),
    ModelError: (500, _SERVER, "model_error"),
    NcbiRefusedByEgress: (403, "permission_error", "egress_refused"),
    NcbiThrottled: (503, _SERVER, "ncbi_throttled"),
    NcbiTimeout: (504, _SERVER, "ncbi_timeout"),
    NcbiError: (502, _SERVER, "ncbi_error"),
    NamespaceUnknown: (404, _INVALID, "namespace_not_found"),
    DocumentUnknown: (404, _INVALID, "document_not_found"),
    NamespaceInvalid: (422, _INVALID, "invalid_namespace"),
    NamespaceExists: (409, _INVALID, "namespace_exists"),
    NamespaceBusy: (409, _INVALID, "namespace_busy"),
    NamespaceDamaged: (500, _SERVER, "namespace_damaged"),
    DocumentUnreadable: (422, _INVALID, "document_unreadable"),
    DocumentTooLarge: (413, _INVALID, "document_too_large"),
    CorpusError: (500, _SERVER, "corpus_error"),
    IndexInputInvalid: (422, _INVALID, "invalid_vectors"),
    IndexDamaged: (500, _SERVER, "index_damaged"),
    IndexMismatch: (500, _SERVER, "index_mismatch"),
    IndexWriteFailed: (507, _SERVER, "index_not_written"),
    IndexBusy: (409, _INVALID, "index_busy"),
    IndexOverloaded: (429, _BUSY, "queue_full"),
    IndexTooLarge: (507, _SERVER, "index_too_large"),
    BackendUnavailable: (503, _SERVER, "index_backend_missing"),
    IndexFault: (500, _SERVER, "index_error"),
    RetrievalError: (500, _SERVER, "retrieval_error"),
    MethodError: (500, _SERVER, "method_error"),
    AuditFailed: (500, _SERVER, "audit_failed"),
    SettingsInvalid: (500, _SERVER, "settings_invalid"),
    ArrowheadError: (500, _SERVER, "internal_error"),
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
        return ErrorReply(507, _SERVER, "disk_full", message, getattr(error, "param", None))
    if not isinstance(error, ArrowheadError):
        return ErrorReply(500, _SERVER, "internal_error", "the server failed on this request; its log has the cause")
    row = next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)
    status, kind_name, code = row
    message = f"{error.message}. {error.hint}" if error.hint else error.message
    known: int | None = getattr(error, "retry_after_s", None)
    retry = min(known or RETRY_AFTER_S, MAX_RETRY_AFTER_S) if status in {429, 503} else None
    return ErrorReply(status, kind_name, code, message, error.param, retry)

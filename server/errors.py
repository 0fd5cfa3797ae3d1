"""Define the server's errors and the one table from exception to HTTP status and OpenAI error body.

ArrowheadError
└── RequestError                 the request, not the machine, is at fault
    ├── InvalidRequest           body, field or option
    ├── UnsupportedField         a field OpenAI knows and we do not serve
    ├── BodyTooLarge
    │   └── UploadTooLarge
    ├── BodyTooSlow              the body did not arrive in time
    ├── HeadTooLarge             too many headers, or too long
    ├── Unauthorized             no key, or a wrong one
    ├── ForbiddenHost            Host header or content type of another site
    ├── ForbiddenOrigin          a web page that is not this server's
    ├── NotGranted               outside the key's scopes
    ├── ModelUnknown             no such model or method
    ├── EncoderUnknown           no such encoder or cross-encoder
    ├── TraceNotFound
    ├── ResponseNotStored
    ├── PassageNotFound
    ├── JobNotFound
    ├── ChangesRefused           namespaces are not changed over HTTP here
    ├── EgressRaised             the request asks for more than its key or the server has
    ├── ClientGone               the client disconnected before the reply
    └── TooManyRequests          the server is full
        ├── RateExceeded         the key has reached its rate limit
        ├── ServerOverloaded     no place for an answer, and the queue is full
        └── KeyOverloaded        the key has reached its share of places
AnswerTimeout                    an answer met its deadline; also right below ArrowheadError
ServerStopping                   the process ends; also right below ArrowheadError
UploadNotWritten                 this machine cannot store an uploaded file; also right below ArrowheadError

Knows nothing of FastAPI. Texts of unknown exceptions never reach a client: they can hold paths or questions.
"""

from __future__ import annotations

from models.errors import (
    ArrowheadError,
    ContextTooLong,
    EngineLoading,
    EngineOverloaded,
    EngineUnavailable,
    GrammarInvalid,
    ModelError,
    ModelNotFound,
    UnsupportedParam,
)
from retrieval.corpus.errors import (
    CorpusError,
    DocumentTooLarge,
    DocumentUnreadable,
    NamespaceBusy,
    NamespaceDamaged,
    NamespaceExists,
    NamespaceInvalid,
    NamespaceUnknown,
)
from retrieval.errors import NcbiError, NcbiRefusedByEgress, NcbiThrottled, NcbiTimeout, RetrievalError
from retrieval.index.errors import (
    BackendUnavailable,
    IndexBusy,
    IndexDamaged,
    IndexFault,
    IndexInputInvalid,
    IndexMismatch,
    IndexOverloaded,
    IndexTooLarge,
    IndexWriteFailed,
)
from server.audit import AuditFailed
from server.error_reply import STOPPING, ErrorReply
from server.grants import ScopeInvalid
from server.key_store import KeyRefused, KeyStoreError
from server.methods.base import MethodError, OptionInvalid
from server.settings_loading import SettingsInvalid

RETRY_AFTER_S = 2
# OpenAI's SDKs give up instead of waiting for longer.
MAX_RETRY_AFTER_S = 120


class RequestError(ArrowheadError):
    """Signal that the request is at fault."""


class InvalidRequest(RequestError):
    """Signal an invalid body, field or option."""


class UnsupportedField(RequestError):
    """Signal a field that OpenAI knows and this server does not serve."""

    hint = "leave the field out"


class BodyTooLarge(RequestError):
    """Signal a body above the size limit."""

    hint = "server.max_body_bytes sets the limit"


class UploadTooLarge(BodyTooLarge):
    """Signal an uploaded file above the size limit."""

    hint = "retrieval.max_upload_bytes sets the limit"


class BodyTooSlow(RequestError):
    """Signal a body that did not arrive in time."""

    hint = "server.body_timeout_s sets the time"


class HeadTooLarge(RequestError):
    """Signal too many or too long headers."""


class UploadNotWritten(ArrowheadError):
    """Signal that this machine cannot store an uploaded file."""

    hint = "free disk space where retrieval.data_dir lies, or mend the folder's rights"


class Unauthorized(RequestError):
    """Signal a missing or wrong API key."""

    hint = "send Authorization: Bearer KEY"


class ForbiddenHost(RequestError):
    """Signal a Host header or content type of another site."""

    hint = "server.allowed_hosts lists further names"


class ForbiddenOrigin(RequestError):
    """Signal a request from a web page that may not use the server."""

    hint = "server.cors_origins lists the web pages that may ask, as https://lab.example"


class NotGranted(RequestError):
    """Signal a request outside the key's scopes."""

    hint = "`arrowhead key create` makes a key with other scopes"


class ModelUnknown(RequestError):
    """Signal an unknown model or method."""

    hint = "GET /v1/models lists them"


class EncoderUnknown(RequestError):
    """Signal an unknown encoder or cross-encoder."""

    hint = "retrieval.encoder, retrieval.encoders and retrieval.cross_encoder name those that may be used"


class TraceNotFound(RequestError):
    """Signal an unknown trace."""


class ResponseNotStored(RequestError):
    """Signal a response that is not stored."""

    hint = "the record of a recent answer is at GET /v1/traces/ID"


class PassageNotFound(RequestError):
    """Signal an unknown passage."""


class JobNotFound(RequestError):
    """Signal an unknown job."""

    hint = "GET /v1/jobs lists those of this key; a server that was started anew has none"


class ChangesRefused(RequestError):
    """Signal that namespaces cannot be changed over HTTP on this server."""

    hint = "set retrieval.allow_changes to true, or use arrowhead namespace on the server's machine"


class EgressRaised(RequestError):
    """Signal an egress mode above that of the key or the server."""

    hint = "leave arrowhead.egress out, or ask for a lower mode"


class ClientGone(RequestError):
    """Signal that the client disconnected before the reply."""


class TooManyRequests(RequestError):
    """Signal that the server accepts no more requests for now.

    ``retry_after_s`` is when a retry may succeed, None where that is unknown.
    """

    retryable = True
    hint = "try again later"

    def __init__(self, message: str, *, param: str | None = None, retry_after_s: int | None = None) -> None:
        super().__init__(message, param=param)
        self.retry_after_s = retry_after_s


class ServerOverloaded(TooManyRequests):
    """Signal that no place is free for an answer, now or within the wait limit."""


class KeyOverloaded(TooManyRequests):
    """Signal that the key has reached its share of places."""


class AnswerTimeout(ArrowheadError):
    """Signal that an answer met its deadline."""

    hint = "server.request_timeout_s or the header X-Request-Timeout set it; ask for less, or allow more time"


class ServerStopping(ArrowheadError):
    """Signal that the process is ending."""

    retryable = True
    hint = "ask another server, or this one when it is back"


class RateExceeded(TooManyRequests):
    """Signal that the key has reached its rate limit."""


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
    ForbiddenOrigin: (403, "permission_error", "origin_not_allowed"),
    NotGranted: (403, "permission_error", "not_granted"),
    ScopeInvalid: (422, _INVALID, "invalid_scope"),
    KeyRefused: (409, _INVALID, "key_refused"),
    KeyStoreError: (503, _SERVER, "keys_unreadable"),
    ModelUnknown: (404, _INVALID, "model_not_found"),
    EncoderUnknown: (404, _INVALID, "model_not_found"),
    TraceNotFound: (404, _INVALID, "trace_not_found"),
    ResponseNotStored: (404, _INVALID, "response_not_found"),
    PassageNotFound: (404, _INVALID, "passage_not_found"),
    JobNotFound: (404, _INVALID, "job_not_found"),
    ChangesRefused: (403, "permission_error", "changes_not_allowed"),
    UploadNotWritten: (507, _SERVER, "upload_not_written"),
    EgressRaised: (403, "permission_error", "egress_not_allowed"),
    RateExceeded: (429, _BUSY, "rate_limit_exceeded"),
    ClientGone: (499, _INVALID, "client_gone"),
    TooManyRequests: (429, _BUSY, "queue_full"),
    ServerOverloaded: (429, _BUSY, "server_overloaded"),
    KeyOverloaded: (429, _BUSY, "rate_limit_exceeded"),
    AnswerTimeout: (504, _SERVER, "timeout"),
    ServerStopping: (503, _SERVER, STOPPING),
    RequestError: (400, _INVALID, "invalid_request"),
    ContextTooLong: (422, _INVALID, "context_length_exceeded"),
    UnsupportedParam: (422, _INVALID, "unsupported_parameter"),
    GrammarInvalid: (422, _INVALID, "invalid_grammar"),
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


def error_reply(error: BaseException) -> ErrorReply:
    """Return the reply for any exception; for an unknown one it says only that the server failed."""
    if not isinstance(error, ArrowheadError):
        return ErrorReply(500, _SERVER, "internal_error", "the server failed on this request; its log has the cause")
    row = next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)
    status, kind_name, code = row
    message = f"{error.message}. {error.hint}" if error.hint else error.message
    known: int | None = getattr(error, "retry_after_s", None)
    retry = min(known or RETRY_AFTER_S, MAX_RETRY_AFTER_S) if status in {429, 503} else None
    return ErrorReply(status, kind_name, code, message, error.param, retry)

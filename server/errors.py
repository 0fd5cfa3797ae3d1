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
    ├── ForbiddenHost            content type of a form of another site
    ├── HostInvalid              Host header, or address of the request, of another host
    ├── ForbiddenOrigin          a web page that is not this server's
    ├── NotGranted               outside the key's scopes
    ├── ModelUnknown             no such model or method
    ├── EncoderUnknown           no such encoder or cross-encoder
    ├── TraceNotFound
    ├── ExportInvalid            no such format or style of an export
    ├── NothingToExport          the answer has no references
    ├── ResponseNotStored
    ├── PassageNotFound
    ├── JobNotFound
    ├── ChangesRefused           namespaces are not changed over HTTP here
    ├── EgressRaised             the request asks for more than its key or the server has
    ├── ClientDisconnected       the client disconnected before the reply
    └── TooManyRequests          the server is full
        ├── RateExceeded         the key has reached its rate limit
        ├── ServerOverloaded     no place for an answer, and the queue is full
        └── KeyOverloaded        the key has reached its share of places
AnswerTimeout                    an answer met its deadline; also right below ArrowheadError
ServerStopping                   the process ends; also right below ArrowheadError
UploadNotWritten                 this machine cannot store an uploaded file; also right below ArrowheadError
StateUnavailable                 the database of shared state does not answer; also right below ArrowheadError

Knows nothing of FastAPI. Texts of unknown exceptions never reach a client: they can hold paths or questions.
"""

from __future__ import annotations

from typing import Final

from models.errors import ArrowheadError

# OpenAI's SDKs give up instead of waiting for longer.
MAX_RETRY_AFTER_S: Final = 120


class RequestError(ArrowheadError):
    """Signal that the request is at fault."""


class InvalidRequest(RequestError):
    """Signal an invalid body, field or option."""


class UnsupportedField(RequestError):
    """Signal a field that OpenAI knows and this server does not serve; the message says what to do instead."""


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


class StateUnavailable(ArrowheadError):
    """Signal that the database of shared state does not answer."""

    hint = "state.url names the database; repeat the request when it is back"


class Unauthorized(RequestError):
    """Signal a missing or wrong API key."""

    hint = "send Authorization: Bearer KEY"


class ForbiddenHost(RequestError):
    """Signal a content type that a form of another site can send."""


class HostInvalid(RequestError):
    """Signal a Host header, or an address in the request's first line, that names another host or several."""

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

    hint = "GET /v1/models lists them; retrieval.encoder, retrieval.encoders and retrieval.cross_encoder add others"


class TraceNotFound(RequestError):
    """Signal an unknown trace."""


class ExportInvalid(RequestError):
    """Signal an unknown format or style of an export."""


class NothingToExport(RequestError):
    """Signal that an answer has no references to export."""

    hint = "format=markdown and format=docx give its text"


class ResponseNotStored(RequestError):
    """Signal a response that is not stored."""

    hint = "the record of a recent answer is at GET /v1/traces/ID"


class PassageNotFound(RequestError):
    """Signal an unknown passage."""


class JobNotFound(RequestError):
    """Signal an unknown job."""

    hint = "GET /v1/jobs lists those of this key that are kept"


class ChangesRefused(RequestError):
    """Signal that namespaces cannot be changed over HTTP on this server."""

    hint = "set retrieval.allow_changes to true, or use arrowhead namespace on the server's machine"


class EgressRaised(RequestError):
    """Signal an egress mode above that of the key or the server."""

    hint = "leave arrowhead.egress out, or ask for a lower mode"


class ClientDisconnected(RequestError):
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

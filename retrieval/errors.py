"""Errors of the retrieval layer.

RetrievalError
└── NcbiError                    every one has ``url`` (without key and e-mail), ``attempts`` and ``route``
    ├── CallRejected             the text is no allowed call; ``param`` names the part
    ├── NcbiRefusedByEgress      the egress mode does not allow it
    ├── NcbiThrottled            429 or "rate limit exceeded", retries used up
    ├── NcbiUnavailable          5xx, connection refused, reset, name resolution
    ├── NcbiTimeout              no (complete) answer in time
    ├── NcbiTooLarge             reply over the size cap
    ├── NcbiMalformed            not the format that was asked for (cut JSON, an HTML error page)
    ├── NcbiReplyError           NCBI's own error text in a 200 or 400 body
    └── BlastFailed              RID unknown, search failed or expired
"""

from __future__ import annotations

from models.errors import ArrowheadError
from retrieval.types import Route


class RetrievalError(ArrowheadError):
    """Anything wrong with finding evidence."""


class NcbiError(RetrievalError):
    def __init__(self, message: str, *, param: str | None = None, url: str = "", attempts: int = 0) -> None:
        super().__init__(message, param=param)
        self.url = url
        self.attempts = attempts
        self.route: Route | None = None


class CallRejected(NcbiError):
    hint = "only E-utilities and BLAST calls of the call table can be made"


class NcbiRefusedByEgress(NcbiError):
    hint = "egress.mode and egress.allow of the server, and arrowhead.egress of the request, decide what may leave"


class NcbiThrottled(NcbiError):
    retryable = True
    hint = "set ncbi.api_key for 10 requests per second"


class NcbiUnavailable(NcbiError):
    retryable = True


class NcbiTimeout(NcbiError):
    retryable = True


class NcbiTooLarge(NcbiError):
    hint = "ask for fewer records (retmax)"


class NcbiMalformed(NcbiError):
    retryable = True


class NcbiReplyError(NcbiError):
    pass


class BlastFailed(NcbiError):
    pass

"""Classify a reply before it is parsed: usable, retryable, or a permanent error; and set its lifetime in the cache.

Pure. NCBI sends many errors with status 200, some of them as invalid JSON. ``parsing`` reads the contents of records.
"""

from __future__ import annotations

import json
import re
from typing import Final

from retrieval.errors import NcbiMalformed, NcbiReplyError, NcbiThrottled, NcbiUnavailable
from retrieval.ncbi.requests import sent_params
from retrieval.types import Endpoint, NcbiCall, RawReply

_HTML: Final = re.compile(r"\s*(<\?xml[^>]*>\s*)?<(!doctype html|html)\b", re.IGNORECASE)
# Matched only as an error: an abstract may contain the same words.
_AS_ERROR: Final = r"""("error"\s*:\s*"|<ERROR>)[^"<]{0,200}"""
_THROTTLED: Final = re.compile(_AS_ERROR + "rate limit exceeded", re.IGNORECASE)
_BAD_KEY: Final = re.compile(r"api[ _-]?key[^\"<]{0,20}(invalid|not|wrong|malformed|unknown|expired)", re.IGNORECASE)
_TRANSIENT: Final = re.compile(
    r"Search Backend failed|NCBI C\+\+ Exception|WWW Error 5\d\d|"
    + _AS_ERROR
    + "(temporarily unavailable|unable to connect|timed ?out|busy)",
    re.IGNORECASE,
)
_XML_ROOT: Final = re.compile(r"<(e[A-Z]\w*Result)\b")
# Error texts are short.
_MAX_ERROR_CHARS: Final = 4000
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR

MAX_AGE_S: Final[dict[Endpoint, float]] = {
    "esearch": 1 * _DAY,
    "esummary": 7 * _DAY,
    "efetch": 7 * _DAY,
    "elink": 7 * _DAY,
    "einfo": 1 * _DAY,
    "blast_put": 7 * _DAY,
    "blast_get": 1 * _DAY,  # a RID lives for about 36 hours
}
NEGATIVE_MAX_AGE_S: Final = 1 * _HOUR
_NEGATIVE: Final = re.compile(
    r'"count"\s*:\s*"?0"?\s*[,}]|<Count>0</Count>|"error"\s*:|<error>|No significant similarity found', re.IGNORECASE
)


def check_status(status: int, body: str) -> None:
    """Raise the error that an HTTP status stands for.

    Raises:
        NcbiThrottled: 429, or an error text that reports the rate limit; retryable.
        NcbiUnavailable: 500 and above, or an error text that reports a failed service; retryable.
        NcbiReplyError: other errors and redirects; permanent.
    """
    if status == 429:
        raise NcbiThrottled("NCBI refuses more requests for now (429)")
    if status >= 500:
        raise NcbiUnavailable(f"NCBI is in trouble (HTTP {status})")
    if 300 <= status < 400:
        raise NcbiReplyError("NCBI answered with a redirect; redirects are not followed")
    if status >= 400:
        _check_error_text(body)
        raise NcbiReplyError(f"NCBI refuses the request (HTTP {status}): {_message(body)}")


def check_body(call: NcbiCall, body: str) -> None:
    """Raise for a body that a retry may fix, and for a rejected key; ``parsing`` detects everything else.

    Raises:
        NcbiMalformed: empty, a web page, or truncated; retryable.
        NcbiThrottled: NCBI's error text reports the rate limit.
        NcbiUnavailable: NCBI's error text reports a failure of its service.
        NcbiReplyError: NCBI rejects the API key.
    """
    if not body.strip():
        raise NcbiMalformed("NCBI sent an empty reply")
    if call.endpoint in ("blast_put", "blast_get"):
        return  # BLAST's pages are HTML; ``blast`` reads them
    if _HTML.match(body):
        raise NcbiMalformed("NCBI sent a web page where data was asked for")
    if len(body) <= _MAX_ERROR_CHARS:
        _check_error_text(body)
    start = body.lstrip()[:1]
    if start == "{" or (sent_params(call).get("retmode") == "json" and call.endpoint != "efetch" and start != "<"):
        _check_json(body)
    root = _XML_ROOT.search(body[:1000])
    if root and not body.rstrip().endswith((f"</{root[1]}>", "/>")):
        raise NcbiMalformed("NCBI's reply is cut off")


def max_age_s(call: NcbiCall, reply: RawReply) -> float:
    """Return how long the reply may be reused; empty results and permanent errors expire sooner."""
    if _NEGATIVE.search(reply.body[:_MAX_ERROR_CHARS]):
        return NEGATIVE_MAX_AGE_S
    return MAX_AGE_S[call.endpoint]


def _check_error_text(body: str) -> None:
    head = body[:_MAX_ERROR_CHARS]
    if _THROTTLED.search(head):
        raise NcbiThrottled("NCBI refuses more requests for now (rate limit exceeded)")
    if _BAD_KEY.search(head):
        raise NcbiReplyError("NCBI does not accept the configured API key")
    if _TRANSIENT.search(head):
        raise NcbiUnavailable("NCBI's search service failed")


def _check_json(body: str) -> None:
    try:
        json.loads(body, strict=False)  # NCBI puts raw newlines into strings
    except json.JSONDecodeError as error:
        raise NcbiMalformed("NCBI's reply is cut off or no JSON") from error


def _message(body: str) -> str:
    text = re.sub(r"<[^>]*>", " ", body[:2000])
    found = re.search(r'"error"\s*:\s*"([^"]+)"', text, re.IGNORECASE)
    return " ".join((found[1] if found else text).split())[:120] or "no reason given"

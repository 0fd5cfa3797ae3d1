"""Execute the calls of one answer: from the text that a model wrote to the text that it receives.

Checks, fetches, parses and condenses; tracks the topic of the answer, refuses repeated calls, turns every error into a
short text, and reports each call to a tracer, with the records of its reply titled for the sources below the answer.
Knows nothing of models, tokens or HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from models.decoding.types import Call, CallReply, CallStatus
from models.errors import kind_of
from retrieval.errors import CALL_REJECTED, EGRESS_REFUSED, NCBI_MALFORMED, NcbiError
from retrieval.formats.untrusted_input import whole_characters
from retrieval.ncbi.calls.urls import NcbiSite, cache_key, parse_call_url, public_url
from retrieval.ncbi.replies.condense import condense, gene_rank, line_of, sanitize, telling
from retrieval.ncbi.replies.inert import inert, inert_body
from retrieval.ncbi.replies.parse import parse_reply
from retrieval.ncbi.replies.records import (
    DocRecord,
    FailedRecord,
    GeneRecord,
    IdList,
    OmimRecord,
    ParsedReply,
    Record,
    RecordList,
    SnpRecord,
)
from retrieval.observer import NullObserver, Tracer
from retrieval.types import Condensed, FetchCall, Focus, NcbiCall, RawReply, Route

# More than these are never listed as sources.
_MAX_RECORDS: Final = 100
_MAX_TEXT: Final = 2000
_MAX_TITLE: Final = 160
_log = logging.getLogger(__name__)
# NCBI's default for a call without retmax.
_DEFAULT_RETMAX: Final = 20
_DEFAULT_CHARS: Final = 1200
# A longer one is read in a thread: a few megabytes take a second, in which the streams of other answers go on.
_LONG_REPLY_BYTES: Final = 100_000
_MAX_ERROR_CHARS: Final = 240
_ORGANISM: Final = re.compile(r"([^\[\]()]+?)\s*\[(?:orgn|organism)\]", re.IGNORECASE)
_OPERATOR: Final = re.compile(r"\b(?:AND|OR|NOT)\b")
_TAG: Final = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True, slots=True)
class _Topic:
    """Hold the topic of a search: its terms without tags, and the organism it named, if any."""

    terms: tuple[str, ...]
    organism: str | None


class NcbiSession:
    """Execute the calls of one answer, one at a time; implements ``CallHandler``.

    ``fetch`` sends a checked call, ``site`` names its addresses. ``about``: the question's own terms, its organism, the
    information it needs. ``max_chars``: length of a condensed reply. ``tracer`` receives what the record counts and
    names, no value of a URL.
    """

    def __init__(
        self,
        fetch: FetchCall,
        site: NcbiSite,
        *,
        about: Focus | None = None,
        max_chars: int = _DEFAULT_CHARS,
        tracer: Tracer | None = None,
    ) -> None:
        self._fetch = fetch
        self._site = site
        self._about = about or Focus()
        self._max_chars = max_chars
        self._tracer = tracer or NullObserver()
        self._replies: dict[str, CallReply] = {}
        self._topics: dict[tuple[str, str], _Topic] = {}

    async def __call__(self, written: Call) -> CallReply:
        """Answer a call whose text is a URL (no brackets, no arrow); every NCBI failure is a reply.

        The reply's text is one paragraph of data. Its record is JSON-serializable, without key and e-mail; ``egress``
        in it states the call's destination, None if the call was not sent (refused before, or equal to an earlier one).
        """
        with self._tracer.part("call") as part:
            reply = await self._answer(written.text)
            record = reply.record
            part.annotate(
                tool=record["endpoint"] or "other",
                status=reply.status,
                remote=bool((record["egress"] or {}).get("left")),
                from_cache=record["from_cache"],
                attempts=record["attempts"],
                found=record["num_records"],
            )
            if reply.status in ("error", "refused"):
                part.failed(record["error"] or reply.status)
        return reply

    async def _answer(self, url_text: str) -> CallReply:
        started = time.monotonic()
        try:
            call = parse_call_url(url_text)
        except NcbiError as error:
            return _failed("refused", f"call refused: {error.message}", call_record(started, error=error))
        known = {"endpoint": call.endpoint, "db": call.db, "url": public_url(call, self._site)}
        key = cache_key(call, self._site)
        if key in self._replies:
            return _repeated(self._replies[key], call_record(started) | known)
        raw: RawReply | None = None
        try:
            raw = _readable(await self._fetch(call))
            parsed = _within_retmax(call, await _parsed(call, raw))
        except NcbiError as error:
            destination = destination_of(raw.route if raw else error.route)
            reply = _failed(status_of(error), error.message, call_record(started, error=error) | known | destination)
            if not error.retryable:
                self._replies[key] = reply
            return reply
        condensed = await self._condense(call, parsed, raw.num_bytes)
        record = (
            call_record(started, raw=raw, condensed=condensed)
            | known
            | destination_of(raw.route)
            | _retracted(parsed)
            | _incomplete(parsed)
        )
        record["records"] = titled(parsed, self._focus(call))
        reply = CallReply(sanitize(condensed.text), "empty" if condensed.empty else "ok", record)
        self._replies[key] = reply  # a repeated call gets the condensed reply, whole bodies are inserted only once
        return reply

    async def _condense(self, call: NcbiCall, parsed: ParsedReply, num_bytes: int) -> Condensed:
        if isinstance(parsed, IdList):
            self._note(call, parsed)
        focus, max_chars = self._focus(call), self._max_chars
        if num_bytes < _LONG_REPLY_BYTES:
            return condense(parsed, focus, max_chars=max_chars)
        return await asyncio.to_thread(condense, parsed, focus, max_chars=max_chars)

    def _note(self, call: NcbiCall, found: IdList) -> None:
        """Record the topic of the ids; links carry the topic of the records they start from."""
        if call.endpoint == "esearch":
            topic = _topic_of(call.params["term"])
        elif call.endpoint == "elink":
            topic = self._topic_of_ids(call.params["dbfrom"], call.params["id"])
        else:
            return
        for uid in found.ids:
            self._topics.pop((call.db, uid), None)  # reinserted, so that the last search comes last
            self._topics[call.db, uid] = topic

    def _focus(self, call: NcbiCall) -> Focus:
        if call.endpoint == "esearch":
            topic = _topic_of(call.params["term"])
        else:
            topic = self._topic_of_ids(call.params.get("dbfrom", call.db), call.params.get("id", ""))
        terms = tuple(dict.fromkeys((*topic.terms, *self._about.terms)))
        return replace(self._about, terms=terms, organism=topic.organism or self._about.organism)

    def _topic_of_ids(self, db: str, ids: str) -> _Topic:
        """Combine the topics of all these ids, the last search first."""
        keys = {(db, uid) for uid in ids.split(",")}
        topics = [topic for at, topic in reversed(self._topics.items()) if at in keys]
        terms = tuple(dict.fromkeys(term for topic in topics for term in topic.terms))
        return _Topic(terms, next((topic.organism for topic in topics if topic.organism), None))


def _topic_of(term: str) -> _Topic:
    organism = _ORGANISM.search(term)
    rest = _TAG.sub(" ", _ORGANISM.sub(" ", term)).replace('"', " ")
    names = (" ".join(part.strip(" ()").split()) for part in _OPERATOR.split(rest))
    named = organism[1] if organism else ""
    return _Topic(
        tuple(name for name in names if name), " ".join(_OPERATOR.split(named)[-1].replace('"', " ").split()) or None
    )


def _readable(raw: RawReply) -> RawReply:
    """Return the reply without halves of characters, which no trace and no stream could be encoded with."""
    return replace(raw, body=whole_characters(raw.body)) if raw.body.lstrip()[:1] in ("{", "[") else raw


async def _parsed(call: NcbiCall, raw: RawReply) -> ParsedReply:
    return _parse(call, raw) if raw.num_bytes < _LONG_REPLY_BYTES else await asyncio.to_thread(_parse, call, raw)


def _parse(call: NcbiCall, raw: RawReply) -> ParsedReply:
    try:
        return inert(parse_reply(call, raw))
    except NcbiError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # An unknown shape must not end the answer; the log has the traceback without the text (its format omits the
        # messages of exceptions).
        _log.exception("reply of %s db=%s cannot be read", call.endpoint, call.db)
        raise NcbiError(f"the reply of {call.endpoint} has an unknown shape", NCBI_MALFORMED) from error


def _retracted(parsed: ParsedReply) -> dict[str, Any]:
    """Return the ids of retracted articles for the record, {} if there are none."""
    records = parsed.records if isinstance(parsed, RecordList) else ()
    found = [record.uid for record in records if isinstance(record, DocRecord) and record.is_retracted]
    return {"retracted": found} if found else {}


def _incomplete(parsed: ParsedReply) -> dict[str, Any]:
    """Return for the record what a search was without, and the ids that no record came back for; {} for neither."""
    found: dict[str, Any] = {}
    if isinstance(parsed, IdList) and (words := (*parsed.not_found, *telling(parsed.ignored))):
        found["ignored_words"] = list(words)
    if isinstance(parsed, RecordList) and (failed := [r for r in parsed.records if isinstance(r, FailedRecord)]):
        found["without_record"] = [record.uid for record in failed]
    return found


def _within_retmax(call: NcbiCall, parsed: ParsedReply) -> ParsedReply:
    if call.endpoint != "esearch" or not isinstance(parsed, IdList):
        return parsed
    limit = int(call.params.get("retmax", _DEFAULT_RETMAX))
    return replace(parsed, ids=parsed.ids[:limit])


def _repeated(earlier: CallReply, record: dict[str, Any]) -> CallReply:
    inner = earlier.text.removeprefix("[").removesuffix("]")
    kept = ("num_records", "num_left_out", "ids", "records", "retracted", "ignored_words", "without_record")
    record |= {name: earlier.record[name] for name in kept if name in earlier.record}
    return CallReply(f"[same call as before: {inner}]", "duplicate", record)


def _failed(status: CallStatus, message: str, record: dict[str, Any]) -> CallReply:
    text = sanitize(inert_body(message[:_MAX_ERROR_CHARS])).replace("\n", " ").translate(str.maketrans("[]", "()"))
    return CallReply(f"[error: {text}]", status, record)


def status_of(error: NcbiError) -> CallStatus:
    """Return the status of a call that failed."""
    return "refused" if error.fault in (CALL_REJECTED, EGRESS_REFUSED) else "error"


def call_record(
    started: float, *, raw: RawReply | None = None, condensed: Condensed | None = None, error: NcbiError | None = None
) -> dict[str, Any]:
    """Return the record of a call that began at the monotonic time ``started``; its endpoint and address are added."""
    return {
        "endpoint": None,
        "db": None,
        "url": None,
        "http_status": raw.status if raw else None,
        "bytes": raw.num_bytes if raw else 0,
        "from_cache": raw.from_cache if raw else False,
        "attempts": raw.attempts if raw else (error.attempts if error else 0),
        "seconds": round(time.monotonic() - started, 4),
        "error": kind_of(error) if error else None,
        "error_param": error.param if error else None,
        "num_records": condensed.num_records if condensed else 0,
        "num_left_out": condensed.num_left_out if condensed else 0,
        "ids": list(condensed.ids) if condensed else [],
        "records": [],
        "egress": None,
    }


def destination_of(route: Route | None) -> dict[str, Any]:
    """Return the call's destination for the record, {} if it is unknown."""
    if route is None:
        return {}
    egress = asdict(route)
    url = egress.pop("url")
    return {"egress": egress} | ({"url": url} if url else {})


def titled(parsed: ParsedReply, focus: Focus) -> list[dict[str, Any]]:
    """Return a JSON-able object for each record of a reply, genes of the requested organism and name first.

    ``id``, ``title``, ``text`` with all that is known of the record, ``replaced_by``: the id of the record that
    replaces it, "" for none.
    """
    if not isinstance(parsed, RecordList):
        return []
    records = list(parsed.records)
    genes = [record for record in records if isinstance(record, GeneRecord)]
    if len(genes) == len(records):
        records = [*sorted(genes, key=lambda gene: gene_rank(gene, focus))]
    return [one for record in records[:_MAX_RECORDS] if (one := _titled(record, focus)) is not None]


def _titled(record: Record, focus: Focus) -> dict[str, Any] | None:
    title_of = _TITLES.get(type(record))
    if title_of is None:
        return None
    text = f"{line_of(record, focus)} {getattr(record, 'summary', '')}"
    return {
        "id": getattr(record, "uid", ""),
        "title": " ".join(title_of(record).split())[:_MAX_TITLE],
        "text": text[:_MAX_TEXT],
        "replaced_by": getattr(record, "replaced_by", ""),
    }


def _gene_title(gene: GeneRecord) -> str:
    return ", ".join(filter(None, (gene.symbol, gene.name, gene.organism)))


def _snp_title(snp: SnpRecord) -> str:
    place = snp.position if ":" in snp.position else f"{snp.chromosome} {snp.position}".strip()
    place = f"chr{place}" if place else ""
    return ", ".join(filter(None, (", ".join(name for name, _ in snp.genes[:3]), place)))


def _omim_title(entry: OmimRecord) -> str:
    title = entry.title if entry.title != entry.title.upper() else entry.title.capitalize()
    return f"{entry.symbol}, {title}" if entry.is_gene and entry.symbol else title


def _doc_title(doc: DocRecord) -> str:
    return doc.title


_TITLES: Final[dict[type, Callable[[Any], str]]] = {
    GeneRecord: _gene_title,
    SnpRecord: _snp_title,
    OmimRecord: _omim_title,
    DocRecord: _doc_title,
}

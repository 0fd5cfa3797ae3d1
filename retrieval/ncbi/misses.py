"""Whether a reply says that nothing was found, so that somebody else may be asked. Pure.

A reply that cannot be read is no miss: what is broken must show as broken.
"""

from __future__ import annotations

import re
from typing import Final

from retrieval.errors import BlastFailed, NcbiError, NcbiReplyError
from retrieval.ncbi.parsing import parse_reply
from retrieval.ncbi.records import BlastResult, FailedRecord, IdList, RecordList
from retrieval.types import NcbiCall, RawReply

_ENTRY: Final = re.compile(r"^[0-9]{1,6}\. (Error occurred)?", re.MULTILINE)
_XML_RECORD: Final = re.compile(r"<[A-Za-z][\w.:-]*[^<>]*>\s*<[A-Za-z]")
_XML_ERROR: Final = re.compile(r"<eFetchResult>\s*<ERROR>")
_XML_HEAD: Final = re.compile(r"<[?!][^>]*>")
_HEAD_CHARS: Final = 20_000
# What the readers of replies raise for a shape nobody has seen yet.
_UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def is_miss(call: NcbiCall, reply: RawReply) -> bool:
    """Nothing counted, linked or aligned, or an error in place of every record; an overview (einfo) never is."""
    if call.endpoint == "efetch":
        return _no_document(call, reply)
    try:
        parsed = parse_reply(call, reply)
    except NcbiError as error:
        return refuses(error)
    except _UNREADABLE:
        return False  # the session meets the same, and says so
    match parsed:
        case IdList(count=count, ids=ids):
            return not count and not ids
        case RecordList(records=records):
            return all(isinstance(record, FailedRecord) for record in records)
        case BlastResult(hits=hits):
            return not hits


def refuses(error: NcbiError) -> bool:
    """Whether an error says that the one asked does not have it: no such database, record or search."""
    return isinstance(error, NcbiReplyError | BlastFailed)


def _no_document(call: NcbiCall, reply: RawReply) -> bool:
    """By the text's outline: efetch has a format for every database, and not all of them are read here."""
    body = reply.body.lstrip("\ufeff").strip()
    if body.startswith("<"):
        head = _XML_HEAD.sub("", body[:_HEAD_CHARS])
        return _XML_RECORD.search(head) is None or _XML_ERROR.search(head) is not None
    entries = _ENTRY.findall(body)
    return not body or body.startswith("Error") or (bool(entries) and all(entries))

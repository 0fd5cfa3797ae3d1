"""Detect replies without results, so that another source can be queried.

Pure. A reply that cannot be parsed is not an empty reply: errors must stay visible.
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
# Exceptions of the parsers for a reply of an unknown shape.
_UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def is_miss(call: NcbiCall, reply: RawReply) -> bool:
    """Return whether nothing was counted, linked or aligned, or every record is an error.

    An overview (einfo) never counts as empty.
    """
    if call.endpoint == "efetch":
        return _no_document(call, reply)
    try:
        parsed = parse_reply(call, reply)
    except NcbiError as error:
        return refuses(error)
    except _UNREADABLE:
        return False  # the session parses the same reply and reports the error
    match parsed:
        case IdList(count=count, ids=ids):
            return not count and not ids
        case RecordList(records=records):
            return all(isinstance(record, FailedRecord) for record in records)
        case BlastResult(hits=hits):
            return not hits


def refuses(error: NcbiError) -> bool:
    """Return whether an error means that the source lacks the item: no such database, record or search."""
    return isinstance(error, NcbiReplyError | BlastFailed)


def _no_document(call: NcbiCall, reply: RawReply) -> bool:
    """Return whether an efetch body has no record, judged by its outline.

    Every database has its own efetch format, and not all of them are parsed here.
    """
    body = reply.body.lstrip("\ufeff").strip()
    if body.startswith("<"):
        head = _XML_HEAD.sub("", body[:_HEAD_CHARS])
        return _XML_RECORD.search(head) is None or _XML_ERROR.search(head) is not None
    entries = _ENTRY.findall(body)
    return not body or body.startswith("Error") or (bool(entries) and all(entries))

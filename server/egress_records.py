"""Build audit records for requests that are no NCBI calls, without I/O."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from server.audit_lines import AuditRecord
from server.egress_places import InboundReply, OutboundRequest

if TYPE_CHECKING:
    from server.egress import Asker


def sent(asker: Asker, request: OutboundRequest) -> AuditRecord:
    """Return the record to write right before the request is sent."""
    return AuditRecord(
        event="send",
        request_id=asker.request_id,
        key_id=asker.key_id or None,
        mode=asker.mode,
        decision="allowed",
        where=request.host,
        endpoint=request.endpoint,
        classes=request.classes,
        request_bytes=request.num_bytes,
        params=request.params,
    )


def returned(asker: Asker, request: OutboundRequest, reply: InboundReply) -> AuditRecord:
    """Return the record to write right after the request ended; it has nothing of the reply's content."""
    return replace(
        sent(asker, request),
        event="reply",
        request_bytes=None,
        status=reply.status,
        reply_bytes=reply.num_bytes,
        detail={"seconds": round(reply.seconds, 3)},
    )

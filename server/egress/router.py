"""Route every call: to the gateway in this process, to an address on this machine, or to another machine.

The only place that lets a call leave the machine. Each such call is in the audit log on the disk before its first byte
is sent; each reply carries the route that it took. Knows nothing of HTTP and of the content of answers.
"""

from __future__ import annotations

import asyncio
import copy
from collections import OrderedDict
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, NoReturn

from retrieval.errors import NcbiError, NcbiRefusedByEgress
from retrieval.ncbi.calls.parameter_classes import ParamClass, Vocabulary, classes_of
from retrieval.ncbi.calls.urls import NcbiSite, build_request, public_url
from retrieval.ncbi.client.client import NcbiClient
from retrieval.ncbi.replies.parse import is_empty_reply, is_not_found
from retrieval.types import FetchCall, NcbiCall, RawReply, Route
from server.audit.entry import AuditRecord
from server.audit.log import AuditFailed, AuditRecorder
from server.egress.policy import Departures, EgressContext, EgressPolicy
from server.errors import EgressRaised
from server.types import EgressMode

# Far above the number of concurrent answers; bounds the memory of answers whose end is never reported.
_MAX_ANSWERS: Final = 65_536
_MAX_KEYS: Final = 65_536


@dataclass(frozen=True, slots=True)
class Destination:
    """Describe one destination of calls.

    ``name`` is "gateway" or the host; ``leaves`` is whether it is another machine.
    """

    name: str
    client: NcbiClient
    leaves: bool


@dataclass(frozen=True, slots=True)
class DestinationPair:
    """Pair the destinations of E-utilities and BLAST, which may differ."""

    eutils: Destination
    blast: Destination

    def of(self, call: NcbiCall) -> Destination:
        return self.blast if call.endpoint.startswith("blast_") else self.eutils

    @property
    def site(self) -> NcbiSite:
        return replace(self.eutils.client.site, blast_url=self.blast.client.site.blast_url)


@dataclass(frozen=True, slots=True)
class Destinations:
    """Hold the destinations of every egress mode.

    ``off`` serves mode off; ``gateway`` is tried first with local-first; ``outside`` is NCBI or its substitute.
    """

    off: DestinationPair
    gateway: DestinationPair
    outside: DestinationPair

    def first(self, mode: EgressMode) -> DestinationPair:
        return {"off": self.off, "local-first": self.gateway, "ncbi": self.outside}[mode]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundRequest:
    """Describe a request to another machine that is no NCBI call.

    ``params`` holds those of its values that carry information.
    """

    host: str
    endpoint: str
    classes: tuple[ParamClass, ...]
    num_bytes: int
    params: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundReply:
    """Describe the outcome of an outbound request.

    ``status`` is HTTP's, or else the reason why no reply came; ``num_bytes`` is None without a reply.
    """

    status: str
    num_bytes: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class _OutboundCall:
    call: NcbiCall
    egress_context: EgressContext
    classes: tuple[ParamClass, ...]


class Egress:
    """Apply the egress policy to every call; one instance per process."""

    def __init__(
        self, policy: EgressPolicy, places: Destinations, auditor: AuditRecorder, vocabulary: Vocabulary | None = None
    ) -> None:
        self.policy = policy
        self._places = places
        self._auditor = auditor
        self._vocabulary = vocabulary
        self._by_key: OrderedDict[str, Departures] = OrderedDict()
        self._by_answer: OrderedDict[str, Departures] = OrderedDict()

    def admit(self, request_id: str, key_id: str, requested: EgressMode | None) -> EgressContext:
        """Return the request's identity with its effective mode.

        Raises:
            EgressRaised: the request asks for a mode above its key's; the audit log records it.
        """
        try:
            return EgressContext(request_id, key_id, self.policy.effective(key_id, requested))
        except EgressRaised:
            ceiling = self.policy.ceiling(key_id)
            record = AuditRecord(event="refused", request_id=request_id, key_id=key_id or None, mode=ceiling)
            self._auditor.note(replace(record, decision="refused", detail={"asked": requested, "cause": "mode raised"}))
            raise

    def fetch_for(self, egress_context: EgressContext) -> FetchCall:
        """Return ``fetch`` bound to the identity of one request."""
        return partial(self.fetch, egress_context=egress_context)

    def site_of(self, mode: EgressMode) -> NcbiSite:
        """Return the addresses to which calls of a mode are sent first."""
        return self._places.first(mode).site

    def left_by(self, key_id: str) -> str:
        """Return a readable summary of what left the machine for one key since the start.

        ``key_id`` is "" on a server without keys.
        """
        return self._by_key.get(key_id, Departures()).text

    def departures_of(self, request_id: str) -> str:
        """Return a readable summary of what left the machine for one answer so far.

        It includes abandoned calls, which have no record.
        """
        return self._by_answer.get(request_id, Departures()).text

    def forget(self, request_id: str) -> None:
        """Discard the summary of an answer that has ended and reported what left."""
        self._by_answer.pop(request_id, None)

    async def fetch(self, call: NcbiCall, egress_context: EgressContext) -> RawReply:
        """Return the reply to ``call``, with its route.

        Raises:
            NcbiRefusedByEgress: the mode or a class of its values forbids the call to leave.
            NcbiError: any other of its subclasses; each carries its route.
        """
        outbound = _OutboundCall(call, egress_context, classes_of(call, self._vocabulary))
        if egress_context.mode == "local-first":
            return await self._local_first(outbound)
        place = self._places.first(egress_context.mode).of(call)
        if place.leaves and (blocked := self.policy.blocked(outbound.classes)):
            await self._note(outbound, "refused", blocked)
            self._refuse(outbound, place, blocked)
        return await self._ask(outbound, place)

    async def authorize_request(self, egress_context: EgressContext, request: OutboundRequest) -> None:
        """Authorize and count a request that is no NCBI call, right before it is sent.

        On return, its line is in the audit log on the disk.

        Raises:
            NcbiRefusedByEgress: the mode or a class of its values forbids it, or the log cannot be written.
        """
        record = _request_entry(egress_context, request)
        if egress_context.mode == "off":
            raise NcbiRefusedByEgress(f"{request.host} is another machine, and nothing may leave this one")
        if blocked := self.policy.blocked(request.classes):
            with suppress(AuditFailed):  # nothing leaves either way
                refused = replace(record, event="refused", decision="refused", detail={"kept": list(blocked)})
                await self._auditor.record(refused)
            self._departures(egress_context).withhold(blocked)
            raise NcbiRefusedByEgress(f"{', '.join(blocked)} may not leave this machine for {request.host}")
        await self._record_ahead(record)
        self._add(egress_context, request.host, request.classes)

    async def record_reply(self, egress_context: EgressContext, request: OutboundRequest, reply: InboundReply) -> None:
        """Record the outcome of an authorized request in the audit log, right after the request ended."""
        with suppress(AuditFailed):  # already logged; the line before records what left
            await self._auditor.record(_reply_entry(egress_context, request, reply))

    async def _local_first(self, outbound: _OutboundCall) -> RawReply:
        local: RawReply | None = None
        try:
            local = await self._ask(outbound, self._places.gateway.of(outbound.call))
            if not is_empty_reply(outbound.call, local):
                return local
        except NcbiError as error:
            if not is_not_found(error):
                raise
            missing = error
        place = self._places.outside.of(outbound.call)
        if place.leaves and (blocked := self.policy.blocked(outbound.classes)):
            await self._note(outbound, "withheld", blocked)
            self._answer(outbound).withhold(blocked)
            route = replace(self._route(outbound, self._places.gateway.of(outbound.call)), withheld=blocked)
            return _routed(local, route) if local else _raise(missing, route)
        try:
            return await self._ask(outbound, place)
        except NcbiError as error:
            if local is None or error.route is None:
                raise
            return _routed(local, _fallen_back(error, error.route, local))

    async def _ask(self, outbound: _OutboundCall, place: Destination) -> RawReply:
        """Send the call to one destination and attach its route to the reply or the error."""
        route = self._route(outbound, place)
        try:
            reply = await (self._send(outbound, place) if place.leaves else place.client.fetch(outbound.call))
        except NcbiError as error:
            # The request may have left, even if no reply came.
            left = place.leaves and not isinstance(error, NcbiRefusedByEgress)
            self._count(outbound, place, left=left)
            _raise(error, replace(route, left=left))
        left = place.leaves and not reply.from_cache
        self._count(outbound, place, left=left)
        return _routed(reply, replace(route, left=left))

    async def _send(self, outbound: _OutboundCall, place: Destination) -> RawReply:
        sent = False

        async def before() -> None:
            nonlocal sent
            await self._write_ahead(outbound, place)
            sent = True

        try:
            reply = await place.client.fetch(outbound.call, before=before)
        except asyncio.CancelledError:
            self._count(outbound, place, left=True)  # or it waited for an equal call that was already sent
            if sent:
                await self._returned(outbound, place, AuditRecord(event="reply", status="cancelled"))
            raise
        except NcbiError as error:
            if not isinstance(error, NcbiRefusedByEgress):
                event = AuditRecord(event="reply" if sent else "shared", status=type(error).__name__)
                await self._returned(outbound, place, event)
            raise
        if not reply.from_cache:
            event = AuditRecord(event="reply" if sent else "shared", status=str(reply.status))
            await self._returned(outbound, place, replace(event, reply_bytes=reply.num_bytes))
        return reply

    async def _write_ahead(self, outbound: _OutboundCall, place: Destination) -> None:
        request = build_request(outbound.call, place.client.site)
        record = self._record(outbound, AuditRecord(event="send", decision="allowed", where=place.name))
        await self._record_ahead(replace(record, request_bytes=len(request.url) + len(request.body)))
        self._count(outbound, place, left=True)

    async def _record_ahead(self, record: AuditRecord) -> None:
        """Write a call's line to the audit log before the call is sent.

        Raises:
            NcbiRefusedByEgress: the line is not on the disk, so the call must not be sent.
        """
        try:
            await self._auditor.record(record)
        except AuditFailed as error:
            raise NcbiRefusedByEgress("the call cannot be written to the audit log, so it was not sent") from error

    def _count(self, outbound: _OutboundCall, place: Destination, *, left: bool) -> None:
        if left:
            self._add(outbound.egress_context, place.name, outbound.classes)

    def _add(self, egress_context: EgressContext, host: str, classes: Collection[str]) -> None:
        self._departures(egress_context).add(host, classes)
        key = self._by_key.setdefault(egress_context.key_id, Departures())
        key.add(host, classes)
        while len(self._by_key) > _MAX_KEYS:
            self._by_key.popitem(last=False)

    def _answer(self, outbound: _OutboundCall) -> Departures:
        return self._departures(outbound.egress_context)

    def _departures(self, egress_context: EgressContext) -> Departures:
        departures = self._by_answer.setdefault(egress_context.request_id, Departures())
        while len(self._by_answer) > _MAX_ANSWERS:
            self._by_answer.popitem(last=False)
        return departures

    async def _returned(self, outbound: _OutboundCall, place: Destination, record: AuditRecord) -> None:
        with suppress(AuditFailed):  # already logged; the line before records what left
            await self._auditor.record(self._record(outbound, replace(record, decision="allowed", where=place.name)))

    async def _note(
        self, outbound: _OutboundCall, what: Literal["refused", "withheld"], blocked: tuple[ParamClass, ...]
    ) -> None:
        place = self._places.outside.of(outbound.call)
        record = AuditRecord(event=what, decision=what, where=place.name, detail={"kept": list(blocked)})
        with suppress(AuditFailed):  # nothing leaves either way
            await self._auditor.record(self._record(outbound, record))

    def _record(self, outbound: _OutboundCall, record: AuditRecord) -> AuditRecord:
        egress_context, call = outbound.egress_context, outbound.call
        return replace(
            record,
            request_id=egress_context.request_id,
            key_id=egress_context.key_id or None,
            mode=egress_context.mode,
            endpoint=call.endpoint,
            db=call.db or None,
            classes=outbound.classes,
            params=call.params,
        )

    def _refuse(self, outbound: _OutboundCall, place: Destination, blocked: tuple[ParamClass, ...]) -> NoReturn:
        error = NcbiRefusedByEgress(
            f"{', '.join(blocked)} may not leave this machine ({self.policy.profile} allows "
            f"{', '.join(self.policy.allowed) or 'nothing'}); search by a symbol or an id, "
            "or have the operator extend egress.allow"
        )
        self._answer(outbound).withhold(blocked)
        _raise(error, replace(self._route(outbound, place), went_to="", withheld=blocked))

    def _route(self, outbound: _OutboundCall, place: Destination) -> Route:
        url = public_url(outbound.call, place.client.site)
        return Route(mode=outbound.egress_context.mode, went_to=place.name, url=url, classes=outbound.classes)


def _routed(reply: RawReply, route: Route) -> RawReply:
    return replace(reply, route=route)


def _raise(error: NcbiError, route: Route) -> NoReturn:
    """Raise a copy of ``error`` with its route, since equal calls of several answers share one error object."""
    own = copy.copy(error)
    own.route = route
    raise own from error


def _fallen_back(error: NcbiError, tried: Route, local: RawReply) -> Route:
    """Return the route of the gateway's empty reply, with a note on the failed call outside."""
    note = f"{tried.went_to or 'outside'}: {type(error).__name__}; the gateway's answer stands"
    if tried.left or local.route is None:
        return replace(tried, note=note)
    return replace(local.route, note=note)


def _request_entry(egress_context: EgressContext, request: OutboundRequest) -> AuditRecord:
    """Return the record to write right before the request is sent."""
    return AuditRecord(
        event="send",
        request_id=egress_context.request_id,
        key_id=egress_context.key_id or None,
        mode=egress_context.mode,
        decision="allowed",
        where=request.host,
        endpoint=request.endpoint,
        classes=request.classes,
        request_bytes=request.num_bytes,
        params=request.params,
    )


def _reply_entry(egress_context: EgressContext, request: OutboundRequest, reply: InboundReply) -> AuditRecord:
    """Return the record to write right after the request ended; it has nothing of the reply's content."""
    return replace(
        _request_entry(egress_context, request),
        event="reply",
        request_bytes=None,
        status=reply.status,
        reply_bytes=reply.num_bytes,
        detail={"seconds": round(reply.seconds, 3)},
    )

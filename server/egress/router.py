"""Route every call: to the gateway in this process, to an address on this machine, or to another machine.

The only place that lets a call leave the machine. Each such call is in the audit log on the disk before its first byte
is sent; each reply carries the route that it took. Knows nothing of HTTP and of the content of answers.
"""

from __future__ import annotations

import asyncio
import copy
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Literal, NoReturn

from retrieval.errors import NcbiError, NcbiRefusedByEgress
from retrieval.ncbi.calls.parameter_classes import ParamClass, Vocabulary, classes_of
from retrieval.ncbi.calls.urls import NcbiSite, build_request, public_url
from retrieval.ncbi.replies.parse import is_miss, refuses
from retrieval.types import NcbiCall, RawReply, Route
from server.audit.entry import AuditRecord
from server.audit.log import AuditFailed, Auditor
from server.egress.destinations import Asker, InboundReply, OutboundRequest, Place, Places, reply_entry, request_entry
from server.egress.policy import Departures, EgressPolicy
from server.errors import EgressRaised
from server.types import EgressMode

# Far above the number of concurrent answers; bounds the memory of answers whose end is never reported.
_MAX_ANSWERS: Final = 65_536


@dataclass(frozen=True, slots=True)
class _Trip:
    call: NcbiCall
    asker: Asker
    classes: tuple[ParamClass, ...]


class Egress:
    """Apply the egress policy to every call; one instance per process."""

    def __init__(
        self, policy: EgressPolicy, places: Places, auditor: Auditor, vocabulary: Vocabulary | None = None
    ) -> None:
        self.policy = policy
        self._places = places
        self._auditor = auditor
        self._vocabulary = vocabulary
        self._total = Departures()
        self._by_answer: OrderedDict[str, Departures] = OrderedDict()

    def admit(self, request_id: str, key_id: str, asked: EgressMode | None) -> Asker:
        """Return the request's identity with its effective mode.

        Raises:
            EgressRaised: the request asks for a mode above its key's; the audit log records it.
        """
        try:
            return Asker(request_id, key_id, self.policy.effective(key_id, asked))
        except EgressRaised:
            ceiling = self.policy.ceiling(key_id)
            who = AuditRecord(event="refused", request_id=request_id, key_id=key_id or None, mode=ceiling)
            self._auditor.note(replace(who, decision="refused", detail={"asked": asked, "cause": "mode raised"}))
            raise

    def calls_of(self, asker: Asker) -> AnswerCalls:
        return AnswerCalls(self, asker, self._places.first(asker.mode).site)

    @property
    def left(self) -> str:
        """Return a readable summary of what left the machine since the start."""
        return self._total.text

    def left_by(self, request_id: str) -> str:
        """Return a readable summary of what left the machine for one answer so far.

        It includes abandoned calls, which have no record.
        """
        return self._by_answer.get(request_id, Departures()).text

    def forget(self, request_id: str) -> None:
        """Discard the summary of an answer that has ended and reported what left."""
        self._by_answer.pop(request_id, None)

    async def fetch(self, call: NcbiCall, asker: Asker) -> RawReply:
        """Return the reply to ``call``, with its route.

        Raises:
            NcbiRefusedByEgress: the mode or a class of its values forbids the call to leave.
            NcbiError: any other of its subclasses; each carries its route.
        """
        trip = _Trip(call, asker, classes_of(call, self._vocabulary))
        if asker.mode == "local-first":
            return await self._local_first(trip)
        place = self._places.first(asker.mode).of(call)
        if place.leaves and (kept := self.policy.kept(trip.classes)):
            await self._note(trip, "refused", kept)
            self._refuse(trip, place, kept)
        return await self._ask(trip, place)

    async def let_out(self, asker: Asker, request: OutboundRequest) -> None:
        """Authorize and count a request that is no NCBI call, right before it is sent.

        On return, its line is in the audit log on the disk.

        Raises:
            NcbiRefusedByEgress: the mode or a class of its values forbids it, or the log cannot be written.
        """
        record = request_entry(asker, request)
        if asker.mode == "off":
            raise NcbiRefusedByEgress(f"{request.host} is another machine, and nothing may leave this one")
        if kept := self.policy.kept(request.classes):
            with suppress(AuditFailed):  # nothing leaves either way
                refused = replace(record, event="refused", decision="refused", detail={"kept": list(kept)})
                await self._auditor.record(refused)
            self._departures(asker).keep(kept)
            raise NcbiRefusedByEgress(f"{', '.join(kept)} may not leave this machine for {request.host}")
        await self._record_ahead(record)
        self._total.add(request.host, request.classes)
        self._departures(asker).add(request.host, request.classes)

    async def came_back(self, asker: Asker, request: OutboundRequest, reply: InboundReply) -> None:
        """Record the outcome of an authorized request in the audit log, right after the request ended."""
        with suppress(AuditFailed):  # already logged; the line before records what left
            await self._auditor.record(reply_entry(asker, request, reply))

    async def _local_first(self, trip: _Trip) -> RawReply:
        local: RawReply | None = None
        try:
            local = await self._ask(trip, self._places.gateway.of(trip.call))
            if not is_miss(trip.call, local):
                return local
        except NcbiError as error:
            if not refuses(error):
                raise
            missing = error
        place = self._places.outside.of(trip.call)
        if place.leaves and (kept := self.policy.kept(trip.classes)):
            await self._note(trip, "withheld", kept)
            self._answer(trip).keep(kept)
            route = replace(self._route(trip, self._places.gateway.of(trip.call)), withheld=kept)
            return _routed(local, route) if local else _raise(missing, route)
        try:
            return await self._ask(trip, place)
        except NcbiError as error:
            if local is None or error.route is None:
                raise
            return _routed(local, _fallen_back(error, error.route, local))

    async def _ask(self, trip: _Trip, place: Place) -> RawReply:
        """Send the call to one destination and attach its route to the reply or the error."""
        route = self._route(trip, place)
        try:
            reply = await (self._send(trip, place) if place.leaves else place.client.fetch(trip.call))
        except NcbiError as error:
            # The request may have left, even if no reply came.
            left = place.leaves and not isinstance(error, NcbiRefusedByEgress)
            self._count(trip, place, left=left)
            _raise(error, replace(route, left=left))
        left = place.leaves and not reply.from_cache
        self._count(trip, place, left=left)
        return _routed(reply, replace(route, left=left))

    async def _send(self, trip: _Trip, place: Place) -> RawReply:
        sent = False

        async def before() -> None:
            nonlocal sent
            await self._write_ahead(trip, place)
            sent = True

        try:
            reply = await place.client.fetch(trip.call, before=before)
        except asyncio.CancelledError:
            self._count(trip, place, left=True)  # or it waited for an equal call that was already sent
            if sent:
                await self._returned(trip, place, AuditRecord(event="reply", status="cancelled"))
            raise
        except NcbiError as error:
            if not isinstance(error, NcbiRefusedByEgress):
                event = AuditRecord(event="reply" if sent else "shared", status=type(error).__name__)
                await self._returned(trip, place, event)
            raise
        if not reply.from_cache:
            event = AuditRecord(event="reply" if sent else "shared", status=str(reply.status))
            await self._returned(trip, place, replace(event, reply_bytes=reply.num_bytes))
        return reply

    async def _write_ahead(self, trip: _Trip, place: Place) -> None:
        request = build_request(trip.call, place.client.site)
        record = self._record(trip, AuditRecord(event="send", decision="allowed", where=place.name))
        await self._record_ahead(replace(record, request_bytes=len(request.url) + len(request.body)))
        self._count(trip, place, left=True)

    async def _record_ahead(self, record: AuditRecord) -> None:
        """Write a call's line to the audit log before the call is sent.

        Raises:
            NcbiRefusedByEgress: the line is not on the disk, so the call must not be sent.
        """
        try:
            await self._auditor.record(record)
        except AuditFailed as error:
            raise NcbiRefusedByEgress("the call cannot be written to the audit log, so it was not sent") from error

    def _count(self, trip: _Trip, place: Place, *, left: bool) -> None:
        if left:
            self._total.add(place.name, trip.classes)
            self._answer(trip).add(place.name, trip.classes)

    def _answer(self, trip: _Trip) -> Departures:
        return self._departures(trip.asker)

    def _departures(self, asker: Asker) -> Departures:
        departures = self._by_answer.setdefault(asker.request_id, Departures())
        while len(self._by_answer) > _MAX_ANSWERS:
            self._by_answer.popitem(last=False)
        return departures

    async def _returned(self, trip: _Trip, place: Place, record: AuditRecord) -> None:
        with suppress(AuditFailed):  # already logged; the line before records what left
            await self._auditor.record(self._record(trip, replace(record, decision="allowed", where=place.name)))

    async def _note(self, trip: _Trip, what: Literal["refused", "withheld"], kept: tuple[ParamClass, ...]) -> None:
        place = self._places.outside.of(trip.call)
        record = AuditRecord(event=what, decision=what, where=place.name, detail={"kept": list(kept)})
        with suppress(AuditFailed):  # nothing leaves either way
            await self._auditor.record(self._record(trip, record))

    def _record(self, trip: _Trip, record: AuditRecord) -> AuditRecord:
        asker, call = trip.asker, trip.call
        return replace(
            record,
            request_id=asker.request_id,
            key_id=asker.key_id or None,
            mode=asker.mode,
            endpoint=call.endpoint,
            db=call.db or None,
            classes=trip.classes,
            params=call.params,
        )

    def _refuse(self, trip: _Trip, place: Place, kept: tuple[ParamClass, ...]) -> NoReturn:
        error = NcbiRefusedByEgress(
            f"{', '.join(kept)} may not leave this machine ({self.policy.profile} allows "
            f"{', '.join(self.policy.allowed) or 'nothing'}); search by a symbol or an id, "
            "or have the operator extend egress.allow"
        )
        self._answer(trip).keep(kept)
        _raise(error, replace(self._route(trip, place), went_to="", withheld=kept))

    def _route(self, trip: _Trip, place: Place) -> Route:
        url = public_url(trip.call, place.client.site)
        return Route(mode=trip.asker.mode, went_to=place.name, url=url, classes=trip.classes)


class AnswerCalls:
    """Send the calls of one answer through the egress rules."""

    def __init__(self, egress: Egress, asker: Asker, site: NcbiSite) -> None:
        self._egress = egress
        self._asker = asker
        self._site = site

    @property
    def site(self) -> NcbiSite:
        return self._site

    async def fetch(self, call: NcbiCall) -> RawReply:
        return await self._egress.fetch(call, self._asker)


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

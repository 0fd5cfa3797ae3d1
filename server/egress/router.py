"""Route every call: to the gateway in this process, to an address on this machine, or to another machine.

The only place that lets a call leave the machine. Each such call is in the audit log on the disk before its first byte
is sent; each reply carries the route that it took. Knows nothing of HTTP and of the content of answers.
"""

from __future__ import annotations

import asyncio
import copy
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, NoReturn

from models.errors import kind_of
from retrieval.errors import EGRESS_REFUSED, NOT_SENT, NcbiError
from retrieval.ncbi.calls.parameter_classes import ParamClass, Vocabulary, classes_of
from retrieval.ncbi.calls.urls import NcbiSite, build_request, public_url
from retrieval.ncbi.client.client import CallClient
from retrieval.ncbi.replies.parse import is_empty_reply, is_not_found
from retrieval.types import Caller, FetchCall, NcbiCall, RawReply, Route
from server.audit.chain import AuditRecord
from server.audit.log import AuditFailed, AuditRecorder
from server.egress.policy import Departures, EgressContext, EgressPolicy, Gate, Kept, Passed
from server.egress.recognition.terms import Reason
from server.egress.recognition.vocabulary import EmptyVocabulary
from server.egress.recognition.vocabulary import Vocabulary as SiteVocabulary
from server.errors import EgressRaised
from server.types import EgressMode

# Far above the number of concurrent answers; bounds the memory of answers whose end is never reported.
_MAX_ANSWERS: Final = 65_536
_MAX_KEYS: Final = 65_536


@dataclass(frozen=True, slots=True)
class Destination:
    """Describe one destination of calls.

    ``name`` is "gateway" or the host; ``leaves`` is whether it is another machine. ``via`` is the host of the egress
    service that calls go through, "" where this process sends them itself.
    """

    name: str
    client: CallClient
    leaves: bool
    via: str = ""


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

    def as_passed(self, passed: Passed) -> _OutboundCall:
        """Return the call in the form in which it may leave."""
        return replace(self, call=passed.call, classes=passed.classes)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Hold the names that calls are judged by.

    ``phrases`` classify values in reports; ``names`` are the closed vocabulary of what may leave.
    """

    phrases: Vocabulary | None = None
    names: SiteVocabulary = field(default_factory=EmptyVocabulary)


class Egress:
    """Apply the egress policy to every call; one instance per process."""

    def __init__(
        self,
        policy: EgressPolicy,
        destinations: Destinations,
        auditor: AuditRecorder,
        knowledge: Knowledge | None = None,
    ) -> None:
        knowledge = knowledge or Knowledge()
        self.policy = policy
        self._destinations = destinations
        self._auditor = auditor
        self._phrases = knowledge.phrases
        self._gate = Gate(policy, knowledge.names)
        self._by_key: OrderedDict[str, Departures] = OrderedDict()
        self._by_answer: OrderedDict[str, Departures] = OrderedDict()

    def admit(self, request_id: str, key_id: str, requested: EgressMode | None) -> EgressContext:
        """Return the request's identity with its effective mode.

        Raises:
            EgressRaised: the request asks for a mode above its key's; who answers it waits for ``recorded`` first.
        """
        try:
            return EgressContext(request_id, key_id, self.policy.effective(key_id, requested))
        except EgressRaised:
            ceiling = self.policy.ceiling(key_id)
            record = AuditRecord(event="refused", request_id=request_id, key_id=key_id or None, mode=ceiling)
            self._auditor.note(replace(record, decision="refused", detail={"asked": requested, "cause": "mode raised"}))
            raise

    async def recorded(self) -> None:
        """Return when every refusal so far is in the audit log on the disk."""
        await self._auditor.written()

    def fetch_for(self, egress_context: EgressContext) -> FetchCall:
        """Return ``fetch`` bound to the identity of one request."""
        return partial(self.fetch, egress_context=egress_context)

    def site_of(self, mode: EgressMode) -> NcbiSite:
        """Return the addresses to which calls of a mode are sent first."""
        return self._destinations.first(mode).site

    @property
    def refusals(self) -> Mapping[Reason, int]:
        """Return how many calls were kept on this machine since the start, by reason."""
        return self._gate.refused

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
        self._gate.forget(request_id)

    def hear(self, request_id: str, texts: Iterable[str]) -> None:
        """Note what the person wrote to whom an answer goes: the identifiers named there may leave for it."""
        self._gate.hear(request_id, texts)

    async def fetch(self, call: NcbiCall, egress_context: EgressContext) -> RawReply:
        """Return the reply to ``call``, with its route.

        Raises:
            EGRESS_REFUSED: the mode, the call's values or a budget forbid the call to leave.
            NcbiError: any other of its subclasses; each carries its route.
        """
        outbound = _OutboundCall(call, egress_context, classes_of(call, self._phrases))
        if egress_context.mode == "local-first":
            return await self._local_first(outbound)
        destination = self._destinations.first(egress_context.mode).of(call)
        if not destination.leaves:
            return await self._ask(outbound, destination)
        judged = await self._gate.judge(call, outbound.classes, egress_context)
        if isinstance(judged, Kept):
            await self._note(outbound, "refused", judged)
            self._refuse(outbound, destination, judged)
        return await self._ask(outbound.as_passed(judged), destination, judged)

    async def find_cached(self, call: NcbiCall, egress_context: EgressContext) -> RawReply | None:
        """Return the cache's reply to a call that may leave, None where the call would have to be sent.

        Raises:
            EGRESS_REFUSED: the mode or the call's values forbid it to leave.
        """
        outbound = _OutboundCall(call, egress_context, classes_of(call, self._phrases))
        destination = self._destinations.first(egress_context.mode).of(call)
        if not destination.leaves:
            return await destination.client.cached(call)
        judged = await self._gate.judge(call, outbound.classes, egress_context)
        if isinstance(judged, Kept):
            await self._note(outbound, "refused", judged)
            self._refuse(outbound, destination, judged)
        return await destination.client.cached(judged.call)

    async def fetch_here(self, call: NcbiCall, egress_context: EgressContext) -> RawReply:
        """Return the reply of the built-in gateway, whatever the mode; nothing leaves for it.

        Raises:
            NcbiError: the gateway has no such record, or fails.
        """
        outbound = _OutboundCall(call, egress_context, classes_of(call, self._phrases))
        return await self._ask(outbound, self._destinations.gateway.of(call))

    async def authorize_request(self, egress_context: EgressContext, request: OutboundRequest) -> None:
        """Authorize and count a request that is no NCBI call, right before it is sent.

        On return, its line is in the audit log on the disk.

        Raises:
            EGRESS_REFUSED: the mode or a class of its values forbids it, or the log cannot be written.
        """
        record = _request_entry(egress_context, request)
        if egress_context.mode == "off":
            raise NcbiError(f"{request.host} is another machine, and nothing may leave this one", EGRESS_REFUSED)
        if blocked := self.policy.blocked(request.classes):
            with suppress(AuditFailed):  # nothing leaves either way
                refused = replace(record, event="refused", decision="refused", detail={"kept": list(blocked)})
                await self._auditor.record(refused)
            self._departures(egress_context).withhold(blocked)
            raise NcbiError(f"{', '.join(blocked)} may not leave this machine for {request.host}", EGRESS_REFUSED)
        if (kept := self._gate.spend_other(egress_context, request.classes, request.params)) is not None:
            with suppress(AuditFailed):
                await self._auditor.record(replace(record, event="refused", decision="refused", detail=_detail(kept)))
            self._departures(egress_context).withhold(kept.classes)
            raise NcbiError(kept.text, EGRESS_REFUSED)
        await self._record_ahead(record)
        self._add(egress_context, request.host, request.classes)

    async def record_local(self, egress_context: EgressContext, request: OutboundRequest) -> None:
        """Record a request to a program of this machine that the operator named, right before it is made.

        Raises:
            EGRESS_REFUSED: the log cannot be written.
        """
        await self._record_ahead(replace(_request_entry(egress_context, request), event="local"))

    async def record_reply(self, egress_context: EgressContext, request: OutboundRequest, reply: InboundReply) -> None:
        """Record the outcome of an authorized request in the audit log, right after the request ended."""
        with suppress(AuditFailed):  # already logged; the line before records what left
            await self._auditor.record(_reply_entry(egress_context, request, reply))

    async def _local_first(self, outbound: _OutboundCall) -> RawReply:
        local: RawReply | None = None
        try:
            local = await self._ask(outbound, self._destinations.gateway.of(outbound.call))
            if not is_empty_reply(outbound.call, local):
                return local
        except NcbiError as error:
            if not is_not_found(error):
                raise
            missing = error
        destination = self._destinations.outside.of(outbound.call)
        passed: Passed | None = None
        if destination.leaves:
            judged = await self._gate.judge(outbound.call, outbound.classes, outbound.egress_context)
            if isinstance(judged, Kept):
                await self._note(outbound, "withheld", judged)
                self._answer(outbound).withhold(judged.classes)
                route = self._route(outbound, self._destinations.gateway.of(outbound.call))
                route = replace(route, withheld=judged.classes, note=f"{judged.param}: {judged.reason}")
                return _routed(local, route) if local else _raise(missing, route)
            passed, outbound = judged, outbound.as_passed(judged)
        try:
            return await self._ask(outbound, destination, passed)
        except NcbiError as error:
            if local is None or error.route is None:
                raise
            return _routed(local, _fallen_back(error, error.route, local))

    async def _ask(self, outbound: _OutboundCall, destination: Destination, passed: Passed | None = None) -> RawReply:
        """Send the call to one destination and attach its route to the reply or the error.

        ``passed``: the judgement of a call that leaves the machine.
        """
        route = self._route(outbound, destination)
        try:
            if not destination.leaves:
                reply = await destination.client.fetch(outbound.call)
            elif passed is None:
                raise NcbiError("a call that was not judged may not leave this machine", EGRESS_REFUSED)
            else:
                reply = await self._send(outbound, destination, passed)
        except NcbiError as error:
            # The request may have left, even if no reply came.
            left = destination.leaves and error.fault not in NOT_SENT
            self._count(outbound, destination, left=left)
            _raise(error, replace(route, left=left))
        left = destination.leaves and not reply.from_cache
        self._count(outbound, destination, left=left)
        await self._gate.learn(outbound.egress_context, outbound.call, reply, passed)
        return _routed(reply, replace(route, left=left))

    async def _send(self, outbound: _OutboundCall, destination: Destination, passed: Passed) -> RawReply:
        sent = False

        async def before() -> None:
            nonlocal sent
            await self._spend(outbound, passed)
            await self._write_ahead(outbound, destination)
            sent = True

        try:
            context = outbound.egress_context
            caller = Caller(context.request_id, context.key_id)
            reply = await destination.client.fetch(outbound.call, before=before, caller=caller)
        except asyncio.CancelledError:
            self._count(outbound, destination, left=True)  # or it waited for an equal call that was already sent
            if sent:
                await self._returned(outbound, destination, AuditRecord(event="reply", status="cancelled"))
            raise
        except NcbiError as error:
            if sent or error.fault not in NOT_SENT:
                event = AuditRecord(event="reply" if sent else "shared", status=kind_of(error))
                await self._returned(outbound, destination, event)
            raise
        if not reply.from_cache:
            event = AuditRecord(event="reply" if sent else "shared", status=str(reply.status))
            await self._returned(outbound, destination, replace(event, reply_bytes=reply.num_bytes))
            self._gate.note_reply(outbound.egress_context, outbound.call, reply)
        return reply

    async def _spend(self, outbound: _OutboundCall, passed: Passed) -> None:
        """Count the call's characters right before it is sent.

        Raises:
            EGRESS_REFUSED: a budget is spent.
        """
        kept = self._gate.spend(outbound.egress_context, passed.classes, passed.cost, passed.form)
        if kept is not None:
            await self._note(outbound, "refused", kept)
            self._answer(outbound).withhold(kept.classes)
            raise NcbiError(kept.text, EGRESS_REFUSED)

    async def _write_ahead(self, outbound: _OutboundCall, destination: Destination) -> None:
        request = build_request(outbound.call, destination.client.site)
        record = self._record(outbound, _allowed(AuditRecord(event="send"), destination))
        await self._record_ahead(replace(record, request_bytes=len(request.url) + len(request.body)))
        self._count(outbound, destination, left=True)

    async def _record_ahead(self, record: AuditRecord) -> None:
        """Write a call's line to the audit log before the call is sent, or refuse the call."""
        try:
            await self._auditor.record(record)
        except AuditFailed as error:
            raise NcbiError(
                "the call cannot be written to the audit log, so it was not sent", EGRESS_REFUSED
            ) from error

    def _count(self, outbound: _OutboundCall, destination: Destination, *, left: bool) -> None:
        if left:
            self._add(outbound.egress_context, destination.name, outbound.classes)

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

    async def _returned(self, outbound: _OutboundCall, destination: Destination, record: AuditRecord) -> None:
        with suppress(AuditFailed):  # already logged; the line before records what left
            await self._auditor.record(self._record(outbound, _allowed(record, destination)))

    async def _note(self, outbound: _OutboundCall, what: Literal["refused", "withheld"], kept: Kept) -> None:
        destination = self._destinations.outside.of(outbound.call)
        record = AuditRecord(event=what, decision=what, where=destination.name, detail=_detail(kept))
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

    def _refuse(self, outbound: _OutboundCall, destination: Destination, kept: Kept) -> NoReturn:
        error = NcbiError(kept.text, EGRESS_REFUSED, param=kept.param)
        self._answer(outbound).withhold(kept.classes)
        _raise(error, replace(self._route(outbound, destination), went_to="", withheld=kept.classes))

    def _route(self, outbound: _OutboundCall, destination: Destination) -> Route:
        url = public_url(outbound.call, destination.client.site)
        return Route(mode=outbound.egress_context.mode, went_to=destination.name, url=url, classes=outbound.classes)


def _allowed(record: AuditRecord, destination: Destination) -> AuditRecord:
    detail = {**record.detail, "via": destination.via} if destination.via else record.detail
    return replace(record, decision="allowed", where=destination.name, detail=detail)


def _detail(kept: Kept) -> dict[str, object]:
    return {"kept": list(kept.classes), "param": kept.param, "reason": kept.reason}


def _routed(reply: RawReply, route: Route) -> RawReply:
    return replace(reply, route=route)


def _raise(error: NcbiError, route: Route) -> NoReturn:
    """Raise a copy of ``error`` with its route, since equal calls of several answers share one error object."""
    own = copy.copy(error)
    own.route = route
    raise own from error


def _fallen_back(error: NcbiError, tried: Route, local: RawReply) -> Route:
    """Return the route of the gateway's empty reply, with a note on the failed call outside."""
    note = f"{tried.went_to or 'outside'}: {kind_of(error)}; the gateway's answer stands"
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

"""Puts the way to NCBI together as the settings say: places, rules of leaving, audit log."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from retrieval.ncbi.transport import HttpSender
from retrieval.observing import RetrievalObserver
from server.audit import AuditLog
from server.audit_lines import AuditRecord
from server.auditor import Auditor
from server.egress import AnswerCalls, Egress
from server.egress_policy import EgressPolicy
from server.egress_settings import key_id
from server.ncbi_places import build_places, send_limits
from server.settings import Settings
from server.settings_loading import xdg_dir
from server.version import installed_version


@dataclass(frozen=True, slots=True)
class Ncbi:
    """``begin`` is called once everything else is built: from then on the audit log is this process's. ``closers`` run
    at the end, last one first."""

    egress: Egress
    sender: HttpSender
    auditor: Auditor
    start: AuditRecord
    closers: tuple[Callable[[], Awaitable[None]], ...]

    def begin(self) -> None:
        """Raises AuditFailed: the audit log cannot be written."""
        self.auditor.begin(self.start)


def build_ncbi(settings: Settings, observer: RetrievalObserver | None = None) -> Ncbi:
    """Raises GatewayError and its kind: the built-in gateway's store cannot be made."""
    sender = HttpSender(send_limits(settings))
    built = build_places(settings, gateway_dir(settings), sender, observer)
    auditor = Auditor(audit_log(settings), settings.audit.on_failure)
    egress = Egress(EgressPolicy.of(settings.egress), built.places, auditor, built.vocabulary)
    closers = (auditor.close, sender.close, built.close)
    return Ncbi(egress, sender, auditor, start_record(settings, egress.policy), closers)


@asynccontextmanager
async def open_ncbi(settings: Settings) -> AsyncIterator[AnswerCalls]:
    """For a command: its calls, by the server's rules and with the server's audit log."""
    ncbi = build_ncbi(settings)
    try:
        ncbi.begin()
        yield ncbi.egress.calls_of(ncbi.egress.admit(f"command-{uuid.uuid4().hex}", "", None))
    finally:
        for closer in reversed(ncbi.closers):
            await closer()


def gateway_dir(settings: Settings) -> Path:
    return settings.gateway.data_dir or xdg_dir("data") / "gateway"


def audit_log(settings: Settings) -> AuditLog | None:
    """None where the operator keeps none: with mode off there is nothing to record unless a path is named."""
    if settings.egress.mode == "off" and settings.audit.path is None:
        return None
    return AuditLog(audit_path(settings), level=settings.audit.level, max_bytes=settings.audit.max_bytes)


def audit_path(settings: Settings) -> Path:
    return settings.audit.path or xdg_dir("state") / "audit.jsonl"


def start_record(settings: Settings, policy: EgressPolicy) -> AuditRecord:
    """What was allowed, and to whom, from here on."""
    keys = {name: policy.ceiling(name) for name in key_ids(settings)}
    detail = {"version": installed_version(), "profile": policy.profile, "allow": list(policy.allowed), "keys": keys}
    detail |= {"spans_to": settings.tracing.host} if settings.tracing.host else {}
    return AuditRecord(event="start", mode=policy.mode, detail=detail)


def key_ids(settings: Settings) -> list[str]:
    return [key_id(key.get_secret_value()) for key in settings.server.api_keys]

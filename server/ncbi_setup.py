"""Assemble access to NCBI from the settings: destinations, egress policy, audit log."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from retrieval.ncbi.transport import HttpSender
from retrieval.observing import RetrievalObserver
from server.audit import AuditLog
from server.audit_lines import AuditRecord
from server.auditor import Auditor
from server.egress import AnswerCalls, Egress
from server.egress_policy import EgressPolicy
from server.keyring import Keyring
from server.ncbi_places import build_places, send_limits
from server.settings import Settings
from server.settings_loading import xdg_dir
from server.version import installed_version

# Bounds the length of the line; the mode of every key is also in the key's own lines.
_MAX_TOLD: Final = 200


@dataclass(frozen=True, slots=True)
class Ncbi:
    """Hold the parts of the access to NCBI.

    ``begin`` is called after everything else is built: from then on the audit log belongs to this process. ``closers``
    run at shutdown, last one first.
    """

    egress: Egress
    sender: HttpSender
    auditor: Auditor
    start: AuditRecord
    closers: tuple[Callable[[], Awaitable[None]], ...]

    def begin(self) -> None:
        """Write the start record to the audit log.

        Raises:
            AuditFailed: the audit log cannot be written.
        """
        self.auditor.begin(self.start)


def build_ncbi(settings: Settings, keyring: Keyring | None = None, observer: RetrievalObserver | None = None) -> Ncbi:
    """Build the access to NCBI.

    ``keyring``: that of a server, whose requests have keys; None takes the keys of the settings.

    Raises:
        GatewayError: the store of the built-in gateway cannot be built.
    """
    sender = HttpSender(send_limits(settings))
    built = build_places(settings, gateway_dir(settings), sender, observer)
    auditor = Auditor(audit_log(settings), settings.audit.on_failure)
    keyring = keyring or Keyring([key.get_secret_value() for key in settings.server.api_keys])
    policy = replace(EgressPolicy.of(settings.egress), mode_of_key=keyring.mode_of)
    egress = Egress(policy, built.places, auditor, built.vocabulary)
    closers = (auditor.close, sender.close, built.close)
    return Ncbi(egress, sender, auditor, start_record(policy, keyring, settings.tracing.host), closers)


@asynccontextmanager
async def open_ncbi(settings: Settings) -> AsyncIterator[AnswerCalls]:
    """Yield the calls of one command, under the server's egress policy and with its audit log."""
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
    """Return the audit log, None if there is nothing to record: with mode off and no path set."""
    if settings.egress.mode == "off" and settings.audit.path is None:
        return None
    return AuditLog(audit_path(settings), level=settings.audit.level, max_bytes=settings.audit.max_bytes)


def audit_path(settings: Settings) -> Path:
    return settings.audit.path or xdg_dir("state") / "audit.jsonl"


def start_record(policy: EgressPolicy, keyring: Keyring, spans_to: str | None) -> AuditRecord:
    """Return the record of what is permitted from now on, to which keys.

    Keys that are created later are permitted what their scopes state.
    """
    keys = {name: policy.ceiling(name) for name in keyring.ids[:_MAX_TOLD]}
    detail = {"version": installed_version(), "profile": policy.profile, "allow": list(policy.allowed), "keys": keys}
    detail |= {"spans_to": spans_to} if spans_to else {}
    return AuditRecord(event="start", mode=policy.mode, detail=detail)

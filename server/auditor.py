"""Write audit records from the event loop, one after another on a dedicated thread.

Decides the consequence of a line that cannot be written. Without a log, every record is dropped, as the operator chose.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Literal

from server.audit import AuditFailed, AuditLog
from server.audit_lines import AuditRecord

log = logging.getLogger(__name__)
OnFailure = Literal["refuse", "continue"]
# Limit of queued records without a waiting caller: refused requests faster than the disk must not exhaust memory.
_MAX_PENDING: Final = 1000


class Auditor:
    """Pass records to the audit log and apply the policy for failed writes."""

    def __init__(self, audit_log: AuditLog | None, on_failure: OnFailure) -> None:
        self._log = audit_log
        self._on_failure = on_failure
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="audit") if audit_log else None
        self._pending = 0

    def begin(self, record: AuditRecord) -> None:
        """Write the first line in the calling thread.

        Raises:
            AuditFailed: the line cannot be written, and ``on_failure`` is ``refuse``.
        """
        if self._log is None:
            return
        try:
            self._log.append(record)
        except AuditFailed as error:
            self._passed_over(record, error)

    async def record(self, record: AuditRecord) -> None:
        """Write ``record`` and return when the line is on the disk.

        Raises:
            AuditFailed: the line cannot be written, and ``on_failure`` is ``refuse``.
        """
        if self._log is None:
            return
        try:
            if self._thread is None:
                raise AuditFailed(f"{self._log.path}: is closed")
            await asyncio.wrap_future(self._thread.submit(self._log.append, record))
        except AuditFailed as error:
            self._passed_over(record, error)

    def note(self, record: AuditRecord) -> None:
        """Queue ``record`` without waiting for it; a failure or a full queue is only logged."""
        if self._log is None or self._thread is None:
            return
        if self._pending >= _MAX_PENDING:
            log.error("audit line dropped: event=%s cause=too many are waiting", record.event)
            return
        self._pending += 1
        loop = asyncio.get_running_loop()
        future = self._thread.submit(self._log.append, record)
        future.add_done_callback(lambda done: loop.call_soon_threadsafe(self._noted, record, done))

    async def close(self) -> None:
        """Write the ``stop`` record after all queued records and close the file."""
        if self._log is None or self._thread is None:
            return
        last = AuditRecord(event="stop")
        try:
            await asyncio.wrap_future(self._thread.submit(self._log.append, last))
        except AuditFailed as error:
            log.error("audit line not written: event=%s cause=%s", last.event, error.message)
        thread, self._thread = self._thread, None
        await asyncio.wrap_future(thread.submit(self._log.close))
        thread.shutdown(wait=False)

    def _noted(self, record: AuditRecord, done: Future[int]) -> None:
        self._pending -= 1
        if error := done.exception():
            cause = error.message if isinstance(error, AuditFailed) else type(error).__name__
            log.error("audit line not written: event=%s cause=%s", record.event, cause)

    def _passed_over(self, record: AuditRecord, error: AuditFailed) -> None:
        log.error("audit line not written: event=%s cause=%s", record.event, error.message)
        if self._on_failure == "refuse":
            raise error

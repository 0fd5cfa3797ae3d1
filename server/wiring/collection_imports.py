"""Add collections of the list as jobs of the server: literature, tables of the gateway, graphs.

The files of each lie in a folder of its own, where a person put them or the server fetched them.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from retrieval.corpus.ingest.add import ChangeReport, try_file
from retrieval.corpus.items import ReadOptions
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.errors import RetrievalError
from retrieval.formats.items import ReadOptions as GatewayOptions
from retrieval.gateway.importing.registry import KINDS
from retrieval.gateway.importing.run import import_file
from retrieval.graph.store.catalog import ImportRequest, build_graph
from retrieval.ncbi.client.transport import HttpSender
from server.egress.policy import EgressContext
from server.egress.router import Egress, InboundReply, OutboundRequest
from server.evidence.collections import Collection, collections
from server.evidence.encoders import load_graph_encoder
from server.jobs.corpus_changes import added_outcome, watch_of
from server.jobs.queue import Job, Outcome, WorkOrder
from server.settings.loading import gateway_dir, graphs_dir, xdg_dir
from server.settings.schema import Settings
from server.types import EgressMode

KIND: Final = "collection"
_PART: Final = ".part"
# Why the server cannot add a collection by itself: its file may not be fetched, or is none that a program can fetch.
Obstacle = Literal["", "off", "service", "files"]


class _Watch:
    """Tell a job how far it is with each step of its work, and end it where it was cancelled."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._phase, self._began = "", 0.0

    def __call__(self, phase: str, done: int, total: int = 0) -> None:
        """Report what is done of a step.

        Raises:
            concurrent.futures.CancelledError: the job was cancelled.
        """
        if self._job.is_cancelled():
            raise concurrent.futures.CancelledError
        if phase != self._phase:
            self._phase, self._began = phase, time.monotonic()
        rate = done / max(time.monotonic() - self._began, 0.001)
        left = (total - done) / rate if total and done else None
        self._job.report({"phase": phase, "done": done, "total": total, "per_s": rate, "remaining_s": left})


class CollectionImports:
    """Know which collections the server can add by itself, and add them.

    ``sender`` is the process's own, which opens connections; None, or ``egress`` None: the server makes no calls.
    """

    def __init__(
        self,
        settings: Settings,
        namespaces: Namespaces,
        egress: Egress | None,
        sender: HttpSender | None,
        listed: list[Collection] | None = None,
    ) -> None:
        self._settings = settings
        self._namespaces = namespaces
        self._egress = egress if sender is not None else None
        self._sender = sender
        self.listed = {one.name: one for one in (collections() if listed is None else listed)}

    def folder(self, one: Collection) -> Path:
        return xdg_dir("data") / "collections" / one.name

    def files(self, one: Collection) -> list[Path]:
        """Return the files that lie ready, in the order of their names."""
        found = [path for path in self.folder(one).glob("*") if path.is_file()]
        return sorted(path for path in found if path.suffix != _PART and path.name[0] != ".")

    def obstacle(self, one: Collection, mode: EgressMode) -> Obstacle:
        """Return why a key under ``mode`` cannot have the collection added, "" where it can."""
        if self.files(one):
            return ""
        if not one.download:
            return "files"
        if mode == "off" or self._egress is None:
            return "off"
        return "service" if self._settings.egress.service_host else ""

    def perform(self, job: Job, order: WorkOrder) -> Outcome:
        """Do the work of a job, whose namespace is the collection's name, on its thread."""
        one = self.listed.get(job.spec.namespace)
        files = self.files(one) if one else []
        if one and one.download and not files:
            files = [self._fetched(job, one, order.arguments)]
        if not one or not files:
            raise RetrievalError("the files of this collection are not there: put them into its folder on the server")
        if one.into == "gateway":
            return self._into_gateway(job, one, files)
        if one.into == "graph":
            request = ImportRequest(kind=one.reader, files=tuple(files), name=one.name)
            built = build_graph(graphs_dir(self._settings), request, load_graph_encoder(self._settings), _Watch(job))
            return Outcome({"entries": built.manifest.edges, "bad": built.manifest.passed})
        return self._into_namespace(job, one, files)

    def _fetched(self, job: Job, one: Collection, asked_by: Mapping[str, Any]) -> Path:
        egress, sender = self._egress, self._sender
        if egress is None or sender is None or job.loop is None:
            raise RetrievalError("this server makes no calls")
        context = egress.admit(job.id, asked_by.get("key_id", ""), asked_by.get("mode"))
        save = partial(sender.save, watch=partial(_Watch(job), "fetching"))
        try:
            return job.run_on(job.loop, self._fetch(egress, context, one, save))
        finally:
            job.report({"left": egress.departures_of(job.id)})
            egress.forget(job.id)

    async def _fetch(
        self, egress: Egress, context: EgressContext, one: Collection, save: Callable[[str, Path], Awaitable[None]]
    ) -> Path:
        url, path = one.download, self.folder(one) / one.download.rpartition("/")[2]
        host = urlsplit(url).netloc
        request = OutboundRequest(host=host, endpoint="file", classes=(), num_bytes=len(url), params={})
        await egress.authorize_request(context, request)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.with_name(path.name + _PART)
        began, status = time.monotonic(), "failed"
        try:
            await save(url, part)
            status = "200"
        finally:
            reply = InboundReply(status=status, num_bytes=part.stat().st_size, seconds=time.monotonic() - began)
            await egress.record_reply(context, request, reply)
        return part.rename(path)

    def _into_namespace(self, job: Job, one: Collection, files: list[Path]) -> Outcome:
        job.report(dict.fromkeys(("phase", "done", "total", "per_s", "remaining_s")))
        if not self._namespaces.stores.exists(one.name):
            settings = NamespaceSettings(encoder=self._settings.retrieval.encoder)
            self._namespaces.create(one.name, settings, datetime.now(UTC).date().isoformat())
        report = ChangeReport()
        for path in files:
            result = try_file(self._namespaces, one.name, path, ReadOptions(kind=one.reader), watch_of(job))
            report = result.report
            if report.cancelled or result.refused:
                return Outcome(added_outcome(report).result, report.cancelled, result.refused)
        return added_outcome(report)

    def _into_gateway(self, job: Job, one: Collection, files: list[Path]) -> Outcome:
        entries, bad, watch = 0, 0, _Watch(job)
        folder, kind = gateway_dir(self._settings), KINDS[one.reader]
        for path in files:
            done = import_file(
                folder, kind, path, GatewayOptions(), lambda step: watch(step.phase, step.done, step.total)
            )
            entries, bad = entries + done.entries, bad + done.bad
        return Outcome({"entries": entries, "bad": bad})

"""Define the work of namespace jobs and the results that they report.

Knows no HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any, Final

from retrieval.corpus.ingest.add import (
    ChangeHooks,
    ChangeReport,
    FileResult,
    Progress,
    add_items,
    catch_up,
    remove,
    try_file,
)
from retrieval.corpus.ingest.pubmed_sync import FetchReport, PubmedQuery, add_query, queries_of, update
from retrieval.corpus.items import ParsedDocument, ReadOptions
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.verify import verify
from retrieval.corpus.store.schema import document_of, document_text, spans_of, spans_text
from retrieval.errors import RetrievalError
from retrieval.types import FetchCall
from server.egress.policy import EgressContext
from server.egress.router import Egress
from server.errors import EgressRaised
from server.jobs.queue import Job, OrderedWork, Outcome, Perform, WorkOrder
from server.jobs.uploads import Upload

_MAX_LISTED: Final = 100
_QueryRun = Callable[[FetchCall, ChangeHooks], Coroutine[Any, Any, list[FetchReport]]]


class CorpusChanges:
    """Make the work of changes of namespaces, and do it: of this server's jobs, and of another's from their orders.

    A file is read under ``limits`` of the server that reads it, and a query leaves under the rules of the server that
    sends it; ``egress`` None: it makes no calls. ``further`` does the work of other kinds of jobs.
    """

    def __init__(
        self,
        namespaces: Namespaces,
        limits: ReadOptions,
        egress: Egress | None,
        further: Mapping[str, Perform] = MappingProxyType({}),
    ) -> None:
        self._namespaces = namespaces
        self._limits = limits
        self._egress = egress
        self._further = further

    def file(self, upload: Upload, *, reader: str, ocr: str, licence: str) -> OrderedWork:
        """Return the work that adds an uploaded file.

        The upload's file name is its provenance: new content under the same name replaces the old.
        """
        arguments = {"reader": reader, "ocr": ocr, "licence": licence}
        return OrderedWork(WorkOrder(arguments, upload.path), self.perform)

    def documents(self, documents: Sequence[ParsedDocument]) -> OrderedWork:
        rows = [[document_text(one.document), one.text, spans_text(one.spans), one.whole] for one in documents]
        return OrderedWork(WorkOrder({"documents": rows}), self.perform)

    def remove(self, ids: Sequence[str]) -> OrderedWork:
        return OrderedWork(WorkOrder({"ids": list(ids)}), self.perform)

    def verify(self) -> OrderedWork:
        """Return the work that verifies a namespace; it cannot be cancelled once it runs."""
        return OrderedWork(WorkOrder({}), self.perform)

    def query(self, query: PubmedQuery, egress_context: EgressContext) -> OrderedWork:
        arguments = {"query": asdict(query)} | _sender(egress_context)
        return OrderedWork(WorkOrder(arguments), self.perform)

    def update(self, egress_context: EgressContext) -> OrderedWork:
        """Return the work that repeats every stored query of the namespace and indexes what its indices lack.

        Without stored queries it only indexes.
        """
        return OrderedWork(WorkOrder(_sender(egress_context)), self.perform)

    def perform(self, job: Job, order: WorkOrder) -> Outcome:
        """Do the work of an order, on a thread."""
        name, arguments, watch = job.spec.namespace, order.arguments, watch_of(job)
        if (perform := self._further.get(job.spec.kind)) is not None:
            return perform(job, order)
        if job.spec.kind == "file":
            return self._file(job, order)
        if job.spec.kind == "documents":
            return added_outcome(add_items(self._namespaces, name, _documents(arguments["documents"]), watch))
        if job.spec.kind == "remove":
            return added_outcome(remove(self._namespaces, name, arguments["ids"], watch))
        if job.spec.kind == "verify":
            report = verify(self._namespaces, name)
            return Outcome({"whole": report.whole, **asdict(report), "faults": list(report.faults)})
        if job.spec.kind == "query":
            query = PubmedQuery(**arguments["query"])

            async def run(fetch: FetchCall, watch: ChangeHooks) -> list[FetchReport]:
                return [await add_query(fetch, self._namespaces, name, query, watch)]

            return self._fetched(job, run, arguments)
        if job.spec.kind == "update":
            return self._updated(job, arguments)
        raise RetrievalError(f"this version of the server knows no job of the kind {job.spec.kind[:40]!r}")

    def _file(self, job: Job, order: WorkOrder) -> Outcome:
        if order.file is None:
            raise RetrievalError("the file of this job is not there any more: send it again")
        arguments = order.arguments
        options = replace(
            self._limits,
            kind=arguments["reader"],
            ocr=arguments["ocr"],
            licence=arguments["licence"],
            provenance=order.file.name,
        )
        name = job.spec.namespace
        result = try_file(self._namespaces, name, order.file, options, watch_of(job))
        fields = _added(result.report) | _file(result)
        return Outcome(fields, result.report.cancelled, result.refused)

    def _updated(self, job: Job, arguments: Mapping[str, Any]) -> Outcome:
        name = job.spec.namespace
        if queries_of(self._namespaces, name):

            async def run(fetch: FetchCall, watch: ChangeHooks) -> list[FetchReport]:
                return await update(fetch, self._namespaces, name, watch)

            return self._fetched(job, run, arguments)
        done = catch_up(self._namespaces, name, watch_of(job))
        left = self._egress.departures_of(job.id) if self._egress else []
        return Outcome({"queries": [], "left": left} | _added(done), done.cancelled)

    def _fetched(self, job: Job, run: _QueryRun, arguments: Mapping[str, Any]) -> Outcome:
        egress = self._egress
        if egress is None or job.loop is None:
            raise RetrievalError("this server makes no calls")

        async def fetch() -> list[FetchReport]:
            # The mode of the key may be a lower one by now.
            try:
                context = egress.admit(job.id, arguments["key_id"], arguments["mode"])
            except EgressRaised:
                await egress.recorded()
                raise
            egress.hear(job.id, self._terms(job, arguments))
            return await run(egress.fetch_for(context), watch_of(job))

        try:
            done = job.run_on(job.loop, fetch())
            left = egress.departures_of(job.id)
        finally:
            # Reported here too: a failed or cancelled job has no result, but what it sent has left the machine.
            job.report({"left": egress.departures_of(job.id)})
            egress.forget(job.id)
        cancelled = any(one.added.cancelled for one in done)
        return Outcome({"queries": [_query_result(one) for one in done], "left": left}, cancelled)

    def _terms(self, job: Job, arguments: Mapping[str, Any]) -> list[str]:
        """Return what people wrote that the job sends: its query, or those that the namespace stores."""
        if (query := arguments.get("query")) is not None:
            return [str(query["term"])]
        return [saved.query.term for saved in queries_of(self._namespaces, job.spec.namespace)]


def _sender(egress_context: EgressContext) -> dict[str, str]:
    return {"key_id": egress_context.key_id, "mode": egress_context.mode}


def _documents(rows: Sequence[Sequence[Any]]) -> list[ParsedDocument]:
    return [
        ParsedDocument(document_of(document), text, spans_of(spans), whole=bool(whole))
        for document, text, spans, whole in rows
    ]


def watch_of(job: Job) -> ChangeHooks:
    return ChangeHooks(progress=lambda step: job.report(_progress(step)), cancelled=job.is_cancelled)


def added_outcome(added: ChangeReport) -> Outcome:
    return Outcome(_added(added), added.cancelled)


def _progress(step: Progress) -> dict[str, Any]:
    rates: dict[str, Any] = {
        "documents_per_s": round(step.documents_per_s, 1),
        "passages_per_s": round(step.passages_per_s, 1),
        "remaining_s": None if step.remaining_s is None else round(step.remaining_s, 1),
    }
    return asdict(step) | {"seconds": round(step.seconds, 1)} | rates


def _added(added: ChangeReport) -> dict[str, Any]:
    fields = asdict(added)
    fields.pop("cancelled")
    return fields | {"first_passed": [asdict(record) for record in added.first_passed]}


def _file(result: FileResult) -> dict[str, Any]:
    return {"file": result.file, "outcome": result.outcome}


def _query_result(done: FetchReport) -> dict[str, Any]:
    """Return the result of one query; lists are cut at a hundred entries, beside their full lengths."""
    listed = done.listed
    return {
        "counted": listed.count,
        "listed": len(listed.pmids),
        "known": done.known,
        "revised": done.revised,
        "missing": len(done.missing),
        "first_missing": list(done.missing[:_MAX_LISTED]),
        "unlisted_days": list(listed.unlisted[:_MAX_LISTED]),
        "words_not_found": list(listed.not_found[:_MAX_LISTED]),
        "full_texts": done.full_texts,
        "added": _added(done.added),
    }

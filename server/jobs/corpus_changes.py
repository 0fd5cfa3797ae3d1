"""Define the work of namespace jobs and the results that they report.

Knows no HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, replace
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
from retrieval.types import FetchCall
from server.egress.policy import EgressContext
from server.egress.router import Egress
from server.jobs.queue import Job, Outcome, Work
from server.jobs.uploads import Upload

_MAX_LISTED: Final = 100
_QueryRun = Callable[[FetchCall, ChangeHooks], Coroutine[Any, Any, list[FetchReport]]]


def file_work(namespaces: Namespaces, name: str, upload: Upload, options: ReadOptions) -> Work:
    """Return the work that adds an uploaded file.

    The upload's file name is its provenance: new content under the same name replaces the old.
    """
    file_options = replace(options, provenance=upload.filename)

    def work(job: Job) -> Outcome:
        result = try_file(namespaces, name, upload.path, file_options, watch_of(job))
        return Outcome(_added(result.report) | _file(result), result.report.cancelled, result.refused)

    return work


def documents_work(namespaces: Namespaces, name: str, documents: Sequence[ParsedDocument]) -> Work:
    return lambda job: added_outcome(add_items(namespaces, name, documents, watch_of(job)))


def remove_work(namespaces: Namespaces, name: str, ids: Sequence[str]) -> Work:
    return lambda job: added_outcome(remove(namespaces, name, ids, watch_of(job)))


def verify_work(namespaces: Namespaces, name: str) -> Work:
    """Return the work that verifies a namespace; it cannot be cancelled once it runs."""

    def work(_: Job) -> Outcome:
        report = verify(namespaces, name)
        return Outcome({"whole": report.whole, **asdict(report), "faults": list(report.faults)})

    return work


class NcbiWork:
    """Create jobs that query NCBI under the egress rules of the requesting key.

    ``loop`` is the event loop that the client runs on.
    """

    def __init__(self, namespaces: Namespaces, name: str, egress: Egress, loop: asyncio.AbstractEventLoop) -> None:
        self._namespaces = namespaces
        self._name = name
        self._egress = egress
        self._loop = loop

    def query(self, query: PubmedQuery, egress_context: EgressContext) -> Work:
        async def run(fetch: FetchCall, watch: ChangeHooks) -> list[FetchReport]:
            return [await add_query(fetch, self._namespaces, self._name, query, watch)]

        return lambda job: self._outcome(job, run, egress_context)

    def update(self, egress_context: EgressContext) -> Work:
        """Return the work that repeats every stored query of the namespace and indexes what its indices lack.

        Without stored queries it only indexes.
        """

        async def run(fetch: FetchCall, watch: ChangeHooks) -> list[FetchReport]:
            return await update(fetch, self._namespaces, self._name, watch)

        def work(job: Job) -> Outcome:
            if queries_of(self._namespaces, self._name):
                return self._outcome(job, run, egress_context)
            done = catch_up(self._namespaces, self._name, watch_of(job))
            return Outcome(
                {"queries": [], "left": self._egress.departures_of(egress_context.request_id)} | _added(done),
                done.cancelled,
            )

        return work

    def _outcome(self, job: Job, run: _QueryRun, egress_context: EgressContext) -> Outcome:
        job_context = replace(egress_context, request_id=job.id)
        try:
            done = job.run_on(self._loop, run(self._egress.fetch_for(job_context), watch_of(job)))
            left = self._egress.departures_of(job.id)
        finally:
            # Reported here too: a failed or cancelled job has no result, but what it sent has left the machine.
            job.report({"left": self._egress.departures_of(job.id)})
            self._egress.forget(job.id)
        cancelled = any(one.added.cancelled for one in done)
        return Outcome({"queries": [_fetched(one) for one in done], "left": left}, cancelled)


def watch_of(job: Job) -> ChangeHooks:
    return ChangeHooks(progress=lambda step: job.report(_progress(step)), cancelled=job.is_cancelled)


def added_outcome(added: ChangeReport) -> Outcome:
    return Outcome(_added(added), added.cancelled)


def _progress(step: Progress) -> dict[str, Any]:
    rates = {"documents_per_s": round(step.documents_per_s, 1), "passages_per_s": round(step.passages_per_s, 1)}
    return asdict(step) | {"seconds": round(step.seconds, 1)} | rates


def _added(added: ChangeReport) -> dict[str, Any]:
    fields = asdict(added)
    fields.pop("cancelled")
    return fields | {"first_passed": [asdict(record) for record in added.first_passed]}


def _file(result: FileResult) -> dict[str, Any]:
    return {"file": result.file, "outcome": result.outcome}


def _fetched(done: FetchReport) -> dict[str, Any]:
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

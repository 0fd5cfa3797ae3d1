"""NCBI's BLAST URL API: CMD=Put, CMD=Get and FORMAT_OBJECT=SearchInfo over a bounded queue of local searches."""

from __future__ import annotations

import asyncio
import logging
import secrets
import string
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from retrieval.errors import BlastFailed
from retrieval.gateway import blast_render as render
from retrieval.gateway.blast_hits import BlastResult
from retrieval.gateway.blast_search import BlastQuery, BlastSearcher, Task, clean_sequence
from retrieval.gateway.replies import HTML, PLAIN, XML, Reply, whole_number

log = logging.getLogger(__name__)
_RID_LETTERS: Final = string.digits + string.ascii_uppercase
_RID_LENGTH: Final = 11
_MAX_HITS: Final = 100
_DATABASES: Final = frozenset({"nt", "core_nt", "nr", "refseq_rna", "refseq_genomes", "nt_euk"})


@dataclass(slots=True)
class _Job:
    query: BlastQuery
    created: float
    result: BlastResult | None = None
    failure: str = ""
    task: asyncio.Task[None] | None = field(default=None, repr=False)


class BlastService:
    """Searches wait in one queue and run one at a time; a RID is forgotten ``ttl_s`` seconds after its Put."""

    def __init__(
        self,
        searcher: BlastSearcher,
        *,
        max_waiting: int = 20,
        max_kept: int = 200,
        ttl_s: float = 36 * 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._searcher = searcher
        self._max_waiting = max_waiting
        self._max_kept = max_kept
        self._ttl_s = ttl_s
        self._clock = clock
        self._jobs: dict[str, _Job] = {}
        self._turn = asyncio.Semaphore(1)
        if reason := searcher.unavailable():
            log.warning("BLAST searches will fail: %s", reason)

    async def answer(self, params: Mapping[str, str]) -> Reply:
        """``params`` with upper-case names."""
        self._forget_old()
        command = params.get("CMD", "").strip().lower()
        if command == "put":
            return self._put(params)
        if command == "get":
            return self._get(params)
        if command == "delete":
            self._drop(params.get("RID", "").strip())
            return Reply(200, HTML, render.status_page("UNKNOWN"))
        return Reply(400, HTML, render.refusal_page("Error: CMD must be Put or Get"))

    async def aclose(self) -> None:
        """Ends all searches."""
        running = [job.task for job in self._jobs.values() if job.task is not None]
        for rid in list(self._jobs):
            self._drop(rid)
        await asyncio.gather(*running, return_exceptions=True)

    def _put(self, params: Mapping[str, str]) -> Reply:
        try:
            query = _query(params)
        except ValueError as error:
            return Reply(200, HTML, render.refusal_page(str(error)))
        if sum(job.task is not None for job in self._jobs.values()) >= self._max_waiting:
            return Reply(429, HTML, render.refusal_page("Error: too many searches are waiting, try again later"))
        rid = "".join(secrets.choice(_RID_LETTERS) for _ in range(_RID_LENGTH))
        job = _Job(query, self._clock())
        self._jobs[rid] = job
        job.task = asyncio.get_running_loop().create_task(self._work(job))
        return Reply(200, HTML, render.put_page(rid, rtoe_s=1))

    async def _work(self, job: _Job) -> None:
        try:
            async with self._turn:
                job.result = await self._searcher.search(job.query)
        except BlastFailed as error:
            job.failure = error.message
            log.warning("a BLAST search failed: %s", error.message)
        except Exception:
            job.failure = "the search broke off"
            log.exception("a BLAST search broke off")
        finally:
            job.task = None

    def _get(self, params: Mapping[str, str]) -> Reply:
        rid = params.get("RID", "").strip()
        job = self._jobs.get(rid)
        info_only = params.get("FORMAT_OBJECT", "").strip().lower() == "searchinfo"
        if job is None:
            return Reply(200, HTML, render.status_page("UNKNOWN", f"Error: Results for RID {rid[:40]} not found"))
        if job.failure:
            return Reply(200, HTML, render.status_page("FAILED", f"Error: {job.failure}"))
        if job.result is None:
            return Reply(200, HTML, render.status_page("WAITING"))
        if info_only:
            return Reply(200, HTML, render.status_page("READY", hits=bool(job.result.hits)))
        return _result_reply(rid, job.result, params.get("FORMAT_TYPE", "").strip().lower())

    def _drop(self, rid: str) -> None:
        job = self._jobs.pop(rid, None)
        if job is not None and job.task is not None:
            job.task.cancel()

    def _forget_old(self) -> None:
        now = self._clock()
        for rid in [rid for rid, job in self._jobs.items() if now - job.created > self._ttl_s]:
            self._drop(rid)
        finished = [rid for rid, job in self._jobs.items() if job.task is None]
        for rid in finished[: max(0, len(self._jobs) - self._max_kept)]:
            self._drop(rid)


def _result_reply(rid: str, result: BlastResult, format_type: str) -> Reply:
    if format_type == "xml":
        return Reply(200, XML, render.xml_page(result))
    if format_type == "text":
        return Reply(200, PLAIN, render.text_page(rid, result))
    return Reply(200, HTML, render.html_page(rid, result))


def _query(params: Mapping[str, str]) -> BlastQuery:
    """ValueError, for the reader, where the search cannot be run."""
    program = params.get("PROGRAM", "blastn").strip().lower()
    if program not in ("blastn", "megablast"):
        raise ValueError(f"Error: program {program[:20]} is not available here, only blastn and megablast are")
    database = params.get("DATABASE", "nt").strip().lower()
    if database not in _DATABASES:
        raise ValueError(f"Error: database {database[:40]} was not found")
    megablast = program == "megablast" or params.get("MEGABLAST", "").strip().lower() in ("on", "true", "yes", "1")
    task: Task = "megablast" if megablast else "blastn"
    hits = max(1, whole_number(params, "HITLIST_SIZE", 50, _MAX_HITS))
    return BlastQuery(clean_sequence(params.get("QUERY", "")), task, hits, _expect(params.get("EXPECT", "")))


def _expect(text: str) -> float:
    try:
        value = float(text) if text.strip() else 10.0
    except ValueError:
        raise ValueError("Error: EXPECT is not a number") from None
    if not 0 < value <= 1000:
        raise ValueError("Error: EXPECT must be above 0 and at most 1000")
    return value

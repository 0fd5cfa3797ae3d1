"""Serve NCBI's BLAST URL API over a bounded queue of local searches, in databases and in the built-in sample.

Implements CMD=Put, CMD=Get, CMD=Delete and FORMAT_OBJECT=SearchInfo. The sample is the store's sequence segments;
reports count positions on the whole records.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import secrets
import shutil
import string
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from retrieval.errors import BLAST_DATABASE_REPLACED, BLAST_FAILED, GatewayDataError, NcbiError
from retrieval.formats.records import SequenceSegment
from retrieval.gateway.blast.databases.catalog import BlastDatabase, Discovery, discover_databases, read_database
from retrieval.gateway.blast.parameters import shown
from retrieval.gateway.blast.process import (
    RunLimits,
    environment,
    error_message,
    missing_programs,
    with_parent_death_signal,
)
from retrieval.gateway.blast.request import BlastQuery, TaxidOf, known_taxid, read_put
from retrieval.gateway.blast.results import pages as render
from retrieval.gateway.blast.results.formats import ArchiveResult, parse_page_request, search_database
from retrieval.gateway.http_reply import HTML, Reply
from retrieval.storage.files import create_draft, make_folder, replace_folder

_BUILD_TIMEOUT_S: Final = 120.0
_SAMPLE_NAME: Final = "sample"
_SAMPLE_TITLE: Final = "Arrowhead sample of nucleotide records"
log = logging.getLogger(__name__)
_PROGRAMS = ("blastn", "makeblastdb", "blast_formatter")
_RID_LETTERS: Final = string.digits + string.ascii_uppercase
_RID_LENGTH: Final = 16  # 36^16 values: a RID cannot be guessed
_TOO_MANY: Final = "Error: too many searches are waiting, try again later"
_SITE_FOLDER: Final = "blast"
_LEAST_SWEEP_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class BlastOptions:
    """Configure the BLAST service.

    ``workers``: concurrent searches, each with ``threads`` threads. ``max_waiting``: unfinished searches.
    ``max_kept``, ``max_kept_bytes``, ``ttl_s``: limits of finished results, evicted oldest first. Results live in
    memory only and end with the process, because a sequence may be a patient's. ``blastdb_dirs``: further folders with
    databases.
    """

    workers: int = 1
    threads: int = 1
    max_waiting: int = 20
    max_kept: int = 200
    max_kept_bytes: int = 64 * 1024 * 1024
    ttl_s: float = 36 * 3600.0
    limits: RunLimits = field(default_factory=RunLimits)
    blastdb_dirs: tuple[Path, ...] = ()


class BlastEngine:
    """Parse and run searches.

    Databases are discovered for every search, so that a new one needs no restart. ``taxid_of`` resolves organism
    names in ENTREZ_QUERY.
    """

    def __init__(
        self, sample: SampleDatabase, roots: Sequence[Path], options: BlastOptions, taxid_of: TaxidOf = known_taxid
    ) -> None:
        self._taxid_of = taxid_of
        self._sample = sample
        self._roots = tuple(roots)
        self._options = options

    def prepare(self) -> None:
        """Log what cannot be searched."""
        if reason := missing_programs(_PROGRAMS):
            log.warning("BLAST searches will fail: %s", reason)
        for problem in discover_databases(self._roots).problems.values():
            log.warning("%s", problem.message)

    async def read(self, params: Mapping[str, str]) -> BlastQuery:
        """Parse the ``params`` of a Put request.

        Raises:
            ValueError: the search cannot be run; the message is for the user.
        """
        found = await asyncio.to_thread(discover_databases, self._roots)
        sample = None if self._sample.is_empty else self._sample.database
        query = await asyncio.to_thread(read_put, params, found, sample, self._taxid_of)
        if query.database is sample and query.program.name != "blastn":
            raise ValueError(f"Error: database {query.database.name} is searched with blastn and megablast alone")
        return query

    async def search(self, query: BlastQuery) -> ArchiveResult:
        """Run a search, once more if its database is replaced meanwhile.

        Raises:
            BLAST_FAILED: BLAST is missing, fails or exceeds a limit.
        """
        if reason := missing_programs((query.program.name, "blast_formatter")):
            raise NcbiError(reason, BLAST_FAILED)
        threads, limits = self._options.threads, self._options.limits
        if query.database is self._sample.database:
            return await self._sample.search(query, threads, limits)
        try:
            return await search_database(query, threads, limits)
        except NcbiError as error:
            if not BLAST_DATABASE_REPLACED.is_of(error):
                raise
            return await search_database(await self._renewed(query), threads, limits)

    async def _renewed(self, query: BlastQuery) -> BlastQuery:
        found: Discovery = await asyncio.to_thread(discover_databases, self._roots)
        database: BlastDatabase | None = found.databases.get(query.database.name.lower())
        if database is None or database.molecule != query.database.molecule:
            raise NcbiError(f"database {query.database.name} was taken away during the search", BLAST_FAILED)
        return replace(query, database=database)


@dataclass(slots=True)
class _Job:
    """Hold one submitted search and its outcome.

    ``query`` is dropped when the search ends; a result keeps what it needs.
    """

    query: BlastQuery | None
    created: float
    result: ArchiveResult | None = None
    failure: str = ""
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        return self.result.size if self.result else 0


def open_blast(
    segments: Sequence[SequenceSegment],
    sample_dir: Path,
    options: BlastOptions | None = None,
    taxid_of: TaxidOf = known_taxid,
) -> BlastService:
    """Open the BLAST service over the built-in sample and the site's databases.

    The sample is stored in ``sample_dir``; the site's databases are those in the folder "blast" beside it and those of
    ``options.blastdb_dirs``.
    """
    chosen = options or BlastOptions()
    roots = (sample_dir.parent / _SITE_FOLDER, *chosen.blastdb_dirs)
    engine = BlastEngine(SampleDatabase(segments, sample_dir), roots, chosen, taxid_of)
    engine.prepare()
    return BlastService(engine, chosen)


class BlastService:
    """Run searches from one queue and return their results by request ID (RID).

    A RID expires ``ttl_s`` seconds after its Put, or earlier when space is needed.
    """

    def __init__(
        self, engine: BlastEngine, options: BlastOptions, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._options = options
        self._clock = clock
        self._jobs: dict[str, _Job] = {}
        self._search_slots = asyncio.Semaphore(options.workers)
        self._pages = 0
        self._page_slots = asyncio.Semaphore(options.workers + 1)  # pages are short: they do not queue with searches
        self._last_s = 1.0
        self._sweep_at: asyncio.TimerHandle | None = None

    async def answer(self, params: Mapping[str, str]) -> Reply:
        """Answer one request; ``params`` have upper-case names."""
        self._forget_old()
        command = params.get("CMD", "").strip().lower()
        if command == "put":
            return await self._put(params)
        if command == "get":
            return await self._get(params)
        if command == "delete":
            self._drop(params.get("RID", "").strip())
            return Reply(200, HTML, render.status_page("UNKNOWN"))
        return Reply(400, HTML, render.error_page("Error: CMD must be Put, Get or Delete"))

    async def aclose(self) -> None:
        """Cancel all searches and drop all results."""
        if self._sweep_at is not None:
            self._sweep_at.cancel()
        running = [job.task for job in self._jobs.values() if job.task is not None]
        for rid in list(self._jobs):
            self._drop(rid)
        await asyncio.gather(*running, return_exceptions=True)

    async def _put(self, params: Mapping[str, str]) -> Reply:
        if self._unfinished() >= self._options.max_waiting:
            return Reply(429, HTML, render.error_page(_TOO_MANY))
        try:
            query = await self._engine.read(params)
        except ValueError as error:
            return Reply(200, HTML, render.error_page(str(error)))
        if (ahead := self._unfinished()) >= self._options.max_waiting:  # others arrived meanwhile
            return Reply(429, HTML, render.error_page(_TOO_MANY))
        rid = "".join(secrets.choice(_RID_LETTERS) for _ in range(_RID_LENGTH))
        job = _Job(query, self._clock())
        self._jobs[rid] = job
        self._sweep_later()
        job.task = asyncio.get_running_loop().create_task(self._work(job, query))
        rtoe_s = math.ceil(self._last_s * (1 + ahead / self._options.workers))
        return Reply(200, HTML, render.put_page(rid, rtoe_s))

    def _unfinished(self) -> int:
        return sum(job.task is not None for job in self._jobs.values())

    async def _work(self, job: _Job, query: BlastQuery) -> None:
        try:
            async with self._search_slots:
                started = self._clock()
                job.result = await self._engine.search(query)
                self._last_s = max(1.0, self._clock() - started)
        except NcbiError as error:
            job.failure = error.message
            # Only the client gets the reason: it derives from the program's messages about the query.
            log.warning("a %s search in %s failed", query.program.name, query.database.name)
        except Exception as error:
            job.failure = "the search broke off"
            log.error("a %s search broke off: %s", query.program.name, type(error).__name__)
        finally:
            job.query = job.task = None
            self._evict_over_limit()

    async def _get(self, params: Mapping[str, str]) -> Reply:
        rid = params.get("RID", "").strip()
        job = self._jobs.get(rid)
        if job is None:
            return Reply(200, HTML, render.status_page("UNKNOWN", f"Error: Results for RID {shown(rid)} not found"))
        if job.failure:
            return Reply(200, HTML, render.status_page("FAILED", f"Error: {job.failure}"))
        if job.result is None:
            return Reply(200, HTML, render.status_page("WAITING"))
        if params.get("FORMAT_OBJECT", "").strip().lower() == "searchinfo":
            return Reply(200, HTML, render.status_page("READY", hits=job.result.has_hits))
        return await self._page(job.result, params)

    async def _page(self, result: ArchiveResult, params: Mapping[str, str]) -> Reply:
        if self._pages >= self._options.max_waiting:
            return Reply(429, HTML, render.status_page("READY", _TOO_MANY))
        self._pages += 1
        try:
            order = parse_page_request(params)
            async with self._page_slots:
                return await result.page(order)
        except ValueError as error:
            return Reply(200, HTML, render.status_page("ERROR", str(error)))
        except NcbiError as error:
            status = "UNKNOWN" if BLAST_DATABASE_REPLACED.is_of(error) else "FAILED"
            return Reply(200, HTML, render.status_page(status, f"Error: {error.message}"))
        finally:
            self._pages -= 1

    def _drop(self, rid: str) -> None:
        job = self._jobs.pop(rid, None)
        if job is not None and job.task is not None:
            job.task.cancel()

    def _forget_old(self) -> None:
        now = self._clock()
        for rid in [rid for rid, job in self._jobs.items() if now - job.created > self._options.ttl_s]:
            self._drop(rid)
        self._evict_over_limit()

    def _sweep_later(self) -> None:
        """Schedule a sweep, so that entries expire even if no request arrives."""
        if self._sweep_at is None and self._jobs:
            oldest = next(iter(self._jobs.values()))
            wait_s = max(_LEAST_SWEEP_S, oldest.created + self._options.ttl_s - self._clock() + _LEAST_SWEEP_S)
            self._sweep_at = asyncio.get_running_loop().call_later(wait_s, self._sweep)

    def _sweep(self) -> None:
        self._sweep_at = None
        self._forget_old()
        self._sweep_later()

    def _evict_over_limit(self) -> None:
        """Evict the oldest finished searches until count and bytes are within the limits."""
        finished = [(rid, job.size) for rid, job in self._jobs.items() if job.task is None]
        total_bytes = sum(size for _, size in finished)
        for rid, size in finished:
            if len(self._jobs) <= self._options.max_kept and total_bytes <= self._options.max_kept_bytes:
                break
            self._drop(rid)
            total_bytes -= size


class SampleDatabase:
    """Search the sample.

    The database is built on first use from ``segments``, in a folder of ``directory`` that is named by their digest,
    and again if one of its files is missing.
    """

    def __init__(self, segments: Sequence[SequenceSegment], directory: Path) -> None:
        self._segments: Mapping[str, SequenceSegment] = {f"s{n}": segment for n, segment in enumerate(segments)}
        self._fasta = "".join(f">{key} {one.title}\n{one.sequence}\n" for key, one in self._segments.items())
        digest = hashlib.sha256(self._fasta.encode()).hexdigest()[:16]
        self._build_lock = asyncio.Lock()
        self.database = BlastDatabase(name=_SAMPLE_NAME, molecule="nucl", folder=directory / digest)

    @property
    def is_empty(self) -> bool:
        return not self._segments

    async def search(self, query: BlastQuery, threads: int, limits: RunLimits) -> ArchiveResult:
        """Run a search.

        Raises:
            BLAST_FAILED: the database cannot be built, or the search fails or exceeds a limit.
        """
        async with self._build_lock:
            database = await asyncio.to_thread(self._made)
        return await search_database(replace(query, database=database), threads, limits, self._segments)

    def _made(self) -> BlastDatabase:
        folder = self.database.folder
        with contextlib.suppress(GatewayDataError):
            return read_database(folder, _SAMPLE_NAME, "nucl")
        try:
            make_folder(folder.parent)
            draft = create_draft(folder)
            try:
                self._build(draft)
                replace_folder(draft, folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
            return read_database(folder, _SAMPLE_NAME, "nucl")
        except GatewayDataError as error:
            raise NcbiError(error.message, BLAST_FAILED) from error
        except OSError as error:
            raise NcbiError(f"the sample's BLAST database cannot be written: {error.strerror}", BLAST_FAILED) from error

    def _build(self, draft: Path) -> None:
        organisms = "".join(f"{key} {segment.tax_id}\n" for key, segment in self._segments.items())
        (draft / "taxids").write_text(organisms, encoding="ascii")
        arguments = ["makeblastdb", "-in", "-", "-dbtype", "nucl", "-parse_seqids", "-taxid_map", "taxids"]
        arguments += ["-title", _SAMPLE_TITLE, "-out", _SAMPLE_NAME]
        try:
            subprocess.run(
                with_parent_death_signal(arguments),
                input=self._fasta.encode(),
                cwd=draft,
                env=environment(),
                check=True,
                capture_output=True,
                timeout=_BUILD_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired as error:
            raise NcbiError(f"makeblastdb ran longer than {_BUILD_TIMEOUT_S:g} s", BLAST_FAILED) from error
        except subprocess.CalledProcessError as error:
            raise NcbiError(f"makeblastdb failed: {error_message(error.stderr)}", BLAST_FAILED) from error

"""Search all databases through one interface: the site's, NCBI's preformatted ones and the built-in sample."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from retrieval.errors import BlastFailed
from retrieval.gateway.atomic_folders import recover_all
from retrieval.gateway.blast_archive import DatabaseReplaced, search_database
from retrieval.gateway.blast_databases import BlastDatabase, Discovery, discover_databases
from retrieval.gateway.blast_formats import PageOrder
from retrieval.gateway.blast_organisms import TaxidOf, known_taxid
from retrieval.gateway.blast_process import RunLimits, missing_programs
from retrieval.gateway.blast_request import BlastQuery, read_put
from retrieval.gateway.blast_sample import SampleDatabase
from retrieval.gateway.replies import Reply

log = logging.getLogger(__name__)
_PROGRAMS = ("blastn", "makeblastdb", "blastdbcmd", "blast_formatter")


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


class SearchResult(Protocol):
    """Hold a finished search and format its pages; ``size``: bytes in memory."""

    @property
    def has_hits(self) -> bool: ...

    @property
    def size(self) -> int: ...

    async def page(self, order: PageOrder) -> Reply: ...


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
        """Remove what killed builders left, and log what cannot be searched."""
        for root in self._roots:
            recover_all(root)
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

    async def search(self, query: BlastQuery) -> SearchResult:
        """Run a search, once more if its database is replaced meanwhile.

        Raises:
            BlastFailed: BLAST is missing, fails or exceeds a limit.
        """
        if reason := missing_programs((query.program.name, "blast_formatter")):
            raise BlastFailed(reason)
        threads, limits = self._options.threads, self._options.limits
        if query.database is self._sample.database:
            return await self._sample.search(query, threads, limits)
        try:
            return await search_database(query, threads, limits)
        except DatabaseReplaced:
            return await search_database(await self._renewed(query), threads, limits)

    async def _renewed(self, query: BlastQuery) -> BlastQuery:
        found: Discovery = await asyncio.to_thread(discover_databases, self._roots)
        database: BlastDatabase | None = found.databases.get(query.database.name.lower())
        if database is None or database.molecule != query.database.molecule:
            raise BlastFailed(f"database {query.database.name} was taken away during the search")
        return replace(query, database=database)

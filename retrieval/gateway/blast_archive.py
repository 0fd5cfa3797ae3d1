"""Searches of real databases: blast+ searches, keeps its own archive, and writes every form of the result from it.

The archive stays in memory. It is small, for it holds places and scores; the subjects' letters are read again from the
database, so a form can only be written while the database is the one that was searched.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from typing import Final

from retrieval.errors import BlastFailed
from retrieval.gateway.blast_databases import BlastDatabase, is_unchanged
from retrieval.gateway.blast_formats import PageOrder, Report, reply_with
from retrieval.gateway.blast_process import RunLimits, Work, run_program
from retrieval.gateway.blast_render import NO_SIMILARITY
from retrieval.gateway.blast_request import BlastQuery
from retrieval.gateway.replies import Reply

LEAST_HITS: Final = 5  # blast+ may miss the best hit when it is to keep fewer
_FORMS: Final[dict[Report, str]] = {
    "text": "0", "xml": "5", "tabular": "7", "csv": "10", "json2_s": "15", "xml2_s": "16",
}  # fmt: skip
_SOME_HIT: Final = re.compile(rb"^ *results \{\s+alignments \{\s+\{", re.MULTILINE)
_NO_HITS: Final = "***** No hits found *****"
_NO_SUCH_ORGANISM: Final = "Taxonomy ID(s) not found"


class DatabaseReplaced(BlastFailed):
    """The search is to be submitted again."""

    retryable = True


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """``archive``: blast+'s -outfmt 11."""

    query: BlastQuery
    archive: bytes
    limits: RunLimits

    @property
    def has_hits(self) -> bool:
        return _SOME_HIT.search(self.archive) is not None

    @property
    def size(self) -> int:
        return len(self.archive) + len(self.query.fasta)

    async def page(self, order: PageOrder) -> Reply:
        """DatabaseReplaced, or BlastFailed where it cannot be written."""
        database = self.query.database
        hits = min(self.query.max_hits, order.hits or self.query.max_hits)
        arguments = ["blast_formatter", "-archive", "-", "-outfmt", _FORMS[order.report]]
        if order.report == "text":
            arguments += ["-num_descriptions", str(min(hits, order.descriptions))]
            arguments += ["-num_alignments", str(min(hits, order.alignments))]
        else:
            arguments += ["-max_target_seqs", str(hits)]
        await _expect_unchanged(database)
        work = Work(arguments, self.archive, database.folder, self.query.private)
        try:
            report = (await run_program(work, self.limits)).decode(errors="replace")
        finally:  # that it was replaced is the better reason also for a failure
            await _expect_unchanged(database)
        if order.report == "text":
            report = _as_ncbi_writes(report, order.rid)
        return await asyncio.to_thread(reply_with, order, report)


async def search_database(query: BlastQuery, threads: int, limits: RunLimits) -> ArchiveResult:
    """DatabaseReplaced where that happened meanwhile; BlastFailed where the search fails or passes a limit."""
    try:
        archive = await run_program(_work(query, threads), limits)
    except BlastFailed as error:
        await _expect_unchanged(query.database)
        if _NO_SUCH_ORGANISM not in error.message:
            raise
        archive = await _without_unknown_organisms(query, threads, limits)
    await _expect_unchanged(query.database)
    return ArchiveResult(query, archive, limits)


def search_arguments(query: BlastQuery, threads: int, form: str) -> list[str]:
    """The command line; the database is named as it lies in the folder the program runs in."""
    arguments = [query.program.name, "-db", query.database.name, "-query", "-", "-outfmt", form]
    arguments += ["-num_threads", str(threads), "-max_target_seqs", str(max(LEAST_HITS, query.max_hits))]
    return [*arguments, *query.arguments]


def _work(query: BlastQuery, threads: int) -> Work:
    return Work(search_arguments(query, threads, "11"), query.fasta, query.database.folder, query.private)


async def _without_unknown_organisms(query: BlastQuery, threads: int, limits: RunLimits) -> bytes:
    """blast+ fails where no sequence is of the organisms; leaving out what is not there leaves everything."""
    arguments = list(query.arguments)
    if "-negative_taxids" not in arguments or not query.database.taxids:
        raise BlastFailed(f"database {query.database.name} has no sequence of the organism that ENTREZ_QUERY names")
    at = arguments.index("-negative_taxids")
    return await run_program(_work(replace(query, arguments=(*arguments[:at], *arguments[at + 2 :])), threads), limits)


async def _expect_unchanged(database: BlastDatabase) -> None:
    if not await asyncio.to_thread(is_unchanged, database):
        raise DatabaseReplaced(f"database {database.name} was replaced since the search; submit it again")


def _as_ncbi_writes(report: str, rid: str) -> str:
    """NCBI's server names the request, and has words of its own for an empty result."""
    with_rid = report.replace("\nDatabase: ", f"\nRID: {rid}\n\n\nDatabase: ", 1)
    return with_rid.replace(_NO_HITS, NO_SIMILARITY)

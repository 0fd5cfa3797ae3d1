"""Search real databases with blast+, and format every form of a result from blast+'s own archive.

The archive stays in memory. It is small, because it holds positions and scores; the subjects' letters are read again
from the database, so a result can be formatted only while the database is the one that was searched.
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

LEAST_HITS: Final = 5  # blast+ may miss the best hit with a smaller -max_target_seqs
_FORMS: Final[dict[Report, str]] = {
    "text": "0", "xml": "5", "tabular": "7", "csv": "10", "json2_s": "15", "xml2_s": "16",
}  # fmt: skip
_SOME_HIT: Final = re.compile(rb"^ *results \{\s+alignments \{\s+\{", re.MULTILINE)
_NO_HITS: Final = "***** No hits found *****"
_NO_SUCH_ORGANISM: Final = "Taxonomy ID(s) not found"


class DatabaseReplaced(BlastFailed):
    """Signal that the database was replaced since the search, which must be submitted again."""

    retryable = True


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """Hold a search result as ``archive``, in blast+'s -outfmt 11."""

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
        """Format one page of the result.

        Raises:
            DatabaseReplaced: the database was replaced since the search.
            BlastFailed: the page cannot be written.
        """
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
        finally:  # after a failure, too: a replaced database explains it better
            await _expect_unchanged(database)
        if order.report == "text":
            report = _as_ncbi_writes(report, order.rid)
        return await asyncio.to_thread(reply_with, order, report)


async def search_database(query: BlastQuery, threads: int, limits: RunLimits) -> ArchiveResult:
    """Run a search in a database.

    Raises:
        DatabaseReplaced: the database was replaced during the search.
        BlastFailed: the search fails or exceeds a limit.
    """
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
    """Return the command line; the database is named relative to the folder the program runs in."""
    arguments = [query.program.name, "-db", query.database.name, "-query", "-", "-outfmt", form]
    arguments += ["-num_threads", str(threads), "-max_target_seqs", str(max(LEAST_HITS, query.max_hits))]
    return [*arguments, *query.arguments]


def _work(query: BlastQuery, threads: int) -> Work:
    return Work(search_arguments(query, threads, "11"), query.fasta, query.database.folder, query.private)


async def _without_unknown_organisms(query: BlastQuery, threads: int, limits: RunLimits) -> bytes:
    """Search again without -negative_taxids, after blast+ failed because no sequence is of the organisms.

    Excluding organisms that the database does not contain excludes nothing.

    Raises:
        BlastFailed: the query requires the organisms, or the database is not known to have taxonomy IDs.
    """
    arguments = list(query.arguments)
    if "-negative_taxids" not in arguments or not query.database.taxids:
        raise BlastFailed(f"database {query.database.name} has no sequence of the organism that ENTREZ_QUERY names")
    at = arguments.index("-negative_taxids")
    return await run_program(_work(replace(query, arguments=(*arguments[:at], *arguments[at + 2 :])), threads), limits)


async def _expect_unchanged(database: BlastDatabase) -> None:
    if not await asyncio.to_thread(is_unchanged, database):
        raise DatabaseReplaced(f"database {database.name} was replaced since the search; submit it again")


def _as_ncbi_writes(report: str, rid: str) -> str:
    """Return the report as NCBI's server writes it: with the request ID, and NCBI's text for an empty result."""
    with_rid = report.replace("\nDatabase: ", f"\nRID: {rid}\n\n\nDatabase: ", 1)
    return with_rid.replace(_NO_HITS, NO_SIMILARITY)

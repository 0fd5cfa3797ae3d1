"""Parse the form of a result from a Get request (FORMAT_TYPE), and build the reply around the report.

Of NCBI's forms those in one file are made: XML2_S and JSON2_S, not the archives XML2 and JSON2.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from retrieval.errors import BLAST_DATABASE_REPLACED, BLAST_FAILED, NcbiError
from retrieval.gateway.blast.databases.catalog import BlastDatabase, is_unchanged
from retrieval.gateway.blast.parameters import MAX_HITS, shown
from retrieval.gateway.blast.process import ProgramRun, RunLimits, run_program
from retrieval.gateway.blast.request import BlastQuery
from retrieval.gateway.blast.results.pages import NO_SIMILARITY, html_page, with_status_header
from retrieval.gateway.blast.results.placing import Report, Segments, placed
from retrieval.gateway.http_reply import HTML, JSON, PLAIN, XML, Reply, whole_number

Form = Literal["html", "text", "tabular", "xml", "xml2_s", "json2_s"]
_REFUSED: Final = ("EXPECT_LOW", "EXPECT_HIGH", "FORMAT_ENTREZ_QUERY")  # they would filter hits


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Describe the requested page of a result.

    ``hits``: None for as many as were searched for. ``descriptions`` and ``alignments`` apply to Text and HTML.
    """

    rid: str
    form: Form
    hits: int | None
    descriptions: int
    alignments: int

    @property
    def report(self) -> Report:
        return "text" if self.form == "html" else self.form


def parse_page_request(params: Mapping[str, str]) -> PageRequest:
    """Parse the parameters of a Get request; the default form is HTML, as at NCBI.

    Raises:
        ValueError: a filter or an unavailable form is requested; the message is for the user.
    """
    for name in _REFUSED:
        if params.get(name, "").strip().lower() not in ("", "none", "(none)"):
            raise ValueError(f"Error: {name} is not available here")
    form = params.get("FORMAT_TYPE", "").strip().lower() or "html"
    if params.get("ALIGNMENT_VIEW", "").strip().lower() == "tabular" and form in ("html", "text"):
        form = "tabular"
    if form not in get_args(Form):
        names = ", ".join(name.upper() for name in get_args(Form))
        raise ValueError(f"Error: FORMAT_TYPE {shown(form)} is not made here; there are {names}")
    hits = whole_number(params, "HITLIST_SIZE", 0, MAX_HITS) or None
    counts = (whole_number(params, name, MAX_HITS, MAX_HITS) for name in ("DESCRIPTIONS", "ALIGNMENTS"))
    return PageRequest(params.get("RID", "").strip(), form, hits, *counts)  # type: ignore[arg-type]


def reply_with(order: PageRequest, report: str) -> Reply:
    """Build the reply to a Get request from the report rendered for it."""
    if order.form == "html":
        return Reply(200, HTML, html_page(report))
    if order.form in ("text", "tabular"):
        return Reply(200, PLAIN, with_status_header(report))
    if order.form in ("xml", "xml2_s"):
        return Reply(200, XML, report)
    return Reply(200, JSON, report)


_MIN_HITS: Final = 5  # blast+ may miss the best hit with a smaller -max_target_seqs
_FORMS: Final[dict[Report, str]] = {
    "text": "0", "xml": "5", "tabular": "7", "json2_s": "15", "xml2_s": "16",
}  # fmt: skip
_SOME_HIT: Final = re.compile(rb"^ *results \{\s+alignments \{\s+\{", re.MULTILINE)
_NO_HITS: Final = "***** No hits found *****"
_NO_SUCH_ORGANISM: Final = "Taxonomy ID(s) not found"


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """Hold a search result as ``archive``, in blast+'s -outfmt 11.

    ``segments`` are those of records that a database of segments has, by their names in it.
    """

    query: BlastQuery
    archive: bytes
    limits: RunLimits
    segments: Segments = field(default_factory=dict)

    @property
    def has_hits(self) -> bool:
        return _SOME_HIT.search(self.archive) is not None

    @property
    def size(self) -> int:
        return len(self.archive) + len(self.query.fasta)

    async def page(self, order: PageRequest) -> Reply:
        """Format one page of the result.

        Raises:
            BLAST_DATABASE_REPLACED: the database was replaced since the search.
            BLAST_FAILED: the page cannot be written.
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
        work = ProgramRun(arguments, self.archive, database.folder, self.query.private)
        try:
            report = (await run_program(work, self.limits)).decode(errors="replace")
        finally:  # after a failure, too: a replaced database explains it better
            await _expect_unchanged(database)
        if self.segments:
            report = placed(report, order.report, self.segments)
        if order.report == "text":
            report = _as_ncbi_writes(report, order.rid)
        return await asyncio.to_thread(reply_with, order, report)


async def search_database(
    query: BlastQuery, threads: int, limits: RunLimits, segments: Segments | None = None
) -> ArchiveResult:
    """Run a search in a database, or in one of ``segments`` of records.

    Raises:
        BLAST_DATABASE_REPLACED: the database was replaced during the search.
        BLAST_FAILED: the search fails or exceeds a limit.
    """
    try:
        archive = await run_program(_work(query, threads), limits)
    except NcbiError as error:
        await _expect_unchanged(query.database)
        if _NO_SUCH_ORGANISM not in error.message:
            raise
        archive = await _without_unknown_organisms(query, threads, limits)
    await _expect_unchanged(query.database)
    return ArchiveResult(query, archive, limits, segments or {})


def _work(query: BlastQuery, threads: int) -> ProgramRun:
    """Return the run of a search; the database is named relative to the folder the program runs in."""
    arguments = [query.program.name, "-db", query.database.name, "-query", "-", "-outfmt", "11"]
    arguments += ["-num_threads", str(threads), "-max_target_seqs", str(max(_MIN_HITS, query.max_hits))]
    return ProgramRun([*arguments, *query.arguments], query.fasta, query.database.folder, query.private)


async def _without_unknown_organisms(query: BlastQuery, threads: int, limits: RunLimits) -> bytes:
    """Search again without -negative_taxids, after blast+ failed because no sequence is of the organisms.

    Excluding organisms that the database does not contain excludes nothing.

    Raises:
        BLAST_FAILED: the query requires the organisms.
    """
    arguments = list(query.arguments)
    if "-negative_taxids" not in arguments:
        raise NcbiError(
            f"database {query.database.name} has no sequence of the organism that ENTREZ_QUERY names", BLAST_FAILED
        )
    at = arguments.index("-negative_taxids")
    return await run_program(_work(replace(query, arguments=(*arguments[:at], *arguments[at + 2 :])), threads), limits)


async def _expect_unchanged(database: BlastDatabase) -> None:
    if not await asyncio.to_thread(is_unchanged, database):
        raise NcbiError(
            f"database {database.name} was replaced since the search; submit it again", BLAST_DATABASE_REPLACED
        )


def _as_ncbi_writes(report: str, rid: str) -> str:
    """Return the report as NCBI's server writes it: with the request ID, and NCBI's text for an empty result."""
    with_rid = report.replace("\nDatabase: ", f"\nRID: {rid}\n\n\nDatabase: ", 1)
    return with_rid.replace(_NO_HITS, NO_SIMILARITY)

"""Parse the form of a result from a Get request (FORMAT_TYPE), and build the reply around the report.

XML2 and JSON2 are zip archives as at NCBI (an index file and one file for each query); their single-file forms are
XML2_S and JSON2_S. Pure functions, no I/O.
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from retrieval.errors import BlastFailed
from retrieval.gateway.blast.databases.catalog import BlastDatabase, is_unchanged
from retrieval.gateway.blast.parameters import MAX_HITS, shown
from retrieval.gateway.blast.process import ProgramRun, RunLimits, run_program
from retrieval.gateway.blast.request import BlastQuery
from retrieval.gateway.blast.results.pages import NO_SIMILARITY, html_page, with_status_header
from retrieval.gateway.blast.results.placing import Report, Segments, placed
from retrieval.gateway.http_reply import HTML, JSON, PLAIN, XML, ZIP, Reply, whole_number

Form = Literal["html", "text", "tabular", "csv", "xml", "xml2", "xml2_s", "json2", "json2_s"]
_REPORTS: Final[Mapping[Form, Report]] = {
    "html": "text", "text": "text", "tabular": "tabular", "csv": "csv", "xml": "xml",
    "xml2": "xml2_s", "xml2_s": "xml2_s", "json2": "json2_s", "json2_s": "json2_s",
}  # fmt: skip
_REFUSED: Final = ("EXPECT_LOW", "EXPECT_HIGH", "FORMAT_ENTREZ_QUERY")  # they would filter hits
_SPACE: Final = "http://www.ncbi.nlm.nih.gov"
_SCHEMA: Final = f"{_SPACE} {_SPACE}/data_specs/schema_alt/NCBI_BlastOutput2.xsd"
_XS: Final = "http://www.w3.org/2001/XMLSchema-instance"
_OUTPUT: Final = re.compile(r"^<BlastOutput2>\n(.*?)^</BlastOutput2>\n", re.MULTILINE | re.DOTALL)
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # a fixed time, so that equal results make equal archives


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
        return _REPORTS[self.form]


def parse_page_request(params: Mapping[str, str]) -> PageRequest:
    """Parse the parameters of a Get request; the default form is HTML, as at NCBI.

    Raises:
        ValueError: a filter or an unavailable form is requested; the message is for the user.
    """
    for name in _REFUSED:
        if params.get(name, "").strip().lower() not in ("", "none", "(none)"):
            raise ValueError(f"Error: {name} is not available here")
    form = params.get("FORMAT_TYPE", "").strip().lower() or "html"
    if params.get("ALIGNMENT_VIEW", "").strip().lower() == "tabular" and form in ("html", "text", "csv"):
        form = "csv" if form == "csv" else "tabular"
    if form not in get_args(Form):
        names = ", ".join(("HTML", "Text", "Tabular", "CSV", "XML", "XML2", "XML2_S", "JSON2", "JSON2_S"))
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
    if order.form == "csv":
        return Reply(200, PLAIN, report)
    if order.form in ("xml", "xml2_s"):
        return Reply(200, XML, report)
    if order.form == "json2_s":
        return Reply(200, JSON, report)
    files = _json_files(order.rid, report) if order.form == "json2" else _xml_files(order.rid, report)
    return Reply(200, ZIP, "", _zipped(files))


def _json_files(rid: str, report: str) -> list[tuple[str, str]]:
    parts = json.loads(report)["BlastOutput2"]
    names = [f"{rid}_{number}.json" for number in range(1, len(parts) + 1)]
    index = json.dumps({"BlastJSON": [{"File": name} for name in names]}, indent=1) + "\n"
    bodies = [json.dumps({"BlastOutput2": part}, indent=2) + "\n" for part in parts]
    return [(f"{rid}.json", index), *zip(names, bodies, strict=True)]


def _xml_files(rid: str, report: str) -> list[tuple[str, str]]:
    attributes = f'xmlns="{_SPACE}" xmlns:xs="{_XS}" xs:schemaLocation="{_SCHEMA}"'
    parts = _OUTPUT.findall(report)
    names = [f"{rid}_{number}.xml" for number in range(1, len(parts) + 1)]
    includes = "".join(f'\t<xi:include href="{name}"/>\n' for name in names)
    declaration = '<?xml version="1.0"?>\n'
    index = (
        f'{declaration}<BlastXML2 {attributes} xmlns:xi="http://www.w3.org/2003/XInclude">\n{includes}</BlastXML2>\n'
    )
    bodies = [f"{declaration}<BlastOutput2 {attributes}>\n{part}</BlastOutput2>\n" for part in parts]
    return [(f"{rid}.xml", index), *zip(names, bodies, strict=True)]


def _zipped(files: Sequence[tuple[str, str]]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files:
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), text, zipfile.ZIP_DEFLATED)
    return target.getvalue()


_MIN_HITS: Final = 5  # blast+ may miss the best hit with a smaller -max_target_seqs
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

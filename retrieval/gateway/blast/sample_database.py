"""Search the built-in database: the store's sequence segments, with positions counted on the whole records.

blast+ cannot write these results itself, because it knows only the segments; the reports are rendered here.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from retrieval.errors import BlastFailed
from retrieval.formats.records import SequenceSegment
from retrieval.gateway.blast.databases.build import build_blast_database
from retrieval.gateway.blast.databases.catalog import BlastDatabase, read_database
from retrieval.gateway.blast.process import ProgramRun, RunLimits, run_program
from retrieval.gateway.blast.requests.request import BlastQuery
from retrieval.gateway.blast.results import pages as blast_render
from retrieval.gateway.blast.results import reports as blast_reports
from retrieval.gateway.blast.results.formats import PageRequest, reply_with, search_arguments
from retrieval.gateway.blast.results.hits import BlastResult, read_results
from retrieval.gateway.errors import BlastDatabaseError
from retrieval.gateway.http_reply import Reply
from retrieval.storage.private_files import make_folder

_BUILD_TIMEOUT_S: Final = 120.0
_TEMPORARY: Final = ".fasta-"
_REPORTS: Final[dict[str, Callable[[Sequence[BlastResult]], str]]] = {
    "xml": blast_render.xml_report,
    "tabular": blast_reports.tabular_report,
    "csv": blast_reports.csv_report,
    "json2_s": blast_reports.json2_report,
    "xml2_s": blast_reports.xml2_report,
}


@dataclass(frozen=True, slots=True)
class SampleResult:
    """Hold the results of a search in the sample; ``size``: bytes of BLAST's output."""

    results: tuple[BlastResult, ...]
    size: int

    @property
    def has_hits(self) -> bool:
        return any(result.hits for result in self.results)

    async def page(self, order: PageRequest) -> Reply:
        return await asyncio.to_thread(self._page, order)

    def _page(self, order: PageRequest) -> Reply:
        results = [replace(result, hits=result.hits[: order.hits]) for result in self.results]
        if order.report == "text":
            report = blast_render.text_report(order.rid, results, order.descriptions, order.alignments)
        else:
            report = _REPORTS[order.report](results)
        return reply_with(order, report)


class SampleDatabase:
    """Search the sample.

    The database is built on first use from ``segments`` in ``directory``, and again if one of its files is missing.
    """

    def __init__(self, segments: Sequence[SequenceSegment], directory: Path) -> None:
        self._segments: Mapping[str, SequenceSegment] = {f"s{n}": segment for n, segment in enumerate(segments)}
        self._directory = directory
        self._build_lock = asyncio.Lock()
        self.database = BlastDatabase(
            name=blast_render.SAMPLE_NAME,
            title=blast_render.DATABASE_TITLE,
            molecule="nucl",
            folder=directory / blast_render.SAMPLE_NAME,
            taxids=True,
        )

    @property
    def is_empty(self) -> bool:
        return not self._segments

    async def search(self, query: BlastQuery, threads: int, limits: RunLimits) -> SampleResult:
        """Run a search.

        Raises:
            BlastFailed: the database cannot be built, or the search fails or exceeds a limit.
        """
        async with self._build_lock:
            await asyncio.to_thread(self._make)
        work = ProgramRun(search_arguments(query, threads, "5"), query.fasta, self.database.folder, query.private)
        output = await run_program(work, limits)
        try:
            results = await asyncio.to_thread(read_results, output, self._segments)
        except (ValueError, KeyError) as error:
            raise BlastFailed(f"{work.program}'s output cannot be read") from error
        if not results:
            raise BlastFailed(f"{work.program} wrote no result")
        limited = tuple(replace(result, hits=result.hits[: query.max_hits]) for result in results)
        return SampleResult(limited, len(output))

    def _make(self) -> None:
        try:
            read_database(self.database.folder)
        except BlastDatabaseError:
            self._build()

    def _remove_leftovers(self) -> None:
        """Remove the folders of killed processes; an active process has modified its folder recently."""
        for folder in self._directory.glob(f"{_TEMPORARY}*"):
            if time.time() - folder.stat().st_mtime > 2 * _BUILD_TIMEOUT_S:
                shutil.rmtree(folder, ignore_errors=True)

    def _build(self) -> None:
        try:
            make_folder(self._directory)
            self._remove_leftovers()
            with tempfile.TemporaryDirectory(dir=self._directory, prefix=_TEMPORARY) as folder:
                fasta = Path(folder) / "segments.fasta"
                fasta.write_text("".join(f">{key}\n{s.sequence}\n" for key, s in self._segments.items()))
                build_blast_database(
                    [fasta],
                    self._directory,
                    name=self.database.name,
                    title=self.database.title,
                    molecule="nucl",
                    taxids={key: segment.tax_id for key, segment in self._segments.items()},
                    timeout_s=_BUILD_TIMEOUT_S,
                )
        except BlastDatabaseError as error:
            raise BlastFailed(error.message) from error
        except OSError as error:
            raise BlastFailed(f"the sample's BLAST database cannot be written: {error.strerror}") from error

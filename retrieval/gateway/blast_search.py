"""Runs Debian's ncbi-blast+ over the store's nucleotide stretches. Knows nothing of RIDs, pages or HTTP.

No shell: fixed argument lists, the sequence through standard input, one thread, a time limit, a bounded output.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from retrieval.errors import BlastFailed
from retrieval.gateway.blast_hits import BlastResult, read_result
from retrieval.gateway.blast_render import DATABASE_TITLE
from retrieval.gateway.records import SequenceSegment

MIN_QUERY: Final = 10
MAX_QUERY: Final = 20_000
_MAX_OUTPUT: Final = 16 * 1024 * 1024
_MAX_ERROR_TEXT: Final = 300
_LETTERS: Final = re.compile(r"[ACGTUNRYKMSWBDHV]+")
_LAYOUT: Final = re.compile(r"(?<!\S)\d+(?!\S)|\s+")  # blanks, and the line numbers of GenBank's layout
Task = Literal["megablast", "blastn"]


@dataclass(frozen=True, slots=True)
class BlastQuery:
    """``sequence``: upper-case IUPAC nucleotide letters, MIN_QUERY..MAX_QUERY of them."""

    sequence: str
    task: Task
    max_hits: int
    expect: float


def clean_sequence(text: str) -> str:
    """The letters of a bare or FASTA sequence. ValueError, in NCBI's words, where there is no usable one."""
    lines = text.strip().splitlines()
    body = "\n".join(lines[1:] if lines and lines[0].startswith(">") else lines)
    letters = _LAYOUT.sub("", body).upper()
    if not letters:
        raise ValueError("Message ID#24 Error: Failed to read the Blast query: Sequence contains no data")
    if not _LETTERS.fullmatch(letters):
        raise ValueError("Message ID#24 Error: Failed to read the Blast query: Nucleotide FASTA provided is not valid")
    if not MIN_QUERY <= len(letters) <= MAX_QUERY:
        raise ValueError(f"Error: the query has {len(letters)} letters, {MIN_QUERY} to {MAX_QUERY} are allowed")
    return letters.replace("U", "T")


class BlastSearcher:
    """One database, made on first use from ``segments`` in ``directory``."""

    def __init__(self, segments: Sequence[SequenceSegment], directory: Path, timeout_s: float = 60.0) -> None:
        self._segments: Mapping[str, SequenceSegment] = {f"s{n}": segment for n, segment in enumerate(segments)}
        self._directory = directory
        self._timeout_s = timeout_s
        self._making = asyncio.Lock()

    def unavailable(self) -> str:
        """Why no search can run here, or ""."""
        missing = [name for name in ("blastn", "makeblastdb") if shutil.which(name) is None]
        if missing:
            return f"{' and '.join(missing)} not found: install ncbi-blast+ (apt install ncbi-blast+)"
        return "" if self._segments else "the store holds no sequences"

    async def search(self, query: BlastQuery) -> BlastResult:
        """BlastFailed where BLAST is missing, fails, runs over its time or writes what cannot be read."""
        if reason := self.unavailable():
            raise BlastFailed(reason)
        database = await self._database()
        arguments = (
            *("blastn", "-task", query.task, "-db", str(database), "-query", "-", "-outfmt", "5"),
            *("-num_threads", "1", "-max_target_seqs", str(max(5, query.max_hits)), "-evalue", str(query.expect)),
        )
        output = await self._run(arguments, f">query\n{query.sequence}\n".encode())
        try:
            result = read_result(output, self._segments)
        except (ValueError, KeyError) as error:
            raise BlastFailed(f"blastn's output cannot be read: {error}") from error
        return _limited(result, query.max_hits)

    async def _database(self) -> Path:
        """Made in a temporary folder and renamed, so that a broken-off run leaves nothing behind."""
        async with self._making:
            target = self._directory / "blast-nt"
            if not await asyncio.to_thread((target / "complete").exists):
                await self._make(target)
            return target / "nt"

    async def _make(self, target: Path) -> None:
        await asyncio.to_thread(self._directory.mkdir, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._directory, prefix=".blast-") as name:
            draft = Path(name) / "new"
            fasta = "".join(f">{key}\n{segment.sequence}\n" for key, segment in self._segments.items())
            where = ("-title", DATABASE_TITLE, "-out", str(draft / "nt"))
            await self._run(("makeblastdb", "-in", "-", "-dbtype", "nucl", *where), fasta.encode())
            await asyncio.to_thread(_put_in_place, draft, target)

    async def _run(self, arguments: Sequence[str], text: bytes) -> bytes:
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                output, errors = await process.communicate(text)
        except TimeoutError as error:
            raise BlastFailed(f"{arguments[0]} ran longer than {self._timeout_s:g} s") from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if process.returncode != 0:
            raise BlastFailed(f"{arguments[0]} failed: {errors.decode(errors='replace').strip()[:_MAX_ERROR_TEXT]}")
        if len(output) > _MAX_OUTPUT:
            raise BlastFailed(f"{arguments[0]} wrote {len(output)} bytes, {_MAX_OUTPUT} are allowed")
        return output


def _limited(result: BlastResult, max_hits: int) -> BlastResult:
    return BlastResult(
        program=result.program,
        version=result.version,
        query_length=result.query_length,
        hits=result.hits[:max_hits],
        parameters=result.parameters,
        statistics=result.statistics,
    )


def _put_in_place(draft: Path, target: Path) -> None:
    (draft / "complete").touch()
    if target.exists():
        shutil.rmtree(target)
    draft.rename(target)

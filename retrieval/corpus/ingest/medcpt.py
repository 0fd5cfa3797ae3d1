"""Import NCBI's published MedCPT embeddings of PubMed, with their texts; nothing is encoded.

Source: ftp.ncbi.nlm.nih.gov/pub/lu/MedCPT/pubmed_embeddings. A chunk i is three files: ``embeds_chunk_i.npy`` float32
[n, 768], ``pmids_chunk_i.json`` a list of n PMIDs in the same order, and ``pubmed_chunk_i.json`` {pmid: {"d": date,
"t": title, "a": abstract, "m": MeSH}}. Chunk i holds the PMIDs from i million up to the next million. The files carry
no digests, and copies exist in which one chunk has another chunk's PMIDs: lengths and ranges are checked before any row
is imported.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from models.files import parse_json
from retrieval.corpus.items import ParsedDocument, Span, date_number
from retrieval.corpus.namespaces.namespace import Namespace
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.store.base import JournalEntry, PassageWriter
from retrieval.errors import (
    INDEX_INPUT_INVALID,
    INDEX_TOO_LARGE,
    ImportFileError,
    IndexDamaged,
    IndexFault,
    NamespaceInvalid,
)
from retrieval.formats.json_stream import JsonStream
from retrieval.formats.sources import Source
from retrieval.index.base import Ids, Rows
from retrieval.index.spec import Estimate, Kind, estimate, kind_for
from retrieval.passages import Document, Passage, passage_id
from retrieval.storage.files import Disk

PMIDS_PER_CHUNK: Final = 1_000_000
DIM: Final = 768
_NAME: Final = re.compile(r"embeds_chunk_(\d+)\.npy")
_ARTICLES: Final = 2_048
ENCODER = "medcpt"
_STATE = "medcpt.json"


@dataclass(frozen=True, slots=True)
class MedcptChunk:
    """Name the existing files of one chunk; ``rows`` comes from the embeddings' header."""

    number: int
    embeds: Path
    pmids: Path
    articles: Path
    rows: int

    @property
    def stamp(self) -> list[int]:
        """Return the file sizes, by which a resumed import recognises the chunk."""
        return [path.stat().st_size for path in (self.embeds, self.pmids, self.articles)]


@dataclass(frozen=True, slots=True)
class ImportBatch:
    """Hold documents, their passages and their rows.

    ``rows.ids[i]`` is ``passages[i].passage_id``, of ``documents[i]``. Titles and abstracts are unchanged from NCBI.
    """

    documents: tuple[Document, ...]
    passages: tuple[Passage, ...]
    rows: Rows


@dataclass(slots=True)
class ImportReport:
    """Count the results of an import.

    ``without_text`` rows have no article in the chunk's third file, ``without_row`` articles have no embedding.
    """

    rows: int = 0
    without_text: int = 0
    without_row: int = 0
    chunks: list[int] = field(default_factory=list)
    passed_over: list[int] = field(default_factory=list)


class _Index(Protocol):
    def add(self, rows: Rows) -> None: ...

    def commit(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MedcptImport:
    """Import the chunks of one folder.

    The name ``namespace`` determines the passages' ids, ``number`` is the namespace column's value. ``state`` is a file
    that records completed chunks. ``memory_left`` is the memory limit of the index in bytes, 0 for none.
    """

    folder: Path
    state: Path
    namespace: str
    number: int = 0
    kind: Kind | None = None
    dim: int = DIM
    memory_left: int = 0
    disk: Disk = field(default_factory=Disk)

    def chunks(self) -> list[MedcptChunk]:
        """Return the chunks in the order of their numbers.

        Raises:
            IndexFault: a file is missing or is not float32 [n, dim].
        """
        try:
            paths = sorted(self.folder.iterdir())
        except OSError as fault:
            raise IndexFault(
                f"{self.folder} cannot be read: {fault.strerror}", INDEX_INPUT_INVALID, param="folder"
            ) from fault
        found = [(int(match[1]), path) for path in paths if (match := _NAME.fullmatch(path.name))]
        if not found:
            raise IndexFault(f"there is no embeds_chunk_*.npy in {self.folder}", INDEX_INPUT_INVALID, param="folder")
        return [self._chunk(number, path) for number, path in sorted(found)]

    def estimate(self) -> Estimate:
        """Return the estimate for all chunks in one index, from the files' headers alone."""
        rows = sum(chunk.rows for chunk in self.chunks())
        return estimate(self.kind or kind_for(rows), rows, self.dim)

    def run(self, index: _Index, on_batch: Callable[[ImportBatch], None]) -> ImportReport:
        """Import every incomplete chunk: texts to ``on_batch``, rows to the index, a commit after each chunk.

        A killed run resumes at the interrupted chunk; importing a row again changes nothing.

        Raises:
            IndexFault: the disk of ``state``, or memory, has too little space; nothing has been read then; files do not
                belong together; the chunks before are complete.
        """
        done, report = self._done(), ImportReport()
        if not done:
            self._check_room()
        for chunk in self.chunks():
            if done.get(str(chunk.number)) == chunk.stamp:
                report.passed_over.append(chunk.number)
                continue
            for batch in self.batches(chunk, report):
                on_batch(batch)
                index.add(batch.rows)
            index.commit()
            done[str(chunk.number)] = chunk.stamp
            self.disk.replace(self.state, json.dumps({"done": done}, sort_keys=True).encode())
            report.chunks.append(chunk.number)
        return report

    def _check_room(self) -> None:
        needed, free = self.estimate(), shutil.disk_usage(self.state.parent).free
        if needed.disk > free:
            raise IndexFault(
                f"the index takes {needed.disk:,} bytes on the disk, which has {free:,} free", INDEX_TOO_LARGE
            )
        if self.memory_left and needed.memory > self.memory_left:
            raise IndexFault(
                f"the index takes {needed.memory:,} bytes of memory, of which {self.memory_left:,} are left",
                INDEX_TOO_LARGE,
            )

    def batches(self, chunk: MedcptChunk, report: ImportReport) -> Iterator[ImportBatch]:
        """Yield batches in the order of the articles' file.

        Memory holds one batch and the chunk's list of PMIDs.
        """
        pmids = _pmids(chunk)
        order = np.argsort(pmids, kind="stable")
        vectors = np.load(chunk.embeds, mmap_mode="r", allow_pickle=False)
        seen = np.zeros(len(pmids), np.bool_)
        waiting: list[tuple[int, str, Any]] = []
        for name, article in _articles(chunk.articles):
            row = _row(pmids, order, name)
            if row is None or seen[row]:
                report.without_row += 1
                continue
            seen[row] = True
            waiting.append((row, name, article))
            if len(waiting) == _ARTICLES:
                yield self._batch(waiting, vectors, chunk)
                waiting = []
        if waiting:
            yield self._batch(waiting, vectors, chunk)
        report.rows += int(seen.sum())
        report.without_text += int(len(seen) - seen.sum())

    def _batch(
        self, articles: Sequence[tuple[int, str, Any]], vectors: NDArray[Any], chunk: MedcptChunk
    ) -> ImportBatch:
        pairs = [self._article(name, article, chunk) for _, name, article in articles]
        rows = np.array([row for row, _, _ in articles])
        passages = tuple(passage for _, passage in pairs)
        return ImportBatch(
            tuple(document for document, _ in pairs),
            passages,
            Rows(
                ids=np.array([passage.passage_id for passage in passages], np.int64),
                vectors=np.asarray(vectors[rows], np.float32),
                dates=np.array([passage.date for passage in passages], np.int32),
                namespaces=np.full(len(passages), self.number, np.int32),
            ),
        )

    def _article(self, pmid: str, article: Any, chunk: MedcptChunk) -> tuple[Document, Passage]:
        if not isinstance(article, dict):
            raise IndexFault(
                f"{chunk.articles}: the entry of PMID {pmid} is no object", INDEX_INPUT_INVALID, param="folder"
            )
        title, abstract = (str(article.get(key) or "") for key in ("t", "a"))
        document_id, text, date = f"PMID:{pmid}", abstract or title, date_number(str(article.get("d") or ""))
        document = Document(
            document_id=document_id,
            title=title,
            source="PubMed",
            url=f"https://pubmed.ncbi.nlm.nih.gov/{pmid}/",
            date=date,
            provenance=chunk.articles.name,
        )
        number = passage_id(self.namespace, document_id, 0, text)
        return document, Passage(
            passage_id=number, document_id=document_id, title=title, text=text, end=len(text), date=date
        )

    def _chunk(self, number: int, embeds: Path) -> MedcptChunk:
        pmids, articles = (self.folder / f"{kind}_chunk_{number}.json" for kind in ("pmids", "pubmed"))
        for path in (pmids, articles):
            if not path.is_file():
                raise IndexFault(f"{path} is missing", INDEX_INPUT_INVALID, param="folder")
        try:
            vectors = np.load(embeds, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError, OSError) as fault:
            raise IndexFault(f"{embeds} is cut or no array: {fault}", INDEX_INPUT_INVALID, param="folder") from fault
        if vectors.dtype != np.dtype("<f4") or vectors.ndim != 2 or vectors.shape[1] != self.dim:
            raise IndexFault(
                f"{embeds} is {vectors.dtype} {vectors.shape}, not float32 [n, {self.dim}]",
                INDEX_INPUT_INVALID,
                param="folder",
            )
        return MedcptChunk(number, embeds, pmids, articles, len(vectors))

    def _done(self) -> dict[str, list[int]]:
        if not self.state.exists():
            return {}
        try:
            done: dict[str, list[int]] = parse_json(self.state.read_bytes())["done"]
            return done
        except (ValueError, KeyError, TypeError) as fault:
            raise IndexDamaged(f"{self.state} does not say which chunks are done: {fault}") from fault


def _pmids(chunk: MedcptChunk) -> Ids:
    """Return the PMID of each row.

    Raises:
        IndexFault: they cannot be this chunk's.
    """
    try:
        found = np.array([int(pmid) for pmid in parse_json(chunk.pmids.read_bytes())], np.int64)
    except (ValueError, TypeError) as fault:
        raise IndexFault(f"{chunk.pmids} is no list of PMIDs: {fault}", INDEX_INPUT_INVALID, param="folder") from fault
    if len(found) != chunk.rows:
        raise IndexFault(
            f"{chunk.pmids} has {len(found)} PMIDs for {chunk.rows} rows", INDEX_INPUT_INVALID, param="folder"
        )
    low = chunk.number * PMIDS_PER_CHUNK
    outside = int(np.count_nonzero((found < max(1, low)) | (found >= low + PMIDS_PER_CHUNK)))
    if outside:
        raise IndexFault(
            f"{chunk.pmids} holds {outside} PMIDs that are not in chunk {chunk.number}: is it another chunk's file?",
            INDEX_INPUT_INVALID,
            param="folder",
        )
    if len(np.unique(found)) != len(found):
        raise IndexFault(f"{chunk.pmids} holds a PMID twice", INDEX_INPUT_INVALID, param="folder")
    return found


def _articles(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (PMID, article) in the order of the file.

    Raises:
        IndexFault: the file is truncated, or is not one JSON object.
    """
    try:
        source = Source(path)
        for _, name, article in JsonStream(source, source.chunks()).members():
            yield name, article
    except ImportFileError as fault:
        raise IndexFault(fault.message, INDEX_INPUT_INVALID, param="folder") from fault


def _row(pmids: Ids, order: NDArray[np.int64], name: str) -> int | None:
    if not name.isdecimal() or len(name) > 18:
        return None
    position = int(np.searchsorted(pmids, int(name), sorter=order))
    return int(order[position]) if position < len(order) and pmids[order[position]] == int(name) else None


def estimate_medcpt(folder: Path) -> Estimate:
    """Estimate memory and disk for the vectors of all chunks in the folder.

    Raises:
        IndexFault: the files are not MedCPT embeddings.
    """
    return MedcptImport(folder=folder, state=folder / _STATE, namespace="").estimate()


def add_medcpt(
    namespaces: Namespaces, name: str, folder: Path, watch: Callable[[int], None] = lambda _: None
) -> ImportReport:
    """Import the folder chunk by chunk; a killed import continues with the chunk it was in.

    ``watch`` receives the number of articles so far. The other indices of the namespace are updated afterwards
    (``adding.catch_up``).

    Raises:
        NamespaceInvalid: the namespace's encoder is not MedCPT.
        IndexFault: the disk has too little space; files are truncated or do not belong together; the chunks before them
            are stored.
    """
    with namespaces.writing(name) as (namespace, writer):
        encoder = namespace.encoder
        if encoder.fingerprint.encoder_id != ENCODER:
            raise NamespaceInvalid(f"the encoder of {name} is {encoder.name}, not {ENCODER}", param="encoder")
        intake = _ImportTarget(namespace, writer, watch)
        state = namespace.folder / _STATE
        return MedcptImport(folder=folder, state=state, namespace=name, dim=encoder.dim).run(intake, intake.store)


class _ImportTarget:
    """Store texts, then their vectors, then the journal.

    After a crash the journal therefore lists the passages that lack vectors.
    """

    def __init__(self, namespace: Namespace, writer: PassageWriter, watch: Callable[[int], None]) -> None:
        self._namespace = namespace
        self._writer = writer
        self._watch = watch
        self._articles = 0
        self._struck: list[JournalEntry] = []

    def store(self, batch: ImportBatch) -> None:
        with self._writer.transaction():
            for document, passage in zip(batch.documents, batch.passages, strict=True):
                span = Span(0, len(passage.text))
                self._writer.put(ParsedDocument(document, passage.text, (span,), whole=True))
        self._articles += len(batch.passages)
        self._watch(self._articles)

    def add(self, rows: Rows) -> None:
        """Add the vectors of stored passages.

        A passage whose text duplicates that of another one is not stored.
        """
        there = {passage.passage_id for passage, _ in self._namespace.store.get([int(number) for number in rows.ids])}
        mask = np.array([int(number) in there for number in rows.ids], np.bool_)
        self._namespace.vectors.add(_selected(rows, mask))
        self._struck += [JournalEntry(int(number), gone=False, place=int(number)) for number in rows.ids[mask]]

    def commit(self) -> int:
        self._namespace.note_encoder(self._writer)
        generation = self._namespace.vectors.commit()
        with self._writer.transaction():
            self._writer.indexed("vectors", self._struck)
        self._struck = []
        return generation


def _selected(rows: Rows, mask: np.ndarray[Any, np.dtype[np.bool_]]) -> Rows:
    """Return the selected rows without namespace numbers.

    Each namespace has an index of its own, which needs no numbers.
    """
    ids = rows.ids[mask]
    dates = np.zeros(len(ids), np.int32) if rows.dates is None else rows.dates[mask]
    types = np.zeros(len(ids), np.int64) if rows.types is None else rows.types[mask]
    return replace(rows, ids=ids, vectors=rows.vectors[mask], dates=dates, types=types, namespaces=None)

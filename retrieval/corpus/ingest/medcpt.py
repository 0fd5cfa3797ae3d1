"""Import NCBI's published MedCPT embeddings of PubMed, with their texts; nothing is encoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.corpus.errors import NamespaceInvalid
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.namespace import Namespace
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.store.base import PassageWriter
from retrieval.index.base import Rows
from retrieval.index.medcpt_import import ImportBatch, ImportReport, MedcptImport
from retrieval.index.memory_estimate import Estimate

ENCODER = "medcpt"
_STATE = "medcpt.json"


def estimate_medcpt(folder: Path) -> Estimate:
    """Estimate memory and disk for the vectors of all chunks in the folder.

    Raises:
        IndexInputInvalid: the files are not MedCPT embeddings.
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
        IndexTooLarge: the disk has too little space.
        IndexInputInvalid: files are truncated or do not belong together; the chunks before them are stored.
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
        self._struck: list[tuple[int, bool]] = []

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
        self._struck += [(int(number), False) for number in rows.ids[mask]]

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

"""Takes NCBI's published MedCPT embeddings of PubMed into a namespace: nothing is encoded, texts come with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from retrieval.corpus.errors import NamespaceInvalid
from retrieval.corpus.items import Reading, Span
from retrieval.corpus.namespace import Namespace
from retrieval.corpus.namespaces import Namespaces
from retrieval.corpus.store_write import StoreWriter
from retrieval.index.base import Rows
from retrieval.index.ledger import Estimate
from retrieval.index.medcpt_import import ImportBatch, ImportReport, MedcptImport

ENCODER = "medcpt"
_STATE = "medcpt.json"


def estimate_medcpt(folder: Path) -> Estimate:
    """What the vectors of all chunks in the folder will take. IndexInputInvalid where they are none."""
    return MedcptImport(folder=folder, state=folder / _STATE, namespace="").estimate()


def add_medcpt(
    namespaces: Namespaces, name: str, folder: Path, watch: Callable[[int], None] = lambda _: None
) -> ImportReport:
    """Chunk by chunk; killed, it goes on at the chunk it was in. ``watch`` hears how many articles there are so far.

    The other indices of the namespace catch up afterwards (``adding.catch_up``).

    Raises:
        NamespaceInvalid: the namespace's encoder is not MedCPT. IndexTooLarge: the disk has not the room.
        IndexInputInvalid: files that are cut or do not belong together; the chunks before them are there.
    """
    with namespaces.writing(name) as (namespace, writer):
        encoder = namespace.encoder
        if encoder.fingerprint.encoder_id != ENCODER:
            raise NamespaceInvalid(f"the encoder of {name} is {encoder.name}, not {ENCODER}", param="encoder")
        intake = _Intake(namespace, writer, watch)
        state = namespace.folder / _STATE
        return MedcptImport(folder=folder, state=state, namespace=name, dim=encoder.dim).run(intake, intake.store)


class _Intake:
    """First the texts, then their vectors, then the journal: after a crash the journal has what lacks vectors."""

    def __init__(self, namespace: Namespace, writer: StoreWriter, watch: Callable[[int], None]) -> None:
        self._namespace = namespace
        self._writer = writer
        self._watch = watch
        self._articles = 0
        self._struck: list[tuple[int, bool]] = []

    def store(self, batch: ImportBatch) -> None:
        with self._writer.transaction():
            for document, passage in zip(batch.documents, batch.passages, strict=True):
                span = Span(0, len(passage.text))
                self._writer.put(Reading(document, passage.text, (span,), whole=True))
        self._articles += len(batch.passages)
        self._watch(self._articles)

    def add(self, rows: Rows) -> None:
        """Of the passages that are there: one whose text another one has is not."""
        there = {passage.passage_id for passage, _ in self._namespace.store.get([int(number) for number in rows.ids])}
        keep = np.array([int(number) in there for number in rows.ids], np.bool_)
        self._namespace.vectors.add(_kept(rows, keep))
        self._struck += [(int(number), False) for number in rows.ids[keep]]

    def commit(self) -> int:
        self._namespace.note_encoder(self._writer)
        generation = self._namespace.vectors.commit()
        with self._writer.transaction():
            self._writer.indexed("vectors", self._struck)
        self._struck = []
        return generation


def _kept(rows: Rows, keep: np.ndarray[Any, np.dtype[np.bool_]]) -> Rows:
    """Namespaces have an index each, so their numbers are of no use here."""
    ids = rows.ids[keep]
    dates = np.zeros(len(ids), np.int32) if rows.dates is None else rows.dates[keep]
    types = np.zeros(len(ids), np.int64) if rows.types is None else rows.types[keep]
    return replace(rows, ids=ids, vectors=rows.vectors[keep], dates=dates, types=types, namespaces=None)

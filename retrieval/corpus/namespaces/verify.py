"""Verify a namespace, its store in itself and each index against the store; read-only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from retrieval.corpus.namespaces.namespace import Namespace
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.store.base import Target
from retrieval.corpus.store.schema import digest_of, document_text
from retrieval.index.base import NO_ID, RowFilter
from retrieval.passages import passage_id

_BATCH: Final = 1000
_MAX_FOUND: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Report the result of a verification.

    ``faults``: defects, at most a hundred sentences, none of them explained by ``pending``. ``pending``: entries of the
    journal, which the next change processes. ``sha256`` is over all documents, sorted by their ids, with their texts:
    equal for equal content, whatever the order in which it was added.
    """

    documents: int
    passages: int
    rows: dict[str, int]
    pending: dict[str, int]
    sha256: str
    faults: tuple[str, ...]

    @property
    def whole(self) -> bool:
        return not self.faults


def verify(namespaces: Namespaces, name: str) -> Report:
    """Verify a namespace by reading all of it, under the lock that excludes changes.

    Raises:
        NamespaceBusy, NamespaceUnknown, NamespaceDamaged: the store cannot be read at all.
        IndexFault: an index cannot be opened.
    """
    with namespaces.writer_lock(name), namespaces.using(name) as namespace:
        faults = list(islice(_faults(namespace), _MAX_FOUND))
        counts = namespace.store.counts()
        return Report(
            documents=counts.documents,
            passages=counts.passages,
            rows={target: namespace.rows(target) for target in namespace.settings.targets},
            pending={target: counts.pending[target] for target in namespace.settings.targets},
            sha256=_sha256(namespace),
            faults=tuple(faults),
        )


def _faults(namespace: Namespace) -> Iterator[str]:
    yield from namespace.store.faults()
    yield from _texts(namespace)
    for target in namespace.settings.targets:
        yield from _counted(namespace, target)
    if "vectors" in namespace.settings.targets and namespace.has("vectors"):
        yield from _missing_vectors(namespace)


def _texts(namespace: Namespace) -> Iterator[str]:
    cutting = repr(namespace.settings.chunking)
    for reading, digest in namespace.store.parsed_documents():
        if digest_of(reading, cutting) != digest:
            yield f"{reading.document.document_id}: its text or metadata is not what was written"
    for passage in namespace.store.passages():
        number = passage_id(namespace.name, passage.document_id, passage.start, passage.text)
        if number != passage.passage_id:
            yield f"{passage.document_id}: passage {passage.passage_id} is not the text at its place"


def _counted(namespace: Namespace, target: Target) -> Iterator[str]:
    """Yield a fault where the number of rows is outside the bounds that the journal leaves open."""
    counts, rows = namespace.store.counts(), namespace.rows(target)
    fewest = counts.passages - (counts.pending[target] - counts.gone[target])
    most = counts.passages + counts.gone[target]
    if not fewest <= rows <= most:
        expected = str(fewest) if fewest == most else f"{fewest} to {most}"
        yield f"{target}: {rows} rows, {expected} expected"


def _missing_vectors(namespace: Namespace) -> Iterator[str]:
    """Yield a fault for each batch of passages of which some have no vector.

    A search filtered by ids returns every row that exists, whatever the query vector.
    """
    waiting = {number for number, is_deleted in _journal(namespace, "vectors") if not is_deleted}
    numbers = (passage.passage_id for passage in namespace.store.passages())
    indexed = (number for number in numbers if number not in waiting)
    query = np.zeros((1, namespace.vectors.dim), dtype=np.float32)
    query[0, 0] = 1.0
    while batch := list(islice(indexed, _BATCH)):
        ids = np.sort(np.array(batch, dtype=np.int64))
        found = namespace.vectors.search(query, len(batch), RowFilter(ids=ids)).ids
        missing = sorted(set(batch) - {int(number) for number in found[0] if number != NO_ID})
        if missing:
            yield f"vectors: {len(missing)} passages are missing, {missing[0]} among them"


def _journal(namespace: Namespace, target: Target) -> Iterator[tuple[int, bool]]:
    after = 0
    while entries := namespace.store.pending(target, _BATCH, after):
        yield from entries
        after = entries[-1][0]


def _sha256(namespace: Namespace) -> str:
    digest = hashlib.sha256()
    for document_id in namespace.store.document_ids():
        found = namespace.store.document(document_id)
        if found is not None:
            digest.update(document_text(found[0]).encode())
            digest.update(b"\0")
            digest.update(found[1].encode())
            digest.update(b"\0")
    return digest.hexdigest()

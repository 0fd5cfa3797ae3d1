"""Verify a namespace, its store in itself and each index against the store; read-only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from models.encoders.base import TokenEncoder, lacks_tokens
from retrieval.corpus.namespaces.dense import is_dense
from retrieval.corpus.namespaces.namespace import TOKENS, Namespace
from retrieval.corpus.namespaces.originals import FOLDER, Originals
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import VECTORS
from retrieval.corpus.store.base import JournalEntry, Target
from retrieval.corpus.store.schema import digest_of, document_text
from retrieval.errors import IndexDamaged
from retrieval.index.base import NO_ID, RowFilter
from retrieval.passages import passage_id

_BATCH: Final = 1000
_MAX_FOUND: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Report the result of a verification.

    ``faults``: defects, at most a hundred sentences, none of them explained by ``pending``. ``pending``: entries of the
    journal, which the next change processes. ``sha256`` is over all documents, sorted by their ids, with their texts:
    equal for equal content, whatever the order in which it was added. ``recalls``: recall at 10 of the vectors of each
    encoder, by its id, as it was measured when they were indexed. A damaged index has 0 ``rows``.
    """

    documents: int
    passages: int
    rows: dict[str, int]
    pending: dict[str, int]
    sha256: str
    recalls: Mapping[str, float | None]
    faults: tuple[str, ...]

    @property
    def whole(self) -> bool:
        return not self.faults


def verify(namespaces: Namespaces, name: str) -> Report:
    """Verify a namespace by reading all of it, under the lock that excludes changes.

    Raises:
        NamespaceBusy, NamespaceUnknown, NamespaceDamaged: the store cannot be read at all.
        IndexFault: an index cannot be opened, though its files are what was written.
    """
    with namespaces.writer_lock(name), namespaces.using(name) as namespace:
        check = _Verification(namespace)
        faults = list(islice(check.faults(), _MAX_FOUND))
        counts = namespace.store.counts()
        return Report(
            documents=counts.documents,
            passages=counts.passages,
            rows=check.rows,
            pending={target: counts.pending[target] for target in namespace.settings.targets},
            sha256=_sha256(namespace),
            recalls=namespace.recalls(),
            faults=tuple(faults),
        )


class _Verification:
    """Look for the faults of a namespace, and count the rows of its indices on the way."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self.rows: dict[str, int] = dict.fromkeys(namespace.settings.targets, 0)

    def faults(self) -> Iterator[str]:
        namespace = self._namespace
        yield from namespace.store.faults()
        yield from _texts(namespace)
        yield from (f"{FOLDER}: {fault}" for fault in Originals(namespace.folder).faults())
        for target in namespace.settings.targets:
            try:
                yield from self._of_index(target)
            except IndexDamaged as error:
                yield f"{target}: {error.message}"
        try:
            namespace.check_files(TOKENS)
            if VECTORS in namespace.settings.targets and namespace.has(VECTORS):
                yield from _missing_tokens(namespace)
        except IndexDamaged as error:
            yield f"{TOKENS}: {error.message}"

    def _of_index(self, target: Target) -> Iterator[str]:
        """Yield the faults of an index: of its files first, since opening damaged ones can end the process."""
        namespace = self._namespace
        namespace.check_files(target)
        self.rows[target] = namespace.rows(target)
        yield from _counted(namespace, target, self.rows[target])
        if is_dense(target) and namespace.has(target):
            yield from _missing_vectors(namespace, target)


def _texts(namespace: Namespace) -> Iterator[str]:
    cutting = repr(namespace.settings.chunking)
    for reading, digest in namespace.store.parsed_documents():
        if digest_of(reading, cutting) != digest:
            yield f"{reading.document.document_id}: its text or metadata is not what was written"
    for passage in namespace.store.passages():
        number = passage_id(namespace.name, passage.document_id, passage.start, passage.text)
        if number != passage.passage_id:
            yield f"{passage.document_id}: passage {passage.passage_id} is not the text at its place"


def _counted(namespace: Namespace, target: Target, rows: int) -> Iterator[str]:
    """Yield a fault where the number of rows is outside the bounds that the journal leaves open."""
    counts = namespace.store.counts()
    fewest = counts.passages - (counts.pending[target] - counts.gone[target])
    most = counts.passages + counts.gone[target]
    if not fewest <= rows <= most:
        expected = str(fewest) if fewest == most else f"{fewest} to {most}"
        yield f"{target}: {rows} rows, {expected} expected"


def _missing_vectors(namespace: Namespace, target: Target) -> Iterator[str]:
    """Yield a fault for each batch of passages of which some have no vector.

    A search filtered by ids returns every row that exists, whatever the query vector.
    """
    waiting = {number for number, is_deleted, _ in _journal(namespace, target) if not is_deleted}
    numbers = (passage.passage_id for passage in namespace.store.passages())
    indexed = (number for number in numbers if number not in waiting)
    vectors = namespace.dense(target).vectors
    query = np.zeros((1, vectors.dim), dtype=np.float32)
    query[0, 0] = 1.0
    while batch := list(islice(indexed, _BATCH)):
        ids = np.sort(np.array(batch, dtype=np.int64))
        found = vectors.search(query, len(batch), RowFilter(ids=ids)).ids
        missing = sorted(set(batch) - {int(number) for number in found[0] if number != NO_ID})
        if missing:
            yield f"{target}: {len(missing)} passages are missing, {missing[0]} among them"


def _missing_tokens(namespace: Namespace) -> Iterator[str]:
    """Yield a fault for each batch of passages of which some have no token vectors.

    Raises:
        IndexDamaged: some cannot be read.
    """
    encoder = namespace.encoder
    if not namespace.settings.tokens or not (isinstance(encoder, TokenEncoder) or lacks_tokens(encoder)):
        return
    if namespace.encoder.fingerprint.pooling != "mean":
        return
    if namespace.tokens is None:
        yield "tokens: there are no token vectors; build the vectors again: arrowhead index rebuild"
        return
    waiting = {entry.passage_id for entry in _journal(namespace, "vectors")}
    numbers = (passage.passage_id for passage in namespace.store.passages() if passage.passage_id not in waiting)
    while batch := list(islice(numbers, _BATCH)):
        if missing := namespace.tokens.missing(batch):
            yield f"tokens: {len(missing)} passages have no token vectors, {min(missing)} among them"


def _journal(namespace: Namespace, target: Target) -> Iterator[JournalEntry]:
    after = 0
    while entries := namespace.store.pending(target, _BATCH, after):
        yield from entries
        after = entries[-1].place


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

"""Define the stores of namespaces: their documents, passages and journals, how they are filtered, read and written.

The contract is in ``tests/contract/test_passage_store_contract.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from retrieval.corpus.items import ParsedDocument, SkippedRecord, Span
from retrieval.errors import NamespaceInvalid
from retrieval.index.base import Ids, RowFilter
from retrieval.passages import PUBLICATION_TYPES, Document, Passage, is_namespace_name, type_bits

if TYPE_CHECKING:
    from retrieval.corpus.chunking import Chunker

# An index of a namespace: one of ``TARGETS``, or "vectors:ENCODER" for the vectors of a further encoder.
Target = str
FILE_ID: Final = "sha256:"  # begins the ids of files, with the digest of their content behind it
TARGETS: Final[tuple[Target, ...]] = ("vectors", "words")
Change = Literal["added", "changed", "noted", "unchanged"]


def log_name(name: str) -> str:
    """Return what stands for a namespace in logs, since its name is what a client wrote: 8 digits of its SHA-256."""
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def checked_name(name: str) -> str:
    """Return the name, which is also the name of a folder.

    Raises:
        NamespaceInvalid: not a valid name.
    """
    if not is_namespace_name(name):
        raise NamespaceInvalid(
            f"{name[:70]!r} is no name: 1 to 63 small letters, digits, _ and -, the first a letter or digit",
            param="name",
        )
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageFilter:
    """Restrict which passages may be found; every condition must be met.

    Dates are yyyymmdd, inclusive, 0 for none: a passage without date fails where one is set. ``types``: the document
    has one of these (any, where empty); ``without_types``: it has none of them. ``documents``: ids, any where None.

    Raises:
        NamespaceInvalid: invalid dates, or dates in the wrong order.
    """

    date_from: int = 0
    date_to: int = 0
    types: tuple[str, ...] = ()
    without_types: tuple[str, ...] = ()
    documents: frozenset[str] | None = None

    def __post_init__(self) -> None:
        for name, value in (("date_from", self.date_from), ("date_to", self.date_to)):
            if value and not 10_000_000 <= value <= 99_991_231:
                raise NamespaceInvalid(f"{name} must be a date as yyyymmdd", param=name)
        if self.date_to and self.date_from > self.date_to:
            raise NamespaceInvalid("date_from lies after date_to", param="date_from")
        object.__setattr__(self, "types", _small(self.types))
        object.__setattr__(self, "without_types", _small(self.without_types))

    @property
    def is_open(self) -> bool:
        return self == MATCH_ALL

    def admits(self, document: Document) -> bool:
        """Return whether a document passes, by its own fields; every index must agree with this result."""
        dated = bool(self.date_from or self.date_to)
        return (
            (not dated or (document.date > 0 and self.date_from <= document.date <= (self.date_to or 99_999_999)))
            and (not self.types or not frozenset(self.types).isdisjoint(document.types))
            and frozenset(self.without_types).isdisjoint(document.types)
            and (self.documents is None or document.document_id in self.documents)
        )


def _small(types: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip().lower() for name in types if name.strip()))


MATCH_ALL = PassageFilter()


def row_filter_of(where: PassageFilter, ids_of: Callable[[PassageFilter], Ids]) -> RowFilter | None:
    """Return the filter for the indices, None where every passage may be found.

    ``ids_of`` returns the passages whose documents pass by id and type, ascending; it is asked where bits cannot tell.
    """
    if where.is_open:
        return None
    bitless = [name for name in (*where.types, *where.without_types) if name not in PUBLICATION_TYPES]
    ids = ids_of(where) if bitless or where.documents is not None else None
    return RowFilter(
        date_from=where.date_from,
        date_to=where.date_to,
        types=0 if bitless else type_bits(where.types),
        without_types=type_bits(where.without_types),
        ids=ids,
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """Count the rows of a store.

    ``twins``: duplicate passages that are stored for their provenance only. ``pending``, ``gone``: entries of the
    journal for each index, all of them and those of deleted passages; an index without entries has 0.
    """

    documents: int
    passages: int
    twins: int
    pending: dict[str, int]
    gone: dict[str, int]


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """Describe a document of a store.

    ``place`` grows with each document that is stored. ``passages`` includes duplicates of other documents' passages;
    ``pages`` is the highest page with a passage, 0 for none; ``waiting``: its passages that each index lacks.
    """

    place: int
    document: Document
    passages: int
    pages: int
    waiting: dict[str, int]

    @property
    def name(self) -> str:
        """Return the name of its file, "" where it did not come as a file of its own."""
        document = self.document
        return document.provenance.rpartition("/")[2] if document.document_id.startswith(FILE_ID) else ""


class JournalEntry(NamedTuple):
    """Name a passage that an index lacks or must still delete, and its place in the journal of that index."""

    passage_id: int
    gone: bool
    place: int


class PassageStore(Protocol):
    """Read the store of one namespace; the indices are derived from it and can be rebuilt.

    Thread-safe. Methods block, so they are called on search and job threads, never on an event loop; each call is
    short, and iterators hold one batch in memory. A reader sees whole transactions of a writer, in this process or
    another.

    Every method raises NamespaceDamaged where the store cannot be read, and DatabaseUnavailable where it is in a
    database that does not answer.
    """

    def close(self) -> None: ...

    def is_replaced(self) -> bool:
        """Return whether the store was deleted since it was opened, or another one has its name now."""

    def meta(self, key: str) -> str:
        """Return a value that the writer set, "" for none."""

    def generation(self) -> int:
        """Return the generation, which grows with every change.

        Results of an earlier generation may be out of date.
        """

    def counts(self) -> Counts:
        """Return the counts of the current generation."""

    def get(self, ids: Sequence[int]) -> list[tuple[Passage, Document]]:
        """Return passages with their documents in the order given; unknown ids are left out."""

    def passages(self, where: PassageFilter | None = None) -> Iterator[Passage]:
        """Yield all passages that the filter admits, document by document.

        The store may change meanwhile.
        """

    def parsed_documents(self) -> Iterator[tuple[ParsedDocument, bytes]]:
        """Yield documents with their texts as they were read, and their digests."""

    def spans(self, document_id: str) -> list[Span]:
        """Return the spans of all passages of a document, including duplicates of other documents' passages."""

    def document(self, document_id: str) -> tuple[Document, str] | None:
        """Return a document with its text, or None for an unknown id."""

    def documents(self, words: Sequence[str], limit: int, before: int = 0) -> list[StoredDocument]:
        """Return documents, newest first, whose id, file name or title has each of ``words``, in any ASCII case.

        ``before`` is the place of the last one of the page before, 0 for the first page.
        """

    def count_documents(self, words: Sequence[str]) -> int:
        """Return how many documents ``documents`` finds in all."""

    def stored_document(self, document_id: str) -> StoredDocument | None:
        """Return the description of one document, or None for an unknown id."""

    def document_passages(self, document_id: str, limit: int, offset: int = 0) -> list[Passage]:
        """Return passages of a document in its order, including duplicates of other documents' passages."""

    def files_named(self, name: str) -> list[str]:
        """Return the ids of the documents that came as a file of this name."""

    def from_file(self, file: str) -> list[str]:
        """Return the ids of the documents whose provenance is a file, or one within an archive of this name."""

    def passage_ids(self) -> Ids:
        """Return the ids of all passages, by document and their order in it."""

    def documents_of(self, papers: Sequence[str]) -> list[str]:
        """Return the ids of all documents of papers: those with these ids, and those whose ``record`` is one."""

    def document_ids(self, prefix: str = "") -> Iterator[str]:
        """Yield the ids with this prefix in the order of their code points."""

    def known(self, document_ids: Sequence[str]) -> set[str]:
        """Return the subset of the ids that the store has."""

    def also_in(self, passage_id: int) -> list[Document]:
        """Return other documents with the same words, which were not indexed again."""

    def pending(self, target: Target, limit: int, after: int = 0) -> list[JournalEntry]:
        """Return the first entries of an index's journal whose place is above ``after``, in the order of places."""

    def waiting(self, target: Target, limit: int) -> int:
        """Return the number of journal entries for an index, counted up to ``limit``."""

    def is_finished(self, source: tuple[str, str]) -> bool:
        """Return whether a file (digest, reader) was read to its end."""

    def passed(self, limit: int = 1000) -> list[SkippedRecord]:
        """Return skipped records, ordered by file and line."""

    def row_filter(self, where: PassageFilter) -> RowFilter | None:
        """Return the filter for the indices, or None where every passage may be found.

        Documents, and types without a bit, are resolved here to the list of their passages.
        """

    def faults(self) -> Iterator[str]:
        """Yield a sentence for each contradiction in the store itself, by reading all of it."""

    def writer(self, chunker: Chunker, targets: Sequence[Target] = TARGETS) -> PassageWriter:
        """Open the store for writing; requires the namespace's lock, and the caller closes the writer.

        ``targets``: the existing indices, for which the journal is written.

        Raises:
            NamespaceDamaged: the store cannot be opened for writing.
        """


class PassageWriter(Protocol):
    """Write to the store of one namespace.

    A Protocol apart from ``PassageStore``, as its rules are others: one writer exists at a time, under the namespace's
    lock, and one thread at a time uses it. All changes are made inside ``transaction``.
    """

    def close(self) -> None: ...

    def transaction(self) -> AbstractContextManager[None]:
        """Run the block as one transaction, which is visible and durable when the block ends.

        An error in the block leaves the store unchanged. The generation grows by one.

        Raises:
            NamespaceDamaged: the store cannot be written (also: a full disk); it is unchanged.
        """

    def set_meta(self, key: str, value: str) -> None: ...

    def put(self, reading: ParsedDocument, cuts: Sequence[Span] | None = None) -> Change:
        """Store a document in place of the one with its id, or of the earlier version of its file.

        One of which the store has a later version leaves that unchanged.
        "noted": only metadata outside the indices changed (retracted, corrected, licence), so no index changes.
        ``cuts`` are the passages where they are known; otherwise the document is cut here.
        """

    def remove(self, document_id: str) -> bool:
        """Remove a document and return whether it was stored."""

    def indexed(self, target: Target, entries: Sequence[JournalEntry]) -> None:
        """Remove entries from the journal, and mark the open indices of other processes as stale.

        Of an index that each server derives for itself (``PassageStores.own_targets``) they are the journal's first.
        """

    def mark_all_pending(self, target: Target) -> None:
        """Enter every passage into the journal, to be indexed again."""

    def forget_target(self, target: Target) -> None:
        """Remove all entries of an index that the namespace no longer has from the journal."""

    def record_skipped(self, passed: SkippedRecord) -> None:
        """Store a skipped record for the report, up to a maximum number of them."""

    def forget_skipped(self, file: str) -> None:
        """Remove the skipped records of a file, and of those in the archive of this name; "" removes all."""

    def forget_sources(self) -> None:
        """Allow unchanged files to be added again.

        Needed after documents of theirs were removed.
        """

    def finish_source(self, source: tuple[str, str, str], day: str, counts: dict[str, int]) -> None:
        """Record a file (digest, name, reader) as read to its end."""


class PassageStores(Protocol):
    """Create, open and delete the stores of namespaces, and lock their names.

    Thread-safe and safe between processes. Methods block, so they are called on threads. All names are valid ones.
    ``own_targets``: the indices that each server derives for itself from rows that all servers share; their journals
    are this server's. Empty where the stores are one server's.
    """

    @property
    def own_targets(self) -> frozenset[Target]: ...

    def own_lock(self, name: str) -> AbstractContextManager[None]:
        """Hold the lock of this server's own indices of a name, which ``lock`` holds too.

        Raises:
            NamespaceBusy: another thread, or another process of this server, holds it.
            NamespaceDamaged: nothing can be written.
        """

    def identity(self, name: str) -> Hashable | None:
        """Return a value that differs between stores that had this name; quick. None where there is no such store."""

    def names(self) -> list[str]:
        """Return the names in alphabetical order."""

    def exists(self, name: str) -> bool: ...

    def lock(self, name: str) -> AbstractContextManager[None]:
        """Hold the lock of a name, whether or not there is such a store; the end of the process releases it.

        It excludes every other thread and process, and is not reentrant.

        Raises:
            NamespaceBusy: another thread or process holds it.
            NamespaceDamaged: nothing can be written.
        """

    def creating(
        self, name: str, meta: Mapping[str, str], chunker: Chunker, targets: Sequence[Target]
    ) -> AbstractContextManager[PassageWriter]:
        """Create a store and yield its writer, under the lock of its name.

        The store exists when the block has ended; an error, or a kill at any moment, leaves none.

        Raises:
            NamespaceBusy, CorpusError (it exists)
            NamespaceDamaged: the store cannot be written.
        """

    def open(self, name: str) -> PassageStore:
        """Open a store.

        Raises:
            NamespaceUnknown: there is no such store.
            NamespaceDamaged: it is missing a part, is not a store, or is of another schema.
        """

    def sweep(self) -> list[str]:
        """Remove what killed processes left of stores that they created or deleted; return the names of those."""

    def delete(self, name: str) -> None:
        """Delete a store at once, under the lock of its name, which the caller holds.

        Open readers may continue or raise NamespaceDamaged.

        Raises:
            NamespaceUnknown: there is no such store.
        """

"""Add, update and remove documents of a namespace, and bring its indices up to date.

Documents are written in transactions of a few hundred, with a journal of what the indices lack; the journal is
processed in batches. A kill at any moment leaves whole documents, and the next change continues with the journal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from retrieval.corpus.items import NO_OPTIONS, Item, ReadOptions, SkippedRecord, Withdrawn, sha256_of
from retrieval.corpus.namespaces.namespace import COMMIT, Namespace
from retrieval.corpus.namespaces.originals import Originals
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.readers.archive import unpacked
from retrieval.corpus.readers.isolated import reading
from retrieval.corpus.readers.office.package import ARCHIVE
from retrieval.corpus.readers.registry import READING_VERSION, reader
from retrieval.corpus.store.base import PassageStore, PassageWriter
from retrieval.errors import DOCUMENT_UNKNOWN, CorpusError, DocumentUnreadable, NamespaceInvalid

_PDF: Final = "pdf"
_RECOGNIZED: Final = "pdf-ocr"  # the kind of a PDF's source where its pictures of pages were read too
_DOCUMENTS: Final = 256
_CHARS: Final = 4 * 2**20  # a few full texts may be as large as hundreds of abstracts
_MAX_SHOWN: Final = 20
_MAX_WAITING: Final = 100_000  # counting more after every batch would cost too much


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Report the progress of a change.

    ``read``: documents so far. ``indexed``: passages so far, counted for each index. ``waiting``: entries in the
    journal (at most 100,000 of each index are counted). Rates are over the whole time. ``expected`` records are to
    come in all, ``arrived`` of them have; 0 where nobody can tell.
    """

    read: int
    indexed: int
    waiting: int
    passed: int
    seconds: float
    expected: int = 0
    arrived: int = 0

    @property
    def remaining_s(self) -> float | None:
        """Return the seconds until all expected records are here at the rate so far, None where nobody can tell."""
        if not self.arrived or not self.expected:
            return None
        return self.seconds * max(0, self.expected - self.arrived) / self.arrived

    @property
    def documents_per_s(self) -> float:
        return self.read / self.seconds if self.seconds else 0.0

    @property
    def passages_per_s(self) -> float:
        return self.indexed / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReport:
    """Report the result of a change.

    ``noted``: documents of which only metadata outside the indices changed. ``indexed``: passages, counted for each
    index. ``already``: this very file was added before. ``cancelled``: the rest must be added again; what is stored is
    whole.
    """

    added: int = 0
    changed: int = 0
    noted: int = 0
    unchanged: int = 0
    withdrawn: int = 0
    passed: int = 0
    indexed: int = 0
    first_passed: tuple[SkippedRecord, ...] = ()
    cancelled: bool = False
    already: bool = False


@dataclass(frozen=True, slots=True)
class ChangeHooks:
    """Observe and cancel a change; the callbacks run after every transaction and batch.

    ``goal`` returns how many records are expected, and how many have arrived. ``stored`` is called with the id of each
    document that is now stored, changed or not.
    """

    progress: Callable[[Progress], None] = lambda _: None
    cancelled: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic
    goal: Callable[[], tuple[int, int]] = lambda: (0, 0)
    stored: Callable[[str], None] = lambda _: None


NO_HOOKS: Final = ChangeHooks()
FileOutcome = Literal["added", "unchanged", "partial", "refused", "cancelled"]


@dataclass(frozen=True, slots=True)
class FileResult:
    """Report the result of one file: what was added, and why the rest was refused, if it was.

    ``refused`` is about the file alone: others can still be added. Added again, a refused file costs only what it had
    not given before.
    """

    file: str
    report: ChangeReport
    refused: CorpusError | None = None

    @property
    def outcome(self) -> FileOutcome:
        done = self.report
        kept = done.added + done.changed + done.noted + done.unchanged + done.withdrawn
        if self.refused is not None:
            return "partial" if kept else "refused"
        return "cancelled" if done.cancelled else "unchanged" if done.already else "added"


def add_file(
    namespaces: Namespaces, name: str, path: Path, options: ReadOptions = NO_OPTIONS, watch: ChangeHooks = NO_HOOKS
) -> ChangeReport:
    """Add the new and changed documents of a file.

    Unchanged documents cost no encoding; a file that was added before and has not changed costs only its digest.

    Raises:
        DocumentUnreadable: what was read before that point is kept and indexed.
        CorpusError: another of its kinds.
        IndexFault: an index failed; the journal keeps what it lacks.
    """
    result = try_file(namespaces, name, path, options, watch)
    if result.refused is not None:
        raise result.refused
    return result.report


def try_file(
    namespaces: Namespaces, name: str, path: Path, options: ReadOptions = NO_OPTIONS, watch: ChangeHooks = NO_HOOKS
) -> FileResult:
    """Add a file as ``add_file`` does, and report a fault of the file itself in the result.

    Raises:
        CorpusError: a fault of the namespace or the options, which other files would meet too.
        IndexFault: an index failed; the journal keeps what it lacks.
    """
    reader(options.kind or "text")
    options = replace(options, retrieved=options.retrieved or datetime.now(UTC).date().isoformat())
    with namespaces.writing(name) as (namespace, writer):
        run = _Run(namespace, writer, watch)
        try:
            already = _take_file(run, path, options)
            run.index()
        except DocumentUnreadable as error:
            run.refuse(path, options, error)
            return FileResult(path.name, run.result(), error)
        return FileResult(path.name, replace(run.result(), already=already))


def _take_file(run: _Run, path: Path, options: ReadOptions, *, is_member: bool = False) -> bool:
    """Write the file's documents; return True where this very file was added before, which is then not read."""
    with reading(path, options, run.cancelled) as file:
        if file.kind == ARCHIVE:
            if is_member:
                raise DocumentUnreadable(f"{path}: an archive within an archive is not read: unpack it first")
            return _take_archive(run, path, options)
        digest = sha256_of(path)
        kind = _RECOGNIZED if file.kind == _PDF and options.ocr else file.kind
        kinds = (_PDF, _RECOGNIZED) if kind == _PDF else (kind,)
        already = any(run.store.is_finished((digest, f"{name}/{READING_VERSION}")) for name in kinds)
        if not already:
            label = _label(path, options)
            run.forget_skipped(label)
            run.take(replace(one, file=label) if isinstance(one, SkippedRecord) else one for one in file.items)
    if not run.stopped:
        if file.kind == _PDF:
            run.originals.keep(path, digest)
        if not already:
            run.finish((digest, path.name, f"{kind}/{READING_VERSION}"), options.retrieved)
            run.originals.prune(run.store.known)
    return already


def _take_archive(run: _Run, path: Path, options: ReadOptions) -> bool:
    """Take each file of an archive, as ARCHIVE/NAME; return True where all were added before.

    Raises:
        DocumentUnreadable: the archive cannot be unpacked, or none of its files can be read.
    """
    label = _label(path, options)
    run.forget_skipped(label)
    already: list[bool] = []
    first: DocumentUnreadable | None = None
    with unpacked(path) as members:
        for member in members:
            if run.stopped:
                break
            own = replace(options, kind="", provenance=f"{label}/{member.name}")
            try:
                if member.reason:
                    raise DocumentUnreadable(member.reason)
                already.append(_take_file(run, member.path, own, is_member=True))
            except DocumentUnreadable as error:
                first = first or error
                run.refuse(member.path, own, error)
    if already or run.stopped:
        return all(already) and first is None
    why = (
        "it is empty" if first is None else f"none of its {len(members)} files can be read; the first: {first.message}"
    )
    raise DocumentUnreadable(f"{path}: {why}")


def _label(path: Path, options: ReadOptions) -> str:
    """Return the name under which what could not be read of a file is listed: that of its documents' provenance."""
    return options.provenance or path.name


def add_items(namespaces: Namespaces, name: str, items: Iterable[Item], watch: ChangeHooks = NO_HOOKS) -> ChangeReport:
    """Add new and changed documents from any source, in the same way as ``add_file``."""
    with namespaces.writing(name) as (namespace, writer):
        run = _Run(namespace, writer, watch)
        run.take(iter(items))
        run.index()
        return run.result()


def remove(
    namespaces: Namespaces, name: str, document_ids: Sequence[str], watch: ChangeHooks = NO_HOOKS
) -> ChangeReport:
    """Remove documents, by their ids or file names, from the store and every index.

    Files that contained them can be added again.

    Raises:
        DOCUMENT_UNKNOWN: one of them is not there; none is removed.
        NamespaceInvalid: several documents came as files of one of the names; none is removed.
    """
    with namespaces.writing(name) as (namespace, writer):
        run = _Run(namespace, writer, watch)
        found = [find_document(run.store, document) for document in document_ids]
        with writer.transaction():
            writer.forget_sources()
            for stored in filter(None, map(run.store.stored_document, found)):
                if stored.name:  # a file of its own
                    writer.forget_skipped(stored.document.provenance)
        run.take(iter([Withdrawn(document_id) for document_id in dict.fromkeys(found)]))
        run.originals.prune(run.store.known)
        run.index()
        return run.result()


def find_document(store: PassageStore, document: str) -> str:
    """Return the id of a document, which is named by it or by the name of its file.

    Raises:
        DOCUMENT_UNKNOWN: there is none.
        NamespaceInvalid: several came as files of this name.
    """
    if store.known([document]):
        return document
    found = store.files_named(document)
    if len(found) > 1:
        ids = ", ".join(found[:5])
        raise NamespaceInvalid(
            f"{len(found)} documents came as {document[:200]!r}: give an id: {ids}", param="document"
        )
    if not found:
        raise CorpusError(
            f"there is no document {document[:200]!r}, by id or file name", DOCUMENT_UNKNOWN, param="document"
        )
    return found[0]


def catch_up(namespaces: Namespaces, name: str, watch: ChangeHooks = NO_HOOKS) -> ChangeReport:
    """Process the journal without adding documents."""
    return add_items(namespaces, name, (), watch)


class _Run:
    """Execute one change of a namespace."""

    def __init__(self, namespace: Namespace, writer: PassageWriter, watch: ChangeHooks) -> None:
        self._namespace = namespace
        self.originals = Originals(namespace.folder)
        self._writer = writer
        self._watch = watch
        self._started = watch.clock()
        self._indexed = 0
        self._first_skipped: list[SkippedRecord] = []
        self.counts = dict.fromkeys(("added", "changed", "noted", "unchanged", "withdrawn"), 0)
        self.passed = 0
        self.stopped = False
        self._checked = False

    @property
    def store(self) -> PassageStore:
        return self._namespace.store

    def cancelled(self) -> bool:
        return self._watch.cancelled()

    def finish(self, source: tuple[str, str, str], day: str) -> None:
        """Record that a file, by its (digest, name, kind), was read to its end."""
        with self._writer.transaction():
            self._writer.finish_source(source, day, {"added": self.counts["added"], "passed": self.passed})

    def forget_skipped(self, file: str) -> None:
        """Remove what could not be read of a file, which is read anew."""
        with self._writer.transaction():
            self._writer.forget_skipped(file)

    def refuse(self, path: Path, options: ReadOptions, error: DocumentUnreadable) -> None:
        """Record why a file could not be read, or not to its end."""
        reason = error.message.removeprefix(f"{path}: ")
        with self._writer.transaction():
            self._put(SkippedRecord(_label(path, options), 0, reason))

    def take(self, items: Iterator[Item]) -> None:
        """Write documents, and index whenever the journal has enough entries.

        What came before an error of the source is kept and indexed. Raises as ``Namespace.require_encoders`` before
        anything is stored.
        """
        while not self.stopped:
            batch, error = _batch(items)
            with self._writer.transaction():
                for item in batch:
                    self._put(item)
                self._require_encoders()
            self._report(0)
            if error is not None:
                self.index()
                raise error
            if not batch:
                return
            self.index(COMMIT)

    def _require_encoders(self) -> None:
        """Check the encoders once, inside the transaction of the first new passages, which an error undoes."""
        if not self._checked and self.counts["added"] + self.counts["changed"]:
            self._namespace.require_encoders()
            self._checked = True

    def _put(self, item: Item) -> None:
        if isinstance(item, SkippedRecord):
            self._writer.record_skipped(item)
            self.passed += 1
            if len(self._first_skipped) < _MAX_SHOWN:
                self._first_skipped.append(item)
        elif isinstance(item, Withdrawn):
            self.counts["withdrawn"] += self._writer.remove(item.document_id)
        else:
            self.counts[self._writer.put(item)] += 1
            self._watch.stored(item.document.document_id)

    def index(self, at_least: int = 1) -> None:
        if not self.stopped:
            self._namespace.catch_up(self._writer, self._report, at_least=at_least)

    def _report(self, indexed: int) -> bool:
        self._indexed += indexed
        store, targets = self._namespace.store, self._namespace.settings.targets
        expected, arrived = self._watch.goal()
        self._watch.progress(
            Progress(
                read=sum(self.counts.values()),
                indexed=self._indexed,
                waiting=sum(store.waiting(target, _MAX_WAITING) for target in targets),
                passed=self.passed,
                seconds=self._watch.clock() - self._started,
                expected=expected,
                arrived=arrived,
            )
        )
        self.stopped = self.stopped or self._watch.cancelled()
        return self.stopped

    def result(self) -> ChangeReport:
        counts = self.counts
        return ChangeReport(
            added=counts["added"],
            changed=counts["changed"],
            noted=counts["noted"],
            unchanged=counts["unchanged"],
            withdrawn=counts["withdrawn"],
            passed=self.passed,
            indexed=self._indexed,
            first_passed=tuple(self._first_skipped),
            cancelled=self.stopped,
        )


def _batch(items: Iterator[Item]) -> tuple[list[Item], CorpusError | None]:
    """Return the items of the next transaction, with the error that ended the source, if any."""
    batch: list[Item] = []
    chars = 0
    try:
        for item in items:
            batch.append(item)
            chars += 0 if isinstance(item, SkippedRecord | Withdrawn) else len(item.text)
            if len(batch) >= _DOCUMENTS or chars >= _CHARS:
                break
    except CorpusError as error:
        return batch, error
    return batch, None

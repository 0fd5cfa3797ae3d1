"""Open one namespace, its store and its indices, and bring the indices up to date with the store."""

from __future__ import annotations

import json
import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from models.encoders.base import Encoder, PassageText
from retrieval.corpus.chunking import Chunker
from retrieval.corpus.errors import NamespaceDamaged, NamespaceInvalid
from retrieval.corpus.namespaces.settings import Backends, TextIndex, embedded_title, has_replaced_words, settings_of
from retrieval.corpus.store.base import PassageStore, PassageWriter, Target, log_name
from retrieval.index.base import Rows, VectorIndex
from retrieval.index.errors import IndexMismatch
from retrieval.lexical.base import LexicalIndex
from retrieval.passages import Passage, type_bits

log = logging.getLogger(__name__)

BATCH: Final = 4096
# Journal entries between two commits of an index. A crash costs encoding them again; a smaller number would split the
# index into more segments.
COMMIT: Final = 8 * BATCH
Done = Callable[[int], bool]


class Namespace:
    """Hold the store and the indices of one namespace.

    Thread-safe. Encoder and indices are opened on first use. ``has_old_words``: the index of words is of a back end
    that was removed; it is not read, and counts as missing until ``discard_old_words``.
    """

    def __init__(self, folder: Path, store: PassageStore, backends: Backends, *, write: bool = False) -> None:
        """Read the settings from the store, which is closed with the namespace.

        ``folder`` has the indices. ``write`` requires the namespace's lock.

        Raises:
            NamespaceDamaged: the store cannot be read.
        """
        self.folder = folder
        self.name = folder.name
        self.store = store
        self._backends = backends
        self._write = write
        self._lock = threading.RLock()
        self._encoder: Encoder | None = None
        self._vectors: VectorIndex | None = None
        self._words: LexicalIndex | None = None
        self._keywords: TextIndex | None = None
        try:
            self._indexed = self.store.meta("indexed")
            text = self.store.meta("settings")
            self.settings = settings_of(text)
            self.has_old_words = has_replaced_words(text)
        except NamespaceDamaged:
            self.store.close()
            raise
        except NamespaceInvalid as error:
            self.store.close()
            raise NamespaceDamaged(f"{folder}: {error}") from error

    @property
    def encoder(self) -> Encoder:
        """Return the encoder of the vectors.

        Raises:
            NamespaceInvalid: the namespace has no encoder.
            IndexMismatch: the stored vectors are of another encoder.
        """
        if not self.settings.encoder:
            raise NamespaceInvalid(f"namespace {self.name} has no encoder, so no vectors", param="retriever")
        with self._lock:
            if self._encoder is None:
                encoder = self._backends.encoders(self.settings.encoder)
                known = self.store.meta("fingerprint")
                if known and known != fingerprint_text(encoder):
                    raise IndexMismatch(f"the vectors of {self.name} are of another encoder than {encoder.name}")
                self._encoder = encoder
            return self._encoder

    @property
    def vectors(self) -> VectorIndex:
        with self._lock:
            if self._vectors is None:
                encoder = self.encoder
                self._vectors = self._backends.vectors(self._folder("vectors"), encoder, self._write)
            return self._vectors

    @property
    def words(self) -> LexicalIndex:
        with self._lock:
            if self._words is None:
                self._words = self._backends.words(self._folder("words"), self.settings.words, self._write)
            return self._words

    @property
    def keywords(self) -> TextIndex:
        with self._lock:
            if self._keywords is None:
                self._keywords = self._backends.keywords(self._folder("keywords"), self._write)
            return self._keywords

    def _folder(self, target: Target) -> Path:
        """Return the folder of an index.

        Raises:
            NamespaceInvalid: the namespace has no such index.
            NamespaceDamaged: the index does not exist yet, so it cannot be read.
        """
        if target not in self.settings.targets:
            raise NamespaceInvalid(f"namespace {self.name} has no index of {target}", param="retriever")
        if not self._write and not self.has(target):
            raise NamespaceDamaged(f"the index of {target} of {self.name} is not made yet")
        return self.folder / target

    def has(self, target: Target) -> bool:
        """Return whether an index has files; before the first passage it may have none."""
        if target == "words" and self.has_old_words:
            return False
        folder = self.folder / target
        return folder.is_dir() and any(folder.iterdir())

    def rows(self, target: Target) -> int:
        """Return how many passages an index holds."""
        if not self.has(target):
            return 0
        return self.vectors.stats().rows if target == "vectors" else len(self._texts(target))

    def committed_rows(self, target: Target) -> int:
        """Return how many passages the files of an index hold.

        Loads no encoder where the back end can tell without one: a change that adds no vector must not wait for it.
        """
        count = self._backends.vector_rows
        if target != "vectors" or count is None or not self.has(target):
            return self.rows(target)
        return count(self.folder / target)

    def _texts(self, target: Target) -> TextIndex:
        return self.words if target == "words" else self.keywords

    def is_stale(self) -> bool:
        """Return whether the indices changed since they were opened, or another namespace replaced this one."""
        try:
            return self.store.is_replaced() or self._indexed != self.store.meta("indexed")
        except NamespaceDamaged:
            return True

    def close(self) -> None:
        with self._lock:
            for index in (self._vectors, self._words, self._keywords):
                if index is not None:
                    index.close()
            self._vectors = self._words = self._keywords = None
            self.store.close()

    def writer(self) -> PassageWriter:
        """Return a writer of the store; requires the namespace's lock."""
        return self.store.writer(Chunker(self.settings.chunking), self.settings.targets)

    def discard_old_words(self, writer: PassageWriter) -> None:
        """Remove the index of words of a removed back end, if there is one, and mark the index for a rebuild.

        The settings change last, so that a killed process leaves the rest to the next one.

        Raises:
            NamespaceDamaged: the index cannot be removed.
        """
        if not self.has_old_words:
            return
        log.warning(
            "namespace=%s: its back end of words was removed, the index is built again with %s: passages=%d",
            log_name(self.name),
            self.settings.words,
            self.store.counts().passages,
        )
        with writer.transaction():
            writer.mark_all_pending("words")
        try:
            shutil.rmtree(self.folder / "words")
        except FileNotFoundError:
            pass
        except OSError as error:
            raise NamespaceDamaged(f"{self.folder / 'words'}: cannot be removed: {error.strerror}") from error
        with writer.transaction():
            writer.set_meta("settings", self.settings.as_text())
        self.has_old_words = False

    def catch_up(self, writer: PassageWriter, done: Done, *, at_least: int = 1) -> int:
        """Update every index that lacks ``at_least`` entries; return how many passages were indexed.

        After each batch ``done`` receives the number of passages indexed since its last call; it returns whether to
        stop.
        """
        return sum(
            self.catch_up_index(writer, target, done)
            for target in self.settings.targets
            if self.store.waiting(target, at_least) >= at_least
        )

    def catch_up_index(self, writer: PassageWriter, target: Target, done: Done) -> int:
        """Update one index, as ``catch_up`` does."""
        indexed, after, stop = 0, 0, False
        waiting: list[tuple[int, bool]] = []
        while not stop and (entries := self.store.pending(target, BATCH, after)):
            added = self._index_batch(target, entries, writer)
            after = entries[-1][0]
            waiting += entries
            indexed += added
            if len(waiting) >= COMMIT:
                self._commit(writer, target, waiting)
                waiting = []
            stop = done(added)
        if waiting:
            self._commit(writer, target, waiting)
        return indexed

    def _commit(self, writer: PassageWriter, target: Target, entries: list[tuple[int, bool]]) -> None:
        """Commit the index, then the journal.

        After a crash in between, the entries are indexed again with the same result.
        """
        if target == "vectors":
            self.vectors.commit()
        else:
            self._texts(target).commit()
        with writer.transaction():
            writer.indexed(target, entries)

    def _index_batch(self, target: Target, entries: list[tuple[int, bool]], writer: PassageWriter) -> int:
        deleted = [number for number, is_deleted in entries if is_deleted]
        passages = [
            passage for passage, _ in self.store.get([number for number, is_deleted in entries if not is_deleted])
        ]
        if target == "vectors":
            if deleted:
                self.vectors.delete(np.array(deleted, dtype=np.int64))
            if passages:
                self._add_vectors(passages, writer)
            return len(passages)
        if deleted:
            self._texts(target).delete(deleted)
        if passages:
            self._texts(target).add(passages)
        return len(passages)

    def _add_vectors(self, passages: list[Passage], writer: PassageWriter) -> None:
        self.note_encoder(writer)
        texts = [PassageText(embedded_title(passage), passage.text) for passage in passages]
        rows = Rows(
            ids=np.array([passage.passage_id for passage in passages], dtype=np.int64),
            vectors=self.encoder.encode_passages(texts),
            dates=np.array([passage.date for passage in passages], dtype=np.int32),
            types=np.array([type_bits(passage.types) for passage in passages], dtype=np.int64),
        )
        self.vectors.add(rows)

    def note_encoder(self, writer: PassageWriter) -> None:
        """Record the fingerprint of the encoder, unless one is recorded already."""
        if not self.store.meta("fingerprint"):
            with writer.transaction():
                writer.set_meta("fingerprint", fingerprint_text(self.encoder))


def fingerprint_text(encoder: Encoder) -> str:
    return json.dumps(encoder.fingerprint.as_dict(), sort_keys=True)

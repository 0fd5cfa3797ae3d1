"""Open one namespace: its store, its indices and their encoders, and bring the indices up to date with the store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from models.encoders.base import Encoder, PassageText, RemoteVectors, TokenEncoder, lacks_tokens
from models.errors import ENCODER_UNAVAILABLE, ModelError
from retrieval.corpus.chunking import Chunker
from retrieval.corpus.namespaces.dense import DenseIndex, folder_name, is_dense, require_tokens
from retrieval.corpus.namespaces.order import PassageOrder
from retrieval.corpus.namespaces.settings import VECTORS, Backends, remove_index, settings_of
from retrieval.corpus.store.base import JournalEntry, PassageStore, PassageWriter, Target, log_name
from retrieval.errors import IndexDamaged, IndexFault, NamespaceDamaged, NamespaceInvalid
from retrieval.index.base import Rows, VectorIndex
from retrieval.index.token_store import TokenCodes
from retrieval.lexical.base import LexicalIndex
from retrieval.passages import Passage, type_bits

log = logging.getLogger(__name__)
BATCH: Final = 4096
# Journal entries between two commits of an index. A crash costs encoding them again; a smaller number would split the
# index into more segments.
COMMIT: Final = 8 * BATCH
TOKENS: Final = "tokens"
# The index that the passages give again without an encoder.
WORDS: Final[Target] = "words"
Done = Callable[[int], bool]


class Namespace:
    """Hold the store and the indices of one namespace.

    Thread-safe. Encoder and indices are opened on first use.
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
        self._dense: dict[Target, DenseIndex] = {}
        self._tokens: TokenCodes | None = None
        self._words: LexicalIndex | None = None
        self.order = PassageOrder(store)
        try:
            self._indexed = self.store.meta("indexed")
            self.settings = settings_of(self.store.meta("settings"))
        except NamespaceDamaged:
            self.store.close()
            raise
        except NamespaceInvalid as error:
            self.store.close()
            raise NamespaceDamaged(f"{folder}: {error}") from error

    @property
    def encoder(self) -> Encoder:
        """Return the encoder of the first vectors.

        Raises:
            NamespaceInvalid: the namespace has no encoder.
            IndexFault: the stored vectors are of another encoder.
        """
        return self.dense(VECTORS).encoder

    @property
    def vectors(self) -> VectorIndex:
        """Return the vectors of the first encoder."""
        return self.dense(VECTORS).vectors

    def dense(self, target: Target) -> DenseIndex:
        """Return the index of an encoder's vectors, with the encoder.

        Raises:
            NamespaceInvalid: the namespace has no such vectors.
        """
        encoder = self.settings.encoder_of(target)
        if not encoder:
            message = f"namespace {self.name} has no encoder, so no vectors"
            if requested := target.partition(":")[2]:
                known = ", ".join(self.settings.encoder_ids) or "none"
                message = (
                    f"namespace {self.name} has no vectors of the encoder {requested[:100]!r} (there are: {known}); "
                    "arrowhead index add makes them"
                )
            raise NamespaceInvalid(message, param="retriever")
        with self._lock:
            if target not in self._dense:
                place = (self.folder, target, encoder)
                self._dense[target] = DenseIndex(place, self.store, self._backends, write=self._write)
            return self._dense[target]

    @property
    def tokens(self) -> TokenCodes | None:
        """Return the token vectors of the passages, which belong to the vectors; None where there are none.

        Those of [CLS] pooling were not trained to mean their tokens.
        """
        with self._lock:
            folder, has = self.folder / TOKENS, self._backends.storage.exists
            if self._tokens is None and self.settings.tokens and (self._write or has(folder)):
                encoder = self.encoder
                is_source = isinstance(encoder, TokenEncoder) or lacks_tokens(encoder)
                if is_source and encoder.fingerprint.pooling == "mean":
                    self._tokens = self._backends.tokens(folder, encoder.fingerprint, self._write)
            return self._tokens

    @property
    def words(self) -> LexicalIndex:
        with self._lock:
            if self._words is None:
                self._words = self._backends.words(self._folder(WORDS), self.settings.words, self._write)
            return self._words

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
        return self._backends.storage.exists(self.folder / folder_name(target))

    def rows(self, target: Target) -> int:
        """Return how many passages an index holds."""
        if not self.has(target):
            return 0
        return self.dense(target).vectors.stats().rows if is_dense(target) else len(self.words)

    def committed_rows(self, target: Target) -> int:
        """Return how many passages the files of an index hold.

        Loads no encoder where the back end can tell without one: a change that adds no vector must not wait for it.
        """
        count = self._backends.vector_rows
        if not is_dense(target) or count is None or not self.has(target):
            return self.rows(target)
        return count(self.folder / folder_name(target))

    def recall(self, target: Target = VECTORS) -> float | None:
        """Return the recall at 10 that was measured when the vectors were indexed, 1 if exact; None if unknown."""
        recall = self._backends.vector_recall
        if recall is None or target not in self.settings.targets or not self.has(target):
            return None
        try:
            return recall(self.folder / folder_name(target))
        except IndexFault:
            return None  # whoever searches or verifies the index reports its damage

    def recalls(self) -> dict[str, float | None]:
        """Return ``recall`` of the vectors of each encoder, by its id."""
        return {one: self.recall(self.settings.target_of(one)) for one in self.settings.encoder_ids}

    def is_stale(self) -> bool:
        """Return whether the indices changed since they were opened, or another namespace replaced this one."""
        try:
            return self.store.is_replaced() or self._indexed != self.store.meta("indexed")
        except NamespaceDamaged:
            return True

    def close(self) -> None:
        with self._lock:
            for index in (*self._dense.values(), self._tokens, self._words):
                if index is not None:
                    index.close()
            self._dense = {}
            self._tokens = self._words = None
            self.store.close()

    def writer(self) -> PassageWriter:
        """Return a writer of the store; requires the namespace's lock."""
        return self.store.writer(Chunker(self.settings.chunking), self.settings.targets)

    def discard_words(self, writer: PassageWriter) -> None:
        """Remove a damaged index of words, which the passages give again, and mark it for a rebuild.

        What tells the fault goes last, so that a killed process leaves the rest to the next one.

        Raises:
            NamespaceDamaged: as ``remove_index``.
        """
        message = "namespace=%s: damage was found in its index of words, which is built again: passages=%d"
        log.warning(message, log_name(self.name), self.store.counts().passages)
        with writer.transaction():
            writer.mark_all_pending(WORDS)
        remove_index(self.folder / WORDS)

    def has_damaged_words(self) -> bool:
        """Return whether the index of words is missing or not what was written; reads all its files."""
        if WORDS not in self.settings.targets:
            return False
        if not self.has(WORDS):
            counts = self.store.counts()
            return counts.passages > counts.pending[WORDS] - counts.gone[WORDS]
        try:
            self.check_files(WORDS)
        except IndexDamaged:
            return True
        return False

    def check_files(self, target: Target) -> None:
        """Check every byte of an index's files; of one without files, do nothing.

        Raises:
            IndexDamaged: a file is missing, or is not what was written.
        """
        check = self._backends.check_files
        if check is not None and self.has(target):
            check(self.folder / folder_name(target), target)

    def require_encoders(self) -> None:
        """Check that all encoders can add passages to their vectors, so that none is stored which they refuse.

        A server that does not answer is no reason to refuse them: stored passages wait for it.

        Raises:
            IndexFault: the stored vectors are of another encoder.
            NamespaceInvalid: the namespace stores token vectors, and its encoder gives none.
            ModelError: an encoder cannot be loaded, or its server computes other vectors.
        """
        for target in filter(is_dense, self.settings.targets):
            encoder = self.dense(target).encoder
            if target == VECTORS and self.settings.tokens:
                require_tokens(self.name, encoder)
            if isinstance(encoder, RemoteVectors):
                try:
                    encoder.check()
                except ModelError as error:
                    if not ENCODER_UNAVAILABLE.is_of(error):
                        raise

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
        waiting: list[JournalEntry] = []
        while not stop and (entries := self.store.pending(target, BATCH, after)):
            added = self._index_batch(target, entries, writer)
            after = entries[-1].place
            waiting += entries
            indexed += added
            if len(waiting) >= COMMIT:
                self._commit(writer, target, waiting)
                waiting = []
            stop = done(added)
        if waiting:
            self._commit(writer, target, waiting)
        return indexed

    def _commit(self, writer: PassageWriter, target: Target, entries: list[JournalEntry]) -> None:
        """Commit the index, then the journal.

        After a crash in between, the entries are indexed again with the same result.
        """
        if is_dense(target):
            # First the tokens: a vector that is committed has them.
            if target == VECTORS and self._tokens is not None:
                self._tokens.commit()
            self.dense(target).vectors.commit()
        else:
            self.words.commit()
        with writer.transaction():
            writer.indexed(target, entries)

    def _index_batch(self, target: Target, entries: list[JournalEntry], writer: PassageWriter) -> int:
        deleted = [entry.passage_id for entry in entries if entry.gone]
        passages = [passage for passage, _ in self.store.get([entry.passage_id for entry in entries if not entry.gone])]
        if is_dense(target):
            if deleted:
                self.dense(target).vectors.delete(np.array(deleted, dtype=np.int64))
                if target == VECTORS and self.tokens is not None:
                    self.tokens.delete(deleted)
            if passages:
                self._add_vectors(target, passages, writer)
            return len(passages)
        if deleted:
            self.words.delete(deleted)
        if passages:
            self.words.add(passages)
        return len(passages)

    def _add_vectors(self, target: Target, passages: list[Passage], writer: PassageWriter) -> None:
        dense = self.dense(target)
        dense.note_encoder(writer)
        texts = [PassageText(passage.heading, passage.text) for passage in passages]
        ids = [passage.passage_id for passage in passages]
        encoder, tokens = dense.encoder, self.tokens if target == VECTORS else None
        if tokens is not None:
            require_tokens(self.name, encoder)
        if tokens is not None and isinstance(encoder, TokenEncoder):
            vectors, codes = encoder.encode_passages_with_tokens(texts)
            tokens.put(ids, codes)
        else:
            vectors = encoder.encode_passages(texts)
        rows = Rows(
            ids=np.array(ids, dtype=np.int64),
            vectors=vectors,
            dates=np.array([passage.date for passage in passages], dtype=np.int32),
            types=np.array([type_bits(passage.types) for passage in passages], dtype=np.int64),
        )
        dense.vectors.add(rows)

    def note_encoder(self, writer: PassageWriter) -> None:
        """Record the fingerprint of the first encoder, unless one is recorded already."""
        self.dense(VECTORS).note_encoder(writer)

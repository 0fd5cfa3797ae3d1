"""Create, list, open and delete the namespaces of a data folder, with one writer at a time.

A namespace is a store of passages, the system of record, and a folder ``NAME/`` with ``vectors/`` and ``words/``,
which can be rebuilt from it at any time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from retrieval.corpus.chunking import Chunker
from retrieval.corpus.namespaces.dense import FURTHER, fingerprint_key, folder_name, require_tokens
from retrieval.corpus.namespaces.follower import Follower
from retrieval.corpus.namespaces.namespace import TOKENS, WORDS, Namespace
from retrieval.corpus.namespaces.originals import FOLDER as ORIGINALS
from retrieval.corpus.namespaces.settings import VECTORS, Backends, NamespaceSettings, settings_of, with_encoders
from retrieval.corpus.store.base import Counts, PassageWriter, Target, checked_name, log_name
from retrieval.errors import (
    IndexDamaged,
    IndexFault,
    NamespaceBusy,
    NamespaceDamaged,
    NamespaceInvalid,
    NamespaceUnknown,
)

log = logging.getLogger(__name__)
# The value in a store that has the namespace's title.
TITLE: Final = "title"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Describe a namespace.

    ``counts`` is None, and ``damage`` gives the reason, where the store cannot be read. ``storage``: bytes of
    its ``originals``, ``texts`` and ``indices`` on this disk.
    ``recalls``: recall at 10 of the vectors of each encoder, by its id, as it was measured when they were indexed; None
    where it is not known. ``title``: how people call it, "" for none.
    """

    name: str
    settings: NamespaceSettings | None
    counts: Counts | None
    created: str
    storage: Mapping[str, int]
    damage: str = ""
    recalls: Mapping[str, float | None] = field(default_factory=dict)
    title: str = ""

    @property
    def bytes_disk(self) -> int:
        return sum(self.storage.values())

    @property
    def recall(self) -> float | None:
        """Return the recall of the first encoder's vectors."""
        return self.recalls.get(self.settings.encoder) if self.settings else None


class Sample(Protocol):
    """Hold a namespace that comes with the package: it is read as the others are and never changed."""

    name: str

    @property
    def is_there(self) -> bool:
        """Return whether it was not removed."""

    @property
    def documents(self) -> int: ...

    def is_hidden(self, owner: str) -> bool:
        """Return whether an owner removed it for itself."""

    def set_there(self, there: bool, owner: str = "") -> None:
        """Remove it for an owner, or bring it back; for everybody where none is named."""

    def opened(self) -> Namespaces:
        """Return the namespaces that have it."""

    def close(self) -> None: ...


@dataclass(slots=True)
class _Lease:
    namespace: Namespace
    users: int = 0
    retired: bool = False


class Namespaces:
    """Manage the namespaces below one folder.

    Thread-safe. An opened namespace stays open until ``close``, a change by another process, or its deletion. A sample
    is not among ``names``; it is read by its own name, unless a namespace has that.
    """

    def __init__(self, root: Path, backends: Backends, sample: Sample | None = None) -> None:
        """Manage the namespaces below ``root``, which need not exist yet."""
        self.root = root
        self.sample = sample
        self.backends = backends
        self.stores = backends.stores(root)
        self._lock = threading.Lock()
        self._leases: dict[str, _Lease] = {}
        # Namespaces whose index of words is damaged.
        self._damaged: set[str] = set()
        self._follower = Follower(self.stores, self._open)

    def create(
        self, name: str, settings: NamespaceSettings, created: str = "", notes: Mapping[str, str] | None = None
    ) -> None:
        """Create a namespace; a kill at any moment leaves it whole or absent.

        ``created``: the day, yyyy-mm-dd. ``notes``: further values for its store, as ``note`` writes them.

        Raises:
            NamespaceInvalid, NamespaceBusy, CorpusError (it exists)
        """
        meta = {**(notes or {}), "settings": settings.as_text(), "created": created}
        with self.stores.creating(checked_name(name), meta, Chunker(settings.chunking), settings.targets):
            pass

    def names(self) -> list[str]:
        """Return the names in alphabetical order."""
        return self.stores.names()

    def is_sample(self, name: str) -> bool:
        return self.sample is not None and name == self.sample.name and self.sample.is_there and not self._has(name)

    def _has(self, name: str) -> bool:
        return self.stores.exists(checked_name(name))

    def has_documents(self, name: str) -> bool:
        """Return whether a namespace has any document; one that is damaged counts as if it had."""
        try:
            with self._leased(name) as namespace:
                return bool(namespace.store.documents((), 1))
        except NamespaceUnknown:  # deleted since
            return False
        except NamespaceDamaged:
            return True

    def describe(self, name: str) -> Description:
        """Describe a namespace, even a damaged one.

        Raises:
            NamespaceUnknown: no namespace has this name.
        """
        sizes = _sizes(self.root / checked_name(name))
        try:
            with self._leased(name) as namespace:
                store = namespace.store
                return Description(
                    name=name,
                    settings=namespace.settings,
                    counts=store.counts(),
                    created=store.meta("created"),
                    storage=sizes,
                    recalls=namespace.recalls(),
                    title=store.meta(TITLE),
                )
        except NamespaceDamaged as error:
            return Description(name=name, settings=None, counts=None, created="", storage=sizes, damage=error.message)

    @contextlib.contextmanager
    def using(self, name: str) -> Iterator[Namespace]:
        """Open a namespace for reading and searching, including changes of other processes since its last use.

        An index of words whose damage ended the use before is built again first. This server's own indices
        of a shared namespace follow its changes: a few of them first, many in the background.

        Raises:
            NamespaceInvalid, NamespaceUnknown, NamespaceDamaged
        """
        if self.sample is not None and self.is_sample(name):
            with self.sample.opened().using(name) as namespace:
                yield namespace
            return
        self._follower.follow(checked_name(name))
        with contextlib.ExitStack() as stack:
            namespace = stack.enter_context(self._leased(name))
            if name in self._damaged:
                stack.close()
                self._rebuild(name)
                namespace = stack.enter_context(self._leased(name))
            try:
                yield namespace
            except (IndexDamaged, NamespaceDamaged):
                self._note_damage(namespace)
                raise

    def _note_damage(self, namespace: Namespace) -> None:
        with contextlib.suppress(NamespaceDamaged):
            if namespace.has_damaged_words():
                with self._lock:
                    self._damaged.add(namespace.name)

    def _rebuild(self, name: str) -> None:
        """Build the damaged index of words again, unless the namespace cannot be changed now."""
        with self._lock:
            self._damaged.discard(name)
        try:
            with (
                self.writer_lock(name),
                contextlib.closing(self._open(name, write=True)) as namespace,
                contextlib.closing(namespace.writer()) as writer,
            ):
                namespace.discard_words(writer)
                namespace.catch_up_index(writer, WORDS, lambda _: False)
            with self._lock:
                self._retire(name)
        except (NamespaceBusy, NamespaceDamaged, IndexFault) as error:
            cause = type(error).__name__
            log.warning("namespace=%s: its indices cannot be built again now: %s", log_name(name), cause)

    @contextlib.contextmanager
    def _leased(self, name: str) -> Iterator[Namespace]:
        checked_name(name)
        with self._lock:
            lease = self._leases.get(name)
            if lease is not None and lease.namespace.is_stale():
                self._retire(name)
                lease = None
            if lease is None:
                lease = self._leases[name] = _Lease(self._open(name))
            lease.users += 1
        try:
            yield lease.namespace
        finally:
            with self._lock:
                lease.users -= 1
                if lease.retired and not lease.users:
                    lease.namespace.close()

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[tuple[Namespace, PassageWriter]]:
        """Open a namespace for changes; concurrent searches see each change when it is complete.

        An index that lost rows which the journal counts as indexed is marked for a rebuild, as is a damaged one of
        words.

        Raises:
            NamespaceBusy: another process, or another thread, changes it.
            NamespaceInvalid, NamespaceUnknown, NamespaceDamaged
        """
        with self._changing(name) as (namespace, writer):
            self._remove_orphans(namespace)
            for target in namespace.settings.targets:
                counts = namespace.store.counts()
                sure = counts.passages - (counts.pending[target] - counts.gone[target])
                if _rows_of(namespace, target, writer) < sure:
                    with writer.transaction():
                        writer.mark_all_pending(target)
            yield namespace, writer

    @contextlib.contextmanager
    def _changing(self, name: str) -> Iterator[tuple[Namespace, PassageWriter]]:
        self.require(name)
        with (
            self.writer_lock(name),
            contextlib.closing(self._open(name, write=True)) as namespace,
            contextlib.closing(namespace.writer()) as writer,
        ):
            yield namespace, writer

    @contextlib.contextmanager
    def writer_lock(self, name: str) -> Iterator[None]:
        """Lock a name, whether or not there is such a namespace.

        Raises:
            NamespaceBusy: another process, or another thread, holds the lock.
            NamespaceDamaged: the folder cannot be written.
        """
        with self.stores.lock(checked_name(name)):
            yield

    def delete(self, name: str) -> None:
        """Delete a namespace with its indices, at once by name and soon after on the disk."""
        if self.sample is not None and self.is_sample(name):
            self.sample.set_there(False)
            return
        self.require(name)
        with self.writer_lock(name):
            with self._lock:
                self._retire(name)
            self.stores.delete(name)

    def sweep(self) -> None:
        """Remove what killed processes left of namespaces that they created or deleted, and log it."""
        for name in self.stores.sweep():
            log.warning("namespace=%s: removed what a killed process left of it", log_name(name))

    def note(self, name: str, key: str, value: str) -> None:
        """Write one value into the store of a namespace, without opening an index.

        Raises:
            NamespaceBusy and the like, as ``writing``.
        """
        with self._store_writer(name) as writer:
            writer.set_meta(key, value)

    def forget_skipped(self, name: str, file: str = "") -> None:
        """Remove what could not be read of a file, or of all, from the list. Raises as ``note``."""
        with self._store_writer(name) as writer:
            writer.forget_skipped(file)

    @contextlib.contextmanager
    def _store_writer(self, name: str) -> Iterator[PassageWriter]:
        self.require(name)
        with (
            self.writer_lock(name),
            contextlib.closing(self._open(name)) as namespace,
            contextlib.closing(namespace.writer()) as writer,
            writer.transaction(),
        ):
            yield writer

    def empty_index(self, name: str, target: Target) -> None:
        """Remove an index and mark it for a rebuild by the next change or ``catch_up``.

        Raises:
            NamespaceInvalid: the encoder of these vectors gives no token vectors; nothing is removed.
        """
        with self._changing(name) as (namespace, writer):
            if target == VECTORS:
                self._require_tokens(name, namespace.store.meta("settings"))
            with writer.transaction():
                writer.mark_all_pending(target)
                if namespace.settings.encoder_of(target):
                    writer.set_meta(fingerprint_key(target), "")
            self._remove_files(name, target)

    def add_encoder(self, name: str, encoder: str) -> Target:
        """Give a namespace the vectors of one more encoder, and return their index, which ``catch_up`` fills.

        A namespace that has it already stays as it is. The first encoder of a namespace without one has token vectors
        too.

        Raises:
            NamespaceInvalid: not a valid id, too many encoders, or the first one gives no token vectors and the
                namespace is to store them.
        """
        with self._changing(name) as (namespace, writer):
            known = namespace.settings.encoder_ids
            if encoder not in known:
                text = with_encoders(namespace.store.meta("settings"), (*known, encoder))
                if not known:
                    self._require_tokens(name, text)
                target = settings_of(text).target_of(encoder)
                self._remove_files(name, target)  # of an encoder that was removed by a process that was killed
                with writer.transaction():
                    writer.set_meta("settings", text)
                    writer.set_meta(fingerprint_key(target), "")
                    writer.mark_all_pending(target)
                return target
            return namespace.settings.target_of(encoder)

    def remove_encoder(self, name: str, encoder: str) -> None:
        """Remove an encoder from a namespace, with its vectors.

        Raises:
            NamespaceInvalid: the namespace does not have it, it is the first of several, or nothing would be left by
                which passages could be found.
        """
        with self._changing(name) as (namespace, writer):
            settings = namespace.settings
            target, rest = settings.target_of(encoder), tuple(one for one in settings.encoder_ids if one != encoder)
            _check_removal(name, encoder, settings)
            with writer.transaction():
                writer.set_meta("settings", with_encoders(namespace.store.meta("settings"), rest))
                writer.set_meta(fingerprint_key(target), "")
                writer.forget_target(target)
            self._remove_files(name, target)

    def _require_tokens(self, name: str, text: str) -> None:
        """Check that the first encoder of these settings gives token vectors, where they are to be stored."""
        settings = settings_of(text)
        if settings.tokens and settings.encoder:
            require_tokens(name, self.backends.encoders(settings.encoder))

    def _remove_files(self, name: str, target: Target) -> None:
        """Remove the files of an index; token vectors belong to the first encoder's."""
        for part in (folder_name(target), *((TOKENS,) if target == VECTORS else ())):
            self.backends.storage.remove(self.root / name / part)

    def _remove_orphans(self, namespace: Namespace) -> None:
        """Remove vectors of encoders that the namespace no longer has, which a killed process may have left."""
        own = {folder_name(target) for target in namespace.settings.targets}
        for folder in self.backends.storage.starting(namespace.folder, FURTHER):
            if folder.name not in own:
                self.backends.storage.remove(folder)

    def close(self) -> None:
        if self.sample is not None:
            self.sample.close()
        self._follower.close()
        with self._lock:
            for name in list(self._leases):
                self._retire(name)

    def _retire(self, name: str) -> None:
        """Close a namespace now, or at the end of its last use."""
        lease = self._leases.pop(name, None)
        if lease is not None:
            lease.retired = True
            if not lease.users:
                lease.namespace.close()

    def _open(self, name: str, *, write: bool = False) -> Namespace:
        return Namespace(self.root / name, self.stores.open(name), self.backends, write=write)

    def require(self, name: str) -> None:
        """Check that a namespace exists and may be changed, before anything is locked, which leaves a file.

        Raises:
            NamespaceInvalid, NamespaceUnknown
        """
        if self.is_sample(name):
            raise NamespaceInvalid(f"{name} comes with the package and is not changed: use another one", param="name")
        if not self._has(name):
            raise NamespaceUnknown(f"there is no namespace {name}", param="name")


def _rows_of(namespace: Namespace, target: Target, writer: PassageWriter) -> int:
    """Return how many passages an index holds, none where it was damaged and the passages give it again."""
    try:
        return namespace.committed_rows(target)
    except IndexDamaged:
        if target != WORDS:
            raise
        namespace.discard_words(writer)
        return 0


def _check_removal(name: str, encoder: str, settings: NamespaceSettings) -> None:
    """Check that a namespace can be without an encoder.

    Raises:
        NamespaceInvalid: it cannot.
    """
    known = settings.encoder_ids
    if encoder not in known:
        choices = ", ".join(known) or "none"
        message = f"namespace {name} has no vectors of the encoder {encoder[:100]!r}; there are: {choices}"
    elif encoder == settings.encoder and len(known) > 1:
        message = f"{encoder} is the first encoder of {name}, which has further ones: remove those first"
    elif len(settings.targets) == 1:
        message = f"the vectors of {encoder} are the only index of {name}: without them nothing could be found"
    else:
        return
    raise NamespaceInvalid(message, param="encoder")


def _sizes(folder: Path) -> dict[str, int]:
    """Return the bytes of all files by their parts, without files and folders that a writer removes meanwhile."""
    sizes = dict.fromkeys(("originals", "texts", "indices"), 0)
    for place, _, names in os.walk(folder):
        below = Path(place).relative_to(folder).parts
        part = "originals" if below[:1] == (ORIGINALS,) else "indices" if below else "texts"
        for name in names:
            with contextlib.suppress(OSError):
                sizes[part] += Path(place, name).stat().st_size
    return sizes

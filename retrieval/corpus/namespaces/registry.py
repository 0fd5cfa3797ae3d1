"""Create, list, open and delete the namespaces of a data folder, with one writer at a time.

A namespace is a folder ``NAME/`` with ``passages.sqlite``, the system of record, and the folders ``vectors/``,
``words/`` and ``keywords/``, which can be rebuilt from it at any time. With one folder each, a deletion is one rename,
a copy is the copy of a folder, and a damaged namespace harms no other.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from retrieval.corpus.errors import NamespaceBusy, NamespaceDamaged, NamespaceExists, NamespaceUnknown
from retrieval.corpus.namespaces.namespace import Namespace
from retrieval.corpus.namespaces.settings import Backends, NamespaceSettings, checked_name, is_name
from retrieval.corpus.store.reader import Counts
from retrieval.corpus.store.schema import STORE_NAME, Target
from retrieval.corpus.store.writer import StoreWriter, create_store
from retrieval.storage.atomic_folders import build_lock, create_draft, recover, replace_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Describe a namespace.

    ``counts`` is None, and ``damage`` gives the reason, where the store cannot be read. ``bytes_disk``: all its files.
    """

    name: str
    settings: NamespaceSettings | None
    counts: Counts | None
    created: str
    bytes_disk: int
    damage: str = ""


@dataclass(slots=True)
class _Lease:
    namespace: Namespace
    users: int = 0
    retired: bool = False


class Namespaces:
    """Manage the namespaces below one folder.

    Thread-safe. An opened namespace stays open until ``close``, a change by another process, or its deletion.
    """

    def __init__(self, root: Path, backends: Backends) -> None:
        """Manage the namespaces below ``root``, which need not exist yet."""
        self.root = root
        self.backends = backends
        self._lock = threading.Lock()
        self._leases: dict[str, _Lease] = {}

    def create(
        self, name: str, settings: NamespaceSettings, created: str = "", notes: Mapping[str, str] | None = None
    ) -> None:
        """Create a namespace; a kill at any moment leaves it whole or absent.

        ``created``: the day, yyyy-mm-dd. ``notes``: further values for its store, as ``note`` writes them.

        Raises:
            NamespaceInvalid, NamespaceExists, NamespaceBusy
        """
        target = self.root / checked_name(name)
        self.root.mkdir(parents=True, exist_ok=True)
        with self.writer_lock(name):
            if target.exists():
                raise NamespaceExists(f"there is a namespace {name} already")
            draft = create_draft(target)
            try:
                meta = {**(notes or {}), "settings": settings.as_text(), "created": created}
                create_store(draft / STORE_NAME, meta)
                replace_folder(draft, target)
            except OSError as error:
                raise NamespaceDamaged(f"{target}: cannot be written: {error.strerror}") from error
            finally:
                shutil.rmtree(draft, ignore_errors=True)

    def names(self) -> list[str]:
        """Return the names in alphabetical order."""
        if not self.root.is_dir():
            return []
        return sorted(path.name for path in self.root.iterdir() if is_name(path.name) and path.is_dir())

    def describe(self, name: str) -> Description:
        """Describe a namespace, even a damaged one.

        Raises:
            NamespaceUnknown: no namespace has this name.
        """
        folder = self._folder(name)
        size = _size(folder)
        try:
            with self.using(name) as namespace:
                store = namespace.store
                return Description(
                    name=name,
                    settings=namespace.settings,
                    counts=store.counts(),
                    created=store.meta("created"),
                    bytes_disk=size,
                )
        except NamespaceDamaged as error:
            return Description(name=name, settings=None, counts=None, created="", bytes_disk=size, damage=error.message)

    @contextlib.contextmanager
    def using(self, name: str) -> Iterator[Namespace]:
        """Open a namespace for reading and searching, including changes of other processes since its last use.

        Raises:
            NamespaceInvalid, NamespaceUnknown, NamespaceDamaged
        """
        folder = self._folder(name)
        with self._lock:
            lease = self._leases.get(name)
            if lease is not None and lease.namespace.is_stale():
                self._retire(name)
                lease = None
            if lease is None:
                lease = self._leases[name] = _Lease(Namespace(folder, self.backends))
            lease.users += 1
        try:
            yield lease.namespace
        finally:
            with self._lock:
                lease.users -= 1
                if lease.retired and not lease.users:
                    lease.namespace.close()

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[tuple[Namespace, StoreWriter]]:
        """Open a namespace for changes; concurrent searches see each change when it is complete.

        An index that lost rows which the journal counts as indexed is marked for a rebuild.

        Raises:
            NamespaceBusy: another process, or another thread, changes it.
            NamespaceInvalid, NamespaceUnknown, NamespaceDamaged
        """
        folder = self._folder(name)
        with (
            self.writer_lock(name),
            contextlib.closing(Namespace(folder, self.backends, write=True)) as namespace,
            contextlib.closing(namespace.writer()) as writer,
        ):
            for target in namespace.settings.targets:
                counts = namespace.store.counts()
                sure = counts.passages - (counts.pending[target] - counts.gone[target])
                if namespace.committed_rows(target) < sure:
                    with writer.transaction():
                        writer.mark_all_pending(target)
            yield namespace, writer

    @contextlib.contextmanager
    def writer_lock(self, name: str) -> Iterator[None]:
        """Lock a name, whether or not there is such a namespace.

        Raises:
            NamespaceBusy: another process, or another thread, holds the lock.
            NamespaceDamaged: the folder cannot be written.
        """
        target = self.root / checked_name(name)
        lock = build_lock(target, wait_s=0.0)
        try:
            lock.__enter__()
        except TimeoutError:
            raise NamespaceBusy(f"namespace {name} is being changed by another process") from None
        except OSError as error:
            raise NamespaceDamaged(f"{self.root}: cannot be written: {error.strerror}") from error
        try:
            recover(target)
            yield
        finally:
            lock.__exit__(None, None, None)

    def delete(self, name: str) -> None:
        """Delete a namespace, at once by name and soon after on the disk.

        A kill in between leaves files that the next change removes.
        """
        folder = self._folder(name)
        with self.writer_lock(name):
            with self._lock:
                self._retire(name)
            draft = create_draft(folder)
            folder.rename(draft / "deleted")
            shutil.rmtree(draft, ignore_errors=True)

    def note(self, name: str, key: str, value: str) -> None:
        """Write one value into the store of a namespace, without opening an index.

        Raises:
            NamespaceBusy and the like, as ``writing``.
        """
        folder = self._folder(name)
        with (
            self.writer_lock(name),
            contextlib.closing(Namespace(folder, self.backends)) as namespace,
            contextlib.closing(namespace.writer()) as writer,
            writer.transaction(),
        ):
            writer.set_meta(key, value)

    def empty_index(self, name: str, target: Target) -> None:
        """Remove an index and mark it for a rebuild by the next change or ``catch_up``."""
        folder = self._folder(name)
        with (
            self.writer_lock(name),
            contextlib.closing(Namespace(folder, self.backends, write=True)) as namespace,
            contextlib.closing(namespace.writer()) as writer,
        ):
            with writer.transaction():
                writer.mark_all_pending(target)
                if target == "vectors":
                    writer.set_meta("fingerprint", "")
            shutil.rmtree(folder / target, ignore_errors=True)

    def close(self) -> None:
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

    def _folder(self, name: str) -> Path:
        folder = self.root / checked_name(name)
        if not folder.is_dir():
            raise NamespaceUnknown(f"there is no namespace {name}", param="name")
        return folder


def _size(folder: Path) -> int:
    """Return the size of all files in bytes, without those that a writer removes meanwhile."""
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            size += path.stat().st_size if path.is_file() else 0
    return size

"""All namespaces of a data folder: made, listed, opened, deleted, one writer at a time.

A namespace is a folder ``NAME/`` with ``passages.sqlite``, the system of record, and the folders ``vectors/``,
``words/`` and ``keywords/``, which can be made from it at any time. One folder each: to delete one is one rename, to
copy one is to copy a folder, and a damaged one harms no other.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from retrieval.corpus.errors import NamespaceBusy, NamespaceDamaged, NamespaceExists, NamespaceUnknown
from retrieval.corpus.namespace import Namespace
from retrieval.corpus.namespace_settings import Backends, NamespaceSettings, checked_name, is_name
from retrieval.corpus.passage_store import Counts
from retrieval.corpus.store_schema import STORE_NAME, Target
from retrieval.corpus.store_write import StoreWriter, create_store
from retrieval.gateway.atomic_folders import draft_beside, put_in_place, recover, sole_builder


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """``counts`` is None, and ``damage`` says why, where the store cannot be read. ``bytes_disk``: all its files."""

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
    """Safe from many threads. What it opens stays open until ``close``, a change by another process, or its end."""

    def __init__(self, root: Path, backends: Backends) -> None:
        """``root`` need not be there yet."""
        self.root = root
        self.backends = backends
        self._lock = threading.Lock()
        self._leases: dict[str, _Lease] = {}

    def create(
        self, name: str, settings: NamespaceSettings, created: str = "", notes: Mapping[str, str] | None = None
    ) -> None:
        """``created``: the day, yyyy-mm-dd. ``notes``: further values for its store, as ``note`` writes them. A kill at
        any moment leaves it whole, or not there.

        Raises:
            NamespaceInvalid, NamespaceExists, NamespaceBusy
        """
        target = self.root / checked_name(name)
        self.root.mkdir(parents=True, exist_ok=True)
        with self.sole_writer(name):
            if target.exists():
                raise NamespaceExists(f"there is a namespace {name} already")
            draft = draft_beside(target)
            try:
                meta = {**(notes or {}), "settings": settings.as_text(), "created": created}
                create_store(draft / STORE_NAME, meta)
                put_in_place(draft, target)
            except OSError as error:
                raise NamespaceDamaged(f"{target}: cannot be written: {error.strerror}") from error
            finally:
                shutil.rmtree(draft, ignore_errors=True)

    def names(self) -> list[str]:
        """In alphabetical order."""
        if not self.root.is_dir():
            return []
        return sorted(path.name for path in self.root.iterdir() if is_name(path.name) and path.is_dir())

    def describe(self, name: str) -> Description:
        """Also of a damaged one. NamespaceUnknown where there is none."""
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
        """For reading and searching. What another process changed since the last time is seen.

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
        """For changes; who searches meanwhile sees each of them when it is done. An index that lost what the journal
        says it holds is written down to be filled anew.

        Raises:
            NamespaceBusy: another process, or another thread, changes it.
            NamespaceInvalid, NamespaceUnknown, NamespaceDamaged
        """
        folder = self._folder(name)
        with (
            self.sole_writer(name),
            contextlib.closing(Namespace(folder, self.backends, write=True)) as namespace,
            contextlib.closing(namespace.writer()) as writer,
        ):
            for target in namespace.settings.targets:
                counts = namespace.store.counts()
                sure = counts.passages - (counts.pending[target] - counts.gone[target])
                if namespace.rows(target) < sure:
                    with writer.transaction():
                        writer.index_anew(target)
            yield namespace, writer

    @contextlib.contextmanager
    def sole_writer(self, name: str) -> Iterator[None]:
        """Holds the name's lock, whether or not there is such a namespace. NamespaceBusy where another one does."""
        target = self.root / checked_name(name)
        lock = sole_builder(target, wait_s=0.0)
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
        """It is gone at once, its files soon; a kill in between leaves rubbish that the next change sweeps up."""
        folder = self._folder(name)
        with self.sole_writer(name):
            with self._lock:
                self._retire(name)
            draft = draft_beside(folder)
            folder.rename(draft / "deleted")
            shutil.rmtree(draft, ignore_errors=True)

    def note(self, name: str, key: str, value: str) -> None:
        """Write one value into its store; no index is opened. NamespaceBusy and the like as ``writing``."""
        folder = self._folder(name)
        with (
            self.sole_writer(name),
            contextlib.closing(Namespace(folder, self.backends)) as namespace,
            contextlib.closing(namespace.writer()) as writer,
            writer.transaction(),
        ):
            writer.set_meta(key, value)

    def empty_index(self, name: str, target: Target) -> None:
        """Take an index away and write down that it is to be filled anew; the next change or ``catch_up`` does."""
        folder = self._folder(name)
        with (
            self.sole_writer(name),
            contextlib.closing(Namespace(folder, self.backends, write=True)) as namespace,
            contextlib.closing(namespace.writer()) as writer,
        ):
            with writer.transaction():
                writer.index_anew(target)
                if target == "vectors":
                    writer.set_meta("fingerprint", "")
            shutil.rmtree(folder / target, ignore_errors=True)

    def close(self) -> None:
        with self._lock:
            for name in list(self._leases):
                self._retire(name)

    def _retire(self, name: str) -> None:
        """Closed now, or by its last user."""
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
    """Of all files; those that a writer takes away meanwhile do not count."""
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            size += path.stat().st_size if path.is_file() else 0
    return size

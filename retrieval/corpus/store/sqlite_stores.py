"""Keep the store of each namespace as an SQLite file in a folder of its own.

The folder ``NAME/`` has ``passages.sqlite`` and, beside it, the indices of the namespace. With one folder each, a
deletion is one rename, a copy is the copy of a folder, and a damaged namespace harms no other.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from retrieval.corpus.errors import NamespaceBusy, NamespaceDamaged, NamespaceExists, NamespaceUnknown
from retrieval.corpus.store.base import Target, is_name
from retrieval.corpus.store.reader import SqlitePassageStore
from retrieval.corpus.store.schema import STORE_NAME
from retrieval.corpus.store.writer import SqlitePassageWriter, create_store
from retrieval.storage.files import build_lock, create_draft, make_folder, recover, replace_folder

if TYPE_CHECKING:
    from retrieval.corpus.chunking import Chunker


class SqlitePassageStores:
    """Manage the stores below one folder, which need not exist yet.

    Not for network file systems, on which SQLite's write-ahead log does not work.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self) -> list[str]:
        if not self._root.is_dir():
            return []
        return sorted(path.name for path in self._root.iterdir() if is_name(path.name) and path.is_dir())

    def exists(self, name: str) -> bool:
        return (self._root / name).is_dir()

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        target = self._root / name
        lock = build_lock(target, wait_s=0.0)
        try:
            make_folder(self._root)
            lock.__enter__()
        except TimeoutError:
            raise NamespaceBusy(f"namespace {name} is being changed by another process") from None
        except OSError as error:
            raise NamespaceDamaged(f"{self._root}: cannot be written: {error.strerror}") from error
        try:
            recover(target)
            yield
        finally:
            lock.__exit__(None, None, None)

    @contextlib.contextmanager
    def creating(
        self, name: str, meta: Mapping[str, str], chunker: Chunker, targets: Sequence[Target]
    ) -> Iterator[SqlitePassageWriter]:
        target = self._root / name
        with self.lock(name):
            if target.exists():
                raise NamespaceExists(f"there is a namespace {name} already")
            with self._writes(target):
                draft = create_draft(target)
            try:
                with self._writes(target):
                    create_store(draft / STORE_NAME, meta)
                with contextlib.closing(SqlitePassageWriter(draft / STORE_NAME, name, chunker, targets)) as writer:
                    yield writer
                with self._writes(target):
                    replace_folder(draft, target)
            finally:
                shutil.rmtree(draft, ignore_errors=True)

    def open(self, name: str) -> SqlitePassageStore:
        return SqlitePassageStore(self._existing(name) / STORE_NAME, name)

    def delete(self, name: str) -> None:
        """Delete a namespace's folder, at once by name and soon after on the disk.

        A kill in between leaves files that the next change removes.
        """
        folder = self._existing(name)
        draft = create_draft(folder)
        folder.rename(draft / "deleted")
        shutil.rmtree(draft, ignore_errors=True)

    def _existing(self, name: str) -> Path:
        if not self.exists(name):
            raise NamespaceUnknown(f"there is no namespace {name}", param="name")
        return self._root / name

    @contextlib.contextmanager
    def _writes(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise NamespaceDamaged(f"{path}: cannot be written: {error.strerror}") from error

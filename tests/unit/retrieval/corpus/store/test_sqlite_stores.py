"""The folders of SQLite stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.corpus.chunking import Chunker, Chunking
from retrieval.corpus.store.sqlite_stores import SqlitePassageStores
from retrieval.errors import NamespaceDamaged


def _create(stores: SqlitePassageStores, name: str) -> None:
    with stores.creating(name, {}, Chunker(Chunking()), ()):
        pass


def test_a_store_is_deleted_with_the_indices_beside_it(tmp_path: Path) -> None:
    """Only the file of the lock remains."""
    stores = SqlitePassageStores(tmp_path)
    _create(stores, "ns")
    (tmp_path / "ns" / "words").mkdir()
    with stores.lock("ns"):
        stores.delete("ns")
    assert [path.name for path in tmp_path.iterdir()] == [".ns.lock"]


def test_other_folders_are_no_stores(tmp_path: Path) -> None:
    """Neither drafts nor files; a folder with a valid name and no file in it is a damaged store."""
    stores = SqlitePassageStores(tmp_path)
    for name in (".new.build-x1", "lost+found", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    assert stores.names() == ["empty"]
    with pytest.raises(NamespaceDamaged):
        stores.open("empty")


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    """Its place is a file."""
    (tmp_path / "file").touch()
    with pytest.raises(NamespaceDamaged, match="cannot be written"):
        _create(SqlitePassageStores(tmp_path / "file"), "ns")

"""What the SQLite store finds wrong in itself."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from corpus_files import reading

from retrieval.corpus.chunking import Chunker, Chunking
from retrieval.corpus.store.sqlite_stores import SqlitePassageStores


def test_rows_without_a_document_are_reported(tmp_path: Path) -> None:
    """Passages, duplicates, and duplicates of a passage that is not stored."""
    stores = SqlitePassageStores(tmp_path)
    text = "The same hundred letters and more, printed once in a journal and once elsewhere, as happens to abstracts."
    with stores.creating("ns", {}, Chunker(Chunking()), ()) as writer, writer.transaction():
        for number in range(3):
            writer.put(reading(f"PMID:{number}", text))
    with contextlib.closing(sqlite3.connect(tmp_path / "ns" / "passages.sqlite")) as connection, connection:
        connection.execute("DELETE FROM document WHERE document_id <> 'PMID:1'")
        connection.execute("UPDATE passage SET same = x'00'")
    with contextlib.closing(stores.open("ns")) as store:
        assert list(store.faults()) == [
            "store: 1 rows of passage have no document",
            "store: 1 rows of twin have no document",
            "store: 2 passages are kept as twins of none",
        ]

"""The store of one namespace: documents, passages, twins, the journal."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from corpus_files import reading

from retrieval.corpus.chunking import Chunker, Chunking
from retrieval.corpus.store.base import Change
from retrieval.corpus.store.schema import duplicate_key
from retrieval.corpus.store.sqlite_stores import SqlitePassageStore
from retrieval.corpus.store.writer import SqlitePassageWriter, create_store
from retrieval.errors import NamespaceDamaged

LONG = "The same hundred letters and more, as publishers print an abstract twice: once in the journal, once elsewhere."


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlitePassageStore]:
    create_store(tmp_path / "passages.sqlite", {"settings": "{}"})
    with contextlib.closing(SqlitePassageStore(tmp_path / "passages.sqlite", "ns")) as opened:
        yield opened


@pytest.fixture
def writer(store: SqlitePassageStore) -> Iterator[SqlitePassageWriter]:
    chunker = Chunker(Chunking(size=400))
    with contextlib.closing(SqlitePassageWriter(store.path, "ns", chunker, ("vectors", "words"))) as opened:
        yield opened


def _put(writer: SqlitePassageWriter, *documents: object) -> list[Change]:
    with writer.transaction():
        return [writer.put(document) for document in documents]  # type: ignore[arg-type]


def _strike(store: SqlitePassageStore, writer: SqlitePassageWriter) -> None:
    with writer.transaction():
        for target in ("vectors", "words"):
            writer.indexed(target, store.pending(target, 1000))


def test_large_texts_are_packed_and_come_back(store: SqlitePassageStore, writer: SqlitePassageWriter) -> None:
    """Letter for letter."""
    text = "\n".join(f"Zeile {number} – β\U0001f9ec" for number in range(2000))
    _put(writer, reading("PMC:1", text))
    assert store.document("PMC:1") is not None
    assert all(text[passage.start : passage.end] == passage.text for passage in store.passages())


def test_another_schema_or_file_is_refused(tmp_path: Path, store: SqlitePassageStore) -> None:
    """Also no file, and one that is no database."""
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    connection.close()
    (tmp_path / "text").write_text("no database, but long enough to be looked at as one")
    for path in (store.path, tmp_path / "text", tmp_path / "missing"):
        with pytest.raises(NamespaceDamaged):
            SqlitePassageStore(path, "ns")


def test_a_power_and_the_number_of_its_digits_are_no_equal_texts() -> None:
    """10⁶ and 106 are two numbers; equal texts in other letters and signs are one."""
    text = "They gave {} cells to every mouse of the group that was treated with the drug. " * 4
    raised, typed, other = (text.replace("{}", number) for number in ("10⁶", "10^6", "106"))
    assert duplicate_key(raised, 1) == duplicate_key(typed, 2) != duplicate_key(other, 3)

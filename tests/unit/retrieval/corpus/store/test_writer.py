"""The store of one namespace: documents, passages, twins, the journal."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from corpus_files import reading

from retrieval.corpus.chunking import Chunker, Chunking
from retrieval.corpus.errors import NamespaceDamaged, NamespaceInvalid
from retrieval.corpus.items import SkippedRecord
from retrieval.corpus.store.base import PassageFilter
from retrieval.corpus.store.reader import PassageStore
from retrieval.corpus.store.writer import Change, StoreWriter, create_store
from retrieval.passages import passage_id, type_bits

LONG = "The same hundred letters and more, as publishers print an abstract twice: once in the journal, once elsewhere."


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PassageStore]:
    create_store(tmp_path / "passages.sqlite", {"settings": "{}"})
    with contextlib.closing(PassageStore(tmp_path / "passages.sqlite")) as opened:
        yield opened


@pytest.fixture
def writer(store: PassageStore) -> Iterator[StoreWriter]:
    chunker = Chunker(Chunking(size=400))
    with contextlib.closing(StoreWriter(store.path, "ns", chunker, ("vectors", "words"))) as opened:
        yield opened


def _put(writer: StoreWriter, *documents: object) -> list[Change]:
    with writer.transaction():
        return [writer.put(document) for document in documents]  # type: ignore[arg-type]


def _strike(store: PassageStore, writer: StoreWriter) -> None:
    with writer.transaction():
        for target in ("vectors", "words"):
            writer.indexed(target, store.pending(target, 1000))


def test_passages_come_back_in_the_order_asked_for(store: PassageStore, writer: StoreWriter) -> None:
    """With their documents; ids that are not there are left out."""
    _put(writer, reading("PMID:1", "One.", "Two."), reading("PMID:2", "Three.", date=20200101, types=("review",)))
    found = list(store.passages())
    ids = [passage.passage_id for passage in found]
    back = store.get([ids[2], 5, ids[0], ids[1]])
    assert [passage.text for passage, _ in back] == ["Three.", "One.", "Two."]
    assert [document.document_id for _, document in back] == ["PMID:2", "PMID:1", "PMID:1"]
    assert back[0][0].date == 20200101
    assert back[1][0].section == "Part 1"
    assert ids[0] == passage_id("ns", "PMID:1", 0, "One.")
    for passage, document in back:
        whole = store.document(document.document_id)
        assert whole is not None
        assert whole[1][passage.start : passage.end] == passage.text


def test_large_texts_are_packed_and_come_back(store: PassageStore, writer: StoreWriter) -> None:
    """Letter for letter."""
    text = "\n".join(f"Zeile {number} – β\U0001f9ec" for number in range(2000))
    _put(writer, reading("PMC:1", text))
    assert store.document("PMC:1") is not None
    assert all(text[passage.start : passage.end] == passage.text for passage in store.passages())


def test_an_unchanged_document_leaves_the_journal_empty(store: PassageStore, writer: StoreWriter) -> None:
    """A note beside the text neither: only words, title, date and types reach an index."""
    assert _put(writer, reading("PMID:1", "One.")) == ["added"]
    _strike(store, writer)
    assert _put(writer, reading("PMID:1", "One."), reading("PMID:1", "One.", licence="CC0")) == ["unchanged", "noted"]
    assert store.counts().pending["vectors"] == 0
    assert _put(writer, reading("PMID:1", "One.", licence="CC0", types=("retracted publication",))) == ["changed"]
    assert store.counts().pending["vectors"] == 1


def test_a_changed_document_keeps_the_passages_that_stayed(store: PassageStore, writer: StoreWriter) -> None:
    """What is gone is in the journal as gone, for every index."""
    _put(writer, reading("PMID:1", "One.", "Two."))
    first, second = [passage.passage_id for passage in store.passages()]
    _strike(store, writer)
    assert _put(writer, reading("PMID:1", "One.", "Three.")) == ["changed"]
    third = [passage.passage_id for passage in store.passages()][1]
    for target in ("vectors", "words"):
        entries = dict(store.pending(target, 10))
        assert entries == {first: False, second: True, third: False}


def test_twins_are_kept_and_take_the_place_of_what_goes(store: PassageStore, writer: StoreWriter) -> None:
    """The same words in another case and with other blanks are indexed once; both documents are known."""
    _put(writer, reading("PMID:1", LONG), reading("PMID:2", LONG.upper().replace(" ", "  ")), reading("PMID:3", LONG))
    counts = store.counts()
    assert (counts.documents, counts.passages, counts.twins) == (3, 1, 2)
    (kept,) = store.passages()
    assert [document.document_id for document in store.also_in(kept.passage_id)] == ["PMID:2", "PMID:3"]
    with writer.transaction():
        assert writer.remove("PMID:1")
    (heir,) = store.passages()
    assert (heir.document_id, store.counts().twins) == ("PMID:2", 1)
    assert dict(store.pending("words", 10)) == {kept.passage_id: True, heir.passage_id: False}


def test_short_texts_are_never_twins(store: PassageStore, writer: StoreWriter) -> None:
    """Two editorials without abstract are two documents."""
    _put(writer, reading("PMID:1", title="Editorial."), reading("PMID:2", title="Editorial."))
    assert store.counts().passages == 2


def test_a_file_that_changed_takes_the_place_of_what_it_was(store: PassageStore, writer: StoreWriter) -> None:
    """Its id is its content, so it has another one; the place it was read from tells."""
    _put(writer, reading("sha256:aa", "Old.", provenance="/a.pdf"), reading("sha256:cc", "Other.", provenance="/c.pdf"))
    _put(writer, reading("sha256:bb", "New.", provenance="/a.pdf"))
    assert list(store.document_ids("sha256:")) == ["sha256:bb", "sha256:cc"]


def test_a_transaction_that_fails_leaves_nothing(store: PassageStore, writer: StoreWriter) -> None:
    """Neither a document nor a line of the journal."""
    with pytest.raises(RuntimeError), writer.transaction():
        writer.put(reading("PMID:1", "One."))
        raise RuntimeError
    assert store.counts().documents == 0
    assert store.generation() == 0


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (PassageFilter(), [1, 2, 3]),
        (PassageFilter(date_from=20100000), [2]),
        (PassageFilter(date_to=20200101), [1, 2]),
        (PassageFilter(types=("Review",)), [1]),
        (PassageFilter(types=("news", "letter")), [2]),
        (PassageFilter(types=("An Odd Type",)), [2]),
        (PassageFilter(without_types=("review",)), [2, 3]),
        (PassageFilter(without_types=("an odd type", "review")), [3]),
        (PassageFilter(documents=frozenset({"PMID:3", "PMID:9"})), [3]),
        (PassageFilter(documents=frozenset()), []),
        (PassageFilter(documents=frozenset({"PMID:1", "PMID:2"}), types=("letter",)), [2]),
    ],
)
def test_a_filter_means_the_same_to_store_and_indices(
    store: PassageStore, writer: StoreWriter, where: PassageFilter, expected: list[int]
) -> None:
    """What its document admits is what the filter of rows lets through."""
    _put(
        writer,
        reading("PMID:1", "One.", date=20030500, types=("review", "journal article")),
        reading("PMID:2", "Two.", date=20200101, types=("letter", "an odd type")),
        reading("PMID:3", "Three."),
    )
    assert [int(passage.document_id[5:]) for passage in store.passages(where)] == expected
    rows = store.row_filter(where)
    passed = []
    for passage in store.passages():
        bits = type_bits(passage.types)
        dated = rows is None or not (rows.date_from or rows.date_to) or (
            passage.date and rows.date_from <= passage.date <= (rows.date_to or 99_999_999)
        )  # fmt: skip
        typed = rows is None or ((not rows.types or bits & rows.types) and not bits & rows.without_types)
        if dated and typed and (rows is None or rows.ids is None or passage.passage_id in rows.ids):
            passed.append(int(passage.document_id[5:]))
    assert passed == expected


@pytest.mark.parametrize("fields", [{"date_from": 2020}, {"date_from": 20200101, "date_to": 20190101}])
def test_dates_that_cannot_be_are_refused(fields: dict[str, int]) -> None:
    """A year alone would silently filter everything away."""
    with pytest.raises(NamespaceInvalid):
        PassageFilter(**fields)  # type: ignore[arg-type]


def test_readers_see_whole_transactions_while_one_writes(store: PassageStore, writer: StoreWriter) -> None:
    """Every passage that is found can be read, whatever is written meanwhile."""
    stop, wrong = threading.Event(), list[str]()

    def look() -> None:
        while not stop.is_set():
            for passage in store.passages():
                if passage.text not in (f"Text {passage.document_id}.", f"Other {passage.document_id}."):
                    wrong.append(passage.text)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(6):
        word = "Text" if turn % 2 else "Other"
        _put(writer, *(reading(f"PMID:{n}", f"{word} PMID:{n}.") for n in range(40)))
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_records_that_were_passed_over_can_be_asked_for(store: PassageStore, writer: StoreWriter) -> None:
    """By file and line."""
    with writer.transaction():
        writer.record_skipped(SkippedRecord("a.xml", 7, "no PMID"))
    assert store.passed() == [SkippedRecord("a.xml", 7, "no PMID")]


def test_another_schema_or_file_is_refused(tmp_path: Path, store: PassageStore) -> None:
    """Also no file, and one that is no database."""
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    connection.close()
    (tmp_path / "text").write_text("no database, but long enough to be looked at as one")
    for path in (store.path, tmp_path / "text", tmp_path / "missing"):
        with pytest.raises(NamespaceDamaged):
            PassageStore(path)

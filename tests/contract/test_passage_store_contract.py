"""Every passage store keeps the promises of ``retrieval/corpus/store/base.py``.

To add an implementation, add it to ``IMPLEMENTATIONS`` and to ``opened``, which opens the stores of a place that may be
empty. Two openings of one place stand for two processes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from corpus_files import reading
from waiting import in_threads

from retrieval.corpus.chunking import Chunker, Chunking
from retrieval.corpus.items import ParsedDocument, SkippedRecord, Span
from retrieval.corpus.store.base import Change, PassageFilter, PassageStore, PassageStores, PassageWriter, Target
from retrieval.corpus.store.postgres_stores import PostgresPassageStores
from retrieval.corpus.store.sqlite_stores import SqlitePassageStores
from retrieval.errors import NAMESPACE_EXISTS, CorpusError, NamespaceBusy, NamespaceUnknown
from retrieval.passages import passage_id, type_bits
from server.state.database import Database, PassageDatabase

IMPLEMENTATIONS = ("postgresql", "sqlite")
CHUNKER = Chunker(Chunking(size=400))
TARGETS: tuple[Target, ...] = ("vectors", "words")
META = {"settings": "{}", "created": "2026-01-01"}
LONG = "The same hundred letters and more, as publishers print an abstract twice: once in the journal, once elsewhere."


@pytest.fixture(params=IMPLEMENTATIONS)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], PassageStores]]:
    """Open the same stores at each call, as another process does."""
    root = tmp_path / "deep" / "namespaces"
    if request.param == "sqlite":
        yield lambda: SqlitePassageStores(root)
        return
    databases: list[PassageDatabase] = []

    def another() -> PassageStores:
        databases.append(PassageDatabase(Database(url), connections=4))
        return PostgresPassageStores(root, databases[-1], lambda connection, namespace: None)

    url = request.getfixturevalue("postgres").new_database()
    yield another
    for database in databases:
        database.close()


@pytest.fixture
def stores(opened: Callable[[], PassageStores]) -> PassageStores:
    return opened()


@pytest.fixture
def store(stores: PassageStores) -> Iterator[PassageStore]:
    create(stores, "ns")
    with contextlib.closing(stores.open("ns")) as found:
        yield found


@pytest.fixture
def writer(store: PassageStore) -> Iterator[PassageWriter]:
    with contextlib.closing(store.writer(CHUNKER, TARGETS)) as found:
        yield found


def create(stores: PassageStores, name: str, *documents: ParsedDocument) -> None:
    with stores.creating(name, META, CHUNKER, TARGETS) as writer:
        if documents:
            _put(writer, *documents)


def ids_of(stores: PassageStores, name: str) -> list[str]:
    with contextlib.closing(stores.open(name)) as store:
        return list(store.document_ids())


def journal(store: PassageStore, target: Target) -> dict[int, bool]:
    return {entry.passage_id: entry.gone for entry in store.pending(target, 10)}


def _put(writer: PassageWriter, *documents: ParsedDocument) -> list[Change]:
    with writer.transaction():
        return [writer.put(document) for document in documents]


def _strike(store: PassageStore, writer: PassageWriter) -> None:
    with writer.transaction():
        for target in TARGETS:
            writer.indexed(target, store.pending(target, 1000))


def test_there_are_no_stores_before_the_first_is_created(stores: PassageStores) -> None:
    """Nothing needs to exist for the question, and nothing is created by it."""
    assert stores.names() == []
    with pytest.raises(NamespaceUnknown):
        stores.open("ns")
    assert stores.names() == []


def test_stores_are_listed_by_name(stores: PassageStores, opened: Callable[[], PassageStores]) -> None:
    """In alphabetical order, in every process."""
    for name in ("b", "a", "c-1"):
        create(stores, name)
    assert stores.names() == opened().names() == ["a", "b", "c-1"]
    assert [stores.exists(name) for name in ("a", "c-1", "c", "d")] == [True, True, False, False]


def test_a_new_store_has_its_values_and_no_documents(store: PassageStore) -> None:
    """An unknown value is an empty text."""
    counts = store.counts()
    assert (counts.documents, counts.passages, counts.twins) == (0, 0, 0)
    assert set(counts.pending.values()) == set(counts.gone.values()) == {0}
    assert (store.meta("created"), store.meta("settings"), store.meta("other")) == ("2026-01-01", "{}", "")
    assert (store.generation(), list(store.passages()), list(store.faults())) == (0, [], [])


def test_a_store_exists_when_it_is_complete(stores: PassageStores, opened: Callable[[], PassageStores]) -> None:
    """Until its creation has ended it is not listed, and an error leaves nothing behind."""
    with pytest.raises(RuntimeError), stores.creating("ns", META, CHUNKER, TARGETS) as writer:
        _put(writer, reading("PMID:1", "One."))
        assert opened().names() == []
        raise RuntimeError
    assert stores.names() == []
    create(stores, "ns", reading("PMID:2", "Two."))
    assert ids_of(opened(), "ns") == ["PMID:2"]


def test_a_name_is_created_once(stores: PassageStores) -> None:
    """The first store stays as it is."""
    create(stores, "ns", reading("PMID:1", "One."))
    with pytest.raises(CorpusError, check=NAMESPACE_EXISTS.is_of):
        create(stores, "ns", reading("PMID:2", "Two."))
    assert ids_of(stores, "ns") == ["PMID:1"]


def test_a_lock_excludes_other_threads_and_processes(
    stores: PassageStores, opened: Callable[[], PassageStores]
) -> None:
    """It is of a name, whether or not a store has it, and another name is free."""
    other = opened()
    with stores.lock("ns"):
        for contender in (stores, other):
            with pytest.raises(NamespaceBusy), contender.lock("ns"):
                pass
        with pytest.raises(NamespaceBusy):
            create(other, "ns")
        create(other, "free")
    with other.lock("ns"):
        pass
    create(stores, "ns")
    assert stores.names() == ["free", "ns"]


def test_a_lock_is_released_by_an_error(stores: PassageStores) -> None:
    """A change that fails does not keep the next one out."""
    with pytest.raises(RuntimeError), stores.lock("ns"):
        raise RuntimeError
    with stores.lock("ns"):
        pass


def test_a_deleted_store_is_gone(stores: PassageStores, opened: Callable[[], PassageStores]) -> None:
    """Its name is free for another one, which has none of its documents; an open reader knows that it was replaced."""
    create(stores, "ns", reading("PMID:1", "One."))
    with contextlib.closing(opened().open("ns")) as reader:
        assert not reader.is_replaced()
        with stores.lock("ns"):
            stores.delete("ns")
        assert reader.is_replaced()
        assert stores.names() == []
        create(stores, "ns", reading("PMID:2", "Two."))
        assert reader.is_replaced()
    assert ids_of(stores, "ns") == ["PMID:2"]
    with stores.lock("other"), pytest.raises(NamespaceUnknown):
        stores.delete("other")


def test_stores_are_apart(stores: PassageStores) -> None:
    """A document of one is unknown in another, also under the same id; the ids of their passages differ."""
    create(stores, "a", reading("PMID:1", "One."))
    create(stores, "b", reading("PMID:1", "One."), reading("PMID:2", "Two."))
    with contextlib.closing(stores.open("a")) as a, contextlib.closing(stores.open("b")) as b:
        assert a.known(["PMID:1", "PMID:2"]) == {"PMID:1"}
        numbers = [{passage.passage_id for passage in store.passages()} for store in (a, b)]
        assert numbers[0].isdisjoint(numbers[1])
        with contextlib.closing(b.writer(CHUNKER, TARGETS)) as writer, writer.transaction():
            assert writer.remove("PMID:1")
        assert (list(a.document_ids()), list(b.document_ids())) == (["PMID:1"], ["PMID:2"])


def test_what_was_written_is_there_after_a_restart(
    store: PassageStore, writer: PassageWriter, opened: Callable[[], PassageStores]
) -> None:
    """Documents, values, the journal, finished files and skipped records."""
    _put(writer, reading("PMID:1", "One.", "Two."))
    with writer.transaction():
        writer.set_meta("owner", "me")
        writer.finish_source(("d1", "a.xml", "pubmed"), "2026-01-01", {"added": 1})
        writer.record_skipped(SkippedRecord("a.xml", 7, "no PMID"))
    writer.close()
    with contextlib.closing(opened().open("ns")) as again:
        assert [passage.text for passage in again.passages()] == ["One.", "Two."]
        assert (again.meta("owner"), again.counts(), again.generation()) == ("me", store.counts(), store.generation())
        assert again.pending("words", 10) == store.pending("words", 10) != []
        assert again.is_finished(("d1", "pubmed")) and not again.is_finished(("d1", "pmc"))
        assert again.passed() == [SkippedRecord("a.xml", 7, "no PMID")]


def test_every_transaction_is_a_generation(store: PassageStore, writer: PassageWriter) -> None:
    """The counts are those of the current one."""
    seen = [store.generation()]
    for number in range(3):
        _put(writer, reading(f"PMID:{number}", "One."))
        seen.append(store.generation())
        assert store.counts().documents == number + 1
    assert seen == sorted(set(seen))


def test_forgotten_files_can_be_added_again(store: PassageStore, writer: PassageWriter) -> None:
    """Needed after documents of theirs were removed."""
    with writer.transaction():
        writer.finish_source(("d1", "a.xml", "pubmed"), "2026-01-01", {})
    assert store.is_finished(("d1", "pubmed"))
    with writer.transaction():
        writer.forget_sources()
    assert not store.is_finished(("d1", "pubmed"))


def test_the_journal_is_read_in_pages(store: PassageStore, writer: PassageWriter) -> None:
    """Ascending by id, above the last one of the page before; a count stops at its limit."""
    _put(writer, *(reading(f"PMID:{number}", f"Text {number}.") for number in range(7)))
    pages, after = list[list[int]](), 0
    while entries := store.pending("vectors", 3, after):
        pages.append([entry.passage_id for entry in entries])
        after = entries[-1].place
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [number for page in pages for number in page] == sorted(passage.passage_id for passage in store.passages())
    assert (store.waiting("vectors", 100), store.waiting("vectors", 2), store.waiting("vectors:other", 9)) == (7, 2, 0)


def test_every_passage_can_be_indexed_again(store: PassageStore, writer: PassageWriter) -> None:
    """For one index; the journal of another one stays as it is."""
    _put(writer, reading("PMID:1", "One.", "Two."))
    _strike(store, writer)
    with writer.transaction():
        writer.mark_all_pending("words")
    assert [entry.gone for entry in store.pending("words", 10)] == [False, False]
    assert store.pending("vectors", 10) == []


def test_indexing_marks_the_indices_of_others_as_stale(store: PassageStore, writer: PassageWriter) -> None:
    """The value ``indexed`` changes with each commit of an index, and not with a document."""
    _put(writer, reading("PMID:1", "One."))
    before = store.meta("indexed")
    _put(writer, reading("PMID:2", "Two."))
    assert store.meta("indexed") == before
    _strike(store, writer)
    assert store.meta("indexed") != before


def test_known_passages_are_stored_as_given(store: PassageStore, writer: PassageWriter) -> None:
    """An import brings the passages of the export and does not cut again; parts of duplicates are listed too."""
    cuts = (Span(0, 4, "A"), Span(2, 8, "B", 3))
    with writer.transaction():
        writer.put(reading("PMID:1", "One. Two."), cuts)
    assert [(p.start, p.end, p.section, p.page) for p in store.passages()] == [(0, 4, "A", 0), (2, 8, "B", 3)]
    assert store.spans("PMID:1") == list(cuts)
    assert store.spans("PMID:9") == []


def test_documents_are_read_as_they_were_written(store: PassageStore, writer: PassageWriter) -> None:
    """With any text, and a digest that is equal for equal documents."""
    documents = [reading("PMID:1", 'β \U0001f9ec "quoted"\n% _'), reading("PMID:2", "Two.", types=("review",))]
    _put(writer, *documents)
    found = list(store.parsed_documents())
    assert [document for document, _ in found] == documents
    assert len({digest for _, digest in found}) == 2
    assert store.document("PMID:1") == (documents[0].document, documents[0].text)
    assert store.document("PMID:9") is None


def test_ids_are_listed_by_their_code_points(store: PassageStore, writer: PassageWriter) -> None:
    """A prefix has no special characters."""
    names = ["PMID:10", "PMID:9", "pmid:1", "a%b", "a_b", "aXb", "Ä:1"]
    _put(writer, *(reading(name, f"Text {name}.") for name in names))
    assert list(store.document_ids()) == sorted(names)
    assert list(store.document_ids("PMID:")) == ["PMID:10", "PMID:9"]
    assert (list(store.document_ids("a%")), list(store.document_ids("a_"))) == (["a%b"], ["a_b"])
    many = [f"PMID:{number}" for number in range(2000)]
    assert store.known([*many, "a%b"]) == {"PMID:9", "PMID:10", "a%b"}


def test_a_sound_store_has_no_faults(store: PassageStore, writer: PassageWriter) -> None:
    """Also after duplicates were removed and documents changed."""
    _put(writer, reading("PMID:1", LONG), reading("PMID:2", LONG), reading("PMID:3", "Three."))
    with writer.transaction():
        writer.remove("PMID:1")
        writer.put(reading("PMID:3", LONG))
    assert list(store.faults()) == []


def test_a_closed_store_can_be_opened_again(stores: PassageStores) -> None:
    """Closing one reader leaves another one open."""
    create(stores, "ns", reading("PMID:1", "One."))
    with contextlib.closing(stores.open("ns")) as first:
        stores.open("ns").close()
        assert first.counts().documents == 1


def test_of_concurrent_creations_of_a_name_one_succeeds(opened: Callable[[], PassageStores]) -> None:
    """The others find the name in use, or being created."""
    results: list[str] = []

    def attempt(number: int) -> None:
        try:
            create(opened(), "ns", reading(f"PMID:{number}", "One."))
        except CorpusError as error:
            results.append(type(error).__name__)
        else:
            results.append(f"PMID:{number}")

    in_threads(attempt, range(6))
    made = [result for result in results if result.startswith("PMID:")]
    assert len(results) == 6 and ids_of(opened(), "ns") == made


def test_passages_come_back_in_the_order_asked_for(store: PassageStore, writer: PassageWriter) -> None:
    """With their documents; ids that are not there are left out."""
    _put(writer, reading("PMID:1", "One.", "Two."), reading("PMID:2", "Three.", date=20200101, types=("review",)))
    found = list(store.passages())
    ids = [passage.passage_id for passage in found]
    back = store.get([ids[2], 5, ids[0], ids[1]])
    assert [passage.text for passage, _ in back] == ["Three.", "One.", "Two."]
    assert [document.document_id for _, document in back] == ["PMID:2", "PMID:1", "PMID:1"]
    assert (back[0][0].date, back[1][0].section) == (20200101, "Part 1")
    assert ids[0] == passage_id("ns", "PMID:1", 0, "One.")
    for passage, document in back:
        whole = store.document(document.document_id)
        assert whole is not None and whole[1][passage.start : passage.end] == passage.text


def test_an_unchanged_document_leaves_the_journal_empty(store: PassageStore, writer: PassageWriter) -> None:
    """A note beside the text and an unknown one too: only words, title, date and types reach an index."""
    assert _put(writer, reading("PMID:1", "One.")) == ["added"]
    _strike(store, writer)
    assert _put(writer, reading("PMID:1", "One."), reading("PMID:1", "One.", licence="CC0")) == ["unchanged", "noted"]
    with writer.transaction():
        assert not writer.remove("PMID:9")
    assert store.counts().pending["vectors"] == 0
    assert _put(writer, reading("PMID:1", "One.", licence="CC0", types=("retracted publication",))) == ["changed"]
    assert store.counts().pending["vectors"] == 1


def test_the_latest_version_stays_whatever_comes_after_it(store: PassageStore, writer: PassageWriter) -> None:
    """Files bring the versions of an article in any order; a removal removes them all."""
    put = [
        _put(writer, reading("PMID:1", text, version=version))[0]
        for text, version in (("Two.", 2), ("One.", 0), ("Three.", 3), ("Two.", 2), ("Three, corrected.", 3))
    ]
    assert put == ["added", "unchanged", "changed", "unchanged", "changed"]
    assert [passage.text for passage in store.passages()] == ["Three, corrected."]
    with writer.transaction():
        assert writer.remove("PMID:1")
    assert _put(writer, reading("PMID:1", "One.")) == ["added"]


def test_a_changed_document_keeps_the_passages_that_stayed(store: PassageStore, writer: PassageWriter) -> None:
    """What is gone is in the journal as gone, for every index."""
    _put(writer, reading("PMID:1", "One.", "Two."))
    first, second = [passage.passage_id for passage in store.passages()]
    _strike(store, writer)
    assert _put(writer, reading("PMID:1", "One.", "Three.")) == ["changed"]
    third = [passage.passage_id for passage in store.passages()][1]
    for target in ("vectors", "words"):
        assert journal(store, target) == {first: False, second: True, third: False}


def test_twins_are_kept_and_take_the_place_of_what_goes(store: PassageStore, writer: PassageWriter) -> None:
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
    assert journal(store, "words") == {kept.passage_id: True, heir.passage_id: False}


def test_short_texts_are_never_twins(store: PassageStore, writer: PassageWriter) -> None:
    """Two editorials without abstract are two documents."""
    _put(writer, reading("PMID:1", title="Editorial."), reading("PMID:2", title="Editorial."))
    assert store.counts().passages == 2


def test_a_file_that_changed_takes_the_place_of_what_it_was(store: PassageStore, writer: PassageWriter) -> None:
    """Its id is its content, so it has another one; the place it was read from tells."""
    _put(writer, reading("sha256:aa", "Old.", provenance="/a.pdf"), reading("sha256:cc", "Other.", provenance="/c.pdf"))
    _put(writer, reading("sha256:bb", "New.", provenance="/a.pdf"))
    assert list(store.document_ids("sha256:")) == ["sha256:bb", "sha256:cc"]


def test_a_transaction_that_fails_leaves_nothing(store: PassageStore, writer: PassageWriter) -> None:
    """Neither a document nor a line of the journal."""
    with pytest.raises(RuntimeError), writer.transaction():
        writer.put(reading("PMID:1", "One."))
        raise RuntimeError
    assert (store.counts().documents, store.generation()) == (0, 0)


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
    store: PassageStore, writer: PassageWriter, where: PassageFilter, expected: list[int]
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


def test_readers_see_whole_transactions_while_one_writes(store: PassageStore, writer: PassageWriter) -> None:
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


def test_what_was_passed_over_is_forgotten_by_file_or_as_a_whole(store: PassageStore, writer: PassageWriter) -> None:
    """With the files of an archive, none of another file whose name begins alike."""
    names = ("a.zip", "a.zip/b.pdf", "a.zipped", "c.xml")
    with writer.transaction():
        for name in names:
            writer.record_skipped(SkippedRecord(name, 1, "damaged"))
        writer.forget_skipped("a.zip")
    assert [record.file for record in store.passed()] == ["a.zipped", "c.xml"]
    with writer.transaction():
        writer.forget_skipped("")
    assert store.passed() == []


def test_documents_are_found_by_the_file_that_brought_them(store: PassageStore, writer: PassageWriter) -> None:
    """Those of an archive's files too."""
    for document, file in (("PMID:1", "a.zip/b.nbib"), ("PMID:2", "a.zip"), ("PMID:3", "a.zipped")):
        plain = reading(document, f"Words of {document}.")
        _put(writer, replace(plain, document=replace(plain.document, provenance=file)))
    assert store.from_file("a.zip") == ["PMID:1", "PMID:2"]
    assert store.from_file("a.zip/b.nbib") == ["PMID:1"]

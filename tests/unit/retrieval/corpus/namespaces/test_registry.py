"""Namespaces: made, filled, updated, deleted, killed in the middle of it, and whole afterwards."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from corpus_child import DOCUMENTS, documents
from corpus_doubles import WordEncoder, backends
from corpus_files import json_lines, pdf, reading
from ncbi_files import pubmed_record, pubmed_set, saved

from retrieval.corpus.chunking import Chunking
from retrieval.corpus.ingest.add import ChangeHooks, Progress, add_file, add_items, catch_up, remove
from retrieval.corpus.items import ReadOptions, SkippedRecord, Withdrawn, sha256_of
from retrieval.corpus.namespaces.originals import Originals
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.namespaces.verify import verify
from retrieval.corpus.store.base import log_name
from retrieval.corpus.store.writer import SqlitePassageWriter
from retrieval.errors import (
    DOCUMENT_UNKNOWN,
    INDEX_MISMATCH,
    NAMESPACE_EXISTS,
    CorpusError,
    DocumentUnreadable,
    IndexFault,
    NamespaceBusy,
    NamespaceDamaged,
    NamespaceInvalid,
    NamespaceUnknown,
)

SETTINGS = NamespaceSettings(encoder="words")
CHILD = Path(__file__).parents[4] / "data" / "corpus_child.py"


@pytest.fixture
def encoder() -> WordEncoder:
    return WordEncoder()


@pytest.fixture
def namespaces(tmp_path: Path, encoder: WordEncoder) -> Namespaces:
    found = Namespaces(tmp_path / "namespaces", backends(encoder))
    found.create("ns", SETTINGS, created="2026-11-21")
    return found


def _whole(namespaces: Namespaces, name: str = "ns") -> None:
    report = verify(namespaces, name)
    assert report.faults == ()
    assert set(report.rows.values()) == {report.passages}
    assert sum(report.pending.values()) == 0


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "", ".hidden", "A", "-a", "_a", "a b", "ä", "a" * 64, "a.b", "a\n", "..", "a\0"]
)
def test_odd_names_are_refused_everywhere(namespaces: Namespaces, name: str) -> None:
    """Before anything is looked for on the disk."""
    with pytest.raises(NamespaceInvalid):
        namespaces.create(name, SETTINGS)
    with pytest.raises(NamespaceInvalid):
        namespaces.delete(name)
    with pytest.raises(NamespaceInvalid), namespaces.using(name):
        pass
    with pytest.raises(NamespaceInvalid):
        add_items(namespaces, name, [])


@pytest.mark.parametrize("fields", [{"encoder": "a\nb"}, {"encoder": " x"}, {"words": "../x"}, {"words": ""}])
def test_settings_that_cannot_be_are_refused(fields: dict[str, str]) -> None:
    """A folder may be an encoder's id, a path is no back end."""
    NamespaceSettings(encoder="/models/my encoder", words="fts")
    with pytest.raises(NamespaceInvalid):
        NamespaceSettings(**fields)  # type: ignore[arg-type]


def test_a_namespace_is_made_listed_described_and_deleted(namespaces: Namespaces) -> None:
    """Another of the same name is refused, one that is not there is unknown."""
    namespaces.create("other-2", NamespaceSettings(words="none", chunking=Chunking(size=500)))
    assert namespaces.names() == ["ns", "other-2"]
    with pytest.raises(CorpusError, check=NAMESPACE_EXISTS.is_of):
        namespaces.create("ns", SETTINGS)
    found = namespaces.describe("ns")
    assert (found.settings, found.created, found.damage) == (SETTINGS, "2026-11-21", "")
    assert found.counts is not None
    assert found.counts.documents == 0
    namespaces.delete("ns")
    assert namespaces.names() == ["other-2"]
    for call in (namespaces.delete, namespaces.describe):
        with pytest.raises(NamespaceUnknown):
            call("ns")
    namespaces.create("ns", SETTINGS)
    add_items(namespaces, "ns", [reading("PMID:1", "One.")])
    _whole(namespaces)


def test_a_namespace_whose_folders_come_and_go_is_described(namespaces: Namespaces, tmp_path: Path) -> None:
    """An index is made in a draft that is renamed, and its old generations are removed, while somebody looks."""
    draft = tmp_path / "namespaces" / "ns" / ".words.build"

    def change() -> None:
        for _ in range(1000):
            (draft / "segments").mkdir(parents=True)
            shutil.rmtree(draft)

    changing = threading.Thread(target=change)
    changing.start()
    while changing.is_alive():
        assert namespaces.describe("ns").bytes_disk > 0


def test_documents_reach_every_index(namespaces: Namespaces, encoder: WordEncoder) -> None:
    """With their sections in the title that is embedded."""
    added = add_items(
        namespaces, "ns", [reading("PMID:1", "One.", "Two."), SkippedRecord("f", 3, "bad"), Withdrawn("PMID:9")]
    )
    assert (added.added, added.passed, added.withdrawn, added.indexed) == (1, 1, 0, 4)
    assert added.first_passed == (SkippedRecord("f", 3, "bad"),)
    assert encoder.encoded == 2
    _whole(namespaces)


def test_an_update_encodes_only_what_changed(namespaces: Namespaces, encoder: WordEncoder) -> None:
    """Unchanged documents and notes beside the text cost nothing; what is gone leaves every index."""
    old = [reading(f"PMID:{n}", f"The words of {n}.") for n in range(50)]
    add_items(namespaces, "ns", old)
    encoder.encoded = 0
    again = add_items(namespaces, "ns", old)
    assert (again.unchanged, again.indexed, encoder.encoded) == (50, 0, 0)
    noted = add_items(namespaces, "ns", [reading("PMID:3", "The words of 3.", corrected_by=("77",))])
    assert (noted.noted, encoder.encoded) == (1, 0)
    changed = add_items(
        namespaces, "ns", [reading("PMID:3", "Other words."), Withdrawn("PMID:4"), reading("PMID:99", "N")]
    )
    assert (changed.changed, changed.withdrawn, changed.added, encoder.encoded) == (1, 1, 1, 2)
    _whole(namespaces)
    with pytest.raises(CorpusError, match="PMID:none", check=DOCUMENT_UNKNOWN.is_of):
        remove(namespaces, "ns", ["PMID:5", "PMID:none"])
    gone = remove(namespaces, "ns", ["PMID:5", "PMID:6", "PMID:5"])
    assert (gone.withdrawn, encoder.encoded) == (2, 2)
    _whole(namespaces)
    with namespaces.using("ns") as namespace:
        assert namespace.store.counts().documents == 48


def test_the_same_file_again_is_only_looked_at(namespaces: Namespaces, encoder: WordEncoder, tmp_path: Path) -> None:
    """Until something of it is removed, or it changes."""
    path = saved(tmp_path / "set.xml", pubmed_set(pubmed_record("7"), pubmed_record("8"), "<Odd/>"))
    first = add_file(namespaces, "ns", path)
    assert (first.added, first.passed) == (2, 1)
    assert add_file(namespaces, "ns", path).already
    remove(namespaces, "ns", ["PMID:7"])
    back = add_file(namespaces, "ns", path)
    assert (back.already, back.added, back.unchanged) == (False, 1, 1)
    encoder.encoded = 0
    saved(path, pubmed_set(pubmed_record("7"), pubmed_record("8", title="Another title")))
    assert (add_file(namespaces, "ns", path).changed, encoder.encoded) == (1, 1)
    _whole(namespaces)


def test_every_form_can_be_added_by_its_content(namespaces: Namespaces, tmp_path: Path) -> None:
    """A PDF, a text, snippets; a changed text takes the place of the old one."""
    paths = [tmp_path / "a.pdf", tmp_path / "b.md", tmp_path / "c.jsonl"]
    paths[0].write_bytes(pdf("Words of a page"))
    paths[1].write_text("# Title\n\nWords of a note.\n")
    paths[2].write_text(json_lines({"id": "Anatomy_Gray_0", "title": "Anatomy_Gray", "content": "The heart."}))
    for path in paths:
        assert add_file(namespaces, "ns", path).added == 1
    paths[1].write_text("# Title\n\nOther words.\n")
    add_file(namespaces, "ns", paths[1], ReadOptions(kind="text"))
    with namespaces.using("ns") as namespace:
        assert sorted(passage.text for passage in namespace.store.passages()) == [
            "Other words.", "The heart.", "Words of a page",
        ]  # fmt: skip
    _whole(namespaces)


def test_a_cut_file_keeps_what_came_before(namespaces: Namespaces, tmp_path: Path) -> None:
    """It is indexed, and the file counts as not read."""
    path = saved(tmp_path / "set.xml", pubmed_set(pubmed_record("7"), pubmed_record("8"))[:-200])
    for _ in range(2):
        with pytest.raises(DocumentUnreadable, match="cut"):
            add_file(namespaces, "ns", path)
    with namespaces.using("ns") as namespace:
        assert list(namespace.store.document_ids()) == ["PMID:7"]
    _whole(namespaces)


def test_progress_is_told_and_a_cancelled_run_can_be_taken_up(namespaces: Namespaces, encoder: WordEncoder) -> None:
    """What was read is whole; the rest comes when the same is added again."""
    heard: list[Progress] = []
    ticks = iter(range(1000))
    watch = ChangeHooks(progress=heard.append, cancelled=lambda: len(heard) >= 2, clock=lambda: float(next(ticks)))
    stopped = add_items(namespaces, "ns", documents(), watch)
    assert stopped.cancelled
    assert 0 < stopped.added < DOCUMENTS
    assert heard[-1].documents_per_s == heard[-1].read / heard[-1].seconds
    assert verify(namespaces, "ns").whole
    done = add_items(namespaces, "ns", documents())
    assert done.added + done.unchanged == DOCUMENTS
    assert encoder.encoded == 2 * DOCUMENTS
    _whole(namespaces)


def test_batches_for_the_encoder_are_bounded(namespaces: Namespaces, encoder: WordEncoder) -> None:
    """Thousands of passages of one document go in pieces."""
    many = reading("PMID:1", *(f"Paragraph {n}." for n in range(9000)))
    add_items(namespaces, "ns", [many])
    assert encoder.batches == [4096, 4096, 808]


@pytest.mark.server
@pytest.mark.parametrize(
    ("moment", "turn"), [("written", 2), ("encoding", 1), ("before commit", 1), ("after commit", 1)]
)
def test_a_kill_at_any_moment_leaves_it_whole(tmp_path: Path, moment: str, turn: int) -> None:
    """The journal knows what each index lacks; the next run goes on."""
    encoder = WordEncoder()
    namespaces = Namespaces(tmp_path / "namespaces", backends(encoder))
    namespaces.create("ns", SETTINGS)
    paths = [str(CHILD.parent), str(CHILD.parents[2]), os.environ.get("PYTHONPATH", "")]
    child = subprocess.run(
        [sys.executable, str(CHILD), str(namespaces.root), moment, str(turn)],
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )
    assert child.returncode == -9
    report = verify(namespaces, "ns")
    assert report.faults == ()
    assert report.documents > 0
    assert sum(report.pending.values()) > 0
    before = report.documents
    catch_up(namespaces, "ns")
    _whole(namespaces)
    again = add_items(namespaces, "ns", documents())
    assert (again.unchanged, again.added) == (before, DOCUMENTS - before)
    _whole(namespaces)


def test_a_second_writer_is_told_to_wait(namespaces: Namespaces) -> None:
    """Reading goes on meanwhile."""
    with namespaces.writing("ns"):
        for change in (lambda: add_items(namespaces, "ns", []), lambda: namespaces.delete("ns")):
            with pytest.raises(NamespaceBusy):
                change()
        with namespaces.using("ns") as namespace:
            assert namespace.store.counts().documents == 0


def test_a_lost_index_is_filled_anew_and_verify_tells_of_it(namespaces: Namespaces, encoder: WordEncoder) -> None:
    """A folder that somebody deleted; also one that is emptied on purpose."""
    add_items(namespaces, "ns", documents()[:20])
    shutil.rmtree(namespaces.root / "ns" / "vectors")
    namespaces.close()
    report = verify(namespaces, "ns")
    assert not report.whole
    assert "vectors" in report.faults[0]
    encoder.encoded = 0
    catch_up(namespaces, "ns")
    assert encoder.encoded == 40
    _whole(namespaces)
    namespaces.empty_index("ns", "words")
    assert verify(namespaces, "ns").pending["words"] == 40
    catch_up(namespaces, "ns")
    _whole(namespaces)


def test_verify_finds_what_was_changed_behind_its_back(namespaces: Namespaces) -> None:
    """A text, a row that is missing, a row too many."""
    add_items(namespaces, "ns", [reading("PMID:1", "One."), reading("PMID:2", "Two.")])
    before = verify(namespaces, "ns").sha256
    with namespaces.writing("ns") as (namespace, writer):
        (first, second) = list(namespace.store.passages())
        assert isinstance(writer, SqlitePassageWriter)
        with writer.transaction():
            writer._connection.execute("UPDATE document SET content = 'Eins' WHERE document_id = 'PMID:1'")
        rows = namespace.vectors._folder.rows  # type: ignore[attr-defined]
        rows[5] = rows.pop(first.passage_id)
        namespace.vectors.commit()
        namespace.words.delete([second.passage_id])
        namespace.words.commit()
    namespaces.close()
    report = verify(namespaces, "ns")
    assert report.sha256 != before
    text = "\n".join(report.faults)
    for expected in (
        "PMID:1: its text",
        "PMID:1: passage",
        "words: 1 rows, 2 expected",
        "vectors: 1 passages are missing",
    ):
        assert expected in text


def test_another_encoder_under_the_same_name_is_refused(tmp_path: Path, namespaces: Namespaces) -> None:
    """Its vectors would be compared with those of the first one, and mean nothing."""
    add_items(namespaces, "ns", [reading("PMID:1", "One.")])
    other = Namespaces(namespaces.root, backends(WordEncoder(revision="2")))
    with pytest.raises(IndexFault, check=INDEX_MISMATCH.is_of):
        add_items(other, "ns", [reading("PMID:2", "Two.")])
    other.empty_index("ns", "vectors")
    catch_up(other, "ns")
    _whole(other)


def test_a_namespace_without_indices_is_a_store(tmp_path: Path) -> None:
    """Nothing waits for an index that there is not."""
    namespaces = Namespaces(tmp_path, backends())
    namespaces.create("plain", NamespaceSettings(words="none"))
    assert add_items(namespaces, "plain", documents()[:3]).indexed == 0
    _report = verify(namespaces, "plain")
    assert (_report.passages, _report.rows, _report.whole) == (6, {}, True)


def test_a_killed_creation_or_deletion_leaves_only_rubbish_that_goes(namespaces: Namespaces) -> None:
    """Names with a dot in front are no namespaces."""
    (namespaces.root / ".new.build-x1").mkdir()
    (namespaces.root / "lost+found").mkdir()
    assert namespaces.names() == ["ns"]
    namespaces.create("new", SETTINGS)
    assert not (namespaces.root / ".new.build-x1").exists()


def test_a_damaged_store_is_described_as_such(namespaces: Namespaces) -> None:
    """The list of all namespaces goes on."""
    namespaces.close()
    (namespaces.root / "ns" / "passages.sqlite").write_bytes(b"x" * 5000)
    assert "not a store" in namespaces.describe("ns").damage


def test_a_file_is_removed_by_its_name(namespaces: Namespaces, tmp_path: Path) -> None:
    """Where two came under one name, only the id tells which."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "notes.txt"
        path.write_text(f"Words of {folder}.")
        add_file(namespaces, "ns", path)
    path = tmp_path / "other.txt"
    path.write_text("Others.")
    add_file(namespaces, "ns", path)
    with pytest.raises(NamespaceInvalid, match="2 documents came as"):
        remove(namespaces, "ns", ["notes.txt"])
    assert remove(namespaces, "ns", ["other.txt"]).withdrawn == 1
    with pytest.raises(CorpusError, check=DOCUMENT_UNKNOWN.is_of):
        remove(namespaces, "ns", ["other.txt"])
    _whole(namespaces)


def test_a_pdf_is_kept_as_long_as_its_document(namespaces: Namespaces, tmp_path: Path) -> None:
    """For its owner alone; a namespace that lost it gets it back when the same file is added again."""
    path = tmp_path / "paper.pdf"
    path.write_bytes(pdf("Words of a page"))
    add_file(namespaces, "ns", path)
    with namespaces.using("ns") as namespace:
        (document_id,) = namespace.store.document_ids()
        originals = Originals(namespace.folder)
    kept = originals.path(document_id)
    assert kept is not None
    assert (kept.read_bytes(), kept.stat().st_mode & 0o777) == (path.read_bytes(), 0o600)
    kept.unlink()
    assert add_file(namespaces, "ns", path).already
    assert originals.path(document_id) == kept
    path.write_bytes(pdf("Other words"))
    add_file(namespaces, "ns", path)
    assert originals.path(document_id) is None
    remove(namespaces, "ns", ["paper.pdf"])
    assert list(kept.parent.iterdir()) == []


def test_what_a_killed_deletion_left_goes_at_the_next_start(
    namespaces: Namespaces, caplog: pytest.LogCaptureFixture
) -> None:
    """With its documents; what another process is building, and what nobody here made, stays."""
    add_items(namespaces, "ns", [reading("PMID:1", "One.")])
    root = namespaces.root
    (root / ".ns.build-dead").mkdir()
    (root / "ns").rename(root / ".ns.build-dead" / "deleted")
    (root / ".busy.build-live").mkdir()
    (root / ".site.build-own").mkdir()
    other = Namespaces(root, namespaces.backends)
    with caplog.at_level(logging.WARNING), namespaces.writer_lock("busy"):
        (root / ".busy.build-live").mkdir(exist_ok=True)
        other.sweep()
    assert not (root / ".ns.build-dead").exists()
    assert (root / ".busy.build-live").exists() and (root / ".site.build-own").exists()
    assert [record.getMessage() for record in caplog.records] == [
        f"namespace={log_name('ns')}: removed what a killed process left of it"
    ]


def test_a_namespace_for_which_there_is_no_room_is_not_made(namespaces: Namespaces) -> None:
    """The store's own error is told, and nothing is left."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(NamespaceDamaged, match="cannot be written"):
            namespaces.create("other", SETTINGS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert namespaces.names() == ["ns"]
    assert not list(namespaces.root.glob(".other.build-*"))


def test_a_file_that_older_readers_took_is_read_again(namespaces: Namespaces, tmp_path: Path) -> None:
    """They gave another text: 106 for 10<sup>6</sup>."""
    path = saved(tmp_path / "set.xml", pubmed_set(pubmed_record("7", title="10<sup>6</sup> cells")))
    add_items(namespaces, "ns", [reading("PMID:7", "106 cells", title="106 cells")])
    with namespaces.writing("ns") as (_, writer), writer.transaction():
        writer.finish_source((sha256_of(path), path.name, "pubmed"), "2026-01-01", {"added": 1})
    again = add_file(namespaces, "ns", path)
    assert (again.already, again.changed) == (False, 1)
    assert add_file(namespaces, "ns", path).already

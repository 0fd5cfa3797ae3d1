"""NCBI's precomputed MedCPT embeddings: the three files of a chunk become passages and rows that belong together."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from index_rows import write_medcpt_chunk

from retrieval.corpus.ingest.medcpt import ImportBatch, ImportReport, MedcptImport
from retrieval.errors import INDEX_INPUT_INVALID, INDEX_TOO_LARGE, IndexDamaged, IndexFault
from retrieval.index.base import Ids, RowFilter, Rows
from retrieval.index.open import create_index
from retrieval.index.segments.index import SegmentedIndex
from retrieval.index.spec import IndexSpec

DIM = 32


class Killed(Exception):
    pass


def importer(folder: Path) -> MedcptImport:
    return MedcptImport(folder=folder, state=folder / "state.json", namespace="pubmed", number=3, dim=DIM)


def new_index(folder: Path) -> SegmentedIndex:
    pytest.importorskip("faiss")
    return create_index(folder / "index", IndexSpec(dim=DIM, metric="inner_product"))


def test_every_vector_belongs_to_the_article_that_it_was_made_of(tmp_path: Path) -> None:
    """Though articles stand in another order than vectors; text, date and namespace go with it."""
    vectors = write_medcpt_chunk(tmp_path, 0, 300, dim=DIM) | write_medcpt_chunk(tmp_path, 37, 200, dim=DIM)
    index, batches = new_index(tmp_path), list[ImportBatch]()

    report = importer(tmp_path).run(index, batches.append)

    assert (report.rows, report.without_text, report.without_row, report.chunks) == (500, 0, 0, [0, 37])
    for batch in batches:
        for place, (document, passage) in enumerate(zip(batch.documents, batch.passages, strict=True)):
            pmid = document.document_id.removeprefix("PMID:")
            assert np.array_equal(batch.rows.vectors[place], vectors[pmid])
            assert batch.rows.ids[place] == passage.passage_id
            assert passage.text.startswith((f"Abstract of {pmid} with {{braces}}", f"Title of {pmid} – “β"))
            assert passage.date == int(f"{1990 + int(pmid) % 30}0{1 + int(pmid) % 9}15")
    last = batches[-1]
    found = index.search(last.rows.vectors[:1], 1, RowFilter(namespaces=frozenset({3})))
    assert found.ids[0, 0] == last.passages[0].passage_id
    assert index.stats().rows == 500
    index.close()


def test_a_killed_import_goes_on_at_its_chunk(tmp_path: Path) -> None:
    """Chunks that are done are not read again; the rows are those of one run."""
    for number in range(3):
        write_medcpt_chunk(tmp_path, number, 50, dim=DIM)
    index, seen = new_index(tmp_path), list[str]()

    def dies(batch: ImportBatch) -> None:
        seen.append(batch.documents[0].provenance)
        if len(seen) == 2:
            raise Killed

    with pytest.raises(Killed):
        importer(tmp_path).run(index, dies)
    report = importer(tmp_path).run(index, lambda batch: None)

    assert seen == ["pubmed_chunk_0.json", "pubmed_chunk_1.json"]
    assert (report.passed_over, report.chunks, index.stats().rows) == ([0], [1, 2], 150)
    write_medcpt_chunk(tmp_path, 0, 60, dim=DIM)
    assert importer(tmp_path).run(index, lambda batch: None).chunks == [0]
    index.close()


def test_a_chunk_with_the_pmids_of_another_is_refused(tmp_path: Path) -> None:
    """As NCBI's own copy once was: the vectors would belong to other articles."""
    write_medcpt_chunk(tmp_path, 36, 50, dim=DIM)
    write_medcpt_chunk(tmp_path, 37, 50, dim=DIM)
    shutil.copy(tmp_path / "pmids_chunk_36.json", tmp_path / "pmids_chunk_37.json")
    index = new_index(tmp_path)

    with pytest.raises(IndexFault, match="50 PMIDs that are not in chunk 37", check=INDEX_INPUT_INVALID.is_of):
        importer(tmp_path).run(index, lambda batch: None)

    assert index.stats().rows == 50
    index.close()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("pmids_chunk_0.json", '["1", "2"]', "2 PMIDs for 20 rows"),
        ("pmids_chunk_0.json", json.dumps(["7"] * 20), "twice"),
        ("pmids_chunk_0.json", json.dumps(["0"] * 20), "not in chunk 0"),
        ("pmids_chunk_0.json", '["x"]', "no list of PMIDs"),
        ("pubmed_chunk_0.json", '["x"]', "no JSON object"),
        ("pubmed_chunk_0.json", '{"1": {"t": "cut', "cut"),
        ("pubmed_chunk_0.json", '{"1": {"t": "a"}', "ends within"),
        ("pubmed_chunk_0.json", "version https://git-lfs", "no JSON object"),
        ("pubmed_chunk_0.json", '{"1": ' + "[" * 100_000, "nested more than 500 deep"),
        ("embeds_chunk_0.npy", "version https://git-lfs", "cut or no array"),
    ],
)
def test_files_that_cannot_be_a_chunk_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    """The message names the file's fault."""
    write_medcpt_chunk(tmp_path, 0, 20, dim=DIM)
    (tmp_path / name).write_text(text)
    with pytest.raises(IndexFault, match=message, check=INDEX_INPUT_INVALID.is_of):
        chunk = importer(tmp_path).chunks()[0]
        list(importer(tmp_path).batches(chunk, ImportReport()))


def test_missing_files_and_other_dimensions_are_refused(tmp_path: Path) -> None:
    """Before a row is read."""
    with pytest.raises(IndexFault, match="no embeds_chunk", check=INDEX_INPUT_INVALID.is_of):
        importer(tmp_path).chunks()
    write_medcpt_chunk(tmp_path, 0, 20, dim=DIM + 1)
    with pytest.raises(IndexFault, match="not float32", check=INDEX_INPUT_INVALID.is_of):
        importer(tmp_path).chunks()
    write_medcpt_chunk(tmp_path, 0, 20, dim=DIM)
    (tmp_path / "pubmed_chunk_0.json").unlink()
    with pytest.raises(IndexFault, match="is missing", check=INDEX_INPUT_INVALID.is_of):
        importer(tmp_path).chunks()
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(IndexDamaged):
        importer(tmp_path).run(_Nothing(), lambda batch: None)


def test_articles_and_rows_without_their_other_half_are_counted(tmp_path: Path) -> None:
    """Neither a hit without text nor a text without a vector comes about."""
    write_medcpt_chunk(tmp_path, 0, 20, dim=DIM)
    path = tmp_path / "pubmed_chunk_0.json"
    articles = json.loads(path.read_text())
    articles.pop(next(iter(articles)))
    path.write_text(json.dumps({**articles, "999999": {"d": "2020", "t": "x", "a": "y", "m": ""}, "x": {}}))
    report = ImportReport()

    batches = list(importer(tmp_path).batches(importer(tmp_path).chunks()[0], report))

    assert (report.rows, report.without_text, report.without_row) == (19, 1, 2)
    assert sum(len(batch.passages) for batch in batches) == 19


def test_an_import_that_would_fill_the_disk_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate is made from headers alone; the message has both numbers."""
    write_medcpt_chunk(tmp_path, 0, 20, dim=DIM)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    with pytest.raises(
        IndexFault, match=r"takes 1,760 bytes on the disk, which has 1 free", check=INDEX_TOO_LARGE.is_of
    ):
        importer(tmp_path).run(_Nothing(), lambda batch: None)
    monkeypatch.undo()
    with pytest.raises(
        IndexFault, match=r"takes 1,300 bytes of memory, of which 1,000 are left", check=INDEX_TOO_LARGE.is_of
    ):
        dataclasses.replace(importer(tmp_path), memory_left=1_000).run(_Nothing(), lambda batch: None)


class _Nothing:
    def add(self, rows: Rows) -> None:
        raise AssertionError("nothing may be added")

    def commit(self) -> int:
        raise AssertionError("nothing may be committed")

    def delete(self, ids: Ids) -> int:
        return 0

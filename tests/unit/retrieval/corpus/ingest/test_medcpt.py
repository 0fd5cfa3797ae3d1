"""NCBI's MedCPT embeddings in a namespace: texts, vectors and journal belong together, also after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus_doubles import DIM, WordEncoder, backends
from index_rows import write_medcpt_chunk

from retrieval.corpus.ingest.add import catch_up
from retrieval.corpus.ingest.medcpt import add_medcpt, estimate_medcpt
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.namespaces.verify import verify
from retrieval.errors import NamespaceInvalid


@pytest.fixture
def encoder() -> WordEncoder:
    return WordEncoder("medcpt")


@pytest.fixture
def namespaces(tmp_path: Path, encoder: WordEncoder) -> Namespaces:
    made = Namespaces(tmp_path / "namespaces", backends(encoder))
    made.create("pubmed", NamespaceSettings(encoder="medcpt"))
    return made


def test_articles_come_with_their_vectors(namespaces: Namespaces, encoder: WordEncoder, tmp_path: Path) -> None:
    """Nothing is encoded; words and keywords catch up; every vector is that of its article."""
    vectors = write_medcpt_chunk(tmp_path, 0, 60, dim=DIM)
    report = add_medcpt(namespaces, "pubmed", tmp_path)
    catch_up(namespaces, "pubmed")

    assert (report.rows, encoder.encoded) == (60, 0)
    assert verify(namespaces, "pubmed").whole
    with namespaces.using("pubmed") as namespace:
        assert {target: namespace.rows(target) for target in namespace.settings.targets} == dict.fromkeys(
            namespace.settings.targets, 60
        )
        pmid, vector = next(iter(vectors.items()))
        found = namespace.vectors.search(vector[None], 1)
        ((passage, document),) = namespace.store.get([int(found.ids[0, 0])])
        assert document.document_id == f"PMID:{pmid}"
        assert passage.text.startswith((f"Abstract of {pmid}", f"Title of {pmid}"))


def test_an_import_goes_on_where_it_was_killed(namespaces: Namespaces, encoder: WordEncoder, tmp_path: Path) -> None:
    """Between a chunk's texts and its vectors; the second run leaves one of each."""
    write_medcpt_chunk(tmp_path, 0, 30, dim=DIM)
    write_medcpt_chunk(tmp_path, 1, 30, dim=DIM)

    class KilledError(Exception):
        pass

    def kill(count: int) -> None:
        if count > 30:
            raise KilledError

    with pytest.raises(KilledError):
        add_medcpt(namespaces, "pubmed", tmp_path, kill)
    report = add_medcpt(namespaces, "pubmed", tmp_path)
    catch_up(namespaces, "pubmed")

    assert (report.chunks, report.passed_over, encoder.encoded) == ([1], [0], 0)
    checked = verify(namespaces, "pubmed")
    assert (checked.whole, checked.documents, checked.rows["vectors"]) == (True, 60, 60)


def test_a_namespace_of_another_encoder_takes_none(tmp_path: Path) -> None:
    """Their vectors could not be compared."""
    write_medcpt_chunk(tmp_path, 0, 3, dim=DIM)
    namespaces = Namespaces(tmp_path / "namespaces", backends(WordEncoder("words")))
    namespaces.create("notes", NamespaceSettings(encoder="words"))
    with pytest.raises(NamespaceInvalid, match="is words, not medcpt"):
        add_medcpt(namespaces, "notes", tmp_path)


def test_what_it_will_take_is_told_before(tmp_path: Path) -> None:
    """From the headers of the files alone, at MedCPT's own dimension."""
    write_medcpt_chunk(tmp_path, 0, 100, dim=768)
    assert estimate_medcpt(tmp_path).disk >= 100 * 768 * 2

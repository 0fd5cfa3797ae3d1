"""Vectors of the gateway's articles follow the store: made once, again where a text changes, gone with the article."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from clinfo_bench import article
from ncbi_files import pubmed_set, saved
from shipped_data import give_store

from models.encoders.base import Codes, Encoder, Floats, PassageText, Progress
from models.encoders.hashing import HashingEncoder
from models.encoders.token_codes import pack
from models.errors import ENCODER_UNAVAILABLE, ModelError
from retrieval.errors import INDEX_BUSY, INDEX_NOT_WRITTEN, IndexDamaged, IndexFault
from retrieval.formats.items import ReadOptions
from retrieval.gateway.article_vectors import ArticleVectors, VectorUpdate
from retrieval.gateway.importing.registry import KINDS
from retrieval.gateway.importing.run import import_file
from retrieval.gateway.store.open import open_store
from retrieval.gateway.store.reader import GatewayStore
from retrieval.index.open import open_index
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.spec import IndexSpec

STATIN = article("11", "Statins and muscle pain.", ("RESULTS", "Muscle pain was common."), year="2010")
INSULIN = article("12", "Insulin in children.", ("RESULTS", "Insulin lowered glucose in children."), year="2020")
GOUT = article("13", "Colchicine for gout.", ("RESULTS", "Colchicine stops an attack of gout."), year="2021")


class CountingEncoder(HashingEncoder):
    """The hashing encoder, which counts the passages that it encodes and fails at the one numbered ``fails_at``."""

    encoded = 0
    fails_at = 0

    def encode_passages(self, passages: Sequence[PassageText], *, progress: Progress | None = None) -> Floats:
        self.encoded += len(passages)
        if self.fails_at and self.encoded >= self.fails_at:
            raise ModelError("the encoder stopped", ENCODER_UNAVAILABLE)
        return super().encode_passages(passages, progress=progress)


class WordEncoder(CountingEncoder):
    """The same with a vector for each word."""

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[Floats]]:
        return self.encode_queries(texts), [self.encode_queries(text.split()) for text in texts]

    def encode_passages_with_tokens(self, passages: Sequence[PassageText]) -> tuple[Floats, list[Codes]]:
        codes = [pack(self.encode_queries(one.text.split())) for one in passages]
        return self.encode_passages(passages), codes


@pytest.fixture
def encoder() -> CountingEncoder:
    return CountingEncoder()


@pytest.fixture
def vectors(tmp_path: Path, encoder: Encoder) -> Iterator[ArticleVectors]:
    made = ArticleVectors(tmp_path, encoder)
    yield made
    made.close()


def put(data: Path, name: str, *records: str, deleted: Sequence[str] = ()) -> GatewayStore:
    """Import an update file of these records, and open the store."""
    gone = "".join(f"<PMID>{pmid}</PMID>" for pmid in deleted)
    body = pubmed_set(*records)
    if gone:
        body = body.replace("</PubmedArticleSet>", f"<DeleteCitation>{gone}</DeleteCitation></PubmedArticleSet>")
    import_file(give_store(data), KINDS["pubmed"], saved(data / name, body), ReadOptions(), lambda _: None)
    return open_store(data)


def pmids(vectors: ArticleVectors, question: str, *days: int) -> list[int]:
    return [pmid for pmid, _ in vectors.nearest(question, 5, *days)]


def test_the_nearest_article_is_first(tmp_path: Path, vectors: ArticleVectors) -> None:
    store = put(tmp_path, "a.xml", STATIN, INSULIN)
    assert (vectors.nearest("insulin", 5), vectors.rows, vectors.is_current(store)) == ([], 0, False)
    assert vectors.update(store) == VectorUpdate(encoded=2, removed=0)
    assert pmids(vectors, "insulin in children") == [12, 11] and vectors.is_current(store)


def test_token_vectors_are_kept_where_the_encoder_has_them(tmp_path: Path) -> None:
    """Unless the caller leaves them out; those of an article that is gone are removed."""
    encoder = WordEncoder(64)
    vectors = ArticleVectors(tmp_path, encoder)
    store = put(tmp_path, "a.xml", STATIN, INSULIN)
    vectors.update(store)
    found = vectors.encoded([11, 12, 99])
    expected = encoder.encode_passages_with_tokens(
        [PassageText("Statins and muscle pain.", "RESULTS: Muscle pain was common.")]
    )
    assert sorted(found) == [11, 12] and found[11][1] is not None
    assert np.allclose(found[11][0], expected[0][0], atol=1e-3) and np.array_equal(found[11][1], expected[1][0])
    store = put(tmp_path, "b.xml", GOUT, deleted=["11"])
    vectors.update(store, tokens=False)
    assert {pmid: codes is None for pmid, (_, codes) in vectors.encoded([11, 12, 13]).items()} == {12: False, 13: True}
    changed = article("12", "Insulin and gout.", ("RESULTS", "None had gout."), year="2020")
    vectors.update(put(tmp_path, "c.xml", changed), tokens=False)
    assert vectors.encoded([12])[12][1] is None  # not those of its former text
    vectors.close()


def test_days_of_publication_are_a_limit(tmp_path: Path, vectors: ArticleVectors) -> None:
    vectors.update(put(tmp_path, "a.xml", STATIN, INSULIN, GOUT))
    assert pmids(vectors, "insulin", 20150000) == [12, 13] and pmids(vectors, "insulin", 0, 20151231) == [11]


def test_only_what_changed_is_encoded(tmp_path: Path, vectors: ArticleVectors, encoder: CountingEncoder) -> None:
    """A later import adds an article, changes one and deletes one."""
    vectors.update(put(tmp_path, "a.xml", STATIN, INSULIN))
    assert pmids(vectors, "muscle pain")[0] == 11
    changed = article("12", "Insulin and gout.", ("RESULTS", "None had gout."), year="2020")
    store = put(tmp_path, "b.xml", changed, GOUT, deleted=["11"])
    assert not vectors.is_current(store)
    assert vectors.update(store) == VectorUpdate(encoded=2, removed=1) and encoder.encoded == 4
    assert sorted(pmids(vectors, "gout")) == [12, 13] and vectors.rows == 2
    assert vectors.update(store) == VectorUpdate(encoded=0, removed=0) and encoder.encoded == 4


def test_an_open_reader_sees_what_another_process_made(
    tmp_path: Path, vectors: ArticleVectors, encoder: Encoder
) -> None:
    vectors.update(put(tmp_path, "a.xml", STATIN))
    assert pmids(vectors, "gout") == [11]
    other = ArticleVectors(tmp_path, encoder)
    other.update(put(tmp_path, "b.xml", GOUT))
    other.close()
    assert pmids(vectors, "gout") == [13, 11]


def test_after_a_failure_an_update_goes_on(tmp_path: Path, vectors: ArticleVectors, encoder: CountingEncoder) -> None:
    """An article whose vector was not committed is encoded again, or removed where it has left the store since."""
    encoder.fails_at = 2
    store = put(tmp_path, "a.xml", STATIN, INSULIN)
    with pytest.raises(ModelError, check=ENCODER_UNAVAILABLE.is_of):
        vectors.update(store)
    assert not vectors.is_current(store) and vectors.rows == 0
    encoder.fails_at = 0
    store = put(tmp_path, "b.xml", GOUT, deleted=["12"])
    vectors.update(store)
    assert sorted(pmids(vectors, "gout")) == [11, 13]


def test_commits_in_between_are_kept(tmp_path: Path, vectors: ArticleVectors, encoder: CountingEncoder) -> None:
    """Of more articles than one commit holds, those before a failure are not encoded again."""
    words = random.Random(3)
    texts = [(f"{n}", f"Title {words.random()}") for n in range(1, 701)]
    store = put(tmp_path, "a.xml", *(article(pmid, title, ("", title)) for pmid, title in texts))
    encoder.fails_at = 700
    with pytest.raises(ModelError, check=ENCODER_UNAVAILABLE.is_of):
        vectors.update(store, commit_rows=300)
    assert vectors.rows == 512  # two batches of 256
    encoder.fails_at = 0
    assert vectors.update(store).encoded == 700 - 512


def test_vectors_of_each_encoder_stand_alone(tmp_path: Path, vectors: ArticleVectors) -> None:
    store = put(tmp_path, "a.xml", STATIN)
    vectors.update(store)
    other = ArticleVectors(tmp_path, HashingEncoder(64))
    assert not other.is_current(store) and other.update(store).encoded == 1
    assert pmids(other, "statin") == pmids(vectors, "statin") == [11]
    other.close()


def test_two_updates_at_once_are_refused(tmp_path: Path, vectors: ArticleVectors, encoder: Encoder) -> None:
    store = put(tmp_path, "a.xml", STATIN)
    vectors.update(store)
    (folder,) = (tmp_path / "vectors").iterdir()
    spec = IndexSpec(dim=encoder.dim, metric=encoder.metric, encoder=encoder.fingerprint.as_dict())
    writer = open_index(folder / "index", spec, OpenOptions(write=True))
    with pytest.raises(IndexFault, check=INDEX_BUSY.is_of):
        vectors.update(store)
    writer.close()
    assert vectors.update(store) == VectorUpdate(0, 0)


def test_a_damaged_index_is_reported(tmp_path: Path, vectors: ArticleVectors, encoder: Encoder) -> None:
    store = put(tmp_path, "a.xml", STATIN)
    vectors.update(store)
    (manifest,) = tmp_path.glob("vectors/*/index/manifest.json")
    manifest.write_text("{}")
    fresh = ArticleVectors(tmp_path, encoder)
    with pytest.raises(IndexDamaged):
        fresh.nearest("statin", 1)
    with pytest.raises(IndexDamaged):
        fresh.update(store)


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path, vectors: ArticleVectors) -> None:
    store = put(tmp_path, "a.xml", STATIN)
    (tmp_path / "vectors").write_text("a file")
    with pytest.raises(IndexFault, check=INDEX_NOT_WRITTEN.is_of):
        vectors.update(store)

"""Articles of the gateway are found by vectors: at once in a small store, by a command's vectors in a large one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from clinfo_bench import article
from ncbi_files import pubmed_set, saved
from shipped_data import give_store

from retrieval.errors import IndexFault
from retrieval.formats.items import ReadOptions
from retrieval.formats.records import Article
from retrieval.gateway.article_vectors import ArticleVectors
from retrieval.gateway.importing.registry import KINDS
from retrieval.gateway.importing.run import import_file
from retrieval.gateway.store.open import open_store
from server.evidence.article_vectors import ArticleFinder, Limits
from server.evidence.comparison import TextComparison
from server.evidence.encoders import EncoderPool
from server.settings.retrieval import RetrievalSettings

Imported = Callable[..., None]
RECORDS = (
    article("11", "Statins and muscle pain.", ("", "Muscle pain was common."), year="2010"),
    article("12", "Insulin in children.", ("", "Insulin lowered glucose."), year="2020", types=("Clinical Trial",)),
    article("13", "Insulin in adults.", ("", "Insulin lowered glucose in adults."), year="2021", types=("Letter",)),
)


@pytest.fixture
async def pool() -> AsyncIterator[EncoderPool]:
    encoders = EncoderPool(RetrievalSettings(encoders=("hashing",)))
    yield encoders
    await encoders.close()


@pytest.fixture
async def finder(tmp_path: Path, pool: EncoderPool) -> AsyncIterator[ArticleFinder]:
    made = ArticleFinder(tmp_path, pool, lambda: ArticleVectors(tmp_path, pool.encoder()))
    yield made
    await made.close()


@pytest.fixture
def imported(tmp_path: Path) -> Imported:
    def take(*records: str) -> None:
        path = saved(tmp_path / f"{len(records)}.xml", pubmed_set(*records))
        import_file(give_store(tmp_path), KINDS["pubmed"], path, ReadOptions(), lambda _: None)

    return take


def _remove(data: Path, pattern: str) -> None:
    """Remove files of the vectors."""
    for path in data.glob(f"vectors/*/{pattern}"):
        path.unlink()


async def test_a_small_store_gets_its_vectors_at_the_first_question(finder: ArticleFinder, imported: Imported) -> None:
    """And those of later imports at the next."""
    imported(*RECORDS[:2])
    found = await finder.nearest("insulin in children", 5)
    assert (found.pmids, found.note) == (("12", "11"), "")
    imported(*RECORDS)
    assert (await finder.nearest("insulin in adults", 5)).pmids[0] == "13"


async def test_the_packages_sample_is_found_without_a_command(finder: ArticleFinder) -> None:
    found = await finder.nearest("lasmiditan for acute migraine", 10)
    assert len(found.pmids) == 10 and found.note == ""


async def test_limits_leave_articles_out(finder: ArticleFinder, imported: Imported) -> None:
    imported(*RECORDS)

    def is_trial(record: Article) -> bool:
        return "Clinical Trial" in record.types

    assert (await finder.nearest("insulin", 5, Limits(0, 0, is_trial))).pmids == ("12",)
    assert (await finder.nearest("insulin", 5, Limits(20200000, 20201231, lambda _: True))).pmids == ("12",)
    assert (await finder.nearest("insulin", 1, Limits(20150000, 0, lambda _: True))).count == 1


async def test_a_large_store_waits_for_the_command(
    tmp_path: Path, finder: ArticleFinder, imported: Imported, pool: EncoderPool
) -> None:
    """The note says how many articles lack a vector, and what makes them; old vectors are used meanwhile."""
    imported(*(article(f"{n}", f"Title {n}.", ("", "Text.")) for n in range(1, 1003)))
    found = await finder.nearest("insulin", 5)
    assert found.pmids == () and found.note.startswith("1002 of 1002 articles have no vector")
    assert "arrowhead gateway vectors" in found.note
    vectors = ArticleVectors(tmp_path, pool.encoder())
    vectors.update(open_store(tmp_path))
    vectors.close()
    assert len((await finder.nearest("title 7", 5)).pmids) == 5
    imported(*RECORDS)
    assert "some of 1002 articles" in (await finder.nearest("title 7", 5)).note


@pytest.mark.weights
async def test_what_is_stored_of_articles_is_not_encoded_again(tmp_path: Path, imported: Imported) -> None:
    """The scores are those of the texts; of an article without token vectors nothing is taken from the store."""
    imported(*RECORDS)
    pool = EncoderPool(RetrievalSettings())
    finder = ArticleFinder(tmp_path, pool, lambda: ArticleVectors(tmp_path, pool.encoder()))
    await finder.nearest("insulin", 5)
    rows = await finder.rows(["12", "99"])
    text = "Insulin in children. Insulin lowered glucose."
    comparison = TextComparison(pool)
    stored = await comparison.compare("insulin", [text, "Statins."], [rows["12"], None])
    fresh = await TextComparison(pool).compare("insulin", [text, "Statins."])
    assert list(rows) == ["12"] and stored.late == fresh.late
    assert stored.cosines == pytest.approx(fresh.cosines, abs=1e-3)
    _remove(tmp_path, "codes.sqlite*")
    await finder.close()
    assert await finder.rows(["12"]) == {}
    await finder.close()
    await pool.close()


async def test_vectors_that_cannot_be_read_are_made_of_the_texts(
    tmp_path: Path, finder: ArticleFinder, imported: Imported
) -> None:
    imported(*RECORDS)
    await finder.nearest("insulin", 5)
    await finder.close()
    _remove(tmp_path, "index/segments/*/*")
    assert await finder.rows(["12"]) == {}
    with pytest.raises(IndexFault, match="the server's log says why") as raised:
        await finder.nearest("insulin", 5)
    assert str(tmp_path) not in raised.value.message


async def test_where_vectors_cannot_be_stored_the_note_says_so(
    tmp_path: Path, finder: ArticleFinder, imported: Imported
) -> None:
    imported(*RECORDS)
    (tmp_path / "vectors").write_text("a file in the place of the folder")
    found = await finder.nearest("insulin", 5)
    assert found.pmids == () and "cannot be stored" in found.note

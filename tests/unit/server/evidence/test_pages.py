"""Pages of PDFs as people look at them: a page that takes hours costs seconds, once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from corpus_files import pdf, slow_pdf

from retrieval.corpus.readers.pdf import MAX_WIDTH, MIN_WIDTH, PageLimits
from retrieval.errors import DOCUMENT_TOO_LARGE, DocumentUnreadable
from server.evidence.pages import WIDTHS, PageViews, drawn_width
from server.on_demand import OnDemand

pytestmark = pytest.mark.server  # pages are drawn in processes of their own


class Clock:
    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
async def pool() -> AsyncIterator[OnDemand]:
    pool = OnDemand("page")
    yield pool
    await pool.close()


@pytest.mark.parametrize("kind", ["forms", "tiles"])
async def test_a_page_that_failed_is_not_tried_again(tmp_path: Path, pool: OnDemand, kind: str) -> None:
    """In no width; another page is, and this one after a while."""
    path, clock = tmp_path / "slow.pdf", Clock()
    path.write_bytes(slow_pdf(2, kind=kind))
    assert path.stat().st_size < 5000
    pages = PageViews(pool, PageLimits(seconds=1.0), clock)
    with pytest.raises(DocumentUnreadable, match="more than 1 s", check=DOCUMENT_TOO_LARGE.is_of):
        await pages.picture("k", path, 1, 1000)
    path.unlink()

    for width in (100, 1000, 3000):
        with pytest.raises(DocumentUnreadable, match="more than 1 s", check=DOCUMENT_TOO_LARGE.is_of):
            await pages.picture("another", path, 1, width)
    with pytest.raises(DocumentUnreadable):
        await pages.picture("k", path, 2, 1000)
    clock.at += 601
    with pytest.raises(DocumentUnreadable):
        await pages.picture("k", path, 1, 1000)


async def test_pages_are_drawn_in_few_widths(tmp_path: Path, pool: OnDemand) -> None:
    """The next that is wide enough."""
    path = tmp_path / "paper.pdf"
    path.write_bytes(pdf("TP53 is a gene."))
    pages = PageViews(pool)
    drawn = {await pages.picture("k", path, 1, width) for width in range(50, 401, 50)}

    assert len(drawn) == 2
    assert len({*WIDTHS}) <= 8
    assert [drawn_width(width) for width in WIDTHS] == list(WIDTHS)
    assert (drawn_width(MIN_WIDTH), drawn_width(1001), drawn_width(MAX_WIDTH)) == (WIDTHS[0], 1400, MAX_WIDTH)
    assert [word.text for word in (await pages.words("k", path, 1)).words][:1] == ["TP53"]

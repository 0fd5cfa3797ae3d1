"""Web pages: what they say, without what frames it."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus_files import parsed_documents, slices
from ncbi_files import saved

from retrieval.corpus.readers.web_page import read
from retrieval.errors import DocumentUnreadable

PAGE = """<!DOCTYPE html>
<html><head><title>A trial | A site</title><meta name="citation_title" content="A trial">
<meta name="citation_author" content="Doe, Jane"><meta name="citation_author" content="Lee, Ann">
<meta name="citation_pmid" content="123"><meta name="citation_publication_date" content="2020/5/1">
<style>p {}</style></head><body><nav>Menu</nav><main><h1>A trial</h1><p>Of 10<sup>6</sup> cells<sup>[1]</sup>.
<!-- a comment --> End.</p><h2>Results <i>here</i></h2><div>CO<sub>2</sub> fell<br>by 5 %.<table>
<caption>Doses</caption>
<tr><th>a</th>
<th>b</th></tr><tr><td>1</td><td>2</td></tr></table></div><h3>Doses</h3><p>More</p><script>x()</script></main>
<footer>Imprint</footer></body></html>"""


def test_a_page_is_its_text_under_its_headings(tmp_path: Path) -> None:
    """Powers stay powers; scripts, menus and comments are no text; what the page tells of its article is kept."""
    (found,) = parsed_documents(list(read(saved(tmp_path / "a.html", PAGE))))
    document = found.document
    assert slices(found) == [
        ("", "Of 10⁶ cells[1]. End."),
        ("Results here", "CO2 fell\nby 5 %.\nDoses\na | b\n1 | 2"),
        ("Results here > Doses", "More"),
    ]
    assert (document.title, document.authors, document.date) == ("A trial", ("Doe, Jane", "Lee, Ann"), 20200501)
    assert (document.record, document.url) == ("PMID:123", "https://pubmed.ncbi.nlm.nih.gov/123/")
    assert document.document_id.startswith("sha256:")


def test_a_page_in_another_encoding_says_which(tmp_path: Path) -> None:
    """Latin letters of a page that is not UTF-8."""
    page = '<html><head><meta charset="iso-8859-1"></head><body><p>Sjögren</p></body></html>'
    path = tmp_path / "a.html"
    path.write_bytes(page.encode("latin-1"))
    assert parsed_documents(list(read(path)))[0].text == "Sjögren"


@pytest.mark.parametrize("page", ["", "<html><body><script>1</script></body></html>", "<div>" * 5000 + "x"])
def test_a_page_without_words_is_refused(tmp_path: Path, page: str) -> None:
    """Empty, scripts alone, nested without end."""
    with pytest.raises(DocumentUnreadable):
        list(read(saved(tmp_path / "a.html", page)))

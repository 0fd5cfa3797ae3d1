"""Tables whose columns have names."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus_files import parsed_documents
from ncbi_files import saved

from retrieval.corpus.items import SkippedRecord
from retrieval.corpus.readers.tables import delimiter_of, read
from retrieval.errors import DocumentUnreadable


def test_each_row_is_a_document(tmp_path: Path) -> None:
    """Quoted cells hold commas and line ends; missing cells at the end are empty, more than the header has a fault."""
    content = (
        'PMID,Title,Abstract,Authors,Journal/Book,Publication Year\n1,T,"Aspirin, oral,\nlowered fever",'
        '"Doe J, Lee A.",J Test,2020\n2,Only a title\n3,a,b,c,d,e,f,g\n\n'
    )
    first, second, third = read(saved(tmp_path / "a.csv", content))
    (found,) = parsed_documents([first])
    document = found.document
    assert (document.document_id, document.title, found.text) == ("PMID:1", "T", "Aspirin, oral,\nlowered fever")
    assert (document.authors, document.journal, document.date) == (("Doe J", "Lee A"), "J Test", 20200000)
    assert parsed_documents([second])[0].text == "Only a title"
    assert isinstance(third, SkippedRecord) and (third.line, third.reason) == (5, "8 columns, 6 expected")


def test_a_row_without_numbers_is_known_by_its_id_or_line(tmp_path: Path) -> None:
    """Tabs, semicolons, a byte order mark."""
    found = parsed_documents(list(read(saved(tmp_path / "notes.tsv", "\ufeffid\ttext\nx7\tOne.\n\tTwo.\n"))))
    assert [one.document.document_id for one in found] == ["notes:x7", "notes:3"]
    assert parsed_documents(list(read(saved(tmp_path / "b.csv", "doi;text\n10.1/x;A, b\n"))))[0].text == "A, b"


@pytest.mark.parametrize(
    "text",
    ["We saw text, and more.\nThen nothing.", "name,dose\naspirin,5", "text\nonly one column", "title, text", "a\tb"],
)
def test_what_has_no_named_columns_is_no_table(tmp_path: Path, text: str) -> None:
    """Prose, and tables that name neither text nor title."""
    assert delimiter_of(text.split("\n")) == ""
    with pytest.raises(DocumentUnreadable, match="one of the columns abstract, text"):
        list(read(saved(tmp_path / "a.csv", text)))

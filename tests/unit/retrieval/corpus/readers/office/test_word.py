"""Word documents."""

from __future__ import annotations

import zipfile
from pathlib import Path

import docx
import pytest
from corpus_files import parsed_documents, slices
from docx.oxml import parse_xml

from retrieval.corpus.readers.office import word
from retrieval.corpus.readers.office.package import MAIN_PARTS, package_kind
from retrieval.errors import DOCUMENT_TOO_LARGE, DocumentUnreadable

MATH = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
WORDS = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def _math(inner: str) -> str:
    return f"<m:r><m:t>{inner}</m:t></m:r>"


def test_headings_powers_formulas_and_tables_are_read(tmp_path: Path) -> None:
    """What a tracked change deletes is not, what it inserts is."""
    document = docx.Document()
    document.add_paragraph("On cells", style="Title")
    document.add_heading("Methods", 1)
    paragraph = document.add_paragraph("We used 5 × 10")
    paragraph.add_run("6").font.superscript = True
    paragraph.add_run(" cells and CO")
    paragraph.add_run("2").font.subscript = True
    half = f"<m:f><m:num>{_math('1')}</m:num><m:den>{_math('2')}</m:den></m:f>"
    power = f"<m:sSup><m:e>{_math('10')}</m:e><m:sup>{_math('-3')}</m:sup></m:sSup>"
    paragraph.add_run(" at ")
    paragraph._p.append(parse_xml(f"<m:oMath {MATH}>{half}{power}</m:oMath>"))
    paragraph._p.append(parse_xml(f"<w:del {WORDS}><w:r><w:delText>gone</w:delText><w:t>gone</w:t></w:r></w:del>"))
    paragraph._p.append(parse_xml(f"<w:ins {WORDS}><w:r><w:t> mM</w:t></w:r></w:ins>"))
    document.add_heading("Doses", 2)
    table = document.add_table(3, 3)
    for place, text in {(0, 1): "n", (0, 2): "%", (1, 0): "Drug", (1, 1): "5", (1, 2): "1", (2, 1): "6"}.items():
        table.cell(*place).text = text
    table.cell(1, 0).merge(table.cell(2, 0))
    table.cell(2, 1).merge(table.cell(2, 2))
    path = tmp_path / "paper.docx"
    document.save(str(path))
    (found,) = parsed_documents(list(word.read(path)))
    assert found.document.title == "On cells"
    assert slices(found) == [
        ("Methods", "We used 5 × 10⁶ cells and CO2 at 1/2 10⁻³ mM"),
        ("Methods > Doses", "| n | %\nDrug | 5 | 1\nDrug | 6 | 6"),
    ]


def test_a_package_that_is_no_document_is_refused(tmp_path: Path) -> None:
    """Damaged, empty, or one that would swell."""
    path = tmp_path / "a.docx"
    part_name = next(iter(MAIN_PARTS))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(part_name, "<x/>")
    assert package_kind(path) == "docx"
    with pytest.raises(DocumentUnreadable, match="damaged"):
        list(word.read(path))
    docx.Document().save(str(path))
    with pytest.raises(DocumentUnreadable, match="no words"):
        list(word.read(path))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(part_name, "w") as part:
        for _ in range(520):
            part.write(b"\0" * 2**20)
    with pytest.raises(DocumentUnreadable, check=DOCUMENT_TOO_LARGE.is_of):
        list(word.read(path))
    path.write_bytes(b"PK\x03\x04 cut")
    assert package_kind(path) == ""


def test_the_title_is_that_of_the_document(tmp_path: Path) -> None:
    """Of its properties, else its first heading; what Word and libraries put there is none."""
    path = tmp_path / "paper.docx"
    document = docx.Document()
    document.core_properties.title = "Word Document"
    document.add_heading("Aspirin in fever", 2)
    document.add_paragraph("It fell.")
    document.save(str(path))
    assert parsed_documents(list(word.read(path)))[0].document.title == "Aspirin in fever"
    document.core_properties.title = "A trial of aspirin"
    document.save(str(path))
    assert parsed_documents(list(word.read(path)))[0].document.title == "A trial of aspirin"

"""Labels of drugs as DailyMed gives them."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from retrieval.corpus.items import ParsedDocument, SkippedRecord
from retrieval.corpus.readers.labels.dailymed import read
from retrieval.corpus.readers.office.package import ARCHIVE
from retrieval.corpus.readers.registry import READERS, guess_reader
from retrieval.errors import DocumentUnreadable

LABEL = """<?xml version="1.0" encoding="UTF-8"?>
<?xml-stylesheet href="https://example.org/spl.xsl" type="text/xsl"?>
<document xmlns="urn:hl7-org:v3" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
 <code code="34391-3" codeSystem="2.16.840.1.113883.6.1" displayName="HUMAN PRESCRIPTION DRUG LABEL"/>
 <title>These highlights do not include all the information</title>
 <effectiveTime value="20240315"/><setId root="AB12-34"/><versionNumber value="7"/>
 <author><assignedEntity><representedOrganization><name>Examplepharm</name></representedOrganization></assignedEntity>
 </author>
 <component><structuredBody>
  <component><section><subject><manufacturedProduct><manufacturedProduct><name>Velotrol</name>
   <asEntityWithGeneric><genericMedicine><name>velotrapine</name></genericMedicine></asEntityWithGeneric>
  </manufacturedProduct></manufacturedProduct></subject></section></component>
  <component><section><title>1 INDICATIONS</title><text><paragraph>For <content styleCode="bold">ileus</content>
   below 10<sup>9</sup>/L.</paragraph><list><item>adults</item><item>horses</item></list></text>
   <component><section><title>1.1 Limits</title><text><table><tbody><tr><td>Dose</td><td>5 mg</td></tr></tbody></table>
   </text></section></component></section></component>
 </structuredBody></component>
</document>"""


def _zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def test_a_label_is_a_document_with_its_sections(tmp_path: Path) -> None:
    path = tmp_path / "label.xml"
    path.write_text(LABEL, "utf-8")

    assert guess_reader(path) == "dailymed"
    (item,) = READERS["dailymed"](path)

    assert isinstance(item, ParsedDocument)
    assert item.text == "For ileus below 10⁹/L.\n\nadults\n\nhorses\n\nDose | 5 mg"
    assert [span.section for span in item.spans] == ["1 INDICATIONS", "1 INDICATIONS > 1.1 Limits"]
    document = item.document
    assert (document.document_id, document.title) == ("DailyMed:ab12-34", "Velotrol (velotrapine)")
    assert (document.date, document.authors, document.version) == (20240315, ("Examplepharm",), 7)
    assert document.types[0] == "drug label" and document.url.endswith("setid=ab12-34")


def test_archives_within_an_archive_are_read_and_what_is_no_label_is_skipped(tmp_path: Path) -> None:
    inner = _zipped({"a.xml": LABEL.encode(), "picture.jpg": b"\xff\xd8"})
    hostile = b'<!DOCTYPE d [<!ENTITY e "x">]><document xmlns="urn:hl7-org:v3">&e;</document>'
    path = tmp_path / "release.zip"
    path.write_bytes(
        _zipped({"prescription/a.zip": inner, "b.xml": b"<other/>", "c.xml": hostile, "d.xml": b"<document"})
    )

    assert guess_reader(path) == "dailymed"
    items = list(read(path))

    assert [isinstance(item, ParsedDocument) for item in items] == [True, False, False, False]
    assert [item.file for item in items if isinstance(item, SkippedRecord)] == [
        f"release.zip/{name}" for name in ("b.xml", "c.xml", "d.xml")
    ]


@pytest.mark.parametrize(
    "content", [_zipped({"a.txt": b"no label"}), b"PK\x03\x04 damaged"], ids=["no label", "damaged"]
)
def test_an_archive_without_labels_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "release.zip"
    path.write_bytes(content)
    with pytest.raises(DocumentUnreadable):
        list(READERS["dailymed"](path))


def test_an_archive_of_other_files_is_none_of_labels(tmp_path: Path) -> None:
    path = tmp_path / "papers.zip"
    path.write_bytes(_zipped({"a.xml": b"<article/>", "b.txt": b"no label"}))
    assert guess_reader(path) == ARCHIVE
    path.write_bytes(b"PK\x03\x04 damaged")
    with pytest.raises(DocumentUnreadable):
        guess_reader(path)

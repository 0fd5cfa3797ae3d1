"""BioC in JSON and XML, as PMC and PubTator publish it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from corpus_files import json_lines, parsed_documents, slices
from ncbi_files import saved

from retrieval.corpus.items import SkippedRecord
from retrieval.corpus.readers import bioc


def _passage(text: str, section: str = "", kind: str = "paragraph", **infons: str) -> dict[str, Any]:
    return {"infons": {"section_type": section, "type": kind, **infons}, "offset": 0, "text": text}


PAPER = {
    "id": "PMC900002",
    "infons": {"license": "CC BY"},
    "passages": [
        _passage(
            "A title", "TITLE", "front", name_0="surname:Doe;given-names:Jane A", name_1="surname:Lee", year="2020",
            journal="J Test", **{"article-id_pmid": "77"},
        ),
        _passage("Fever fell in 12 of 20.", "ABSTRACT", "abstract"),
        _passage("Methods", "METHODS", "title_1"),
        _passage("Dose", "METHODS", "title_2"),
        _passage("Children got 5 mg.", "METHODS"),
        _passage("Results", "RESULTS", "title_1"),
        _passage("It fell.", "RESULTS"),
        _passage("Someone. 1999.", "REF", "ref"),
    ],
}  # fmt: skip
XML = """<?xml version="1.0"?><!DOCTYPE collection SYSTEM "BioC.dtd"><collection><source>PubTator</source><date/>
<key>k</key><document><id>123</id><passage><infon key="type">title</infon><offset>0</offset><text>A &amp; B</text>
</passage><passage><infon key="type">abstract</infon><offset>6</offset><sentence><offset>6</offset>
<text>One.</text></sentence><sentence><offset>11</offset><text>Two.</text></sentence></passage></document>
<document><id>124</id></document></collection>"""


@pytest.mark.parametrize(
    "content",
    [
        json.dumps([{"source": "PMC", "documents": [PAPER]}]),
        json.dumps({"source": "PMC", "documents": [PAPER]}, indent=1),
        json.dumps({"PubTator3": [PAPER]}),
        json_lines(PAPER),
    ],
    ids=["a list of collections", "a collection", "PubTator's export", "lines"],
)
def test_a_paper_is_read_in_its_sections(tmp_path: Path, content: str) -> None:
    """Whatever holds it; references stay out, and the licence, authors and numbers are NCBI's infons."""
    (found,) = parsed_documents(list(bioc.read(saved(tmp_path / "a.json", content))))
    document = found.document
    assert (document.document_id, document.title, document.source) == ("PMC:900002", "A title", "bioc")
    assert document.authors == ("Doe JA", "Lee")
    assert (document.journal, document.date, document.licence) == ("J Test", 20200000, "CC BY")
    assert document.record == "PMID:77"
    assert slices(found) == [
        ("Abstract", "Fever fell in 12 of 20."),
        ("Methods > Dose", "Children got 5 mg."),
        ("Results", "It fell."),
    ]


def test_xml_has_sentences_and_a_document_without_text_is_named(tmp_path: Path) -> None:
    """A number alone is a PMID."""
    first, second = bioc.read(saved(tmp_path / "a.xml", XML))
    (found,) = parsed_documents([first])
    assert (found.document.document_id, found.document.title, found.text) == ("PMID:123", "A & B", "One. Two.")
    assert isinstance(second, SkippedRecord) and "an id and passages" in second.reason

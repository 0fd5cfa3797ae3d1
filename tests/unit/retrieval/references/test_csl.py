"""Reference managers read back what was written: RIS with rispy, BibTeX with bibtexparser."""

from __future__ import annotations

import json
from typing import Any

import bibtexparser
import pytest
import rispy

from retrieval.passages import Document
from retrieval.references.csl import bibtex, csl_json, document_item, page_range, person, ris

ARTICLE: dict[str, Any] = {
    "id": "pmid:32678530",
    "type": "article-journal",
    "title": "Dexamethasone in Covid-19",
    "author": [{"literal": "RECOVERY Collaborative Group"}, person("Horby", "Peter"), person("King", "Ann", "Jr")],
    "container-title": "The New England journal of medicine",
    "volume": "384",
    "issue": "8",
    "page": "693-704",
    "issued": {"date-parts": [[2021, 2, 25]]},
    "DOI": "10.1056/NEJMoa2021436",
    "PMID": "32678530",
    "PMCID": "PMC7383595",
    "URL": "https://pubmed.ncbi.nlm.nih.gov/32678530/",
    "ISSN": "0028-4793",
}
HOSTILE: dict[str, Any] = {
    "id": "x",
    "type": "article-journal",
    "title": "A {TP53} & 5% of_all: $x^2$ \\input{/etc/passwd}\r\nER  - \r\nTY  - JOUR",
    "author": [{"literal": "Salt and Pepper Group"}, {"family": "O'Brien, and more", "given": "A"}],
    "URL": "https://example.org/a_b?c=%20d",
    "DOI": "10.1000/{x}_1",
}


def test_ris_comes_back_with_every_field() -> None:
    (found,) = rispy.loads(ris([ARTICLE]))
    assert found["type_of_reference"] == "JOUR"
    assert found["title"] == "Dexamethasone in Covid-19"
    assert found["authors"] == ["RECOVERY Collaborative Group,", "Horby, Peter", "King, Ann, Jr"]
    assert (found["volume"], found["number"]) == ("384", "8")
    assert (found["start_page"], found["end_page"]) == ("693", "704")
    assert (found["year"], found["date"]) == ("2021", "2021/02/25/")
    assert (found["doi"], found["accession_number"]) == ("10.1056/NEJMoa2021436", "32678530")
    assert found["urls"] == ["https://pubmed.ncbi.nlm.nih.gov/32678530/"]


def test_no_value_begins_another_ris_record() -> None:
    records = rispy.loads(ris([HOSTILE, ARTICLE]))
    assert len(records) == 2
    assert records[0]["title"].endswith("ER - TY - JOUR")


def test_ris_lines_end_as_the_format_wants() -> None:
    text = ris([ARTICLE])
    assert text.startswith("TY  - JOUR\r\n")
    assert text.endswith("ER  - \r\n")


def test_bibtex_comes_back_with_every_field() -> None:
    library = bibtexparser.parse_string(bibtex([ARTICLE]))
    assert not library.failed_blocks
    (entry,) = library.entries
    fields = {name: field.value for name, field in entry.fields_dict.items()}
    assert entry.entry_type == "article"
    assert fields["title"] == "{Dexamethasone in Covid-19}"
    assert fields["author"] == "{RECOVERY Collaborative Group} and Horby, Peter and King, Jr, Ann"
    assert (fields["year"], fields["month"], fields["pages"]) == ("2021", "feb", "693--704")
    assert (fields["doi"], fields["pmid"], fields["pmcid"]) == ("10.1056/NEJMoa2021436", "32678530", "PMC7383595")


def test_no_value_of_bibtex_is_a_command_or_ends_its_entry() -> None:
    library = bibtexparser.parse_string(bibtex([HOSTILE, ARTICLE]))
    assert not library.failed_blocks
    assert len(library.entries) == 2
    fields = library.entries[0].fields_dict
    title = fields["title"].value
    assert r"\textbackslash{}input\{" in title
    assert r"5\% of\_all" in title
    assert fields["url"].value == "https://example.org/a_b?c=%20d"
    assert "{" not in fields["doi"].value
    people = library.entries[0].fields_dict["author"].value
    assert people == "{Salt and Pepper Group} and {O'Brien, and more}, A"


def test_two_works_never_share_a_key() -> None:
    library = bibtexparser.parse_string(bibtex([ARTICLE, ARTICLE, {}, {}]))
    keys = [entry.key for entry in library.entries]
    assert keys == ["recovery2021dexamethasone", "recovery2021dexamethasone-2", "source", "source-2"]


def test_a_work_without_author_and_title_has_its_pmid_for_a_key() -> None:
    entries = bibtexparser.parse_string(bibtex([{"PMID": "7"}, {"title": "5-HT and sleep", "PMID": "8"}])).entries
    assert [entry.key for entry in entries] == ["pmid7", "ht"]
    assert "title" not in entries[0].fields_dict


def test_csl_json_is_the_items() -> None:
    assert json.loads(csl_json([ARTICLE, HOSTILE])) == [ARTICLE, HOSTILE]


@pytest.mark.parametrize(
    ("pages", "ends"),
    [
        ("693-704", ("693", "704")),
        ("1507-8", ("1507", "1508")),
        ("S12-9", ("S12", "S19")),
        ("e12-e15", ("e12", "e15")),
        ("e0123456", ("e0123456", "")),
        ("1-4; discussion 5", ("1-4; discussion 5", "")),
        ("", ("", "")),
    ],
)
def test_pages_are_written_out(pages: str, ends: tuple[str, str]) -> None:
    assert page_range(pages) == ends


def test_a_document_of_a_namespace_is_an_item() -> None:
    document = Document(
        document_id="PMID:7",
        title="Sleep.",
        authors=("van der Berg JA Jr", "A Group"),
        journal="J X",
        date=20030500,
        url="",
    )
    assert document_item(document) == {
        "id": "PMID:7",
        "type": "article-journal",
        "title": "Sleep",
        "author": [{"family": "van der Berg", "given": "J A", "suffix": "Jr"}, {"literal": "A Group"}],
        "container-title": "J X",
        "issued": {"date-parts": [[2003, 5]]},
        "PMID": "7",
        "URL": "https://pubmed.ncbi.nlm.nih.gov/7/",
    }
    own = Document(document_id="sha256:00", title="", types=("retracted publication",))
    assert document_item(own) == {"id": "sha256:00", "type": "document", "title": "sha256:00", "note": "Retracted"}

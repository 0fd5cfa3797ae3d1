"""CORD-19's papers, and JSON in the three shapes that files have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from corpus_files import json_lines, parsed_documents, slices
from ncbi_files import saved

from retrieval.corpus.items import SkippedRecord
from retrieval.corpus.readers.json_papers import json_values, paper_ids, read_cord19
from retrieval.errors import DocumentUnreadable

PAPER = {
    "paper_id": "0a1b2c",
    "metadata": {
        "title": "On fever",
        "authors": [{"first": "Jane", "middle": ["A"], "last": "Doe", "suffix": "Jr"}, {"first": "", "last": "Lee"}],
    },
    "abstract": [{"text": "Short."}],
    "body_text": [
        {"text": "One.", "section": "Intro"},
        {"text": "Two.", "section": "Intro"},
        {"text": "Three.", "section": "Results"},
    ],
}


def test_a_paper_of_cord_19_has_its_sections(tmp_path: Path) -> None:
    """Paragraphs of one section are one part."""
    (found,) = parsed_documents(list(read_cord19(saved(tmp_path / "a.json", json.dumps(PAPER, indent=2)))))
    assert found.document.document_id == "CORD-19:0a1b2c"
    assert found.document.authors == ("Doe JA Jr", "Lee")
    assert slices(found) == [("Abstract", "Short."), ("Intro", "One.\nTwo."), ("Results", "Three.")]


def test_a_paper_of_pmc_has_its_number(tmp_path: Path) -> None:
    """And one without an id is named."""
    path = saved(tmp_path / "a.jsonl", json_lines({**PAPER, "paper_id": "PMC12"}, {"metadata": {}}))
    first, second = read_cord19(path)
    assert parsed_documents([first])[0].document.document_id == "PMC:12"
    assert isinstance(second, SkippedRecord) and second.line == 2


@pytest.mark.parametrize("content", ['{"a": 1}\n\n{"a": 2}\n', '[{"a": 1},\n{"a": 2}]'])
def test_lines_and_arrays_give_their_values(tmp_path: Path, content: str) -> None:
    """A line that is no JSON is None."""
    assert [value for _, value in json_values(saved(tmp_path / "a", content))] == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("content", ["{", "[" * 100_000, '{"a":' * 10_000 + "1" + "}" * 10_000, ""])
def test_what_is_no_json_is_refused(tmp_path: Path, content: str) -> None:
    """Cut, or nested without end."""
    with pytest.raises(DocumentUnreadable):
        list(read_cord19(saved(tmp_path / "a", content)))


@pytest.mark.parametrize(
    ("pmcid", "pmid", "doi", "document_id"),
    [
        ("PMC12", "3", "10.1/x", "PMC:12"),
        ("", "3", "10.1/x", "PMID:3"),
        ("x", "", "10.1/x", "DOI:10.1/x"),
        ("", "1" * 20, "", ""),
    ],
)
def test_a_paper_has_the_first_of_its_numbers(pmcid: str, pmid: str, doi: str, document_id: str) -> None:
    """A number that is none does not count."""
    assert paper_ids(pmcid, pmid, doi)[0] == document_id

"""What reference managers export: PubMed's .nbib and RIS."""

from __future__ import annotations

from pathlib import Path

from corpus_files import parsed_documents
from ncbi_files import saved

from retrieval.corpus.items import SkippedRecord
from retrieval.corpus.readers.reference_files import read_bib, read_nbib, read_ris

NBIB = """
PMID- 90000006
OWN - NLM
TI  - Aspirin in fever: a trial that has a
      long title.
LID - 10.1000/x [doi]
AB  - Aspirin lowered fever in 12 of 20
      children.
FAU - Doe, Jane
AU  - Doe J
CN  - Fever Study Group
DP  - 2020 May 3
JT  - Journal of tests
PT  - Randomized Controlled Trial
PT  - Retracted Publication

PMID- none
TI  - Without a number

PMID- 90000007
TI  - Second.
OAB - Publisher: Une autre.
"""
RIS = """TY  - JOUR
TI  - Aspirin in fever
AB  - Aspirin lowered fever.
AU  - Doe, Jane
AU  - Lee, Ann
PY  - 2020/05/03/
JO  - J Test
DO  - https://doi.org/10.1000/x
ER  -

TY  - JOUR
AU  - Nobody
ER  -
TY  - CHAP
T1  - A chapter
AN  - 123
DB  - PubMed
ER  -
"""


def test_pubmeds_export_is_read_as_its_records(tmp_path: Path) -> None:
    """Broken lines are joined; a record without a PMID is named with its line."""
    first, second, third = read_nbib(saved(tmp_path / "a.nbib", NBIB))
    (found,) = parsed_documents([first])
    document = found.document
    assert (document.document_id, document.date) == ("PMID:90000006", 20200503)
    assert document.title == "Aspirin in fever: a trial that has a long title."
    assert found.text == "Aspirin lowered fever in 12 of 20 children."
    assert document.authors == ("Doe J", "Fever Study Group")
    assert document.is_retracted and "randomized controlled trial" in document.types
    assert (found.line, document.journal) == (2, "Journal of tests")
    assert isinstance(second, SkippedRecord) and second.line == 17
    assert parsed_documents([third])[0].text == "Une autre."


def test_ris_is_read_reference_by_reference(tmp_path: Path) -> None:
    """Known by DOI or by PubMed's number; one without title and abstract is named."""
    first, second, third = read_ris(saved(tmp_path / "a.ris", RIS.replace("\n", "\r\n")))
    (found,) = parsed_documents([first])
    document = found.document
    assert (document.document_id, document.url) == ("DOI:10.1000/x", "https://doi.org/10.1000/x")
    assert (document.title, found.text) == ("Aspirin in fever", "Aspirin lowered fever.")
    assert document.authors == ("Doe, Jane", "Lee, Ann")
    assert (document.date, document.journal, document.types) == (20200503, "J Test", ("journal article",))
    assert isinstance(second, SkippedRecord) and second.line == 11
    assert parsed_documents([third])[0].document.document_id == "PMID:123"


BIB = r"""Exported today.
@string{jt = "J Test"}
@article{doe2020, title = {{TP53} and M\"uller cells at $10^{6}$}, author = {Doe, Jane and Lee, Ann}, journal = jt,
  year = 2020, doi = {10.1000/x}, abstract = {Aspirin lowered fever by 5 \%.}}
@book{doe2020, title = "Another work", pmid = 123}
@misc{empty, author = {Nobody}}
@article{cut, title = {x}
@misc{last, title = {Last}}
"""


def test_bibtex_is_read_entry_by_entry(tmp_path: Path) -> None:
    """Accents are letters, formulas stay as they are; two works under one key are two, and what is none is named."""
    first, second, third, fourth, *rest = read_bib(saved(tmp_path / "a.bib", BIB))
    (found,) = parsed_documents([first])
    document = found.document
    assert (document.document_id, document.title) == ("DOI:10.1000/x", "TP53 and Müller cells at $10^{6}$")
    assert (document.authors, document.journal, document.date) == (("Doe, Jane", "Lee, Ann"), "J Test", 20200000)
    assert (found.text, document.types) == ("Aspirin lowered fever by 5 %.", ("journal article",))
    assert parsed_documents([second])[0].document.document_id == "PMID:123"
    assert isinstance(third, SkippedRecord) and third.line == 6
    assert isinstance(fourth, SkippedRecord) and fourth.line == 7
    assert [one.document.title for one in parsed_documents(rest)] == ["Last"]

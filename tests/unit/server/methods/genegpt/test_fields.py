"""The answer of a look-up model is the field of the record that it found."""

from __future__ import annotations

import pytest

from server.methods.genegpt.fields import NO_FIELD, chosen_of, field_of, said_of_claim
from server.methods.genegpt.questions import ParsedQuestion

READ = """[2 gene records
1. Stops the cell cycle after damage; TP53 (human) protein-coding chr17 17p13.1; aliases BCC7, P53; id 7157
2. ERBB2 (human) protein-coding chr17 17q12; aliases CD340, HER2; id 2064
3. MYCP1 (human) pseudogene chr4 4q13; id 4610
4. IGHV4-31 (human) other (immunoglobulin gene) no chromosome; immunoglobulin heavy variable 4-31; id 28396]
[1 gene record, 1 human named beta globin
1. Carries oxygen; HBB (human) protein-coding chr11; hemoglobin subunit beta; id 3043]"""


@pytest.mark.parametrize(
    ("relation", "subject", "written", "answer"),
    [
        ("function", "TP53", "Stops the", "Stops the cell cycle after damage"),
        ("function", "ERBB2", "ERBB2", NO_FIELD),
        ("function", "TP53", "Tumor suppressor", "Tumor suppressor"),
        ("symbol", "ENSG00000141736", "HER2", "ERBB2"),
        ("symbol", "HER2", "ERBB2", "ERBB2"),
        ("symbol", "XYZ1", "XYZ2", "XYZ2"),
        ("aliases", "HER2", "ERBB2", "CD340, HER2"),
        ("aliases", "XYZ1", "ERBB2", NO_FIELD),
        ("location", "TP53", "chr17", "chr17"),
        ("coding", "HER2", "No", "Yes: protein-coding"),
        ("coding", "MYCP1", "Yes", "No: pseudogene"),
        ("coding", "IGHV4-31", "Yes", "immunoglobulin gene"),
        ("coding", "XYZ1", "Yes", "Yes"),
        ("function", "beta globin", "Carries", "Carries oxygen"),
        ("coding", "beta globin", "No", "Yes: protein-coding"),
        ("name", "beta globin", "HBB", "hemoglobin subunit beta"),
        ("name", "HER2", "ERBB2", NO_FIELD),
        ("name", "TP53", "TP53", NO_FIELD),
        ("organism", "TP53", "TP53", "human"),
        ("organism", "XYZ1", "XYZ1", NO_FIELD),
    ],
)
def test_an_answer_is_the_whole_field_of_the_record(relation: str, subject: str, written: str, answer: str) -> None:
    """A model that copies two words of a sentence has found it, not told it; a record's type is no opinion."""
    parsed = ParsedQuestion("?", relation, subject)  # type: ignore[arg-type]
    assert field_of(parsed, written, READ) == answer


def test_a_place_says_whether_it_is_the_one_that_is_asked_for() -> None:
    asked = ParsedQuestion("?", "location", "ACE2", chromosome="X")
    assert said_of_claim(asked, "chrX", "") == "Yes: chrX"
    assert said_of_claim(asked, "chr17 17q21.31", "") == "No: chr17 17q21.31"
    assert said_of_claim(asked, "unknown", "") == "unknown"
    assert said_of_claim(ParsedQuestion("?", "location", "ACE2"), "chrX", "") == "chrX"


def test_a_gene_says_whether_it_is_the_one_that_is_asked_for() -> None:
    """A variant's record has all its genes; a disease may have others than the ones that were found."""
    variant = ParsedQuestion("?", "snp_gene", "rs1", claimed="HBA2")
    assert said_of_claim(variant, "HBA1", "[1. HBA1, HBA2, chr16]") == "Yes: HBA1"
    assert said_of_claim(variant, "HBA1", "[1. HBA1, HBA2-AS, chr16]") == "No: HBA1"
    disease = ParsedQuestion("?", is_of_disease=True, claimed="brca2")
    assert said_of_claim(disease, "BRCA1, BRCA2", "") == "Yes: BRCA1, BRCA2"
    assert said_of_claim(disease, "BRCA1, PALB2", "other: BRCA2") == "BRCA1, PALB2"


def test_the_choice_that_an_answer_has_is_taken_with_its_letter() -> None:
    assert chosen_of(("CFTR", "BRCA1"), "BRCA1, PALB2") == "B. BRCA1"
    assert chosen_of(("13", "17"), "chr17 17p13.1") == "B. 17"
    assert chosen_of(("CFTR", "BRCA1"), "CFTR, BRCA1") == ""
    assert chosen_of(("CFTR", "BRCA1"), "HTT") == ""


SEPTIN = "SEPT11 belongs to the conserved septin family (Hanai et al., 2004; Nagata et al., 2004)."
LISTED = f"""[20 omim entries, 4 on topic
1. 6q25-q27, 15q26, 14q24.3-q31, 6q21
- no gene at 6q25-q27; type 1 diabetes mellitus 8 (T1D8)]
[1 gene record, 1 human
1. This gene encodes a subunit of a channel, a member of its family.; CACNB2 (human) protein-coding chr10; id 783]
[1 gene record, 1 human
1. {SEPTIN}; SEPTIN11 (human) protein-coding chr4 4q21.1; aliases SEPT11; septin 11; id 55752]"""


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("6q25-q27, 15q26, 6q25-q27, 15q26, 6q2", "6q25-q27, 15q26, 14q24.3-q31, 6q21"),
        ("6q25-q27", "6q25-q27"),
        ("15q26, 6q21", "15q26, 6q21"),
        (
            "This gene encodes a subunit of a protein of its family.",
            "This gene encodes a subunit of a channel, a member of its family.",
        ),
        ("This gene encodes a member", "This gene encodes a member"),
        (SEPTIN, SEPTIN),
        ("", ""),
    ],
)
def test_a_list_or_a_sentence_of_two_hops_is_the_whole_one_that_its_beginning_copies(written: str, answer: str) -> None:
    assert field_of(ParsedQuestion("?"), written, LISTED) == answer

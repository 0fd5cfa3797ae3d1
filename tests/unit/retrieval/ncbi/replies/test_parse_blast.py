"""Places, strand and titles of hits."""

from __future__ import annotations

import pytest

from retrieval.errors import BlastFailed, NcbiMalformed
from retrieval.ncbi.replies.condense import condense
from retrieval.ncbi.replies.parse_blast import parse_blast
from retrieval.types import Focus

TITLE = "Homo sapiens chromosome 15, GRCh38.p14 Primary Assembly"
TEXT = f"""BLASTN 2.15.0+
Query= unnamed

Length=30
Sequences producing significant alignments:

>NC_000015.10 {TITLE}
Length=101991189

 Score = 55.4 bits (30),  Expect = 0.001
 Identities = 30/30 (100%), Gaps = 0/30 (0%)
 Strand=Plus/Minus

Query  1         ATGCGTCGAGGGCGTCTGCTGGAGATCGCC  30
Sbjct  48408342  ATGCGTCGAGGGCGTCTGCTGGAGATCGCC  48408313
"""


def test_a_hit_on_the_minus_strand_has_the_greater_position_first() -> None:
    """Its accession has the version."""
    (hit,) = parse_blast(TEXT).hits

    assert (hit.accession, hit.title) == ("NC_000015.10", TITLE)
    assert (hit.subject_start, hit.subject_stop) == (48408342, 48408313)


def test_the_place_on_the_genome_is_shown() -> None:
    """Only the accession with its version says which assembly a position is of."""
    text = condense(parse_blast(TEXT), Focus(places=True)).text

    assert text.startswith("[1 blast hit\n1. chr15:48408313-48408342 human\n- NC_000015.10 ")


@pytest.mark.parametrize(("program", "length"), [("blastx", 30), ("tblastx", 30), ("tblastn", 90), ("blastp", 90)])
def test_the_length_of_a_translated_query_is_in_amino_acids(program: str, length: int) -> None:
    """As the identities of its alignments are: 30 of 30, not 30 of 90."""
    body = TEXT.replace("BLASTN", program.upper()).replace("Length=30", "Length=90")

    assert parse_blast(body).query_length == length


def test_further_records_of_a_sequence_keep_their_titles() -> None:
    """A gene's symbol may stand in the title of the second record alone."""
    first, second = "Homo sapiens clone A", "Homo sapiens fibrillin 1 (FBN1), mRNA"
    result = parse_blast(TEXT.replace(TITLE, f"{first}\n NM_000138.5 {second}"))

    assert (result.hits[0].title, result.hits[0].other_titles) == (first, (second,))
    assert " gene FBN1\n- " in condense(result, Focus()).text


@pytest.mark.parametrize(
    ("identifier", "title", "accession"),
    [
        ("gi|568815583|ref|NC_000015.10|", "T", "NC_000015.10"),
        ("gb|CP034493.1|", "T", "CP034493.1"),
        ("pdb|4HHB|A", "T", "4HHB_A"),
        ("sp|P68871.2|HBB_HUMAN", "T", "P68871.2"),
        ("pir||A27217", "T", "A27217"),
        ("NC_000015.10", "T", "NC_000015.10"),
        ("gnl|BL_ORD_ID|0", "NC_000015.10 T", "NC_000015.10"),
        ("gnl|CDD|238404", "T", "CDD:238404"),
    ],
)
def test_the_accession_is_read_from_the_identifier(identifier: str, title: str, accession: str) -> None:
    """Of a sequence that its database has no identifier for, it is the first word of the title."""
    body = TEXT.replace(f"NC_000015.10 {TITLE}", f"{identifier} {title}")

    (hit,) = parse_blast(body).hits
    assert (hit.accession, hit.title) == (accession, "T")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("Status=WAITING", BlastFailed),
        ("nothing", NcbiMalformed),
        ("<?xml version='1.0'?><eSearchResult/>", NcbiMalformed),
    ],
)
def test_what_is_no_result_is_an_error(body: str, error: type[Exception]) -> None:
    """Never an empty result."""
    with pytest.raises(error):
        parse_blast(body)

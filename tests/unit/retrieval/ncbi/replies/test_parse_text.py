"""The plain-text forms: summaries of genes and OMIM entries, FASTA, GenBank, ids; all else is an error text."""

from __future__ import annotations

import pytest

from models.errors import Fault
from retrieval.errors import NCBI_MALFORMED, NCBI_REPLY_ERROR, NcbiError
from retrieval.ncbi.replies.parse_text import parse_text
from retrieval.ncbi.replies.records import FailedRecord, GeneRecord, IdList, OmimRecord, RecordList, TextRecord

GENES = """
1. PSMB10
Official Symbol: PSMB10 and Name: proteasome 20S subunit beta 10 [Homo sapiens (human)]
Other Aliases: LMP10, MECL1
Other Designations: proteasome subunit beta type-10; LMP ten
Chromosome: 16; Location: 16q22.1
ID: 5699

2. Error occurred: cannot get document summary 9
"""


def test_genes_are_read_from_their_summaries() -> None:
    """An id without a summary is named."""
    gene = GeneRecord(
        uid="5699",
        symbol="PSMB10",
        name="proteasome 20S subunit beta 10",
        organism="human",
        scientific_name="Homo sapiens",
        chromosome="16",
        location="16q22.1",
        aliases=("LMP10", "MECL1"),
        other_names=("proteasome subunit beta type-10", "LMP ten"),
    )
    assert parse_text("gene", GENES) == RecordList("gene", (gene, FailedRecord("9", "cannot get document summary")))


def test_omims_entries_are_read_from_their_summaries() -> None:
    """Prefix, title, symbol, other titles and place."""
    body = "\n1. *601687 KERATIN 12, TYPE I; KRT12\nK12\nLocus: 17q21.2\nID: 601687\n\n2. #1 DISEASE X; DX\nID: 1\n"

    assert parse_text("omim", body) == RecordList(
        "omim",
        (
            OmimRecord(
                uid="601687",
                prefix="*",
                title="KERATIN 12, TYPE I",
                symbol="KRT12",
                loci=("17q21.2",),
                other_titles="K12",
            ),
            OmimRecord(uid="1", prefix="#", title="DISEASE X", symbol="DX"),
        ),
    )


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        ("30446595\n", ("30446595",)),
        ("1\n2\n\n", ("1", "2")),
        ("NM_000492.4\nNG_017013.2:101-180\n", ("NM_000492.4", "NG_017013.2:101-180")),
    ],
)
def test_lines_of_ids_are_ids(body: str, ids: tuple[str, ...]) -> None:
    """Numbers and accessions."""
    assert parse_text("pubmed", body) == IdList(len(ids), ids)


def test_fasta_is_its_definition_and_first_letters() -> None:
    """With the whole length."""
    assert parse_text("nuccore", ">X.1 one\nACGT\nAC\n\n>X.2 two\nA\n") == RecordList(
        "nuccore", (TextRecord("X.1 one", "ACGTAC", 6), TextRecord("X.2 two", "A", 1))
    )


@pytest.mark.parametrize(
    ("db", "body", "error"),
    [
        ("nuccore", "Seq-entry ::= set {\n", NCBI_MALFORMED),
        ("pubmed", "Pubmed-entry ::= {\n", NCBI_MALFORMED),
        ("nuccore", "LOCUS       X 10 bp DNA\nDEFINITION  cut", NCBI_MALFORMED),
        ("gene", "Supplied+id+parameter+is+empty.\n", NCBI_REPLY_ERROR),
        ("nuccore", "Error: Failed to retrieve sequence\n", NCBI_REPLY_ERROR),
        ("snp", "cannot get document summary\n", NCBI_REPLY_ERROR),
        ("pubmed", "Please try again in 5 minutes\n", NCBI_REPLY_ERROR),
    ],
)
def test_what_is_none_of_them_is_an_error(db: str, body: str, error: Fault) -> None:
    """A sentence is no list of ids."""
    with pytest.raises(NcbiError, check=error.is_of):
        parse_text(db, body)

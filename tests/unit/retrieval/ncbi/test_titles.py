"""Names of records for the sources below an answer."""

from __future__ import annotations

from retrieval.ncbi.replies.records import (
    DocRecord,
    FailedRecord,
    GeneRecord,
    IdList,
    OmimRecord,
    RecordList,
    SnpRecord,
)
from retrieval.ncbi.session import titled
from retrieval.types import Focus

HUMAN = GeneRecord(
    uid="5699", symbol="PSMB10", name="proteasome 20S subunit beta 10", organism="human", chromosome="16",
    location="16q22.1", aliases=("LMP10", "MECL1"), summary="A component of the immunoproteasome.",
)  # fmt: skip
MOUSE = GeneRecord(uid="19171", symbol="Psmb10", name="proteasome subunit", organism="mouse", aliases=("Lmp10",))


def test_a_gene_is_named_by_symbol_name_and_organism_and_its_text_has_all_that_is_known() -> None:
    """The asked organism first, whatever NCBI's order."""
    found = titled(RecordList("gene", (MOUSE, HUMAN)), Focus(terms=("LMP10",), organism="human"))

    assert [one["title"] for one in found] == [
        "PSMB10, proteasome 20S subunit beta 10, human",
        "Psmb10, proteasome subunit, mouse",
    ]
    assert [one["id"] for one in found] == ["5699", "19171"]
    for fact in ("MECL1", "16q22.1", "chr16", "immunoproteasome", "protein-coding"):
        assert fact in found[0]["text"]


def test_a_replaced_gene_names_its_successor() -> None:
    """So that it can be left out of the sources."""
    old = GeneRecord(uid="1", symbol="OLD1", replaced_by="5699")

    assert titled(RecordList("gene", (old,)), Focus())[0]["replaced_by"] == "5699"


def test_other_records_have_titles_too() -> None:
    """A SNP by its genes and place, an OMIM gene by its symbol, capitals of old titles lowered."""
    snp = SnpRecord(uid="429358", chromosome="19", position="19:44908684", genes=(("APOE", "348"),))
    gene = OmimRecord(uid="602421", prefix="*", title="CYSTIC FIBROSIS CONDUCTANCE REGULATOR", symbol="CFTR")
    disease = OmimRecord(uid="219700", prefix="#", title="CYSTIC FIBROSIS", symbol="CF")
    article = DocRecord("7", "A trial  of\nsomething")

    assert titled(RecordList("snp", (snp,)), Focus())[0]["title"] == "APOE, chr19:44908684"
    assert [one["title"] for one in titled(RecordList("omim", (gene, disease)), Focus())] == [
        "CFTR, Cystic fibrosis conductance regulator",
        "Cystic fibrosis",
    ]
    assert titled(RecordList("pubmed", (article,)), Focus())[0]["title"] == "A trial of something"


def test_ids_and_failed_records_have_none() -> None:
    """Nothing was read of them."""
    assert titled(IdList(2, ("1", "2")), Focus()) == []
    assert titled(RecordList("gene", (FailedRecord("9", "no such record"),)), Focus()) == []

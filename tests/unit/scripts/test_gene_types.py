"""How the types of genes that are read from names are held against HGNC's."""

from __future__ import annotations

from scripts.evals.gene_types import counted, type_of_locus


def test_each_name_is_counted_by_its_two_types() -> None:
    """Of either of HGNC's tables, approved names of genes alone."""
    rows = [
        {"Approved name": "insulin", "Locus type": "gene with protein product", "Status": "Approved"},
        {"Approved name": "maternally expressed 3", "Locus type": "RNA, long non-coding", "Status": "Approved"},
        {"Approved name": "insulin withdrawn", "Locus type": "gene with protein product", "Status": "Symbol Withdrawn"},
        {"name": "microRNA 21", "locus_type": "RNA, micro", "status": "Approved"},
        {"name": "immunoglobulin kappa locus", "locus_type": "immunoglobulin gene", "status": "Approved"},
    ]
    assert counted(rows) == {
        ("protein-coding", "protein-coding"): 1,
        ("ncRNA", "protein-coding"): 1,
        ("ncRNA", "ncRNA"): 1,
    }
    assert type_of_locus("pseudogene") == "pseudogene"

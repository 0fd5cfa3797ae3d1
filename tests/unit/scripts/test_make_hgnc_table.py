"""The table of human genes from HGNC's columns: approved genes with a number, in its order; no other wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.make_hgnc_table import rows_of, table_of

HEAD = (
    "HGNC ID\tApproved symbol\tApproved name\tStatus\tAlias symbols\tNCBI Gene ID(supplied by NCBI)\t"
    "UniProt ID(supplied by UniProt)\tPrevious symbols\tEnsembl gene ID\tLocus type\n"
)
ROWS = (
    "HGNC:2\tB\tgene b\tApproved\tb1, b2\t20\tP1, P2\tOLD\tENSG2\tpseudogene\n"
    "HGNC:1\tA\tgene a\tApproved\t\t3\t\t\t\tunknown\n"
    "HGNC:3\tC\tgene c\tEntry Withdrawn\t\t4\t\t\t\tunknown\n"
    "HGNC:4\tD\tgene d\tApproved\t\t\t\t\t\tunknown\n"
)


def test_approved_genes_with_a_number_are_taken_in_its_order() -> None:
    assert list(rows_of(HEAD + ROWS)) == [
        ("3", "HGNC:1", "A", "gene a", "unknown", "", "", "", ""),
        ("20", "HGNC:2", "B", "gene b", "pseudogene", "b1|b2", "OLD", "ENSG2", "P1|P2"),
    ]


def test_another_wheel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.whl").write_bytes(b"other")

    with pytest.raises(ValueError, match="expected"):
        table_of(tmp_path / "other.whl")

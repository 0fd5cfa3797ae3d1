"""The type of a gene, from its name and its summary."""

from __future__ import annotations

import pytest

from retrieval.ncbi.replies.gene_types import gene_type


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ribosomal protein L7a pseudogene 58", "pseudogene"),
        ("microRNA 4436b-2", "ncRNA"),
        ("CPVL antisense RNA 2", "ncRNA"),
        ("uncharacterized LOC124909477", "ncRNA"),
        ("MIR22 host gene", "ncRNA"),
        ("aminoacyl-tRNA hydrolase", "protein-coding"),
        ("ribosomal RNA processing 1", "protein-coding"),
        ("keratin 12", "protein-coding"),
        ("X inactive specific transcript", "ncRNA"),
        ("metastasis associated lung adenocarcinoma transcript 1", "ncRNA"),
        ("small nucleolar RNA, C/D box 115-25", "ncRNA"),
        ("mitochondrially encoded tRNA-Leu (UUA/G) 1", "ncRNA"),
        ("family with sequence similarity 66 member D", "ncRNA"),
        ("DNA damage inducible transcript 3", "protein-coding"),
        ("leptin receptor overlapping transcript", "protein-coding"),
        ("tRNA-histidine guanylyltransferase 1 like", "protein-coding"),
        ("telomerase RNA component interacting RNase", "protein-coding"),
        ("family with sequence similarity 20 member C", "protein-coding"),
        ("caspase 12 (gene/pseudogene)", "protein-coding"),
    ],
)
def test_the_type_of_a_gene_is_read_from_its_name(name: str, kind: str) -> None:
    """HGNC names pseudogenes and RNA genes by rule."""
    assert gene_type(name) == kind


@pytest.mark.parametrize(
    ("summary", "kind"),
    [
        ("This gene produces a spliced long non-coding RNA.", "ncRNA"),
        ("Long non-coding RNA that silences one X chromosome in female cells.", "ncRNA"),
        ("This gene encodes a protein that binds a long non-coding RNA.", "protein-coding"),
        ("Alternative splicing results in several variants, one of them non-coding RNA.", "protein-coding"),
    ],
)
def test_the_summary_tells_what_a_name_does_not(summary: str, kind: str) -> None:
    """ "Growth arrest specific 5" is an RNA gene."""
    assert gene_type("growth arrest specific 5", summary=summary) == kind

"""List the chromosomes of the human reference assembly GRCh38 and the RefSeq accessions of their sequences."""

from __future__ import annotations

from typing import Final

_VERSIONS: Final = (
    ("1", 11), ("2", 12), ("3", 12), ("4", 12), ("5", 10), ("6", 12), ("7", 14), ("8", 11), ("9", 12), ("10", 11),
    ("11", 10), ("12", 12), ("13", 11), ("14", 9), ("15", 10), ("16", 10), ("17", 11), ("18", 10), ("19", 10),
    ("20", 11), ("21", 9), ("22", 11), ("X", 11), ("Y", 10),
)  # fmt: skip
ACCESSIONS: Final = {
    **{name: f"NC_{number:06}.{version}" for number, (name, version) in enumerate(_VERSIONS, 1)},
    "MT": "NC_012920.1",
}
CHROMOSOMES: Final = {accession: name for name, accession in ACCESSIONS.items()}


def chromosome_of(contig: str) -> str:
    """Return "1" to "22", "X", "Y" or "MT" for NC_000001.11, 1 or chr1 (M too), and "" for any other sequence."""
    if contig in CHROMOSOMES:
        return CHROMOSOMES[contig]
    name = contig.removeprefix("chr")
    name = "MT" if name == "M" else name
    return name if name in ACCESSIONS else ""


def is_other_sequence(contig: str) -> bool:
    """Return True for alternative loci, patches and unplaced scaffolds, as NCBI, UCSC and Ensembl name them."""
    return contig.startswith(("NT_", "NW_", "GL", "KI", "HLA-", "HSCHR", "HG")) or "_" in contig.removeprefix("NC_")

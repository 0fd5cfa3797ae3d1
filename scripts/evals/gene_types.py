"""Hold the types of genes that are read from their names against HGNC's locus types.

    python scripts/evals/gene_types.py TABLE

``TABLE`` is HGNC's tab-separated table, with the columns "Approved name" and "Locus type" of its custom downloads or
``name`` and ``locus_type`` of its complete set. Loci that are neither a gene with a protein, a pseudogene nor an RNA
gene (regions, phenotypes, gene segments) are left out.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from retrieval.ncbi.replies.gene_types import gene_type
from retrieval.ncbi.replies.records import GeneType


def type_of_locus(locus: str) -> GeneType | None:
    """Return the type that a locus type of HGNC is, None for loci of other kinds."""
    if locus == "gene with protein product":
        return "protein-coding"
    if locus == "pseudogene":
        return "pseudogene"
    return "ncRNA" if locus.startswith("RNA") else None


def counted(rows: Iterable[Mapping[str, str]]) -> Counter[tuple[GeneType, GeneType]]:
    """Return how many names of each type are read as which type."""
    found: Counter[tuple[GeneType, GeneType]] = Counter()
    for row in rows:
        name = row.get("Approved name") or row.get("name") or ""
        of_locus = type_of_locus(row.get("Locus type") or row.get("locus_type") or "")
        if of_locus is not None and row.get("Status", row.get("status", "Approved")) == "Approved":
            found[of_locus, gene_type(name)] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    with parser.parse_args().table.open(encoding="utf-8", newline="") as table:
        found = counted(csv.DictReader(table, delimiter="\t"))
    kinds: tuple[GeneType, ...] = ("protein-coding", "pseudogene", "ncRNA")
    print(f"| HGNC | {' | '.join(f'read as {kind}' for kind in kinds)} |\n| --- | --- | --- | --- |")
    for of_locus in kinds:
        print(f"| {of_locus} | {' | '.join(f'{found[of_locus, kind]:,}' for kind in kinds)} |")


if __name__ == "__main__":
    main()

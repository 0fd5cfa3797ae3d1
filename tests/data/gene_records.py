"""The human genes of the gateway's sample, as the records that a model reads."""

from __future__ import annotations

import csv
from pathlib import Path

import retrieval.gateway.store
from retrieval.ncbi.replies.records import GeneRecord


def human_genes() -> list[GeneRecord]:
    path = Path(retrieval.gateway.store.__path__[0]) / "sample" / "genes.tsv"
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines, delimiter="\t") if row["tax_id"] == "9606" and row["map_location"]]
    return [
        GeneRecord(
            uid=row["gene_id"],
            symbol=row["symbol"],
            name=row["name"],
            organism="human",
            chromosome=row["chromosome"],
            location=row["map_location"],
            aliases=tuple(filter(None, row["aliases"].split("|"))),
        )
        for row in rows
    ]

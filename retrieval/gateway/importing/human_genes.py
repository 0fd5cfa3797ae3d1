"""Read HGNC's table of human genes, which the package carries, and put its genes into the store.

The richer record of a gene that the store has is completed, not replaced. NCBI's own file of human genes replaces them.
"""

from __future__ import annotations

import csv
import io
import lzma
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from retrieval.formats.records import Gene, Organism
from retrieval.gateway.store.reader import decode
from retrieval.gateway.store.writer import StoreWriter, organism

TABLE: Final = Path(__file__).parents[1] / "store" / "tables" / "human_genes.tsv.xz"
COLUMNS: Final = (
    "gene_id", "hgnc_id", "symbol", "name", "locus_type", "aliases", "previous_symbols", "ensembl", "uniprot",
)  # fmt: skip
KIND: Final = "human_genes"
HUMAN: Final = 9606
# NCBI's words for HGNC's types of locus. The others say nothing of a product that NCBI's types do.
_TYPES: Final = {
    "gene with protein product": "protein-coding",
    "pseudogene": "pseudo",
    "immunoglobulin pseudogene": "pseudo",
    "T cell receptor pseudogene": "pseudo",
    "RNA, ribosomal": "rRNA",
    "RNA, transfer": "tRNA",
    "RNA, small nuclear": "snRNA",
    "RNA, small nucleolar": "snoRNA",
    "unknown": "unknown",
}


def human_genes(content: bytes) -> Iterator[Gene]:
    """Yield the genes of the table, as far as it knows them: no place, no summary, no OMIM number."""
    human = organism(HUMAN, {})
    text = lzma.decompress(content).decode("utf-8")
    for row in csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE):
        yield _gene(row, human)


def _gene(row: dict[str, str], human: Organism) -> Gene:
    symbol, locus, uniprot = row["symbol"], row["locus_type"], _many(row["uniprot"])
    names = dict.fromkeys((*_many(row["aliases"]), *_many(row["previous_symbols"])))
    return Gene(
        gene_id=int(row["gene_id"]),
        symbol=symbol,
        name=row["name"],
        organism=human,
        gene_type=_TYPES.get(locus, "ncRNA" if locus.startswith("RNA, ") else "other"),
        aliases=tuple(name for name in names if name != symbol),
        ensembl=row["ensembl"],
        nomenclature="Official",
        keywords=(row["hgnc_id"], *uniprot),
        locus_type=locus,
        uniprot=uniprot,
    )


def _many(cell: str) -> tuple[str, ...]:
    return tuple(filter(None, cell.split("|")))


def completed(known: Gene, listed: Gene) -> Gene:
    """Return the gene that the store has, with what HGNC's table says beside; its symbol and name are HGNC's."""
    if known.status != 0:
        return known
    names = dict.fromkeys((*known.aliases, *listed.aliases, known.symbol))
    renamed = (known.name,) if known.name != listed.name and known.name not in known.designations else ()
    return replace(
        known,
        symbol=listed.symbol,
        official_symbol="",
        name=listed.name,
        aliases=tuple(name for name in names if name != listed.symbol),
        designations=(*known.designations, *renamed),
        gene_type=known.gene_type if listed.gene_type in ("", "other", "unknown") else listed.gene_type,
        ensembl=known.ensembl or listed.ensembl,
        keywords=tuple(dict.fromkeys((*known.keywords, *listed.keywords))),
        locus_type=listed.locus_type,
        uniprot=listed.uniprot,
    )


def put_human_genes(store: sqlite3.Connection, content: bytes) -> int:
    """Put the genes of the table into the store, inside the caller's transaction, and return their number."""
    writer, number = StoreWriter(store), 0
    for listed in human_genes(content):
        known = _stored(store, listed.gene_id)
        writer.put(listed if known is None else completed(known, listed))
        number += 1
    return number


def withdraw_human_genes(store: sqlite3.Connection, content: bytes) -> None:
    """Remove the genes that the store has from the table alone: what NCBI's own file has replaced stays."""
    writer = StoreWriter(store)
    for listed in human_genes(content):
        known = _stored(store, listed.gene_id)
        if known is not None and known.locus_type:
            writer.remove("gene", known.gene_id)


def _stored(store: sqlite3.Connection, gene_id: int) -> Gene | None:
    found = store.execute("SELECT body FROM gene WHERE uid = ?", (gene_id,)).fetchone()
    record = decode("gene", found[0]) if found else None
    return record if isinstance(record, Gene) else None

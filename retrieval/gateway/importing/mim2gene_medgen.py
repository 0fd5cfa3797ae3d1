"""Read NCBI Gene's ``mim2gene_medgen``, which maps OMIM numbers to genes and MedGen concepts.

Columns: MIM number, GeneID, type ("gene" or "phenotype"), Source, MedGenCUI, Comment; "-" marks an absent value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from retrieval.formats.items import NO_OPTIONS, Item, ReadOptions
from retrieval.formats.records import Link
from retrieval.formats.sources import Source
from retrieval.formats.tables import Shape, Table, identifier, open_table, several_per_row
from retrieval.gateway.store.writer import concept_uid

SHAPE: Final = Shape("mim2gene_medgen", ("MIM number", "GeneID", "type", "MedGenCUI"))


def read(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield omim-gene and omim-medgen Links, none for a row with neither."""
    table = open_table(source, SHAPE)
    yield from several_per_row(table.rows, skip, _parser(table))


def _parser(table: Table) -> Callable[[str], list[Link]]:
    mim_at, gene_at, cui_at = table.indices("MIM number", "GeneID", "MedGenCUI")

    def parse(text: str) -> list[Link]:
        cells = table.cells(text)
        mim, gene, cui = identifier(cells[mim_at], "MIM number"), cells[gene_at], cells[cui_at]
        links = [] if gene == "-" else [Link("omim", mim, "gene", identifier(gene, "GeneID"))]
        if cui != "-":
            links.append(Link("omim", mim, "medgen", str(concept_uid(cui))))
        return links

    return parse

"""Read NCBI Gene's ``gene2pubmed``, in which each row is a gene that an article is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from retrieval.formats.items import NO_OPTIONS, Item, ReadOptions
from retrieval.formats.records import Link
from retrieval.formats.sources import Source
from retrieval.formats.tables import Shape, Table, identifier, one_per_row, open_table

SHAPE: Final = Shape("gene2pubmed", ("tax_id", "GeneID", "PubMed_ID"))


def read(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield a gene-pubmed Link for each row of the organisms in ``options.tax_ids``."""
    table = open_table(source, SHAPE)
    yield from one_per_row(table.rows, skip, _row_filter(table, options), _parser(table))


def _row_filter(table: Table, options: ReadOptions) -> Callable[[str], bool] | None:
    if options.tax_ids is None:
        return None
    (tax_at,) = table.indices("tax_id")
    tax_ids = {str(tax_id) for tax_id in options.tax_ids}

    def accepts(text: str) -> bool:
        head = text.split("\t", tax_at + 1)
        return len(head) <= tax_at or head[tax_at] in tax_ids

    return accepts


def _parser(table: Table) -> Callable[[str], Link]:
    gene_at, pubmed_at = table.indices("GeneID", "PubMed_ID")

    def parse(text: str) -> Link:
        cells = table.cells(text)
        return Link("gene", identifier(cells[gene_at], "GeneID"), "pubmed", identifier(cells[pubmed_at], "PubMed_ID"))

    return parse

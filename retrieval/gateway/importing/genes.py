"""Read NCBI Gene's ``gene_info``, whose rows are live genes, and ``gene2pubmed``, whose rows are articles on a gene.

The README of ftp.ncbi.nlm.nih.gov/gene describes both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Final

from retrieval.formats.items import NO_OPTIONS, Good, Item, MalformedRecord, ReadOptions
from retrieval.formats.records import Gene, Link, Organism
from retrieval.formats.sources import Source
from retrieval.formats.tables import Shape, Table, given, identifier, is_number, many, one_per_row, open_table, whole
from retrieval.gateway.store.writer import entry_of, organism

GENE_INFO: Final = Shape(
    "gene_info",
    ("tax_id", "GeneID", "Symbol", "LocusTag", "Synonyms", "dbXrefs", "chromosome", "map_location", "description",
     "type_of_gene", "Symbol_from_nomenclature_authority", "Full_name_from_nomenclature_authority",
     "Nomenclature_status", "Other_designations"),
)  # fmt: skip
_STATUS: Final = {"O": "Official", "I": "Interim", "-": "", "": ""}
# A row that NCBI Gene uses for literature on an organism's genes that have no record yet.
_PLACEHOLDER: Final = "NEWENTRY"
GENE2PUBMED: Final = Shape("gene2pubmed", ("tax_id", "GeneID", "PubMed_ID"))


def read_gene_info(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield a Gene for each row except placeholders (NEWENTRY) and organisms outside ``options.tax_ids``.

    Its OMIM entries follow, as far as the row tells them. The name is the nomenclature authority's full name, else the
    description; a locus tag is the first alias, as in NCBI's summaries; identifiers of dbXrefs other than MIM and the
    first of Ensembl are keywords.
    """
    table = open_table(source, GENE_INFO)
    genes = one_per_row(table.rows, 0, _row_filter(table, options), _parser(table, options))
    return islice(_with_entries(genes), skip, None)


def _with_entries(items: Iterator[Item]) -> Iterator[Item]:
    for item in items:
        yield item
        if isinstance(item, Good) and isinstance(item.entry, Gene):
            yield from [Good(item.line, entry_of(item.entry, mim)) for mim in item.entry.mim if is_number(mim)]


def _row_filter(table: Table, options: ReadOptions) -> Callable[[str], bool]:
    tax_at, symbol_at = table.indices("tax_id", "Symbol")
    last = max(tax_at, symbol_at)
    tax_ids = None if options.tax_ids is None else {str(tax_id) for tax_id in options.tax_ids}

    def accepts(text: str) -> bool:
        head = text.split("\t", last + 1)
        if len(head) <= last:
            return True  # malformed, which the parser reports
        return head[symbol_at] != _PLACEHOLDER and (tax_ids is None or head[tax_at] in tax_ids)

    return accepts


def _parser(table: Table, options: ReadOptions) -> Callable[[str], Gene]:
    pick = itemgetter(*table.indices(*GENE_INFO.columns))
    organisms: dict[str, Organism] = {}

    def parse(text: str) -> Gene:
        row = pick(table.cells(text))
        tax, gene, symbol, tag, synonyms, xrefs, chromosome, place, description, kind, official, full, status, other = (
            row
        )
        if tax not in organisms:
            organisms[tax] = organism(whole(tax, "tax_id"), options.organisms)
        if status not in _STATUS:
            raise MalformedRecord(f"Nomenclature_status: O, I or - was expected, not {status[:20]!r}")
        mim, ensembl, further = _references(xrefs)
        full, official = given(full), given(official)
        return Gene(
            gene_id=whole(gene, "GeneID"),
            symbol=given(symbol),
            name=full or given(description),
            organism=organisms[tax],
            official_symbol=official if official != symbol else "",
            gene_type=given(kind),
            chromosome=given(chromosome).replace("|", ", "),
            map_location=given(place),
            aliases=_aliases(tag, symbol, synonyms),
            designations=_designations(description, full, other),
            mim=mim,
            ensembl=ensembl,
            nomenclature=_STATUS[status],
            keywords=further,
        )

    return parse


def _aliases(tag: str, symbol: str, synonyms: str) -> tuple[str, ...]:
    aliases = many(synonyms)
    return aliases if tag in ("-", "", symbol) or tag in aliases else (tag, *aliases)


def _designations(description: str, full: str, other: str) -> tuple[str, ...]:
    """Return the other designations, with the description first if the full name has replaced it as the name."""
    designations = many(other)
    if full and description not in ("-", full) and description not in designations:
        return (description, *designations)
    return designations


def _references(cell: str) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Parse dbXrefs into (MIM numbers, first Ensembl gene, other identifiers).

    The cell has the form "MIM:1|HGNC:HGNC:5|Ensembl:ENSG1|AllianceGenome:…".
    """
    if cell == "-":
        return (), "", ()
    mim: list[str] = []
    ensembl = ""
    further: list[str] = []
    for reference in cell.split("|"):
        database, _, value = reference.partition(":")
        if database == "MIM":
            mim.append(value)
        elif database == "Ensembl" and not ensembl:
            ensembl = value
        elif value:
            further.append(value)
    return tuple(mim), ensembl, tuple(dict.fromkeys(further))


def read_gene2pubmed(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield a gene-pubmed Link for each row of the organisms in ``options.tax_ids``."""
    table = open_table(source, GENE2PUBMED)
    yield from one_per_row(table.rows, skip, _organism_filter(table, options), _link_parser(table))


def _organism_filter(table: Table, options: ReadOptions) -> Callable[[str], bool] | None:
    if options.tax_ids is None:
        return None
    (tax_at,) = table.indices("tax_id")
    tax_ids = {str(tax_id) for tax_id in options.tax_ids}

    def accepts(text: str) -> bool:
        head = text.split("\t", tax_at + 1)
        return len(head) <= tax_at or head[tax_at] in tax_ids

    return accepts


def _link_parser(table: Table) -> Callable[[str], Link]:
    gene_at, pubmed_at = table.indices("GeneID", "PubMed_ID")

    def parse(text: str) -> Link:
        cells = table.cells(text)
        return Link("gene", identifier(cells[gene_at], "GeneID"), "pubmed", identifier(cells[pubmed_at], "PubMed_ID"))

    return parse

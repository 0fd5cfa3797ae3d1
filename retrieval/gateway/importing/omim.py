"""Read OMIM's own tables ``mimTitles.txt`` and ``genemap2.txt``, for sites with a licence (omim.org/downloads)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from retrieval.formats.items import NO_OPTIONS, Item, MalformedRecord, ReadOptions, shown
from retrieval.formats.records import OmimEntry
from retrieval.formats.sources import Source
from retrieval.formats.tables import Shape, one_per_row, open_table, several_per_row, whole

TITLES: Final = Shape("mimTitles.txt", ("Prefix", "MIM Number", "Preferred Title; symbol"))
GENE_MAP: Final = Shape("genemap2.txt", ("MIM Number", "Cyto Location", "Computed Cyto Location", "Phenotypes"))
_PREFIXES: Final = {
    "asterisk": "*", "number sign": "#", "plus": "+", "percent": "%", "caret": "^", "null": "", "": "",
}  # fmt: skip
# A phenotype in genemap2: "Name, 123456 (3), Autosomal dominant"; without a number it shares the gene's entry.
_PHENOTYPE: Final = re.compile(r", ([0-9]{6}) \([1-4]\)")


def read_titles(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield an OmimEntry without locus for each row; alternative and included titles are joined with "; "."""
    table = open_table(source, TITLES)
    prefix_at, mim_at, title_at = table.indices(*TITLES.columns)
    width, least = len(table.at), title_at + 1

    def parse(text: str) -> OmimEntry:
        cells = text.split("\t")
        if not least <= len(cells) <= width:  # empty columns at the end may be missing
            raise MalformedRecord(f"{len(cells)} columns, {least} to {width} expected")
        prefix = _PREFIXES.get(cells[prefix_at].strip().lower())
        if prefix is None:
            raise MalformedRecord(f"Prefix: one of OMIM's words was expected, not {shown(cells[prefix_at])}")
        titles = (title.strip() for cell in cells[least:] for title in cell.split(";;"))
        number = whole(cells[mim_at].strip(), "MIM Number")
        return OmimEntry(number, prefix, cells[title_at].strip(), "; ".join(filter(None, titles)), "")

    yield from one_per_row(table.rows, skip, None, parse)


def read_gene_map(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield OmimEntry parts with number and locus only, for the gene and for each numbered phenotype of a row."""
    table = open_table(source, GENE_MAP)
    mim_at, cyto_at, computed_at, phenotypes_at = table.indices(*GENE_MAP.columns)
    least = phenotypes_at + 1

    def parse(text: str) -> list[OmimEntry]:
        cells = text.split("\t")
        if not least <= len(cells) <= len(table.at):
            raise MalformedRecord(f"{len(cells)} columns, {least} to {len(table.at)} expected")
        locus = cells[cyto_at].strip() or cells[computed_at].strip()
        if not locus:
            return []
        numbers = [whole(cells[mim_at].strip(), "MIM Number"), *map(int, _PHENOTYPE.findall(cells[phenotypes_at]))]
        return [OmimEntry(number, "", "", "", locus) for number in dict.fromkeys(numbers)]

    yield from several_per_row(table.rows, skip, parse)

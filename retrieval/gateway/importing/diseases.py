"""Read the tables of diseases: MedGen's concepts, OMIM's entries, and NCBI Gene's ``mim2gene_medgen`` between them.

MedGen (ftp.ncbi.nlm.nih.gov/pub/medgen): each file has a part of a concept, so the readers yield Concepts whose empty
fields mean "unknown"; the store joins those of one uid with ``merge_concepts``, in any order of files. Consecutive rows
of one concept are one item. OMIM's ``mimTitles.txt`` and ``genemap2.txt`` are for sites with a licence
(omim.org/downloads). Columns of ``mim2gene_medgen``: MIM number, GeneID, type ("gene" or "phenotype"), Source,
MedGenCUI, Comment; "-" marks an absent value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from retrieval.formats.items import NO_OPTIONS, Good, Item, MalformedRecord, ReadOptions, bad, shown
from retrieval.formats.records import Concept, Entry, Link, OmimEntry
from retrieval.formats.sources import Line, Source
from retrieval.formats.tables import (
    NOT_UTF8,
    Shape,
    Table,
    identifier,
    is_number,
    one_per_row,
    open_table,
    several_per_row,
    whole,
)
from retrieval.gateway.store.writer import concept_uid

MEDGEN_NAMES: Final = Shape("NAMES.RRF", ("CUI", "name", "source", "SUPPRESS"), "|")
MEDGEN_MAPPINGS: Final = Shape("MedGenIDMappings.txt", ("pref_name", "source_id", "source"), "|")
MEDGEN_DEFINITIONS: Final = Shape("MGDEF.RRF", ("CUI", "DEF", "source", "SUPPRESS"), "|")
_STARTS: Final = re.compile(r"CN?[0-9]+\|", re.ASCII)
_MAX_ROWS: Final = 10_000
_MAX_DEFINITION_LINES: Final = 1000
# Sources written for readers rather than for indexers; other sources follow in the order of the file.
_PREFERRED: Final = ("GeneReviews", "MedlinePlus Genetics", "NCI", "MSH")
MIM2GENE: Final = Shape("mim2gene_medgen", ("MIM number", "GeneID", "type", "MedGenCUI"))
OMIM_TITLES: Final = Shape("mimTitles.txt", ("Prefix", "MIM Number", "Preferred Title; symbol"))
OMIM_GENE_MAP: Final = Shape("genemap2.txt", ("MIM Number", "Cyto Location", "Computed Cyto Location", "Phenotypes"))
_OMIM_PREFIXES: Final = {
    "asterisk": "*", "number sign": "#", "plus": "+", "percent": "%", "caret": "^", "null": "", "": "",
}  # fmt: skip
# A phenotype in genemap2: "Name, 123456 (3), Autosomal dominant"; without a number it shares the gene's entry.
_PHENOTYPE: Final = re.compile(r", ([0-9]{6}) \([1-4]\)")


def read_medgen_names(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield a Concept with its preferred name for each row.

    Suppressed rows are included, because a concept has no other name.
    """
    table = open_table(source, MEDGEN_NAMES)
    cui_at, name_at = table.indices("CUI", "name")

    def parse(text: str) -> Concept:
        cells = table.cells(text)
        return Concept(uid=concept_uid(cells[cui_at]), cui=cells[cui_at], name=cells[name_at])

    yield from one_per_row(table.rows, skip, None, parse)


def read_medgen_mappings(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield, for each concept, a Concept with ``source_ids``, and an OmimEntry and a Link for each of its OMIM numbers.

    The entries have no prefix: it is in OMIM's licensed titles only. A row whose source is "OMIM included" or similar
    names a related entry and yields neither entry nor link.
    """
    table = open_table(source, MEDGEN_MAPPINGS)
    # The first column is named CUI or CUI_or_CN_id.
    name_at, id_at, source_at = table.indices("pref_name", "source_id", "source")

    def entries(rows: list[list[str]]) -> list[Entry]:
        cui, name = rows[0][0], rows[0][name_at]
        uid = concept_uid(cui)
        pairs = tuple(dict.fromkeys((row[source_at], row[id_at]) for row in rows))
        found: list[Entry] = [Concept(uid=uid, cui=cui, name=name, source_ids=pairs)]
        for origin, number in pairs:
            if origin == "OMIM" and is_number(number):
                mim = int(number)
                found += [OmimEntry(mim, "", name, "", ""), Link("omim", str(mim), "medgen", str(uid))]
        return found

    yield from islice(_grouped(table.rows, table.cells, entries), skip, None)


def read_medgen_definitions(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield, for each concept, a Concept with the definition of the preferred source; suppressed rows are ignored.

    Definitions may contain line breaks: a line that does not begin with an identifier continues the row before it.
    """
    table = open_table(source, MEDGEN_DEFINITIONS)

    def entries(rows: list[list[str]]) -> list[Entry]:
        cui = rows[0][0]
        uid = concept_uid(cui)
        found: dict[str, str] = {}
        for _, definition, origin, suppressed in rows:
            if suppressed != "Y" and definition:
                found.setdefault(origin, definition)
        ranked = [*(found[origin] for origin in _PREFERRED if origin in found), *found.values()]
        return [Concept(uid=uid, cui=cui, name="", definition=ranked[0])] if ranked else []

    yield from islice(_grouped(_joined(table.rows), _definition_cells, entries), skip, None)


def _definition_cells(text: str) -> list[str]:
    """Split a row into [CUI, definition, source, SUPPRESS]; a bar within the definition belongs to it.

    Raises:
        MalformedRecord: the row has fewer columns.
    """
    head, *tail = text.rsplit("|", 3)
    cui, bar, definition = head.partition("|")
    if len(tail) != 3 or not bar:
        raise MalformedRecord("the columns CUI, DEF, source and SUPPRESS were expected")
    return [cui, " ".join(definition.split()), tail[0], tail[1]]


def _joined(rows: Iterator[Line]) -> Iterator[Line]:
    """Yield whole rows, joined from their lines.

    A row longer than ``_MAX_DEFINITION_LINES`` is truncated, which makes it malformed.
    """
    start, parts = 0, list[str]()
    for number, text in rows:
        if text is None or _STARTS.match(text) or not parts:
            if parts:
                yield start, "\n".join(parts)
            start, parts = number, []
            if text is None:
                yield number, None
            else:
                parts = [text]
        elif len(parts) < _MAX_DEFINITION_LINES:
            parts.append(text)
    if parts:
        yield start, "\n".join(parts)


def _grouped(
    rows: Iterator[Line], cells: Callable[[str], list[str]], entries: Callable[[list[list[str]]], list[Entry]]
) -> Iterator[Item]:
    """Yield the items of each run of rows with the same first cell; a malformed row is a Bad of its own."""
    start, group = 0, list[list[str]]()
    for number, text in rows:
        if text is not None and (not text or text[0] == "#"):
            continue
        try:
            if text is None:
                raise MalformedRecord(NOT_UTF8)
            row = cells(text)
        except MalformedRecord as error:
            yield bad(number, error)
            continue
        if group and (row[0] != group[0][0] or len(group) >= _MAX_ROWS):
            yield from _items(start, group, entries)
            group = []
        start = start if group else number
        group.append(row)
    if group:
        yield from _items(start, group, entries)


def _items(start: int, group: list[list[str]], entries: Callable[[list[list[str]]], list[Entry]]) -> Iterator[Item]:
    try:
        yield from [Good(start, entry) for entry in entries(group)]
    except MalformedRecord as error:
        yield bad(start, error)


def read_mim2gene(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield omim-gene and omim-medgen Links, none for a row with neither."""
    table = open_table(source, MIM2GENE)
    yield from several_per_row(table.rows, skip, _mim2gene_parser(table))


def _mim2gene_parser(table: Table) -> Callable[[str], list[Link]]:
    mim_at, gene_at, cui_at = table.indices("MIM number", "GeneID", "MedGenCUI")

    def parse(text: str) -> list[Link]:
        cells = table.cells(text)
        mim, gene, cui = identifier(cells[mim_at], "MIM number"), cells[gene_at], cells[cui_at]
        links = [] if gene == "-" else [Link("omim", mim, "gene", identifier(gene, "GeneID"))]
        if cui != "-":
            links.append(Link("omim", mim, "medgen", str(concept_uid(cui))))
        return links

    return parse


def read_omim_titles(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield an OmimEntry without locus for each row; alternative and included titles are joined with "; "."""
    table = open_table(source, OMIM_TITLES)
    prefix_at, mim_at, title_at = table.indices(*OMIM_TITLES.columns)
    width, least = len(table.at), title_at + 1

    def parse(text: str) -> OmimEntry:
        cells = text.split("\t")
        if not least <= len(cells) <= width:  # empty columns at the end may be missing
            raise MalformedRecord(f"{len(cells)} columns, {least} to {width} expected")
        prefix = _OMIM_PREFIXES.get(cells[prefix_at].strip().lower())
        if prefix is None:
            raise MalformedRecord(f"Prefix: one of OMIM's words was expected, not {shown(cells[prefix_at])}")
        titles = (title.strip() for cell in cells[least:] for title in cell.split(";;"))
        number = whole(cells[mim_at].strip(), "MIM Number")
        return OmimEntry(number, prefix, cells[title_at].strip(), "; ".join(filter(None, titles)), "")

    yield from one_per_row(table.rows, skip, None, parse)


def read_omim_gene_map(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield OmimEntry parts with number and locus only, for the gene and for each numbered phenotype of a row."""
    table = open_table(source, OMIM_GENE_MAP)
    mim_at, cyto_at, computed_at, phenotypes_at = table.indices(*OMIM_GENE_MAP.columns)
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

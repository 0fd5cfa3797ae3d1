"""Read MedGen's tables of names, identifiers and definitions (ftp.ncbi.nlm.nih.gov/pub/medgen).

Each file has a part of a concept, so the readers yield Concepts whose empty fields mean "unknown"; the store joins
those of one uid with ``merge_concepts``, in any order of files. Consecutive rows of one concept are one item.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from retrieval.formats.items import NO_OPTIONS, Good, Item, MalformedRecord, ReadOptions, bad
from retrieval.formats.records import Concept, Entry, Link, OmimEntry
from retrieval.formats.sources import Line, Source
from retrieval.formats.tables import NOT_UTF8, Shape, is_number, one_per_row, open_table
from retrieval.gateway.store.writer import concept_uid

NAMES: Final = Shape("NAMES.RRF", ("CUI", "name", "source", "SUPPRESS"), "|")
MAPPINGS: Final = Shape("MedGenIDMappings.txt", ("pref_name", "source_id", "source"), "|")
DEFINITIONS: Final = Shape("MGDEF.RRF", ("CUI", "DEF", "source", "SUPPRESS"), "|")
_STARTS: Final = re.compile(r"CN?[0-9]+\|", re.ASCII)
_MAX_ROWS: Final = 10_000
_MAX_DEFINITION_LINES: Final = 1000
# Sources written for readers rather than for indexers; other sources follow in the order of the file.
_PREFERRED: Final = ("GeneReviews", "MedlinePlus Genetics", "NCI", "MSH")


def read_names(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield a Concept with its preferred name for each row.

    Suppressed rows are included, because a concept has no other name.
    """
    table = open_table(source, NAMES)
    cui_at, name_at = table.indices("CUI", "name")

    def parse(text: str) -> Concept:
        cells = table.cells(text)
        return Concept(uid=concept_uid(cells[cui_at]), cui=cells[cui_at], name=cells[name_at])

    yield from one_per_row(table.rows, skip, None, parse)


def read_mappings(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield, for each concept, a Concept with ``source_ids``, and an OmimEntry and a Link for each of its OMIM numbers.

    The entries have no prefix: it is in OMIM's licensed titles only. A row whose source is "OMIM included" or similar
    names a related entry and yields neither entry nor link.
    """
    table = open_table(source, MAPPINGS)
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


def read_definitions(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield, for each concept, a Concept with the definition of the preferred source; suppressed rows are ignored.

    Definitions may contain line breaks: a line that does not begin with an identifier continues the row before it.
    """
    table = open_table(source, DEFINITIONS)

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

"""Read names.dmp and nodes.dmp of NCBI's taxonomy dump (ftp.ncbi.nlm.nih.gov/pub/taxonomy).

The dump is taxdump.tar.gz or taxdmp.zip. Fields end with TAB, bar, TAB; rows with TAB, bar. Both tables are sorted by
taxonomy id, so they are read in parallel with constant memory (a tar archive is decompressed twice).
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from retrieval.formats.items import NO_OPTIONS, Bad, Good, Item, MalformedRecord, ReadOptions, bad, shown
from retrieval.formats.records import Taxon
from retrieval.formats.sources import Line, Source, is_tar, split_lines, tar_member, zip_member
from retrieval.formats.tables import NOT_UTF8, whole

NAMES: Final = "names.dmp"
NODES: Final = "nodes.dmp"
# From division.dmp of the archive, which has not changed in twenty years.
_DIVISIONS: Final = (
    "Bacteria", "Invertebrates", "Mammals", "Phages", "Plants and Fungi", "Primates", "Rodents",
    "Synthetic and Chimeric", "Unassigned", "Viruses", "Vertebrates", "Environmental samples",
)  # fmt: skip
_SCIENTIFIC: Final = "scientific name"
_MAX_NAMES: Final = 10_000


class _Name(NamedTuple):
    line: int
    tax_id: int
    name: str
    kind: str


class _Node(NamedTuple):
    line: int
    cells: list[str]
    names: list[_Name]


def read(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield a Taxon for each row of nodes.dmp, and a Bad for each name without a node.

    ``line`` is the line in nodes.dmp. ``source`` is the tar.gz, the zip, or a directory with both tables.

    Raises:
        ImportFileError: as ``Reader``, and if a table is not sorted by its ids.
    """
    for found in _merged(source, *_tables(source)):
        if skip > 0:
            skip -= 1
        elif isinstance(found, Bad):
            yield found
        else:
            yield _item(found)


def _tables(source: Source) -> tuple[Iterator[Line], Iterator[Line]]:
    """Return (lines of names.dmp, lines of nodes.dmp), which update ``source.consumed``."""
    if source.path.is_dir():
        pair = source.sibling(source.path / NAMES), source.sibling(source.path / NODES)
        return _counted(source, pair, pair[0].lines(), 1), _counted(source, pair, pair[1].lines(), 1)
    pair = source.sibling(source.path), source.sibling(source.path)
    if zipfile.is_zipfile(source.path):
        member, passes = zip_member, 1
    elif is_tar(source):
        member, passes = tar_member, 2
    else:
        raise source.error("this is no taxonomy dump: a tar.gz, a zip or a directory with names.dmp was expected")
    names, nodes = (split_lines(part, member(part, name)) for part, name in zip(pair, (NAMES, NODES), strict=True))
    return _counted(source, pair, names, passes), _counted(source, pair, nodes, passes)


def _counted(whole_file: Source, parts: tuple[Source, Source], rows: Iterator[Line], passes: int) -> Iterator[Line]:
    for row in rows:
        whole_file.consumed = (parts[0].consumed + parts[1].consumed) // passes
        yield row


def _merged(source: Source, names: Iterator[Line], nodes: Iterator[Line]) -> Iterator[_Node | Bad]:
    pending = _names(source, names)
    name = next(pending, None)
    for line, cells in _nodes(source, nodes):
        if isinstance(cells, Bad):
            yield cells
            continue
        tax_id, found = int(cells[0]), list[_Name]()
        while name is not None and (isinstance(name, Bad) or name.tax_id <= tax_id):
            if isinstance(name, Bad):
                yield name
            elif name.tax_id < tax_id or len(found) == _MAX_NAMES:
                yield _orphan_name(name)
            else:
                found.append(name)
            name = next(pending, None)
        yield _Node(line, cells, found)
    for rest in chain([name], pending):
        if rest is not None:
            yield rest if isinstance(rest, Bad) else _orphan_name(rest)


def _orphan_name(name: _Name) -> Bad:
    return bad(name.line, f"{NAMES}: the name {shown(name.name)} is of taxon {name.tax_id}, which {NODES} has not")


def _nodes(source: Source, rows: Iterator[Line]) -> Iterator[tuple[int, list[str] | Bad]]:
    """Yield rows with a valid taxonomy id and at least 7 columns, in order of the ids; a malformed row is a Bad.

    Raises:
        ImportFileError: the first row has another form, the ids are not in order, or there are no rows.
    """
    last = number = 0
    for number, text in rows:
        cells = _cells(text)
        if number == 1 and len(cells) < 7:
            raise source.error(f"{NODES} has no rows of the taxonomy dump's form (TAX_ID, TAB, bar, TAB, …)", 1)
        try:
            if len(cells) < 7:
                raise MalformedRecord(NOT_UTF8 if text is None else f"{len(cells)} columns, at least 7 expected")
            tax_id = whole(cells[0], "tax_id")
        except MalformedRecord as error:
            yield number, bad(number, f"{NODES}: {error}")
            continue
        if tax_id <= last:
            raise source.error(f"{NODES} is not in the order of its ids: {tax_id} comes after {last}", number)
        last = tax_id
        yield number, cells
    if number == 0:
        raise source.error(f"{NODES} is empty")


def _names(source: Source, rows: Iterator[Line]) -> Iterator[_Name | Bad]:
    last = 0
    for number, text in rows:
        cells = _cells(text)
        try:
            if len(cells) != 4:
                raise MalformedRecord(NOT_UTF8 if text is None else f"{len(cells)} columns, 4 expected")
            name = _Name(number, whole(cells[0], "tax_id"), cells[1], cells[3])
        except MalformedRecord as error:
            yield bad(number, f"{NAMES}: {error}")
            continue
        if name.tax_id < last:
            raise source.error(f"{NAMES} is not in the order of its ids: {name.tax_id} comes after {last}", number)
        last = name.tax_id
        yield name


def _cells(text: str | None) -> list[str]:
    return [] if text is None else text.removesuffix("\t|").split("\t|\t")


def _item(node: _Node) -> Item:
    scientific = next((name.name for name in node.names if name.kind == _SCIENTIFIC), "")
    _, parent, rank, _, division, _, code = node.cells[:7]
    try:
        if not scientific:
            raise MalformedRecord(f"{NAMES} has no scientific name for it")
        number = whole(division, "division id")
        taxon = Taxon(
            tax_id=int(node.cells[0]),
            parent_id=whole(parent, "parent tax_id"),
            rank=rank,
            scientific_name=scientific,
            names=tuple((name.name, name.kind) for name in node.names if name.kind != _SCIENTIFIC),
            division=_DIVISIONS[number] if number < len(_DIVISIONS) else "",
            genetic_code=whole(code, "genetic code id"),
        )
    except MalformedRecord as error:
        return bad(node.line, f"{NODES}: taxon {node.cells[0]}: {error}")
    return Good(node.line, taxon)

"""Read ClinVar's ``variant_summary.txt`` (ftp.ncbi.nlm.nih.gov/pub/clinvar/tab_delimited) by its column names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Final, NamedTuple

from retrieval.formats.items import MONTHS, NO_OPTIONS, Bad, Good, Item, MalformedRecord, ReadOptions, bad
from retrieval.formats.records import Database, Link, Variation
from retrieval.formats.sources import Source
from retrieval.formats.tables import NOT_UTF8, Shape, Table, given, is_number, many, open_table, whole
from retrieval.gateway.store.writer import concept_uid


class _Row(NamedTuple):
    """Hold the columns that are read, in the order of ``_COLUMNS``; a column that an older file lacks is ""."""

    variation: str
    allele: str
    kind: str
    name: str
    gene: str
    symbol: str
    significance: str
    evaluated: str
    rs: str
    accessions: str
    phenotype_ids: str
    phenotypes: str
    origin: str
    assembly: str
    chromosome: str
    start: str
    band: str
    review: str
    position_vcf: str
    oncogenicity: str
    impact: str


_COLUMNS: Final = (
    "VariationID", "AlleleID", "Type", "Name", "GeneID", "GeneSymbol", "ClinicalSignificance", "LastEvaluated",
    "RS# (dbSNP)", "RCVaccession", "PhenotypeIDS", "PhenotypeList", "Origin", "Assembly", "Chromosome", "Start",
    "Cytogenetic", "ReviewStatus", "PositionVCF", "Oncogenicity", "SomaticClinicalImpact",
)  # fmt: skip
SHAPE: Final = Shape("variant_summary", _COLUMNS[:18])
_RANK: Final = {"GRCh38": 0, "GRCh37": 1}
_DATE: Final = re.compile(rf"({'|'.join(MONTHS)}) ([0-9]{{1,2}}), ([0-9]{{4}})", re.ASCII)
_LISTED: Final = re.compile(r"[|;]")
_LISTED_IDS: Final = re.compile(r"[|;,]")
_ABSENT: Final = frozenset(("", "-", "-1", "na"))
_MAX_ROWS: Final = 1000


def read(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield, for each run of rows of one VariationID, a Variation, then its Links to gene, snp, omim and medgen.

    The row on GRCh38 is used, else the one on GRCh37, else the first. ``last_evaluated`` is year-month-day, ``rs``
    digits only, ``accessions`` the RCV numbers. Without a germline significance, the oncogenic or somatic
    classification is used. A variation whose rows are not adjacent is yielded twice; the last one is stored.
    """
    for run in _runs(open_table(source, SHAPE)):
        items: list[Item | Callable[[], Item]] = [run] if isinstance(run, Bad) else _items(*run)
        for item in items[skip:]:
            yield item() if callable(item) else item
        skip = max(0, skip - len(items))


def _runs(table: Table) -> Iterator[tuple[int, _Row] | Bad]:
    """Yield the selected row of each run of rows of one variation, with the line number of the first."""
    start, group = 0, list[_Row]()
    pick = _picker(table)
    for number, text in table.rows:
        if text is not None and (not text or text[0] == "#"):
            continue
        try:
            row = pick(text)
        except MalformedRecord as error:
            yield bad(number, error)
            continue
        if group and (row.variation != group[0].variation or len(group) >= _MAX_ROWS):
            yield start, min(group, key=_rank)
            group = []
        start = start if group else number
        group.append(row)
    if group:
        yield start, min(group, key=_rank)


def _rank(row: _Row) -> int:
    return _RANK.get(row.assembly, 2)


def _picker(table: Table) -> Callable[[str | None], _Row]:
    width = len(table.at)
    choose = itemgetter(*(table.at.get(column.lower(), width) for column in _COLUMNS))

    def pick(text: str | None) -> _Row:
        if text is None:
            raise MalformedRecord(NOT_UTF8)
        return _Row._make(choose([*table.cells(text), ""]))

    return pick


def _items(line: int, row: _Row) -> list[Item | Callable[[], Item]]:
    """Return the items of one variation, the Variation as a callable so that a skipped item is not built."""
    try:
        uid, allele = whole(row.variation, "VariationID"), whole(row.allele, "AlleleID")
        gene, rs = _optional(row.gene, "GeneID"), _optional(row.rs, "RS# (dbSNP)")
        position = _optional(row.start, "Start") or _optional(row.position_vcf, "PositionVCF")
    except MalformedRecord as error:
        return [bad(line, error)]
    links = [Good(line, Link("clinvar", str(uid), db, target)) for db, target in _targets(row, gene, rs)]
    return [lambda: Good(line, _variation(row, (uid, allele), (gene, rs, position))), *links]


def _optional(cell: str, column: str) -> str:
    return "" if cell in _ABSENT else str(whole(cell, column))


def _targets(row: _Row, gene: str, rs: str) -> dict[tuple[Database, str], None]:
    found: dict[tuple[Database, str], None] = {}
    if gene:
        found["gene", gene] = None
    if rs:
        found["snp", rs] = None
    for reference in _LISTED_IDS.split(row.phenotype_ids):
        database, _, value = reference.strip().partition(":")
        if database == "OMIM" and is_number(value):
            found["omim", str(int(value))] = None
        elif database == "MedGen":
            try:
                found["medgen", str(concept_uid(value))] = None
            except MalformedRecord:
                continue  # "MedGen:" without a number stands in some rows; the identifier stays in phenotype_ids
    return found


def _variation(row: _Row, ids: tuple[int, int], numbers: tuple[str, str, str]) -> Variation:
    gene, rs, position = numbers
    significance = given(row.significance) or given(row.oncogenicity) or given(row.impact)
    return Variation(
        variation_id=ids[0],
        allele_id=ids[1],
        name=given(row.name),
        kind=given(row.kind),
        genes=_genes(row.symbol, gene),
        significance=significance,
        last_evaluated=_date(row.evaluated),
        review_status=given(row.review),
        rs=rs,
        phenotypes=_listed(_LISTED, row.phenotypes),
        phenotype_ids=_listed(_LISTED_IDS, row.phenotype_ids),
        assembly="" if row.assembly in _ABSENT else row.assembly,
        chromosome="" if row.chromosome in _ABSENT else row.chromosome,
        position=position,
        cytogenetic=given(row.band),
        origin=given(row.origin),
        accessions=many(row.accessions),
    )


def _genes(symbols: str, gene: str) -> tuple[tuple[str, str], ...]:
    """Return (symbol, gene id) pairs.

    A single symbol has the row's gene id; ClinVar gives none for several symbols or for "covers 12 genes, none of which
    …".
    """
    if gene:
        return ((given(symbols), gene),)
    if symbols in _ABSENT or " genes" in symbols or symbols.startswith("subset of"):
        return ()
    return tuple((symbol, "") for symbol in many(symbols, ";"))


def _listed(separator: re.Pattern[str], cell: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part for raw in separator.split(cell) if (part := raw.strip()) not in _ABSENT))


def _date(cell: str) -> str:
    """Return "Dec 17, 2024" as 2024-12-17; any other form is returned unchanged."""
    found = _DATE.fullmatch(cell)
    if found is None:
        return "" if cell in _ABSENT else cell
    return f"{found[3]}-{MONTHS.index(found[1]) + 1:02}-{int(found[2]):02}"

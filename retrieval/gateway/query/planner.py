"""Translate one term of a query into a condition on the store: index words, table rows, everything or nothing.

Holds Entrez's search fields of each database: their tags, and the columns of the index behind them. Produces SQL text
only. Conditions combine without being run, so that SQLite works on its own lists and no set of UIDs is held here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from retrieval.formats.records import Database
from retrieval.gateway.query.syntax import Operator, Term
from retrieval.gateway.store.reader import COLUMNS, EDGE, HUMAN_ONLY, STOPWORDS, GatewayStore, words_of, year_word

_HUMAN: Final = 9606
_MAX_DIGITS: Final = 18
_UID_TEXT: Final = re.compile(r"(?:rs|pmid:?|pmc|mim:?|txid|vcv0*)?\s*(\d{1,18})", re.IGNORECASE)
_NUMBERS: Final = re.compile(r"(?:([0-9]{1,2}|X|Y|MT):)?(\d{1,18})(?:\s*:\s*(?:[0-9XYMT]{1,2}:)?(\d{1,18}))?")
_DAY_TEXT: Final = re.compile(r"(\d{4})(?:[/-](\d{1,2}))?(?:[/-](\d{1,2}))?")
_MIN_PREFIX: Final = 2
_MAX_YEARS: Final = 40  # as index words, which combine within one FTS5 expression; longer spans are table ranges
TaxIds = Callable[[str], Sequence[int]]


# How a term of the field is looked up: as text of the index, or in a column of the record.
Lookup = Literal["text", "uid", "organism", "number", "day", "author"]


@dataclass(frozen=True, slots=True)
class SearchField:
    """Describe one search field; ``tags`` in lower case; ``columns`` of the index, all of them if empty."""

    code: str
    full_name: str
    tags: tuple[str, ...]
    columns: tuple[str, ...] = ()
    lookup: Lookup = "text"


ALL: Final = SearchField("ALL", "All Fields", ("all", "all fields", "*", "text word", "tw", "text", "word"))
_UID: Final = SearchField("UID", "UID", ("uid",), lookup="uid")
ORGANISM: Final = SearchField(
    "ORGN", "Organism", ("orgn", "organism", "taxonomy id", "porgn", "taxid"), ("orgn",), "organism"
)
_CHROMOSOME: Final = SearchField("CHR", "Chromosome", ("chr", "chromosome"), ("chr",))
_ACCESSION: Final = SearchField("ACCN", "Accession", ("accn", "accession", "nucleotide accession"), ("accn",))
_AUTHOR: Final = SearchField(
    "AUTH", "Author", ("au", "auth", "author", "full author name", "fau"), ("author",), "author"
)
_JOURNAL: Final = SearchField("JOUR", "Journal", ("ta", "jour", "journal"), ("journal",))
_TITLE: Final = SearchField("TITL", "Title", ("ti", "titl", "title"), ("title",))
_DAY: Final = SearchField(
    "PDAT",
    "Date - Publication",
    ("dp", "pdat", "date - publication", "publication date", "year", "pubdate", "edat", "crdt"),
    lookup="day",
)
_DOI: Final = SearchField("AID", "Article Identifier", ("aid", "doi", "article identifier", "lid"), ("doi",))

FIELDS: Final[Mapping[Database, tuple[SearchField, ...]]] = {
    "gene": (
        ALL,
        SearchField("UID", "UID", ("uid", "gene id", "geneid"), lookup="uid"),
        SearchField(
            "GENE", "Gene Name", ("gene", "gene name", "sym", "symbol", "pref", "prefered symbol"), ("sym", "alias")
        ),
        SearchField(
            "TITL", "Gene/Protein Name", ("titl", "title", "gfn", "gene full name", "name"), ("name", "designation")
        ),
        ORGANISM,
        _CHROMOSOME,
        SearchField("MAP", "Default Map Location", ("map", "map location"), ("map",)),
        SearchField("MIM", "MIM ID", ("mim", "mim id"), ("mim",)),
        SearchField("PROP", "Properties", ("prop", "properties", "filter", "fltr", "sb"), ("type", "alive")),
        _ACCESSION,
    ),
    "snp": (
        ALL,
        _UID,
        SearchField("RS", "Reference SNP ID", ("rs", "reference snp id", "snpid"), lookup="uid"),
        SearchField("GENE", "Gene Name", ("gene", "gene name", "sym", "gene_name"), ("gene",)),
        SearchField("GENE_ID", "Gene ID", ("gene_id", "gene id", "geneid"), ("gene_id",)),
        _CHROMOSOME,
        SearchField("CPOS", "Base Position", ("cpos", "chrpos", "base position", "position"), lookup="number"),
        SearchField("FXN", "Function Class", ("fxn", "function class", "func"), ("fxn",)),
        SearchField("CLIN", "Clinical Significance", ("clin", "clinical significance"), ("clin",)),
        ORGANISM,
        _ACCESSION,
    ),
    "omim": (
        ALL,
        SearchField("UID", "MIM ID", ("uid", "mim", "mim id"), lookup="uid"),
        SearchField("TITL", "Title", ("titl", "title", "ti"), ("title", "alt")),
        SearchField("GENE", "Gene Name", ("gene", "gene name", "sym"), ("title",)),
        SearchField("MAP", "Gene Map", ("map", "gmap", "gene map", "locus"), ("map",)),
    ),
    "nuccore": (ALL, SearchField("UID", "UID", ("uid",), ("accn",)), _ACCESSION, _TITLE, ORGANISM),
    "pubmed": (
        ALL,
        SearchField("UID", "UID", ("uid", "pmid"), lookup="uid"),
        _TITLE,
        SearchField("TIAB", "Title/Abstract", ("tiab", "title/abstract"), ("title", "abstract", "keyword")),
        SearchField("ABST", "Abstract", ("ab", "abst", "abstract"), ("abstract",)),
        SearchField("MESH", "MeSH Terms", ("mh", "mesh", "mesh terms", "mesh:noexp"), ("mesh",)),
        SearchField("MAJR", "MeSH Major Topic", ("majr", "mesh major topic"), ("majr",)),
        _AUTHOR,
        _JOURNAL,
        _DAY,
        SearchField("PTYP", "Publication Type", ("pt", "ptyp", "publication type"), ("type",)),
        SearchField("LANG", "Language", ("la", "lang", "language"), ("lang",)),
        SearchField("OTRM", "Other Term", ("ot", "other term", "keyword"), ("keyword",)),
        _DOI,
        SearchField("PMC", "PMC ID", ("pmc", "pmcid", "pmc id"), ("pmc",)),
        SearchField("FILT", "Filter", ("filter", "sb", "subset", "text availability"), ("filter",)),
    ),
    "pmc": (
        ALL,
        SearchField("UID", "UID", ("uid", "pmcid"), lookup="uid"),
        _TITLE,
        SearchField("ABST", "Abstract", ("ab", "abst", "abstract"), ("abstract",)),
        SearchField("BODY", "Body - All Words", ("body", "body - all words"), ("body",)),
        _AUTHOR,
        _JOURNAL,
        _DAY,
        _DOI,
        SearchField("PMID", "PMID", ("pmid",), ("pmid",)),
    ),
    "clinvar": (
        ALL,
        SearchField("UID", "UID", ("uid", "varid", "variation id"), lookup="uid"),
        SearchField("GENE", "Gene Name", ("gene", "gene name", "sym"), ("gene",)),
        SearchField("GENE_ID", "Gene ID", ("gene_id", "gene id", "geneid"), ("gene_id",)),
        SearchField("VARNAME", "Variant name", ("varname", "variant name", "title", "titl", "ti"), ("name",)),
        SearchField(
            "CLSI",
            "Clinical significance",
            ("clsi", "clinsig", "clinical significance", "properties", "prop"),
            ("clin",),
        ),
        SearchField("DIS", "Disease/Phenotype", ("dis", "disease", "disease/phenotype", "trait"), ("dis",)),
        SearchField("TYPE", "Type of variation", ("type", "vartype", "type of variation"), ("type",)),
        SearchField("RVST", "Review status", ("rvst", "revstat", "review status"), ("review",)),
        SearchField("RS", "dbSNP ID", ("rs", "rsid", "dbsnp id"), ("rs",)),
        _CHROMOSOME,
        SearchField("CPOS", "Base Position", ("cpos", "chrpos", "chrpos38", "base position"), lookup="number"),
        _ACCESSION,
        ORGANISM,
    ),
    "taxonomy": (
        ALL,
        SearchField("UID", "UID", ("uid", "taxid", "txid"), lookup="uid"),
        SearchField("SCIN", "Scientific Name", ("scin", "scientific name", "orgn", "organism"), ("scientific",)),
        SearchField("ALLN", "All Names", ("alln", "all names", "comn", "common name", "name"), ("scientific", "name")),
        SearchField("RANK", "Rank", ("rank",), ("level",)),
    ),
    "medgen": (
        ALL,
        _UID,
        SearchField("TITL", "Title", ("titl", "title", "ti"), ("title", "synonym")),
        SearchField("CUI", "Concept ID", ("cui", "conceptid", "concept id"), ("cui",)),
        SearchField("SRC", "Source ID", ("src", "sourceid", "source id", "mim", "omim"), ("source",)),
        SearchField("DEF", "Definition", ("def", "definition"), ("definition",)),
    ),
}

# How strongly a hit in a column indicates that the record is the intended one.
COLUMN_SCORE: Final[Mapping[str, int]] = {
    "sym": 100, "ens": 100, "rs": 100, "accn": 90, "alias": 60, "gene": 60, "gene_id": 60, "mim": 60, "cui": 60,
    "doi": 60, "scientific": 60, "keyword": 40, "title": 30, "synonym": 25, "name": 20, "alt": 15, "dis": 15,
    "designation": 10, "mesh": 10, "majr": 10, "abstract": 5,
}  # fmt: skip


def field_of(db: Database, tag: str) -> SearchField | None:
    """Return the field of a tag: All Fields for an empty tag, None if the database has no such field."""
    if not tag:
        return ALL
    normalized_tag = " ".join(tag.lower().split())
    return next((f for f in FIELDS[db] if normalized_tag in f.tags or normalized_tag == f.code.lower()), None)


@dataclass(frozen=True, slots=True)
class TextMatch:
    """Hold an FTS5 expression."""

    match: str


@dataclass(frozen=True, slots=True)
class UidSelect:
    """Hold a statement that selects UIDs."""

    sql: str
    parameters: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class MatchAll:
    """Match every record."""


@dataclass(frozen=True, slots=True)
class MatchNone:
    """Match no record."""


Condition = TextMatch | UidSelect | MatchAll | MatchNone


def rows_of(db: Database, condition: Condition) -> UidSelect:
    """Return the condition as a complete statement."""
    if isinstance(condition, TextMatch):
        return UidSelect(f"SELECT rowid AS uid FROM {db}_index WHERE {db}_index MATCH ?", (condition.match,))
    if isinstance(condition, MatchAll):
        return UidSelect(f"SELECT uid FROM {db}")
    if isinstance(condition, MatchNone):
        return UidSelect(f"SELECT uid FROM {db} WHERE 0")
    return condition


def combine(db: Database, operator: Operator, left: Condition, right: Condition) -> Condition:
    match operator, left, right:
        case "AND", MatchAll(), other:
            return other
        case ("AND", other, MatchAll()) | ("OR", MatchNone(), other) | ("OR" | "NOT", other, MatchNone()):
            return other
        case ("OR", MatchAll(), _) | ("OR", _, MatchAll()):
            return MatchAll()
        case ("AND", MatchNone(), _) | ("AND", _, MatchNone()) | ("NOT", MatchNone(), _) | ("NOT", _, MatchAll()):
            return MatchNone()
        case _, TextMatch(match=a), TextMatch(match=b):
            return TextMatch(f"({a}) {operator} ({b})")
    word = {"AND": "INTERSECT", "OR": "UNION", "NOT": "EXCEPT"}[operator]
    first, second = rows_of(db, left), rows_of(db, right)
    sql = f"SELECT uid FROM ({first.sql}) {word} SELECT uid FROM ({second.sql})"
    return UidSelect(sql, (*first.parameters, *second.parameters))


def term_condition(db: Database, term: Term, field: SearchField, tax_ids: TaxIds) -> Condition:
    """Return the condition for one term of a query; ``tax_ids`` gives the organisms of a name."""
    match field.lookup:
        case "uid":
            return _uids(db, term)
        case "number":
            return _numbers(db, term)
        case "day":
            return _days(db, term.text)
        case "organism":
            return _organism(db, term, tax_ids)
    words = [word for word in words_of(term.text) if term.quoted or word not in STOPWORDS]
    if not words:
        return MatchNone()
    if field.lookup == "author":
        return TextMatch(_in_columns(field.columns, author_phrase(words)))
    found: Condition = TextMatch(_in_columns(field.columns, phrase(words, prefix=is_truncated(term))))
    if field is not ALL:
        return found
    # Entrez's automatic term mapping of a bare word: a number may be a UID, a name may be an organism's.
    found = combine(db, "OR", found, _uids(db, term)) if _UID_TEXT.fullmatch(term.text.strip()) else found
    if not term.quoted and (ids := tax_ids(term.text)):
        found = combine(db, "OR", found, _tax_condition(db, ids))
    return found


def is_truncated(term: Term) -> bool:
    stem = term.text.rstrip("*")
    return term.text.endswith("*") and len(stem) >= _MIN_PREFIX


def phrase(words: Sequence[str], *, prefix: bool = False) -> str:
    """Return an FTS5 phrase of adjacent words; with ``prefix`` the last one matches as a prefix."""
    quoted = " ".join(words).replace('"', '""')
    return f'"{quoted}" *' if prefix else f'"{quoted}"'


def whole(words: Sequence[str]) -> str:
    """Return an FTS5 phrase for a value of exactly these words."""
    return phrase([EDGE, *words, EDGE])


def author_phrase(words: Sequence[str]) -> str:
    """Return an FTS5 phrase that matches a name from its start.

    Initials may be fewer than the record has (Smith J finds Smith JA).
    """
    return phrase([EDGE, *words], prefix=len(words) > 1)


def _in_columns(columns: Sequence[str], match: str) -> str:
    return f"{{{' '.join(columns)}}} : {match}" if columns else match


def _uids(db: Database, term: Term) -> Condition:
    found = [int(m[1]) for part in re.split(r"[\s,]+", term.text.strip()) if (m := _UID_TEXT.fullmatch(part))]
    if not found:
        return MatchNone()
    return UidSelect(f"SELECT uid FROM {db} WHERE uid IN ({','.join('?' * len(found))})", tuple(found))


def _numbers(db: Database, term: Term) -> Condition:
    """Return the condition for a position or a range of positions, with or without its chromosome."""
    found = _NUMBERS.fullmatch(term.text.strip().removeprefix("chr"))
    if found is None:
        return MatchNone()
    low, high = int(found[2]), int(found[3] or found[2])
    inside = UidSelect(f"SELECT uid FROM {db} WHERE number BETWEEN ? AND ?", (low, high))
    if not found[1]:
        return inside
    return combine(db, "AND", inside, TextMatch(_in_columns(("chr",), whole([found[1].lower()]))))


def _days(db: Database, text: str) -> Condition:
    """Return the condition for a year, month or day, or a range of them with ':'.

    Entrez's year 3000 means an open end.
    """
    first, colon, last = text.strip().partition(":")
    low, high = _DAY_TEXT.fullmatch(first.strip()), _DAY_TEXT.fullmatch((last if colon else first).strip())
    if low is None or high is None:
        return MatchNone()
    years = range(int(low[1]), int(high[1]) + 1)
    if not low[2] and not high[2] and len(years) <= _MAX_YEARS:
        words = (_in_columns(("filter",), phrase([year_word(year)])) for year in years)
        return TextMatch(" OR ".join(words)) if years else MatchNone()
    return UidSelect(
        f"SELECT uid FROM {db} WHERE number BETWEEN ? AND ?", (_edge(low, "00", "00"), _edge(high, "99", "99"))
    )


def _edge(found: re.Match[str], month: str, day: str) -> int:
    return int(f"{found[1]}{(found[2] or month).zfill(2)}{(found[3] or day).zfill(2)}")


def _organism(db: Database, term: Term, tax_ids: TaxIds) -> Condition:
    """Return the condition for an organism by any of its names.

    Words before the name ("LMP10 human[orgn]") are searched on their own.
    """
    words = words_of(term.text)
    for first in range(len(words)):
        ids = tax_ids(" ".join(words[first:]))
        if not ids:
            continue
        found = _tax_condition(db, ids)
        for word in words[:first]:
            found = combine(db, "AND", found, TextMatch(phrase([word])))
        return found
    return MatchNone()


def _tax_condition(db: Database, ids: Sequence[int]) -> Condition:
    if db in HUMAN_ONLY:
        return MatchAll() if _HUMAN in ids else MatchNone()
    if ORGANISM.columns[0] not in COLUMNS[db]:
        return MatchNone()
    # One word, not a value between edges: half of all records may be of one organism, and a phrase would be slow.
    return TextMatch(" OR ".join(_in_columns(ORGANISM.columns, phrase([f"txid{tax_id}"])) for tax_id in ids))


_NAMES: Final[Mapping[Database, str]] = {
    "medgen": "title synonym",
    "omim": "title alt",
    "pubmed": "mesh",
    "gene": "name designation",
    "taxonomy": "scientific name",
}


class StorePhraseLookup:
    """Look phrases up in the store on every call; a lookup takes well under a millisecond."""

    def __init__(self, store: GatewayStore) -> None:
        self._store = store

    def contains(self, phrase: str) -> bool:
        words = words_of(phrase)
        return bool(words) and any(self._has(db, columns, words) for db, columns in _NAMES.items())

    def _has(self, db: Database, columns: str, words: tuple[str, ...]) -> bool:
        sql = f"SELECT 1 FROM {db}_index WHERE {db}_index MATCH ? LIMIT 1"
        return bool(self._store.query(sql, (f"{{{columns}}} : {whole(words)}",)))

"""Search the store with a query tree: evaluate the conditions of its terms, and order the hits.

Knows nothing of reply formats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from retrieval.formats.records import Database
from retrieval.gateway.query.conditions import (
    Condition,
    MatchAll,
    MatchNone,
    TextMatch,
    UidSelect,
    any_of,
    combine,
    is_truncated,
    phrase,
    rows_of,
    spellings,
    term_condition,
    whole,
)
from retrieval.gateway.query.syntax import ALL, FIELDS, ORGANISM, Node, Run, SearchField, Term, field_of, terms_of
from retrieval.gateway.store.reader import COLUMNS, GatewayStore, words_of

# How strongly a hit in a column indicates that the record is the intended one.
COLUMN_SCORE: Final[Mapping[str, int]] = {
    "sym": 100, "ens": 100, "rs": 100, "accn": 90, "alias": 60, "gene": 60, "gene_id": 60, "mim": 60, "cui": 60,
    "doi": 60, "scientific": 60, "keyword": 40, "title": 30, "synonym": 25, "name": 20, "alt": 15, "dis": 15,
    "designation": 10, "mesh": 10, "majr": 10, "abstract": 5,
}  # fmt: skip
_NAMES: Final[Mapping[Database, str]] = {
    "medgen": "title synonym",
    "omim": "title alt",
    "pubmed": "mesh",
    "gene": "name designation",
    "taxonomy": "scientific name",
}
# Of more hits than this, relevance ranks only the best of each column: no name distinguishes the rest.
_MAX_RANKED: Final = 3_000
_MAX_SCORED: Final = 10_000
# Looked up and kept; long questions have some tens.
_MAX_PHRASES: Final = 1_000
_PHRASE_BONUS: Final = 20
_PART_SCORE: Final = 5  # a word inside a name is weaker evidence than the whole name
_WHOLE_NOT_NEEDED: Final = frozenset({"title", "alt", "synonym", "dis", "abstract", "mesh", "majr"})
_BY_TEXT: Final[frozenset[Database]] = frozenset({"pubmed", "pmc"})
_NEWEST_FIRST: Final[frozenset[Database]] = frozenset({"pubmed", "pmc", "snp", "clinvar"})
# In an article, a word in the title or as a heading counts more than one in the text.
_TEXT_WEIGHTS: Final[Mapping[str, float]] = {"title": 4.0, "mesh": 2.0, "majr": 3.0, "keyword": 2.0, "abstract": 1.0}


@dataclass(slots=True)
class Hits:
    """Hold what one search found: ``count`` in all, and the UIDs of one page, in order.

    ``counts`` are the hits of each term on its own.
    """

    count: int
    uids: list[str]
    counts: dict[Term, int]
    missing: list[Term] = field(default_factory=list)
    unknown_tags: list[str] = field(default_factory=list)
    loosened: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Select which hits to return, and their order: "relevance", "pub_date" or "" for the database's own."""

    start: int = 0
    size: int = 20
    sort: str = ""


def organism_of(store: GatewayStore, term: Term) -> str | None:
    """Return the scientific name if the term is an organism under an organism tag."""
    return store.organism(term.text) if field_of("gene", term.tag) is ORGANISM else None


def search(store: GatewayStore, db: Database, tree: Node, page: Page, extra: Condition | None = None) -> Hits:
    """Return one page of the records the query matches; ``extra`` narrows the search further (date limits)."""
    terms = list(dict.fromkeys(terms_of(tree)))
    conditions = {term: term_condition(db, term, field_of(db, term.tag) or ALL, store.tax_ids) for term in terms}
    counts = {term: _count(store, db, condition) for term, condition in conditions.items()}
    found = _evaluate(db, tree, conditions, counts)
    if extra is not None:
        found = combine(db, "AND", found, extra)
    count = counts[tree] if isinstance(tree, Term) and extra is None else _count(store, db, found)
    loosened = False
    if not count and db == "omim" and isinstance(tree, Run):
        found, count = _most_words(store, tree, conditions)
        loosened = bool(count)
    if count and db == "omim" and not any(term.tag for term in terms):
        found = combine(db, "OR", found, _of_their_genes(found))
        count = _count(store, db, found)
    hits = Hits(count, [], counts, [t for t in terms if not counts[t]], _unknown_tags(db, terms), loosened)
    if count and page.size:
        hits.uids = _page(store, db, _Found(found, count, terms), page)
    return hits


def _unknown_tags(db: Database, terms: list[Term]) -> list[str]:
    return [term.tag for term in terms if field_of(db, term.tag) is None]


def _count(store: GatewayStore, db: Database, condition: Condition) -> int:
    if isinstance(condition, MatchNone):
        return 0
    if isinstance(condition, MatchAll):
        return store.count(db)
    rows = rows_of(db, condition)
    return store.count_rows(rows.sql, rows.parameters)


def _evaluate(db: Database, node: Node, conditions: Mapping[Term, Condition], counts: Mapping[Term, int]) -> Condition:
    if isinstance(node, Term):
        return conditions[node]
    if isinstance(node, Run):
        # As Entrez does, words found nowhere are left out of a run, unless none is found.
        known = [conditions[term] for term in node.terms if counts[term]]
        joined: Condition = MatchAll() if known else MatchNone()
        for condition in known:
            joined = combine(db, "AND", joined, condition)
        return joined
    left = _evaluate(db, node.left, conditions, counts)
    return combine(db, node.operator, left, _evaluate(db, node.right, conditions, counts))


def _most_words(store: GatewayStore, run: Run, conditions: Mapping[Term, Condition]) -> tuple[Condition, int]:
    """Return the records with the most words, at least half of them, where none holds all of them.

    NCBI searches the whole text of OMIM entries; this store holds their titles, so a strict AND would miss too much.
    """
    votes: dict[int, int] = {}
    for term in run.terms:
        rows = rows_of("omim", conditions[term])
        for (uid,) in store.query(rows.sql, rows.parameters):
            votes[uid] = votes.get(uid, 0) + 1
    most = max(votes.values(), default=0)
    if not most or 2 * most < len(run.terms):
        return MatchNone(), 0
    best = [uid for uid, count in votes.items() if count == most]
    return _with_uids("omim", best), len(best)


def _with_uids(db: Database, uids: Iterable[int]) -> UidSelect:
    return UidSelect(f"SELECT uid FROM {db} WHERE uid IN ({','.join(map(str, uids))})")


def _of_their_genes(found: Condition) -> UidSelect:
    """Return a condition on the entries of the genes that the found entries are linked to.

    NCBI searches the whole text of entries, and that of a gene names its diseases; this store holds titles.
    """
    rows = rows_of("omim", found)
    # CROSS keeps the order, from the hits on; SQLite would begin with the links of all genes.
    sql = (
        f"SELECT own.target_uid AS uid FROM ({rows.sql}) AS hit "
        "CROSS JOIN link AS of_gene ON of_gene.source = 'omim' AND of_gene.uid = hit.uid AND of_gene.target = 'gene' "
        "CROSS JOIN link AS own ON own.source = 'gene' AND own.uid = of_gene.target_uid AND own.target = 'omim' "
        "AND own.own JOIN omim ON omim.uid = own.target_uid"
    )
    return UidSelect(sql, rows.parameters)


# --- order -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    condition: Condition
    count: int
    terms: list[Term]


def _page(store: GatewayStore, db: Database, found: _Found, page: Page) -> list[str]:
    if page.sort == "relevance" and db in _BY_TEXT and isinstance(found.condition, TextMatch):
        uids = _by_text(store, db, found.condition, page)
    elif page.sort == "relevance" and db not in _BY_TEXT:
        uids = _by_relevance(store, db, found, page)
    else:
        uids = _by_default(store, db, found.condition, page)
    return store.keys(uids) if db == "nuccore" else [str(uid) for uid in uids]


def _by_default(store: GatewayStore, db: Database, condition: Condition, page: Page) -> list[int]:
    rows = rows_of(db, condition)
    if db in _NEWEST_FIRST and page.sort != "pub_date":
        sql, limits = f"SELECT uid FROM ({rows.sql}) ORDER BY uid DESC LIMIT ? OFFSET ?", (page.size, page.start)
        if isinstance(condition, TextMatch):  # the index yields rows in order, so the query stops early
            sql = f"{rows.sql} ORDER BY rowid DESC LIMIT ? OFFSET ?"
        return [row[0] for row in store.query(sql, (*rows.parameters, *limits))]
    first = "number" if page.sort == "pub_date" else "weight"
    sql = f"SELECT {db}.uid FROM ({rows.sql}) AS hit JOIN {db} ON {db}.uid = hit.uid "
    sql += f"ORDER BY {first} DESC, {db}.uid DESC LIMIT ? OFFSET ?"
    return [row[0] for row in store.query(sql, (*rows.parameters, page.size, page.start))]


def _by_text(store: GatewayStore, db: Database, condition: TextMatch, page: Page) -> list[int]:
    """Rank by BM25 over the columns, newest first among equals; of very many hits, only the newest."""
    newest = "SELECT rowid FROM {0} WHERE {0} MATCH ? ORDER BY rowid DESC LIMIT 1 OFFSET ?".format(f"{db}_index")
    last = store.query(newest, (condition.match, _MAX_SCORED))
    weights = ", ".join(str(_TEXT_WEIGHTS.get(column, 0.5)) for column in COLUMNS[db])
    sql = (
        f"SELECT rowid FROM {db}_index WHERE {db}_index MATCH ? AND rowid >= ? "
        f"ORDER BY bm25({db}_index, {weights}), rowid DESC LIMIT ? OFFSET ?"
    )
    parameters = (condition.match, last[0][0] if last else 0, page.size, page.start)
    return [row[0] for row in store.query(sql, parameters)]


def _by_relevance(store: GatewayStore, db: Database, found: _Found, page: Page) -> list[int]:
    """Rank records named by the terms above those that contain the words; ties live first, then human."""
    totals: dict[int, int] = {}
    if found.count <= _MAX_RANKED:
        rows = rows_of(db, found.condition)
        totals = dict.fromkeys((uid for (uid,) in store.query(rows.sql, rows.parameters)), 0)
        if isinstance(found.condition, UidSelect):  # else each score below would evaluate it again
            found = replace(found, condition=_with_uids(db, totals))
    for term in found.terms:
        for uid, score in _term_scores(store, db, term, found).items():
            totals[uid] = totals.get(uid, 0) + score
    if found.count > _MAX_RANKED and len(totals) < page.start + page.size:
        more = Page(0, page.start + page.size, "")
        totals = dict.fromkeys(_by_default(store, db, found.condition, more), 0) | totals
    standing = store.rank_features(db, totals)
    if db == "omim":  # of equal matches, the entry whose title has few other words ranks first
        totals = {uid: total + total // max(1, standing[uid].number or 1) for uid, total in totals.items()}

    def order(uid: int) -> tuple[object, ...]:
        s = standing[uid]
        return (-totals[uid], not s.live, not s.human, -s.weight, uid)

    return sorted(totals, key=order)[page.start : page.start + page.size]


def _term_scores(store: GatewayStore, db: Database, term: Term, found: _Found) -> dict[int, int]:
    """Return by UID how well this term names the record, for hits of the whole query."""
    search_field = field_of(db, term.tag) or ALL
    written = spellings(db, term)
    if not written or search_field.lookup not in ("text", "uid", "author"):
        return {}
    scores: dict[int, int] = {}
    if search_field.lookup == "uid" or search_field is ALL:
        scores |= _scored(store, db, term_condition(db, Term(term.text, "uid"), _uid_field(db)), 100, found)
    columns = search_field.columns or COLUMNS[db]
    for score, names, expression in _tiers(columns, written, truncated=is_truncated(term)):
        condition = TextMatch(f"{{{' '.join(names)}}} : {expression}")
        for uid, value in _scored(store, db, condition, score, found).items():
            scores[uid] = max(value, scores.get(uid, 0))
    return scores


def _uid_field(db: Database) -> SearchField:
    return next((f for f in FIELDS[db] if f.lookup == "uid"), ALL)


def _tiers(
    columns: tuple[str, ...], written: list[tuple[str, ...]], *, truncated: bool
) -> list[tuple[int, list[str], str]]:
    """Return (score, columns, expression): names that equal the words in one of their spellings, then what has them."""
    tiers: list[tuple[int, list[str], str]] = []
    scored = [name for name in columns if name in COLUMN_SCORE]
    several = len(written[0]) > 1
    bonus = _PHRASE_BONUS if several else 0
    anywhere = any_of([phrase(words, prefix=truncated) for words in written])
    for score in sorted({COLUMN_SCORE[name] for name in scored}, reverse=True):
        names = [name for name in scored if COLUMN_SCORE[name] == score]
        loose = [name for name in names if several or name in _WHOLE_NOT_NEEDED]
        exact = [name for name in names if name not in loose]
        tiers += [(score + bonus, loose, anywhere)] if loose else []
        tiers += [(score, exact, any_of([whole(words) for words in written]))] if exact else []
    if scored and not several:
        tiers.append((_PART_SCORE, scored, anywhere))
    return [*tiers, (1, list(columns), anywhere)]


def _scored(store: GatewayStore, db: Database, condition: Condition, score: int, found: _Found) -> dict[int, int]:
    rows = rows_of(db, combine(db, "AND", condition, found.condition))
    sql = f"SELECT uid FROM ({rows.sql}) LIMIT ?"
    return {uid: score for (uid,) in store.query(sql, (*rows.parameters, _MAX_RANKED))}


class StorePhraseLookup:
    """Look phrases up in the store; what was found is kept until the next import: calls of a question share words."""

    def __init__(self, store: GatewayStore) -> None:
        self._store = store
        self._known = lru_cache(_MAX_PHRASES)(self._is_name)

    def contains(self, phrase: str) -> bool:
        return self._known(self._store.version(), words_of(phrase))

    def _is_name(self, _: int, words: tuple[str, ...]) -> bool:
        return bool(words) and any(self._has(db, columns, words) for db, columns in _NAMES.items())

    def _has(self, db: Database, columns: str, words: tuple[str, ...]) -> bool:
        sql = f"SELECT 1 FROM {db}_index WHERE {db}_index MATCH ? LIMIT 1"
        return bool(self._store.query(sql, (f"{{{columns}}} : {whole(words)}",)))

"""Evaluates a query tree over the store and orders the hits. Knows nothing of reply formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from retrieval.gateway.query import Node, Run, Term, terms_of
from retrieval.gateway.records import Database
from retrieval.gateway.store import GatewayStore
from retrieval.gateway.tokens import STOPWORDS, words_of


@dataclass(frozen=True, slots=True)
class SearchField:
    """One Entrez field of a database: its tags (lower case), and the index fields behind it (none: all)."""

    code: str
    full_name: str
    tags: tuple[str, ...]
    index: tuple[str, ...]


_ALL: Final = SearchField("ALL", "All Fields", ("all", "all fields", "*"), ())
_UID: Final = SearchField("UID", "UID", ("uid",), ("uid",))
_ORGANISM: Final = SearchField("ORGN", "Organism", ("orgn", "organism", "taxonomy id", "porgn", "taxid"), ("orgn",))
_CHROMOSOME: Final = SearchField("CHR", "Chromosome", ("chr", "chromosome"), ("chr",))
_ACCESSION: Final = SearchField("ACCN", "Accession", ("accn", "accession", "nucleotide accession"), ("accn",))

FIELDS: Final[Mapping[Database, tuple[SearchField, ...]]] = {
    "gene": (
        _ALL,
        SearchField("UID", "UID", ("uid", "gene id", "geneid"), ("uid",)),
        SearchField(
            "GENE", "Gene Name", ("gene", "gene name", "sym", "symbol", "pref", "prefered symbol"), ("sym", "alias")
        ),
        SearchField(
            "TITL", "Gene/Protein Name", ("titl", "title", "gfn", "gene full name", "name"), ("name", "designation")
        ),
        _ORGANISM,
        _CHROMOSOME,
        SearchField("MAP", "Default Map Location", ("map", "map location"), ("map",)),
        SearchField("MIM", "MIM ID", ("mim", "mim id"), ("mim",)),
        SearchField("PROP", "Properties", ("prop", "properties", "filter", "fltr", "sb"), ("type", "alive")),
        _ACCESSION,
    ),
    "snp": (
        _ALL,
        _UID,
        SearchField("RS", "Reference SNP ID", ("rs", "reference snp id", "snpid"), ("rs", "uid")),
        SearchField("GENE", "Gene Name", ("gene", "gene name", "sym", "gene_name"), ("gene",)),
        SearchField("GENE_ID", "Gene ID", ("gene_id", "gene id", "geneid"), ("gene_id",)),
        _CHROMOSOME,
        SearchField("CPOS", "Base Position", ("cpos", "chrpos", "base position", "position"), ("pos",)),
        SearchField("FXN", "Function Class", ("fxn", "function class", "func"), ("fxn",)),
        _ORGANISM,
        _ACCESSION,
    ),
    "omim": (
        _ALL,
        SearchField("UID", "MIM ID", ("uid", "mim", "mim id"), ("uid",)),
        SearchField("TITL", "Title", ("titl", "title", "ti"), ("title", "alt")),
        SearchField("GENE", "Gene Name", ("gene", "gene name", "sym"), ("title",)),
        SearchField("MAP", "Gene Map", ("map", "gmap", "gene map", "locus"), ("map",)),
    ),
    "nuccore": (
        _ALL,
        _UID,
        _ACCESSION,
        SearchField("TITL", "Title", ("titl", "title", "ti"), ("title",)),
        _ORGANISM,
    ),
}

# How much a hit in an index field says about the record being the one that was meant.
_FIELD_SCORE: Final[Mapping[str, int]] = {
    "uid": 100, "sym": 100, "rs": 100, "ens": 100, "accn": 90, "alias": 60, "gene": 60, "gene_id": 60, "mim": 60,
    "keyword": 40, "title": 30, "name": 20, "pos": 20, "alt": 15, "designation": 10,
}  # fmt: skip


@dataclass(slots=True)
class Hits:
    """What one search found. ``uids`` are in order; ``counts`` are the hits of each term on its own."""

    uids: list[str]
    counts: dict[Term, int]
    missing: list[Term] = field(default_factory=list)
    unknown_tags: list[str] = field(default_factory=list)
    loosened: bool = False


def field_of(db: Database, tag: str) -> SearchField | None:
    """The field a tag names; All Fields where there is no tag; None where the database has no such field."""
    if not tag:
        return _ALL
    wanted = " ".join(tag.lower().split())
    return next((f for f in FIELDS[db] if wanted in f.tags or wanted == f.code.lower()), None)


def organism_of(store: GatewayStore, term: Term) -> str | None:
    """The scientific name where the term is an organism under an organism tag."""
    return store.organism(term.text) if field_of("gene", term.tag) is _ORGANISM else None


def search(store: GatewayStore, db: Database, tree: Node, by_relevance: bool) -> Hits:
    """All records the query matches, in order of relevance or of NCBI's default (gene weight, newest id first)."""
    matches = {term: _match(store, db, term) for term in terms_of(tree)}
    found = _evaluate(tree, lambda term: set(matches[term]))
    loosened = False
    if not found and db == "omim" and isinstance(tree, Run):
        found = _most_words(tree, matches)
        loosened = bool(found)
    counts = {term: len(match) for term, match in matches.items()}
    tags = [term.tag for term in matches if field_of(db, term.tag) is None]
    ranked = _ranked(store, db, found, matches.values(), by_relevance)
    return Hits(ranked, counts, [term for term, count in counts.items() if not count], tags, loosened)


def _evaluate(node: Node, uids: Callable[[Term], set[str]]) -> set[str]:
    if isinstance(node, Term):
        return uids(node)
    if isinstance(node, Run):
        # As Entrez does, words found nowhere are left out of a run, unless none is found.
        known = [found for term in node.terms if (found := uids(term))]
        return set.intersection(*known) if known else set()
    left, right = _evaluate(node.left, uids), _evaluate(node.right, uids)
    if node.operator == "AND":
        return left & right
    return left | right if node.operator == "OR" else left - right


def _most_words(run: Run, matches: Mapping[Term, Mapping[str, int]]) -> set[str]:
    """Records that hold at least half of the words, where none holds all of them.

    NCBI searches the whole text of OMIM entries; this store holds their titles, so a strict AND would miss too much.
    """
    votes: dict[str, int] = {}
    for term in run.terms:
        for uid in matches[term]:
            votes[uid] = votes.get(uid, 0) + 1
    most = max(votes.values(), default=0)
    return {uid for uid, count in votes.items() if count == most and 2 * count >= len(run.terms)}


def _match(store: GatewayStore, db: Database, term: Term) -> dict[str, int]:
    """uid -> score of one term; an unknown tag is ignored, as Entrez does."""
    search_field = field_of(db, term.tag) or _ALL
    words = [word for word in words_of(term.text) if term.quoted or word not in STOPWORDS]
    if not words:
        return {}
    if term.text.endswith("*"):
        words[-1] += "*"
    if search_field is _ORGANISM:
        return _organism_match(store, db, term, words)
    if len(words) == 1:
        found = store.uids_with_word(db, words[0], search_field.index)
        return {uid: _score(store, db, uid, words[0], fields) for uid, fields in found.items()}
    per_word = [store.uids_with_word(db, word, search_field.index) for word in words]
    together = set.intersection(*map(set, per_word))
    phrase = f" {' '.join(words_of(term.text))} "
    return {
        uid: max(_FIELD_SCORE.get(name, 1) for name in fields) + 20
        for uid in together
        if (fields := _fields_with_phrase(store, db, uid, phrase, search_field))
    }


def _organism_match(store: GatewayStore, db: Database, term: Term, words: list[str]) -> dict[str, int]:
    """An organism by any of its names; words before the name ("LMP10 human[orgn]") are searched on their own."""
    for first in range(len(words)):
        if store.organism(" ".join(words[first:])) is None:
            continue
        name = f" {' '.join(words[first:])} "
        holders = store.uids_with_word(db, words[-1], ("orgn",))
        matched = {
            uid: 0 for uid in holders if any(f == "orgn" and text == name for f, text in store.phrase_fields(db, uid))
        }
        for word in words[:first]:
            others = _match(store, db, Term(word))
            matched = {uid: score + others[uid] for uid, score in matched.items() if uid in others}
        return matched
    return {}


def _fields_with_phrase(
    store: GatewayStore, db: Database, uid: str, phrase: str, search_field: SearchField
) -> set[str]:
    wanted = search_field.index
    return {f for f, text in store.phrase_fields(db, uid) if (not wanted or f in wanted) and phrase in text}


def _score(store: GatewayStore, db: Database, uid: str, word: str, fields: Iterable[str]) -> int:
    """The best field's score; a symbol or alias that only contains the word as a part counts as a name does."""
    whole = {f for f, text in store.phrase_fields(db, uid) if text == f" {word} "}
    return max(
        _FIELD_SCORE.get(name, 1) if name in whole or name in ("title", "alt") else min(_FIELD_SCORE.get(name, 1), 5)
        for name in fields
    )


def _ranked(
    store: GatewayStore, db: Database, uids: set[str], matches: Iterable[Mapping[str, int]], by_relevance: bool
) -> list[str]:
    standing = store.standings(db, uids)
    totals = dict.fromkeys(uids, 0)
    if by_relevance:
        for match in matches:
            for uid in uids & match.keys():
                totals[uid] += match[uid]
    if by_relevance and db == "omim":
        totals = {uid: total + _title_share(store, uid, total) for uid, total in totals.items()}

    def order(uid: str) -> tuple[object, ...]:
        s = standing[uid]
        relevance = (-totals[uid], not s.live, not s.human) if by_relevance else ()
        return (*relevance, -s.weight, -int(uid) if uid.isdigit() and not by_relevance else 0, _number(uid))

    return sorted(uids, key=order)


def _number(uid: str) -> tuple[int, str]:
    return (int(uid), "") if uid.isdigit() else (0, uid)


def _title_share(store: GatewayStore, uid: str, total: int) -> int:
    """Of entries that match equally, the one whose title says little else is the one that was meant."""
    entry = store.omim(uid)
    length = len(words_of(entry.title)) if entry else 1
    return total // max(1, length)

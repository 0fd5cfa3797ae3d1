"""Look names up in the records of the gateway's store, with their kinds and in their stored spelling."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from retrieval.formats.records import Article, Concept, Database, Gene, OmimEntry, Record
from retrieval.gateway.query.conditions import phrase, whole
from retrieval.gateway.store.reader import EDGE, PART, GatewayStore, decode, words_of
from retrieval.types import MAX_NAME_CHARS, KnownName, NameKind, same

_HUMAN: Final = 9606
# Records that are read for one name: enough for its orthologs in the species of common questions.
_MAX_READ: Final = 20
_ABBREVIATED: Final = re.compile(r"([A-Za-z])\. ([a-z]+)")
_SYMBOLS: Final[frozenset[NameKind]] = frozenset({"symbol", "alias", "other_symbol"})
# OMIM's marks of entries on phenotypes; the others are genes, and what was removed.
_PHENOTYPES: Final = frozenset({"#", "%", "+", ""})
_INCLUDED: Final = ", INCLUDED"


class StoreNames:
    """Implement ``KnownNames`` on the gateway's store, as it is at each call."""

    def __init__(self, store: GatewayStore) -> None:
        self._store = store

    def find(self, name: str, kinds: Collection[NameKind]) -> Iterator[KnownName]:
        words = words_of(name)
        if not words or len(name) > MAX_NAME_CHARS or {EDGE, PART}.intersection(words):
            return
        requested = frozenset(kinds)
        for of_kinds, look_up in self._sources(name, words):
            if of_kinds & requested:
                yield from (known for known in look_up() if known.kind in requested)

    def _sources(
        self, name: str, words: tuple[str, ...]
    ) -> Iterator[tuple[frozenset[NameKind], Callable[[], Collection[KnownName]]]]:
        # Symbols are single words: the likelier kind comes first, as the first name that fits ends the search.
        if " " not in name:
            yield _SYMBOLS, lambda: self._symbols(name, words)
        yield frozenset({"organism"}), lambda: self._organisms(name, words)
        yield frozenset({"disease"}), lambda: self._names("medgen", "title synonym", whole(words), name)
        yield frozenset({"disease", "gene_name"}), lambda: self._omim(name, words)
        yield frozenset({"heading"}), lambda: self._names("pubmed", "mesh", whole(words), name)
        yield frozenset({"gene_name"}), lambda: self._names("gene", "name designation", whole(words), name)
        if " " in name:
            yield _SYMBOLS, lambda: self._symbols(name, words)

    def _symbols(self, name: str, words: tuple[str, ...]) -> list[KnownName]:
        """Return the symbol or alias, of humans if there is one, as it may leave then with fewer conditions."""
        human = self._names("gene", "sym alias", whole(words), name, "AND t.human = 1")
        return human or self._names("gene", "sym alias", whole(words), name)

    def _omim(self, name: str, words: tuple[str, ...]) -> list[KnownName]:
        """Return a title or a part of it: an entry's titles stand in one text."""
        at_start = self._names("omim", "title alt", phrase([EDGE, *words]), name)
        return at_start or self._names("omim", "title alt", phrase(words), name)

    def _names(self, db: Database, columns: str, match: str, name: str, only: str = "") -> list[KnownName]:
        sql = (
            f"SELECT t.body FROM {db}_index AS i JOIN {db} AS t ON t.uid = i.rowid "
            f"WHERE i.{db}_index MATCH ? {only} LIMIT {_MAX_READ}"
        )
        for (body,) in self._store.query(sql, (f"{{{columns}}} : {match}",)):
            same_names = [known for known in names_of(decode(db, body)) if same(name, known.spelling)]
            if same_names:
                return same_names
        return []

    def _organisms(self, name: str, words: Sequence[str]) -> list[KnownName]:
        """Return the name of an organism; the store has these in small letters, apart from scientific names."""
        rows = self._store.query("SELECT name, scientific FROM organism WHERE name = ?", (" ".join(words),))
        for plain, scientific in rows:
            for spelling in (scientific, plain):
                if same(name, spelling):
                    return [KnownName(spelling, "organism")]
            if (short := _ABBREVIATED.fullmatch(name)) and plain == name.lower().replace(". ", " "):
                return [KnownName(f"{short[1].upper()}. {short[2]}", "organism")]
        return []


def names_of(record: Record) -> Iterator[KnownName]:
    """Yield the controlled names of a record, each with its kind; none of its authors, words and keywords."""
    match record:
        case Gene():
            human = record.organism.tax_id == _HUMAN
            official: tuple[str, ...] = (record.symbol, record.official_symbol)
            yield from (KnownName(text, "symbol" if human else "other_symbol") for text in official if text)
            yield from (KnownName(text, "alias" if human else "other_symbol") for text in record.aliases)
            yield from (KnownName(text, "gene_name") for text in (record.name, *record.designations) if text)
        case OmimEntry():
            kind: NameKind = "disease" if record.prefix in _PHENOTYPES else "gene_name"
            for part in re.split(r";+", f"{record.title};{record.alternative_titles}"):
                if text := part.strip().removesuffix(_INCLUDED):
                    yield KnownName(text, kind)
        case Concept():
            yield from (KnownName(text, "disease") for text in (record.name, *record.synonyms))
        case Article():
            yield from (KnownName(text.partition("/")[0], "heading") for text in (*record.mesh, *record.mesh_major))

"""Decide whether a phrase is a name in the store.

Names are those of diseases, concepts and subject headings, and full names of genes and organisms. Such a name reveals
no more than a symbol does. Free text is not a name, even where it contains one: the phrase must be the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from retrieval.gateway.plan import whole
from retrieval.gateway.records import Database
from retrieval.gateway.store import GatewayStore
from retrieval.gateway.tokens import words_of

_NAMES: Final[Mapping[Database, str]] = {
    "medgen": "title synonym",
    "omim": "title alt",
    "pubmed": "mesh",
    "gene": "name designation",
    "taxonomy": "scientific name",
}


class StoreVocabulary:
    """Look phrases up in the store on every call; a lookup takes well under a millisecond."""

    def __init__(self, store: GatewayStore) -> None:
        self._store = store

    def knows(self, phrase: str) -> bool:
        words = words_of(phrase)
        return bool(words) and any(self._has(db, columns, words) for db, columns in _NAMES.items())

    def _has(self, db: Database, columns: str, words: tuple[str, ...]) -> bool:
        sql = f"SELECT 1 FROM {db}_index WHERE {db}_index MATCH ? LIMIT 1"
        return bool(self._store.query(sql, (f"{{{columns}}} : {whole(words)}",)))

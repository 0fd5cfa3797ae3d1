"""Find the genes, diseases, phenotypes and drugs that a query names, with their other names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Final

import numpy as np

from models.encoders.base import Floats
from retrieval.gateway.query.synonyms import MAX_NAMES, MAX_SYNONYMS, StoreSynonyms, other_names
from retrieval.graph.linking.dictionary_lookup.dictionary import Dictionary, build_dictionary
from retrieval.graph.linking.dictionary_lookup.terms import TermNames
from retrieval.graph.types import NameOf, Node, Statement
from retrieval.types import NameInText

_LEAST_CHARS: Final = 3


class QueryNames:
    """Implement ``retrieval.types.Synonyms`` and the keywords' names of genes; safe from many threads.

    ``names`` gives the terminology, at the first look-up.
    """

    def __init__(self, genes: StoreSynonyms, names: Callable[[], TermNames]) -> None:
        self._genes = genes
        self._names = names

    def is_gene(self, name: str) -> bool:
        return self._genes.is_gene(name)

    def synonyms(self, name: str) -> tuple[str, ...]:
        return self._genes.synonyms(name)

    def named_in(self, text: str) -> tuple[NameInText, ...]:
        """Return the names that a text has, genes first; the others are looked for outside the genes' names."""
        genes = self._genes.named_in(text)
        known = [name.name.casefold() for name in genes]
        others = [one for one in self._terms_in(text) if not any(one.name.casefold() in name for name in known)]
        return (*genes, *others)[:MAX_NAMES]

    def _terms_in(self, text: str) -> Iterator[NameInText]:
        seen: set[str] = set()
        for mention in self._dictionary.read(text).concepts:
            name = text[mention.start : mention.end]
            longer = [one for one in (mention.node.name, *mention.node.synonyms) if len(one) >= _LEAST_CHARS]
            found = other_names(name, longer)[:MAX_SYNONYMS]
            if found and mention.margin and mention.node.node_id not in seen:
                seen.add(mention.node.node_id)
                yield NameInText(name, found)

    @cached_property
    def _dictionary(self) -> Dictionary:
        return build_dictionary(_NoNodes(), names=self._names())

    async def close(self) -> None:
        await self._genes.close()


class _NoNodes:
    """A graph of nothing, beside which all concepts stay concepts."""

    release = graph = "none"

    def names(self, kinds: Iterable[str] | None = None) -> Iterator[NameOf]:
        return iter(())

    def node(self, node_id: str) -> Node | None:
        return None

    def statements(self, node_id: str, kinds: frozenset[str] | None = None) -> tuple[Statement, ...]:
        return ()

    def vectors(self, rows: object) -> Floats:
        return np.empty((0, 0), np.float32)

"""Find what a text names: by the dictionary of the knowledge graph, by notation, and by words that English has not.

And what a query names, with other names, by the gateway's genes and the terminology.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final, Protocol

import numpy as np

from models.encoders.base import Floats
from models.errors import ModelError
from retrieval.errors import GraphError
from retrieval.gateway.query.synonyms import MAX_NAMES, MAX_SYNONYMS, StoreSynonyms, other_names
from retrieval.graph.linking.dictionary_lookup.dictionary import Dictionary, build_dictionary
from retrieval.graph.linking.dictionary_lookup.terms import TermNames
from retrieval.graph.types import Linked, NameOf, Node, Statement
from retrieval.types import NameInText
from server.methods.shared.conversation.follow_ups import symbols_in
from server.methods.shared.identifiers import tokens_of

log = logging.getLogger(__name__)
# The first look-up opens the graph, which goes on behind an answer that does not wait for it.
_TIMEOUT_S: Final = 5.0
_WORD: Final = re.compile(r"[^\W\d_][\w'’-]*")
# Shorter ones are in no list of words, and seldom the name of anything.
_LEAST_CHARS: Final = 5
_LEAST_SYNONYM: Final = 3
_ENDINGS: Final = ("s", "es", "ed", "ing")


class Linking(Protocol):
    """Link the names of a text to the nodes of a graph."""

    async def link(self, question: str) -> Linked: ...


class GraphNames:
    """Find names by a graph; where it cannot be opened, symbols alone.

    ``is_ordinary``: whether English has the word, in small letters. No graph has every drug and disease: of the words
    that it does not know, those that are no English words count as names.
    """

    def __init__(self, graph: Linking, is_ordinary: Callable[[str], bool]) -> None:
        self._graph = graph
        self._is_ordinary = is_ordinary

    async def names_in(self, text: str) -> Sequence[str]:
        """Return the names as the text writes them, in order, each once."""
        spans = [found.span() for found in symbols_in(text)]
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                linked = await self._graph.link(text)
        except (GraphError, ModelError, TimeoutError) as error:
            log.warning("the names of a conversation are not looked up: %s", type(error).__name__)
        else:
            spans += [(mention.start, mention.end) for mention in linked.mentions]
            for place in linked.unlinked:
                spans += self._rare(text, place.start, place.end)
        names, last = [], 0
        # Of two that overlap, the one that begins first and is longer.
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            if start >= last:
                names.append(text[start:end])
                last = end
        return list(dict.fromkeys(names))

    def _rare(self, text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the places of words that English has not, those that follow one another as one."""
        first = last = -1
        for word in _WORD.finditer(text, start, end):
            if self._is_english(word[0].lower()):
                continue
            if first >= 0 and text[last : word.start()] != " ":
                yield first, last
                first = -1
            first, last = (word.start() if first < 0 else first), word.end()
        if first >= 0:
            yield first, last

    def _is_english(self, word: str) -> bool:
        forms = (word, *(word.removesuffix(ending) for ending in _ENDINGS))
        return len(word) < _LEAST_CHARS or any(self._is_ordinary(form) for form in forms)


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

    def subjects_in(self, text: str) -> tuple[frozenset[str], ...]:
        """Return for each drug, disease and other term of a text the words of all its names that English has not.

        A term that the text calls by English words alone ("water", "heart failure") is left out.
        """
        found = [(one.node, text[one.start : one.end]) for one in self._dictionary.read(text).concepts]
        return tuple(self._rare([own, node.name, *node.synonyms]) for node, own in found if self._rare([own]))

    def _rare(self, names: Sequence[str]) -> frozenset[str]:
        words = {word for name in names for word in tokens_of(name)}
        return frozenset(word for word in words if len(word) >= _LEAST_SYNONYM and not self._genes.is_ordinary(word))

    def _terms_in(self, text: str) -> Iterator[NameInText]:
        seen: set[str] = set()
        for mention in self._dictionary.read(text).concepts:
            name = text[mention.start : mention.end]
            longer = [one for one in (mention.node.name, *mention.node.synonyms) if len(one) >= _LEAST_SYNONYM]
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

    def names(self) -> Iterator[NameOf]:
        return iter(())

    def node(self, node_id: str) -> Node | None:
        return None

    def statements(self, node_id: str, kinds: frozenset[str] | None = None) -> tuple[Statement, ...]:
        return ()

    def vectors(self, rows: object) -> Floats:
        return np.empty((0, 0), np.float32)

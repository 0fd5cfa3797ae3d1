"""Assemble the closed vocabulary of what may leave: names of the gateway's store, of the graph and of organisms."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from models.errors import ArrowheadError
from retrieval.gateway.query.names import StoreNames
from retrieval.gateway.store.reader import GatewayStore
from retrieval.graph.linking.dictionary_lookup.vocabulary import LEAST_WORD, ordinary_words
from retrieval.graph.linking.dictionary_lookup.vocabulary import Vocabulary as WordList
from retrieval.graph.store.catalog import open_graph
from retrieval.graph.store.known_names import GraphNames
from retrieval.ncbi.calls.known_names import KnownName, KnownNames, NameKind
from retrieval.ncbi.calls.parameter_classes import is_organism
from server.egress.recognition.vocabulary import PERSON_NAMES

log = logging.getLogger(__name__)


class SiteNames:
    """Implement the vocabulary of ``server.egress`` on this site's data."""

    def __init__(self, sources: Sequence[KnownNames]) -> None:
        self._sources = tuple(sources)
        self._words: WordList | None = None
        self._loading = threading.Lock()

    def find(self, name: str, kinds: Collection[NameKind]) -> Iterator[KnownName]:
        for source in self._sources:
            yield from source.find(name, kinds)

    def is_ordinary(self, word: str) -> bool:
        if len(word) < LEAST_WORD:
            return False
        with self._loading:
            if self._words is None:
                self._words = ordinary_words()
        return word in PERSON_NAMES or self._words.has([word])[0]


class CommonOrganisms:
    """Know the organisms of common questions, whatever the store has."""

    def find(self, name: str, kinds: Collection[NameKind]) -> tuple[KnownName, ...]:
        return (KnownName(name.lower(), "organism"),) if "organism" in kinds and is_organism(name) else ()


class LazyGraphNames:
    """Know the names of a graph from when it is built; opens it at the first look-up after that.

    A graph that replaces it is used after the next start.
    """

    def __init__(self, root: Path, name: str) -> None:
        self._root = root
        self._name = name
        self._graph: GraphNames | None = None
        self._opening = threading.Lock()

    def find(self, name: str, kinds: Collection[NameKind]) -> tuple[KnownName, ...]:
        graph = self._opened()
        if graph is None:
            return ()
        try:
            return tuple(graph.find(name, kinds))
        except ArrowheadError as error:
            log.warning("names of the graph not used: cause=%s", type(error).__name__)
            return ()

    def _opened(self) -> GraphNames | None:
        with self._opening:
            if self._graph is None and (self._root / self._name).is_dir():
                try:
                    self._graph = GraphNames(open_graph(self._root, self._name))
                except ArrowheadError as error:
                    log.warning("names of the graph not used: cause=%s", type(error).__name__)
            return self._graph


def site_names(store: GatewayStore, graphs: Path, graph: str) -> SiteNames:
    """Return the vocabulary of a site; ``graph`` is the name of a graph in the folder ``graphs``."""
    return SiteNames((StoreNames(store), CommonOrganisms(), LazyGraphNames(graphs, graph)))

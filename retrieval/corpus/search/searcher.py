"""Search namespaces by one query or many, with one ranker or several; read-only and without state."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Final

from models.encoders.base import CrossEncoder, Floats, PassageText
from retrieval.corpus.errors import NamespaceDamaged, NamespaceInvalid
from retrieval.corpus.namespaces.namespace import Namespace, fingerprint_text
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import embedded_title
from retrieval.corpus.search.ranking import (
    MAX_K,
    KeywordSearch,
    RankedPassage,
    Ranker,
    Retriever,
    by_score,
    fused,
    interleaved,
    rankers_of,
)
from retrieval.corpus.store.base import MATCH_ALL, PassageFilter, Target
from retrieval.index.base import NO_ID, RowFilter
from retrieval.index.errors import BackendUnavailable, IndexDamaged
from retrieval.observer import NullObserver, RetrievalObserver, TraceSpan
from retrieval.passages import Hit

# Maximum of extra hits that replace those deleted from the store but not yet from an index.
_MAX_GONE: Final = 1000
_FUSION_DEPTH: Final = 100
_TARGETS: Final[dict[Ranker, Target]] = {"dense": "vectors", "bm25": "words", "pes2": "keywords"}


# In order of preference: the first whose indices every namespace has is the default.
_USUAL: Final[tuple[tuple[Retriever, frozenset[Target]], ...]] = (
    ("hybrid", frozenset(("words", "vectors"))),
    ("dense", frozenset(("vectors",))),
    ("bm25", frozenset(("words",))),
    ("pes2", frozenset(("keywords",))),
)


def default_retriever(targets: Iterable[Iterable[Target]]) -> Retriever:
    """Return the default retriever for namespaces with these indices each.

    Raises:
        NamespaceInvalid: they have no index in common.
    """
    common = frozenset.intersection(*map(frozenset, targets))
    found = next((retriever for retriever, needed in _USUAL if needed <= common), None)
    if found is None:
        raise NamespaceInvalid("these namespaces have no index in common; search them apart", param="retriever")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """Configure a search.

    ``k``: at most so many passages. ``rerank``: how many of the best the cross-encoder scores, 0 for none.

    Raises:
        NamespaceInvalid: an unknown retriever, or a number out of range.
    """

    k: int = 10
    retriever: Retriever = "dense"
    where: PassageFilter = MATCH_ALL
    rerank: int = 0

    def __post_init__(self) -> None:
        rankers_of(self.retriever)
        for name, value, lowest in (("k", self.k, 1), ("rerank", self.rerank, 0)):
            if not lowest <= value <= MAX_K:
                raise NamespaceInvalid(f"{name} must be from {lowest} to {MAX_K}", param=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rankers:
    """Hold the rankers that are not indices; a search cannot request one that is None."""

    keywords: KeywordSearch | None = None
    cross_encoder: CrossEncoder | None = None
    fuse: Callable[[Sequence[Sequence[Hit]]], list[Hit]] = fused


class Searcher:
    """Search namespaces and rank the results.

    Thread-safe.
    """

    def __init__(
        self, namespaces: Namespaces, rankers: Rankers | None = None, observer: RetrievalObserver | None = None
    ) -> None:
        self._namespaces = namespaces
        self._rankers = rankers or Rankers()
        self._observer = observer or NullObserver()

    def search(self, query: str, names: Sequence[str], options: SearchOptions | None = None) -> list[RankedPassage]:
        """Return the passages of one query, as ``search_many`` does."""
        return self.search_many([query], names, options)[0]

    def search_many(
        self, queries: Sequence[str], names: Sequence[str], options: SearchOptions | None = None
    ) -> list[list[RankedPassage]]:
        """Return for each query its passages, best first.

        Queries are encoded together, once for each encoder. Over several namespaces, dense rankings of one encoder are
        merged by score; all others, whose scores are not comparable, are interleaved. Every hit is checked against the
        filter once more by its own document.

        Raises:
            NamespaceInvalid, NamespaceUnknown, NamespaceDamaged
            IndexFault: an index failed, its encoder does not match, or a component is not installed.
        """
        options = options or SearchOptions()
        if not all(query.strip() for query in queries):
            raise NamespaceInvalid("a query is empty", param="query")
        if not names:
            raise NamespaceInvalid("at least one namespace must be named", param="namespaces")
        began = time.monotonic()
        with self._part(len(queries), len(set(names)), options) as part, ExitStack() as stack:
            opened = [stack.enter_context(self._namespaces.using(name)) for name in dict.fromkeys(names)]
            rankings = _Rankings(opened, queries, options, self._rankers)
            found = [self.finish(query, rankings.of(index), options) for index, query in enumerate(queries)]
            part.annotate(found=sum(map(len, found)))
        self._observer.searched(options.retriever, len(opened), time.monotonic() - began)
        return found

    def _part(self, queries: int, namespaces: int, options: SearchOptions) -> AbstractContextManager[TraceSpan]:
        return self._observer.part(
            "search",
            retriever=options.retriever,
            namespaces=namespaces,
            queries=queries,
            k=options.k,
            rerank=options.rerank,
        )

    def over(self, namespaces: Namespaces) -> Searcher:
        """Return a searcher of other namespaces with the same rankers."""
        return Searcher(namespaces, self._rankers, self._observer)

    def finish(self, query: str, found: list[RankedPassage], options: SearchOptions) -> list[RankedPassage]:
        """Apply the last step of a search: the cross-encoder, where requested, and the cut to ``k``."""
        if options.rerank and found:
            encoder = self._rankers.cross_encoder
            if encoder is None:
                raise NamespaceInvalid("there is no cross-encoder: retrieval.cross_encoder names one", param="rerank")
            judged, rest = found[: options.rerank], found[options.rerank :]
            texts = [PassageText(embedded_title(one.passage), one.passage.text) for one in judged]
            scores = [float(score) for score in encoder.score(query, texts)]
            pairs = sorted(zip(scores, judged, strict=True), key=lambda pair: -pair[0])
            found = [_rescored(one, score) for score, one in pairs] + rest
        return found[: options.k]


class _Rankings:
    """Hold all rankings of some queries: by ranker and namespace, one for each query."""

    def __init__(
        self, opened: Sequence[Namespace], queries: Sequence[str], options: SearchOptions, rankers: Rankers
    ) -> None:
        self._opened = opened
        self._queries = queries
        self._options = options
        self._rankers = rankers
        names = rankers_of(options.retriever)
        self._depth = max(options.k, options.rerank)
        if len(names) > 1:
            self._depth = max(2 * self._depth, _FUSION_DEPTH)
        self._encoded: dict[str, Floats] = {}
        self._of = {name: [self._ranked(name, namespace) for namespace in opened] for name in names}

    def of(self, index: int) -> list[RankedPassage]:
        """Return the passages for the query at ``index``, fused and checked against the filter."""
        merged: list[list[Hit]] = []
        ranks: dict[int, dict[str, int]] = {}
        homes: dict[int, Namespace] = {}
        for name, by_namespace in self._of.items():
            rankings = [ranking[index] for ranking in by_namespace]
            for namespace, hits in zip(self._opened, rankings, strict=True):
                for rank, hit in enumerate(hits, 1):
                    ranks.setdefault(hit.passage_id, {})[name] = rank
                    homes[hit.passage_id] = namespace
            merged.append(self._merged(name, rankings)[: self._depth])
        hits = self._rankers.fuse(merged) if len(merged) > 1 else merged[0]
        return self._found(hits, ranks, homes)

    def _found(
        self, hits: list[Hit], ranks: dict[int, dict[str, int]], homes: dict[int, Namespace]
    ) -> list[RankedPassage]:
        stored = {
            passage.passage_id: (passage, document)
            for namespace in self._opened
            for passage, document in namespace.store.get(
                [hit.passage_id for hit in hits if homes[hit.passage_id] is namespace]
            )
        }
        found = []
        for hit in hits:
            passage, document = stored.get(hit.passage_id, (None, None))
            if passage is not None and document is not None and self._options.where.admits(document):
                name, hit_ranks = homes[hit.passage_id].name, ranks[hit.passage_id]
                found.append(
                    RankedPassage(passage=passage, document=document, hit=hit, namespace=name, ranks=hit_ranks)
                )
        return found

    def _merged(self, name: Ranker, rankings: list[list[Hit]]) -> list[Hit]:
        if len(rankings) == 1:
            return rankings[0]
        if name == "dense" and len({fingerprint_text(namespace.encoder) for namespace in self._opened}) == 1:
            return by_score(rankings)
        return interleaved(rankings)

    def _ranked(self, name: Ranker, namespace: Namespace) -> list[list[Hit]]:
        try:
            return self._query_index(name, namespace)
        except (NamespaceDamaged, IndexDamaged):
            target = _TARGETS[name]
            counts = namespace.store.counts()
            waiting = counts.pending[target] - counts.gone[target]
            if target not in namespace.settings.targets or waiting < counts.passages:
                raise
            # No passage is indexed yet: the index does not exist, or is being built at this moment.
            return [[] for _ in self._queries]

    def _query_index(self, name: Ranker, namespace: Namespace) -> list[list[Hit]]:
        where = namespace.store.row_filter(self._options.where)
        k = self._depth + min(namespace.store.counts().gone[_TARGETS[name]], _MAX_GONE)
        match name:
            case "dense":
                found = self._dense(namespace, k, where)
            case "bm25":
                found = [namespace.words.search(query, k, where) for query in self._queries]
            case "pes2":
                index, keywords = namespace.keywords, self._rankers.keywords
                if keywords is None:
                    raise BackendUnavailable("there is no ranking by keywords", param="retriever")
                found = [keywords(index, query, k, where) for query in self._queries]
        return found

    def _dense(self, namespace: Namespace, k: int, where: RowFilter | None) -> list[list[Hit]]:
        encoder = namespace.encoder
        key = fingerprint_text(encoder)
        if key not in self._encoded:
            self._encoded[key] = encoder.encode_queries(list(self._queries))
        found = namespace.vectors.search(self._encoded[key], k, where)
        return [
            [Hit(int(number), float(score)) for number, score in zip(ids, scores, strict=True) if number != NO_ID]
            for ids, scores in zip(found.ids, found.scores, strict=True)
        ]


def _rescored(found: RankedPassage, score: float) -> RankedPassage:
    return RankedPassage(
        passage=found.passage,
        document=found.document,
        hit=Hit(found.hit.passage_id, score),
        namespace=found.namespace,
        ranks=found.ranks,
    )

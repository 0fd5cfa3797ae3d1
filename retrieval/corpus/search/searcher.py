"""Search namespaces by one query or many, with one ranker or several; read-only and without state."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from models.encoders.base import CrossEncoder, Encoder, Floats, PassageText, TokenEncoder, lacks_tokens
from models.encoders.token_codes import max_sim
from retrieval.corpus.namespaces.dense import DenseIndex, fingerprint_text, is_dense
from retrieval.corpus.namespaces.namespace import Namespace
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import VECTORS
from retrieval.corpus.search.ranking import (
    DENSE,
    HYBRID,
    MAX_K,
    RRF_4,
    RankedPassage,
    Ranker,
    Retriever,
    by_score,
    encoder_in,
    fused,
    interleaved,
    missing_of_paper,
    rankers_of,
)
from retrieval.corpus.store.base import MATCH_ALL, PassageFilter, Target
from retrieval.errors import BACKEND_UNAVAILABLE, IndexDamaged, IndexFault, NamespaceDamaged, NamespaceInvalid
from retrieval.index.base import NO_ID, RowFilter
from retrieval.index.token_store import TokenCodes
from retrieval.lexical.base import LexicalIndex
from retrieval.lexical.fusion import feedback_seeds, late_interaction, share_of_words
from retrieval.observer import NullObserver, RetrievalObserver, TraceSpan
from retrieval.passages import Hit
from retrieval.types import NameInText

# Maximum of extra hits that replace those deleted from the store but not yet from an index.
_MAX_GONE: Final = 1000
_FUSION_DEPTH: Final = 200
# Hits of a hybrid search that late interaction orders again.
LATE: Final = 50
LATE_INTERACTION: Final = "late-interaction"
_TARGETS: Final[dict[Ranker, Target]] = {DENSE: VECTORS, "bm25": "words", "pes2": "words"}

# In order of preference: the first whose indices every namespace has is the default.
_USUAL: Final[tuple[tuple[Retriever, frozenset[Target]], ...]] = (
    ("hybrid", frozenset(("words", "vectors"))),
    ("dense", frozenset(("vectors",))),
    ("bm25", frozenset(("words",))),
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

    ``k``: at most so many passages. ``rerank``: how many of the best the cross-encoder scores, 0 for none. ``late``:
    how many of the best late interaction orders before that, where all namespaces have token vectors of one encoder;
    None for 50 of a hybrid search and none of others. ``names``: by query, the names in it that ``bm25`` also searches
    for by their synonyms.

    Raises:
        NamespaceInvalid: an unknown retriever, or a number out of range.
    """

    k: int = 10
    retriever: Retriever = "dense"
    where: PassageFilter = MATCH_ALL
    rerank: int = 0
    late: int | None = None
    names: Mapping[str, Sequence[NameInText]] = field(default_factory=dict)

    @property
    def num_late(self) -> int:
        return (LATE if self.retriever == HYBRID else 0) if self.late is None else self.late

    def __post_init__(self) -> None:
        rankers_of(self.retriever)
        for name, value, lowest in (("k", self.k, 1), ("rerank", self.rerank, 0), ("late", self.late or 0, 0)):
            if not lowest <= value <= MAX_K:
                raise NamespaceInvalid(f"{name} must be from {lowest} to {MAX_K}", param=name)


class KeywordSearch(Protocol):
    """Rank the passages of an index of words by how often a query's keywords occur in them (PES2)."""

    def __call__(self, index: LexicalIndex, query: str, k: int, where: RowFilter | None, /) -> list[Hit]:
        """Return at most k hits, best first, only of passages with a keyword."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rankers:
    """Hold the rankers that are not indices; a search cannot request one that is None."""

    keywords: KeywordSearch | None = None
    cross_encoder: CrossEncoder | None = None


@dataclass(frozen=True, slots=True)
class FusedLists:
    """Name the rankings that a search fuses, and those of the paper that ``rrf-4`` lacks here.

    ``missing_stages``: ``late-interaction`` where namespaces store token vectors and their encoder gives none.
    """

    rankers: tuple[Ranker, ...]
    missing: tuple[str, ...] = ()
    missing_stages: tuple[str, ...] = ()


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
        filter once more by its own document. A search that meets a damaged index is made once more, since opening the
        namespace again derives words from its passages.

        Raises:
            NamespaceInvalid, NamespaceUnknown, NamespaceDamaged
            IndexFault: an index failed, its encoder does not match, or a component is not installed.
        """
        options = options or SearchOptions()
        if not all(query.strip() for query in queries):
            raise NamespaceInvalid("a query is empty", param="query")
        if not names:
            raise NamespaceInvalid("at least one namespace must be named", param="namespaces")
        try:
            return self._searched(queries, names, options)
        except (IndexDamaged, NamespaceDamaged):
            return self._searched(queries, names, options)

    def _searched(
        self, queries: Sequence[str], names: Sequence[str], options: SearchOptions
    ) -> list[list[RankedPassage]]:
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

    def lists(self, names: Sequence[str], retriever: Retriever) -> FusedLists:
        """Return which rankings a search of these namespaces fuses.

        Raises:
            NamespaceInvalid, NamespaceUnknown, NamespaceDamaged: as ``search_many``.
        """
        with ExitStack() as stack:
            opened = [stack.enter_context(self._namespaces.using(name)) for name in dict.fromkeys(names)]
            rankers = checked_rankers(opened, retriever)
            # A search by words alone loads no encoder.
            late = DENSE in rankers and any(map(_lacks_query_tokens, opened))
            stages = (LATE_INTERACTION,) if late else ()
            if retriever != RRF_4:
                return FusedLists(rankers, missing_stages=stages)
            targets = [target_of(opened[0], ranker) for ranker in rankers[1:]]
            missing = missing_of_paper(opened[0].dense(target).known_as for target in targets)
            return FusedLists(rankers, missing, stages)

    def finish(self, query: str, found: list[RankedPassage], options: SearchOptions) -> list[RankedPassage]:
        """Apply the last step of a search: the cross-encoder, where requested, and the cut to ``k``."""
        if options.rerank and found:
            encoder = self._rankers.cross_encoder
            if encoder is None:
                raise NamespaceInvalid("there is no cross-encoder: retrieval.cross_encoder names one", param="rerank")
            judged, rest = found[: options.rerank], found[options.rerank :]
            texts = [PassageText(one.passage.heading, one.passage.text) for one in judged]
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
        names = checked_rankers(opened, options.retriever)
        self._depth = max(options.k, options.rerank, options.num_late)
        if len(names) > 1:
            self._depth = max(2 * self._depth, _FUSION_DEPTH)
        gone = [max(namespace.store.counts().gone.values(), default=0) for namespace in opened]
        self._gone = min(sum(gone), _MAX_GONE)
        self._encoded: dict[str, Floats] = {}
        self._query_tokens: list[Floats] = []
        self._stores = self._token_stores() if options.num_late else []
        self._of = {name: [self._ranked(name, namespace) for namespace in opened] for name in names}
        if options.retriever == HYBRID and self._takes_feedback():
            self._feed_back()

    def of(self, index: int) -> list[RankedPassage]:
        """Return the passages for the query at ``index``, fused and checked against the filter."""
        merged: dict[Ranker, list[Hit]] = {}
        ranks: dict[int, dict[str, int]] = {}
        homes: dict[int, Namespace] = {}
        for name, by_namespace in self._of.items():
            rankings = [ranking[index] for ranking in by_namespace]
            for namespace, hits in zip(self._opened, rankings, strict=True):
                for rank, hit in enumerate(hits, 1):
                    ranks.setdefault(hit.passage_id, {})[name] = rank
                    homes[hit.passage_id] = namespace
            merged[name] = self._merged(name, rankings)[: self._depth]
        hits = fused(self._options.retriever, merged, share_of_words(self._queries[index]))
        hits = late_interaction(hits, self._similarities(index, [hit.passage_id for hit in hits], homes))
        # Reading the text of every fused passage would take longer than finding them.
        requested = max(self._options.k, self._options.rerank) + self._gone
        return self._found(hits[:requested], ranks, homes)

    def _token_stores(self) -> list[TokenCodes]:
        """Return the token vectors of each namespace, none at all where one has none or encoders differ."""
        stores = [namespace.tokens for namespace in self._opened if namespace.settings.encoder]
        found = [store for store in stores if store is not None]
        if len(found) < len(self._opened) or not self._has_one_encoder():
            return []
        return [] if lacks_tokens(self._opened[0].encoder) else found

    def _has_one_encoder(self) -> bool:
        if not all(namespace.settings.encoder for namespace in self._opened):
            return False
        return len({fingerprint_text(namespace.encoder) for namespace in self._opened}) == 1

    def _similarities(self, index: int, ranked: list[int], homes: dict[int, Namespace]) -> dict[int, float]:
        """Return the similarities of the best passages by late interaction, none where there are no token vectors."""
        if not self._stores:
            return {}
        if not self._query_tokens:
            self._encode(self._opened[0].encoder)
        best = ranked[: self._options.num_late]
        codes = {
            number: code
            for namespace, store in zip(self._opened, self._stores, strict=True)
            for number, code in store.get([number for number in best if homes[number] is namespace]).items()
        }
        known = [number for number in best if number in codes]
        scores = max_sim(self._query_tokens[index], [codes[number] for number in known])
        return dict(zip(known, map(float, scores), strict=True))

    def _takes_feedback(self) -> bool:
        """Return whether the sum of a query's and passages' vectors is a query: unit vectors of one encoder."""
        return self._has_one_encoder() and self._opened[0].encoder.fingerprint.normalise

    def _feed_back(self) -> None:
        """Replace the dense rankings by those of queries to which the vectors of their best passages were added."""
        key = fingerprint_text(self._opened[0].encoder)
        if key not in self._encoded:
            return
        moved = self._encoded[key].copy()
        # The index of a namespace without hits may be being built at this moment.
        made = [namespace for namespace, found in zip(self._opened, self._of["dense"], strict=True) if any(found)]
        for index in range(len(self._queries)):
            of = {name: self._merged(name, [found[index] for found in self._of[name]]) for name in self._of}
            seeds = feedback_seeds(of["bm25"][: self._depth], of["dense"][: self._depth])
            vectors = [vector for namespace in made for vector in namespace.vectors.get(seeds).values()]
            if vectors:
                moved[index] = _unit(moved[index] + np.mean(vectors, axis=0))
        self._encoded[key] = moved
        self._of["dense"] = [self._ranked("dense", namespace) for namespace in self._opened]

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
        if _TARGETS.get(name, VECTORS) == VECTORS:
            dense = (_dense_of(namespace, name) for namespace in self._opened)
            if len({fingerprint_text(one.encoder) for one in dense}) == 1:
                return by_score(rankings)
        return interleaved(rankings)

    def _ranked(self, name: Ranker, namespace: Namespace) -> list[list[Hit]]:
        try:
            return self._query_index(name, namespace)
        except (NamespaceDamaged, IndexDamaged):
            target = target_of(namespace, name)
            counts = namespace.store.counts()
            waiting = counts.pending[target] - counts.gone[target]
            if target not in namespace.settings.targets or waiting < counts.passages:
                raise
            # No passage is indexed yet: the index does not exist, or is being built at this moment.
            return [[] for _ in self._queries]

    def _query_index(self, name: Ranker, namespace: Namespace) -> list[list[Hit]]:
        where = namespace.store.row_filter(self._options.where)
        k = self._depth + min(namespace.store.counts().gone[target_of(namespace, name)], _MAX_GONE)
        match name:
            case "bm25":
                names = self._options.names
                found = [namespace.words.search(query, k, where, names.get(query, ())) for query in self._queries]
            case "pes2":
                if (keywords := self._rankers.keywords) is None:
                    raise IndexFault("there is no ranking by keywords", BACKEND_UNAVAILABLE, param="retriever")
                found = [keywords(namespace.words, query, k, where) for query in self._queries]
            case _:
                found = self._nearest(_dense_of(namespace, name), k, where)
        return found

    def _nearest(self, dense: DenseIndex, k: int, where: RowFilter | None) -> list[list[Hit]]:
        encoder = dense.encoder
        self._encode(encoder)
        found = dense.vectors.search(self._encoded[fingerprint_text(encoder)], k, where)
        return [
            [Hit(int(number), float(score)) for number, score in zip(ids, scores, strict=True) if number != NO_ID]
            for ids, scores in zip(found.ids, found.scores, strict=True)
        ]

    def _encode(self, encoder: Encoder) -> None:
        """Encode the queries once for each encoder, with their tokens where late interaction needs them."""
        key = fingerprint_text(encoder)
        if key in self._encoded:
            return
        of_tokens = bool(self._stores) and key == fingerprint_text(self._opened[0].encoder)
        if of_tokens and isinstance(encoder, TokenEncoder):
            self._encoded[key], self._query_tokens = encoder.encode_queries_with_tokens(list(self._queries))
        else:
            self._encoded[key] = encoder.encode_queries(list(self._queries))


def _lacks_query_tokens(namespace: Namespace) -> bool:
    """Return whether a namespace stores token vectors and its encoder gives none of a query."""
    has_tokens = namespace.settings.tokens and bool(namespace.settings.encoder) and namespace.tokens is not None
    return has_tokens and lacks_tokens(namespace.encoder)


def target_of(namespace: Namespace, ranker: Ranker) -> Target:
    """Return the index of a namespace that a ranker reads, whether or not it has it."""
    return _TARGETS.get(ranker) or namespace.settings.target_of(encoder_in(ranker))


def common_encoders(opened: Sequence[Namespace]) -> tuple[str, ...]:
    """Return the ids of the encoders that all namespaces have, in the order of the first one."""
    first, others = opened[0].settings.encoder_ids, [namespace.settings.encoder_ids for namespace in opened[1:]]
    return tuple(encoder for encoder in first if all(encoder in ids for ids in others))


def checked_rankers(opened: Sequence[Namespace], retriever: Retriever) -> tuple[Ranker, ...]:
    """Return the rankers of a retriever over these namespaces.

    Raises:
        NamespaceInvalid: two of them read the same vectors, or ``rrf-4`` has no encoder to fuse with words.
    """
    names = rankers_of(retriever, common_encoders(opened))
    if retriever == RRF_4 and len(names) == 1:
        raise NamespaceInvalid(
            "rrf-4 fuses words with vectors, and these namespaces share no encoder", param="retriever"
        )
    for namespace in opened:
        vectors = [target for name in names if is_dense(target := target_of(namespace, name))]
        if len(set(vectors)) < len(vectors):
            first = namespace.settings.encoder
            raise NamespaceInvalid(
                f"retriever: dense is dense:{first} in {namespace.name}, so one of them is enough", param="retriever"
            )
    return names


def _dense_of(namespace: Namespace, ranker: Ranker) -> DenseIndex:
    return namespace.dense(target_of(namespace, ranker))


def _unit(vector: Floats) -> Floats:
    scaled: Floats = vector / max(float(np.linalg.norm(vector)), 1e-12)
    return scaled


def _rescored(found: RankedPassage, score: float) -> RankedPassage:
    return RankedPassage(
        passage=found.passage,
        document=found.document,
        hit=Hit(found.hit.passage_id, score),
        namespace=found.namespace,
        ranks=found.ranks,
    )

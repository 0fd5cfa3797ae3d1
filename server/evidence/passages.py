"""Search the namespaces that a request may read, with all its queries at once.

Retrieval is local: no passage and no query leaves this machine.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from models.encoders.base import Encoder
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.search.ranking import DENSE, MAX_K, RankedPassage, Retriever
from retrieval.corpus.search.searcher import FusedLists, Searcher, SearchOptions, default_retriever, target_of
from retrieval.corpus.store.base import PassageFilter
from retrieval.errors import NamespaceUnknown, RetrievalError
from retrieval.index.backends.card import Card
from retrieval.lexical.fusion import reciprocal_rank_fusion
from retrieval.storage.database import SharedDatabase
from retrieval.types import NameInText, Synonyms
from server.evidence.encoders import EncoderPool
from server.jobs.queue import JobQueue
from server.jobs.uploads import Uploads
from server.methods.base import AnswerRequest, OptionInvalid
from server.methods.shared.passages import Gathered, PassageQuery
from server.settings.retrieval import RetrievalSettings
from server.tape import taped, taped_now

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Hold the encoders, the namespaces, their searcher and the jobs that change them.

    ``database`` has namespaces that several servers share, None where they are files of this one. ``look_ups`` are the
    threads that ask it which namespaces there are. ``names``: the names whose synonyms can be searched for, None for
    none. ``card``: where vectors are searched, None for the processor.
    """

    encoders: EncoderPool
    namespaces: Namespaces
    searcher: Searcher
    jobs: JobQueue
    uploads: Uploads
    readers: ThreadPoolExecutor
    database: SharedDatabase | None = None
    look_ups: ThreadPoolExecutor | None = None
    names: Synonyms | None = None
    card: Card | None = None

    @property
    def is_shared(self) -> bool:
        """Return whether look-ups of namespaces wait for a database, which may be slow."""
        return self.database is not None

    def names_in(self, queries: Sequence[str]) -> dict[str, tuple[NameInText, ...]]:
        """Return the names in each query that has some, with their synonyms."""
        found = {} if self.names is None else {query: self.names.named_in(query) for query in queries}
        return {query: names for query, names in found.items() if names}

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run ``work`` on a search thread.

        Nothing else runs on these threads, so that many searches delay no stream.
        """
        return await asyncio.get_running_loop().run_in_executor(self.readers, copy_context().run, work)

    async def look_up(self, work: Callable[[], _T]) -> _T:
        """Run a short look-up of namespaces: at once where they are files, on a thread where they are in a database.

        The threads are not those of searches, so that a long search delays no answer that does not wait for it.
        """
        if not self.is_shared:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self.look_ups, copy_context().run, work)

    async def sweep(self) -> None:
        """Remove what killed processes left in the data folder; a failure is logged."""
        try:
            await asyncio.to_thread(self.namespaces.sweep)
            await asyncio.to_thread(self.uploads.sweep)
        except OSError as error:
            log.warning("what killed processes left cannot be removed: %s", error.strerror)

    async def close(self) -> None:
        await self.jobs.close()
        for threads in (self.readers, self.look_ups):
            if threads is not None:
                threads.shutdown(wait=False, cancel_futures=True)
        self.uploads.close()
        self.namespaces.close()
        if self.database is not None:
            self.database.close()
        await self.encoders.close()


log = logging.getLogger(__name__)
_SENTENCE_END: Final = re.compile(r"(?<=[.?!])\s+(?=[A-Z0-9(\"'])")
_MAX_TAIL: Final = 8


class PassageService:
    """Search passages for the methods; one instance per process.

    Safe for concurrent tasks of one event loop.
    """

    def __init__(self, retrieval: Retrieval, settings: RetrievalSettings) -> None:
        self._retrieval = retrieval
        self._settings = settings

    def open(self, ask: AnswerRequest) -> AllowedPassages:
        return AllowedPassages(self, ask.namespaces, ask.documents)

    @taped_now("namespaces", tuple[str, ...], lambda *_: "usual", RetrievalError)
    def names(self, allowed: frozenset[str] | None) -> tuple[str, ...]:
        """Return the readable namespaces that are searched where none is named.

        The package's notes are searched as long as none of the others has a document. Where a database has the
        namespaces, ``allowed`` are those that there were when the request began (``Services.with_namespaces``); then
        nothing waits here for the database, and only ``None`` asks it.
        """
        known = self.known(allowed)
        return known if allowed is not None and self._retrieval.is_shared else self._usual(known)

    def known(self, allowed: frozenset[str] | None) -> tuple[str, ...]:
        """Return the readable namespaces with the package's notes, by the same rules."""
        if allowed is not None and self._retrieval.is_shared:
            return tuple(sorted(allowed))
        return self._known_now(allowed)

    def _known_now(self, allowed: frozenset[str] | None) -> tuple[str, ...]:
        namespaces = self._retrieval.namespaces
        names, sample = namespaces.names(), namespaces.sample
        if sample is not None and sample.is_there and sample.name not in names:
            names = [*names, sample.name]
        return tuple(name for name in names if allowed is None or name in allowed)

    def _usual(self, known: tuple[str, ...]) -> tuple[str, ...]:
        namespaces = self._retrieval.namespaces
        own = tuple(name for name in known if not namespaces.is_sample(name))
        if own == known or any(map(namespaces.has_documents, own)):
            return own
        return tuple(name for name in known if name not in own)

    @taped_now("checked", tuple[str, ...], lambda _, query, __: query, RetrievalError)
    def check(self, passage_query: PassageQuery, allowed: frozenset[str] | None) -> tuple[str, ...]:
        """Validate a request and return its namespaces.

        Raises:
            NamespaceUnknown: a namespace does not exist or may not be read.
            OptionInvalid: ``rerank`` without a cross-encoder, or ``k`` above the server's limit.
        """
        return self._checked(passage_query, self.known(allowed)) or self.names(allowed)

    async def check_now(self, passage_query: PassageQuery, allowed: frozenset[str] | None) -> tuple[str, ...]:
        """Do as ``check``, by the namespaces that there are at this moment; waits for no database on the event loop."""
        known = await self._retrieval.look_up(lambda: self._known_now(allowed))
        requested = self._checked(passage_query, known)
        return requested or await self._retrieval.look_up(lambda: self._usual(known))

    def _checked(self, passage_query: PassageQuery, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in passage_query.namespaces:
            if name not in names:
                choices = ", ".join(names) or "none"
                raise NamespaceUnknown(
                    f"there is no namespace {name[:70]!r}; there are: {choices}", param="arrowhead.namespaces"
                )
        if passage_query.rerank and self._settings.cross_encoder is None:
            raise OptionInvalid(
                "arrowhead.rerank: this server has no cross-encoder; retrieval.cross_encoder names one",
                param="arrowhead.rerank",
            )
        if passage_query.k > MAX_K:
            raise OptionInvalid(f"arrowhead.k: at most {MAX_K} passages", param="arrowhead.k")
        return tuple(dict.fromkeys(passage_query.namespaces))

    @taped("passages", Gathered, lambda _, queries, query, __: (queries, query), RetrievalError)
    async def find(
        self, queries: Sequence[str], passage_query: PassageQuery, allowed: frozenset[str] | None
    ) -> Gathered:
        names = await self.check_now(passage_query, allowed)
        if not names:
            return Gathered(namespaces=(), retriever="", lists=tuple(() for _ in queries))
        began = time.monotonic()
        search = _Search(self._retrieval.searcher, self._retrieval.namespaces, names, passage_query)
        found = await self._retrieval.run(lambda: search.run(queries))
        return replace(found, seconds=time.monotonic() - began)


def distinct_names(named: Mapping[str, Sequence[NameInText]]) -> tuple[NameInText, ...]:
    """Return the names of several queries, each once."""
    return tuple({one.name: one for names in named.values() for one in names}.values())


@dataclass(frozen=True, slots=True)
class AllowedPassages:
    """Restrict the service to the namespaces that one request may read, and to ``documents`` where these are named."""

    service: PassageService
    allowed: frozenset[str] | None
    documents: frozenset[str] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return self.service.names(self.allowed)

    def check(self, passage_query: PassageQuery) -> None:
        self.service.check(passage_query, self.allowed)

    async def find(self, queries: Sequence[str], passage_query: PassageQuery) -> Gathered:
        return await self.service.find(queries, replace(passage_query, documents=self.documents), self.allowed)


@dataclass(frozen=True, slots=True)
class _Search:
    """Run the search of one request on a worker thread."""

    searcher: Searcher
    namespaces: Namespaces
    names: tuple[str, ...]
    passage_query: PassageQuery

    def run(self, queries: Sequence[str]) -> Gathered:
        """Search for all queries."""
        retriever = self.passage_query.retriever or self._usual()
        fused = self.searcher.lists(self.names, retriever)
        where = PassageFilter(documents=self.passage_query.documents)
        found = self._found(queries, fused, SearchOptions(k=1, retriever=retriever, where=where))
        return Gathered(
            namespaces=self.names,
            retriever=retriever,
            lists=tuple(map(tuple, found)),
            rankers=fused.rankers,
            missing=fused.missing,
        )

    def _found(self, queries: Sequence[str], lists: FusedLists, asked: SearchOptions) -> list[list[RankedPassage]]:
        views = [[query, *self._tail(query, lists)] for query in queries]
        flat = [view for of_query in views for view in of_query]
        limit = self.passage_query.rerank or self.passage_query.k
        num_reranked = self.passage_query.k if self.passage_query.rerank else 0
        options = replace(asked, k=limit, rerank=num_reranked)
        if len(flat) == len(queries):
            return self.searcher.search_many(flat, self.names, options)
        tails = {tail: asked.names.get(query, ()) for query, *rest in views for tail in rest}
        view_options = replace(asked, k=self.passage_query.k, names={**tails, **asked.names})
        rankings = iter(self.searcher.search_many(flat, self.names, view_options))
        fused = [_fused([next(rankings) for _ in of_query]) for of_query in views]
        return [self.searcher.finish(query, found, options) for query, found in zip(queries, fused, strict=True)]

    def _usual(self) -> Retriever:
        targets = []
        for name in self.names:
            with self.namespaces.using(name) as namespace:
                targets.append(namespace.settings.targets)
        return default_retriever(targets)

    def _tail(self, query: str, lists: FusedLists) -> list[str]:
        """Return the last sentences of a query if an encoder would truncate it, else nothing.

        A case description has its question at the end.
        """
        truncating = [encoder for encoder in self._encoders(lists) if _is_cut(query, encoder)]
        if not truncating:
            return []
        narrowest = min(truncating, key=lambda encoder: encoder.fingerprint.max_query)
        tail = last_sentences(query, narrowest)
        return [tail] if tail and tail != query else []

    def _encoders(self, lists: FusedLists) -> list[Encoder]:
        """Return the encoders of the rankings by vectors, each once."""
        found: dict[str, Encoder] = {}
        for name in self.names if any(ranker.startswith(DENSE) for ranker in lists.rankers) else ():
            with self.namespaces.using(name) as namespace:
                for target in (target_of(namespace, ranker) for ranker in lists.rankers):
                    if encoder := namespace.settings.encoder_of(target):
                        found[encoder] = namespace.dense(target).encoder
        return list(found.values())


def last_sentences(query: str, encoder: Encoder) -> str:
    """Return as many whole sentences from the end as the encoder takes: at least one, at most ``_MAX_TAIL``."""
    sentences = _SENTENCE_END.split(query.strip())
    tail = sentences[-1]
    for sentence in reversed(sentences[-_MAX_TAIL:-1]):
        longer = f"{sentence} {tail}"
        if _is_cut(longer, encoder):
            break
        tail = longer
    return tail


def _is_cut(text: str, encoder: Encoder) -> bool:
    return encoder.count_query_tokens(text) > encoder.fingerprint.max_query


def _fused(rankings: Sequence[list[RankedPassage]]) -> list[RankedPassage]:
    if len(rankings) == 1:
        return rankings[0]
    by_id = {found.passage.passage_id: found for ranking in reversed(rankings) for found in ranking}
    hits = reciprocal_rank_fusion([[found.hit for found in ranking] for ranking in rankings])
    return [by_id[hit.passage_id] for hit in hits]

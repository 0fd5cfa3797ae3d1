"""Find the gateway's articles that are nearest in meaning to a question, by the default encoder.

A small store, as that of the package's sample, gets its vectors at the first question; a larger one by ``arrowhead
gateway vectors``, which takes a while.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from models.encoders.base import TokenEncoder
from models.errors import ModelError
from retrieval.errors import INDEX_BUSY, INDEX_NOT_WRITTEN, IndexFault, RetrievalError
from retrieval.formats.records import Article
from retrieval.gateway.article_vectors import ArticleVectors
from retrieval.gateway.store.open import open_store
from retrieval.gateway.store.reader import GatewayStore
from server.evidence.comparison import row_of
from server.evidence.encoders import EncoderPool
from server.methods.clinfo.literature import Hits

log = logging.getLogger(__name__)
# Vectors of so many articles are made while a question waits: some seconds, once.
_AT_ONCE: Final = 1_000
# Of 280 questions' marked articles, 97 % are nearer; of everyday questions on other things no article is.
_LEAST_COSINE: Final = {"minilm": 0.35}
# With limits, so many times as many articles are read as may be returned.
_SPARE: Final = 5
_COMMAND: Final = "`arrowhead gateway vectors` makes them"


@dataclass(frozen=True, slots=True)
class Limits:
    """Hold what articles have to be: of these days of publication, yyyymmdd, 0 for no limit, and admitted."""

    first_day: int
    last_day: int
    admits: Callable[[Article], bool]


class ArticleFinder:
    """Search the vectors of the store in ``data_dir``; nothing is opened before the first question."""

    def __init__(self, data_dir: Path, encoders: EncoderPool, open_vectors: Callable[[], ArticleVectors]) -> None:
        self._data_dir = data_dir
        self._encoders = encoders
        self._open_vectors = open_vectors
        self._opened: tuple[GatewayStore, ArticleVectors] | None = None
        self._opening = threading.Lock()
        self._failure = ""

    async def nearest(self, question: str, most: int, limits: Limits | None = None) -> Hits:
        """Return the nearest articles that the limits admit, best first.

        The note says where articles have no vector yet.

        Raises:
            RetrievalError: the store or its vectors cannot be read.
            ModelError: the encoder failed.
        """
        try:
            return await self._encoders.run(lambda: self._nearest(question, most, limits))
        except IndexFault as error:
            # Its message names folders of this machine, which readers of an answer must not see.
            log.error("vectors of articles not usable: %s", error.message)
            raise IndexFault("the vectors of articles cannot be read; the server's log says why") from error

    def _nearest(self, question: str, most: int, limits: Limits | None) -> Hits:
        store, vectors = self._open()
        note = self._made(store, vectors)
        least = _LEAST_COSINE.get(self._encoders.encoder().name, float("-inf"))
        first, last = (limits.first_day, limits.last_day) if limits else (0, 0)
        found = vectors.nearest(question, most * _SPARE if limits else most, first, last)
        near = (str(pmid) for pmid, score in found if score >= least)
        taken = tuple(islice((pmid for pmid in near if limits is None or _admitted(store, pmid, limits)), most))
        return Hits(len(taken), taken, note)

    async def rows(self, pmids: Sequence[str]) -> dict[str, bytes]:
        """Return what ``TextComparison`` compares of those articles that have vectors, by PMID; {} where none has.

        What cannot be read is left out: the caller encodes the texts.
        """
        return await asyncio.to_thread(self._rows, pmids)

    def _rows(self, pmids: Sequence[str]) -> dict[str, bytes]:
        try:
            _, vectors = self._open()
            found = vectors.encoded([int(pmid) for pmid in pmids])
        except (RetrievalError, ModelError) as error:
            log.warning("vectors of articles are not read: cause=%s", error.message)
            return {}
        needs_codes = isinstance(self._encoders.encoder(), TokenEncoder)
        return {
            str(pmid): row_of(vector, codes)
            for pmid, (vector, codes) in found.items()
            if codes is not None or not needs_codes
        }

    def _open(self) -> tuple[GatewayStore, ArticleVectors]:
        with self._opening:
            if self._opened is None:
                self._opened = open_store(self._data_dir), self._open_vectors()
            return self._opened

    def _made(self, store: GatewayStore, vectors: ArticleVectors) -> str:
        """Make the vectors of a small store where they are out of date; return what is to be told, "" for nothing."""
        if vectors.is_current(store):
            return ""
        articles = store.count("pubmed")
        if articles > _AT_ONCE:
            lacking = articles - min(vectors.rows, articles)
            return f"{lacking or 'some'} of {articles} articles have no vector of their present text: {_COMMAND}"
        if self._failure:
            return self._failure
        try:
            vectors.update(store)
        except IndexFault as error:
            if INDEX_BUSY.is_of(error):
                return "the vectors of articles are being made by another process"
            if not INDEX_NOT_WRITTEN.is_of(error):
                raise
            log.warning("vectors of articles are not made until the next start: cause=%s", error.message)
            self._failure = "articles have no vectors of their present text, as these cannot be stored"
            return self._failure
        return ""

    async def close(self) -> None:
        with self._opening:
            opened, self._opened = self._opened, None
        if opened is not None:
            store, vectors = opened
            await asyncio.to_thread(vectors.close)
            store.close()


def _admitted(store: GatewayStore, pmid: str, limits: Limits) -> bool:
    article = store.record("pubmed", pmid)
    return isinstance(article, Article) and limits.admits(article)

"""Open the NCBI session of each answer, and look up the other names of genes in the gateway's store for keywords.

A session has the egress mode of the request and the needs of its question. ``server.egress.router`` decides where calls
may go. This module does not interpret calls or replies.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from models.decoding.types import CallHandler
from models.errors import ArrowheadError
from retrieval.formats.records import Gene
from retrieval.gateway.query.search import whole
from retrieval.gateway.store.reader import EDGE, PART, GatewayStore, decode, words_of
from retrieval.ncbi.calls.parameter_classes import organism_in
from retrieval.ncbi.session import NcbiSession
from retrieval.observer import NullObserver, Tracer
from retrieval.types import MAX_NAME_CHARS, Focus, same
from server.egress.router import Egress
from server.methods.base import AnswerRequest
from server.methods.genegpt.method import GeneGptOptions

log = logging.getLogger(__name__)
_FIELD = re.compile(
    r"\b(symbol|alias(es)?|called|known as|chromosomes?|located?|locations?|where|convert|ensembl|identifier|"
    r"protein-coding|codes? for|encode|organism|species)\b",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\b(where|located?|locations?|chromosom\w*|loci|locus|align)\b", re.IGNORECASE)
_PROSE = re.compile(r"\b(function|role|summar|describe|explain|why|how|disease|related|pathway)", re.IGNORECASE)
_MAX_READ: Final = 20
_MAX_NAMES: Final = 16
_MIN_CHARS: Final = 3


def asks_for_a_field(question: str) -> bool:
    """Return whether a name, a location or a type answers the question, so that summaries would only distract."""
    return bool(_FIELD.search(question)) and not _PROSE.search(question)


def asks_for_places(question: str) -> bool:
    """Return whether map locations answer the question."""
    return bool(_PLACE.search(question))


@dataclass(frozen=True, slots=True)
class NcbiSessions:
    """Open the sessions of answers; one instance per process.

    ``open`` is called once per answer. ``max_chars``: length of a condensed reply.
    """

    egress: Egress
    max_chars: int
    parts: Tracer = field(default_factory=NullObserver)

    def check(self, ask: AnswerRequest, options: GeneGptOptions) -> None:
        """Check the requested egress mode against that of the request's key.

        Raises:
            EgressRaised: the requested mode permits more.
        """
        self.egress.admit(ask.request_id, ask.key_id, options.egress)

    def open(self, ask: AnswerRequest, question: str, options: GeneGptOptions) -> CallHandler:
        """Open the session of one answer.

        ``question``: in the wording of the method.

        Raises:
            EgressRaised: the requested mode permits more than that of the request's key.
        """
        context = self.egress.admit(ask.request_id, ask.key_id, options.egress)
        fetch, site = self.egress.fetch_for(context), self.egress.site_of(context.mode)
        if not options.condense:
            return NcbiSession(fetch, site, max_chars=None, tracer=self.parts)
        organism = options.organism or organism_in(question) or "human"
        summary = "none" if asks_for_a_field(question) else options.summaries
        about = Focus(organism=organism, summary=summary, places=asks_for_places(question))
        return NcbiSession(fetch, site, about=about, max_chars=self.max_chars, tracer=self.parts)


class StoreGenes:
    """Know the genes of the gateway's store, which is opened at the first look-up.

    Safe from many threads. A store that cannot be opened means that no gene is known, which the log says once.
    """

    def __init__(self, open_store: Callable[[], GatewayStore], is_ordinary: Callable[[str], bool]) -> None:
        """Look names up in a store.

        ``is_ordinary``: whether English has the word in small letters, which is then no synonym.
        """
        self._open = open_store
        self._is_ordinary = is_ordinary
        self._store: GatewayStore | None = None
        self._failed = False
        self._lock = threading.Lock()

    def is_gene(self, name: str) -> bool:
        return self._gene_of(name) is not None

    def synonyms(self, name: str) -> tuple[str, ...]:
        """Return the symbol, aliases and name of the human gene that ``name`` means, () where that is in doubt."""
        gene = self._gene_of(name)
        if gene is None:
            return ()
        symbols = [one for one in (gene.symbol, gene.official_symbol, *gene.aliases) if self._is_telling(one)]
        names = dict.fromkeys(one for one in (*symbols, gene.name) if one and not same(one, name))
        return tuple(names)[:_MAX_NAMES]

    def _is_telling(self, symbol: str) -> bool:
        """Return whether an alias can be searched for: not a letter or two, and no word of English."""
        return len(symbol) >= _MIN_CHARS and not self._is_ordinary(symbol.lower())

    def _gene_of(self, name: str) -> Gene | None:
        """Return the gene whose symbol this is, else the only one that has it as an alias."""
        words = words_of(name)
        is_word = name.islower() and name.isalpha() and self._is_ordinary(name)
        if not words or len(name) > MAX_NAME_CHARS or is_word or {EDGE, PART}.intersection(words):
            return None
        found = [gene for gene in self._genes(words) if any(same(name, one) for one in (gene.symbol, *gene.aliases))]
        official = [gene for gene in found if same(name, gene.symbol)]
        return (official or found)[0] if len(official or found) == 1 else None

    def _genes(self, words: tuple[str, ...]) -> list[Gene]:
        store = self._opened()
        if store is None:
            return []
        sql = (
            "SELECT t.body FROM gene_index AS i JOIN gene AS t ON t.uid = i.rowid "
            f"WHERE i.gene_index MATCH ? AND t.human = 1 LIMIT {_MAX_READ}"
        )
        try:
            rows = store.query(sql, (f"{{sym alias}} : {whole(words)}",))
        except ArrowheadError as error:
            log.warning("genes are not looked up: cause=%s", type(error).__name__)
            return []
        records = [decode("gene", body) for (body,) in rows]
        return [one for one in records if isinstance(one, Gene) and not one.status]

    def _opened(self) -> GatewayStore | None:
        with self._lock:
            if self._store is None and not self._failed:
                try:
                    self._store = self._open()
                except ArrowheadError as error:
                    self._failed = True
                    log.warning("genes are not looked up: cause=%s", type(error).__name__)
            return self._store

    async def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

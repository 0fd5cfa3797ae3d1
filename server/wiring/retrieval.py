"""Assemble encoders, indices and namespaces from the settings, and fit them into GPU memory beside the engine.

Nothing is loaded before it is needed, but where they use a GPU: an engine sizes itself by the memory of the whole GPU
when it starts, and what is loaded later finds none. Therefore indices and encoders are loaded first, and the check
before that covers all three.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from models.encoders.base import EncoderOptions, Floats, PassageText
from models.encoders.registry import cross_encoder_memory, encoder_memory
from models.encoders.specs import DEFAULT_ENCODER
from models.errors import ArrowheadError
from retrieval.corpus.ingest.sample import SampleNotes
from retrieval.corpus.namespaces.dense import fingerprint_key
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.search.keyword_counts import keyword_search
from retrieval.corpus.search.searcher import Rankers, Searcher
from retrieval.corpus.store.base import log_name
from retrieval.errors import CorpusError
from retrieval.index.spec import GIB, estimate
from retrieval.observer import RetrievalObserver
from retrieval.storage.database import SharedDatabase
from retrieval.storage.records import Records, SqliteDatabase
from server.evidence.encoders import EncoderPool
from server.evidence.passages import Retrieval
from server.jobs.local_queue import LocalJobQueue
from server.jobs.queue import JobLimits, JobQueue
from server.jobs.uploads import Uploads
from server.settings.retrieval import RetrievalSettings
from server.settings.schema import Settings
from server.wiring.models import engine_options
from server.wiring.namespaces import SCRATCH_BYTES, build_namespaces, is_on_card, vector_card

log = logging.getLogger(__name__)
_CARD = "cuda"
# The share (1/n) of today's vectors that a card has room for beside them: PubMed grows by as much in a year.
_GROWTH: Final = 32
_LEAST_GROWTH: Final = 256 << 20
# What a commit merges at most (``retrieval.index.segments.snapshot``): a quarter of the largest segment.
_MERGED_ROWS: Final = 1_000_000
# Threads that wait for a database's list of namespaces; fewer than its connections, which searches need too.
_LOOK_UPS: Final = 4
# Searches at once; further ones wait.
_SEARCHES: Final = 4
# Beside the namespaces, whose names never begin with a dot.
_RECORDS: Final = ".files.sqlite"
# Of the package's notes, beside the namespaces, whose names never begin with a dot.
_BUILT_IN: Final = ".built-in"


def build_retrieval(
    settings: RetrievalSettings,
    data_dir: Path,
    observer: RetrievalObserver | None = None,
    open_jobs: Callable[[JobLimits, Uploads], JobQueue] = lambda limits, files: LocalJobQueue(limits, files.conceal),
    database: SharedDatabase | None = None,
) -> Retrieval:
    """Build the services of namespaces, which lie in ``data_dir``, or in ``database`` where there is one."""
    pool = EncoderPool(settings, observer)
    card = vector_card(settings)
    namespaces = build_namespaces(settings, data_dir, pool.encoder, database, card)
    namespaces.sample = SampleNotes(namespaces.root / _BUILT_IN, namespaces.backends, settings.encoder)
    cross_encoder = _CrossEncoder(pool) if settings.cross_encoder else None
    searcher = Searcher(namespaces, Rankers(keywords=keyword_search, cross_encoder=cross_encoder), observer)
    limits = JobLimits()
    uploads = Uploads(data_dir, max_bytes=settings.max_upload_bytes, at_once=limits.waiting)
    readers = ThreadPoolExecutor(_SEARCHES, thread_name_prefix="search")
    look_ups = None if database is None else ThreadPoolExecutor(_LOOK_UPS, thread_name_prefix="look-up")
    return Retrieval(
        pool, namespaces, searcher, open_jobs(limits, uploads), uploads, readers, database, look_ups, card=card
    )


def records_of(retrieval: Retrieval) -> Records:
    """Return the records of files and vector stores, which lie where the namespaces do."""
    return Records(retrieval.database or SqliteDatabase(retrieval.namespaces.root / _RECORDS))


def preload(retrieval: Retrieval) -> None:
    """Load indices, then encoders; open the card for indices that come later, when an engine may have filled it.

    A load that fails is logged as a warning; requests that need the index or encoder report the cause.
    """
    if retrieval.card is not None:
        try:
            log.info("vectors are searched on a card: back end=%s", retrieval.card.name)
        except ArrowheadError as error:
            log.warning("the card cannot be searched on: cause=%s", type(error).__name__)
    for name in retrieval.namespaces.names():
        try:
            with retrieval.namespaces.using(name) as namespace:
                for target in map(namespace.settings.target_of, namespace.settings.encoder_ids):
                    if namespace.has(target):
                        namespace.dense(target).vectors.stats()
        except ArrowheadError as error:
            log.warning("index not loaded: namespace=%s cause=%s", log_name(name), type(error).__name__)
    for name in retrieval.encoders.names:
        try:
            retrieval.encoders.encoder(name)
        except ArrowheadError as error:
            log.warning("encoder not loaded: name=%s cause=%s", name, type(error).__name__)


def engine_reserve(settings: Settings, namespaces: Namespaces | None = None) -> int:
    """Return the bytes of the engine's GPU that it must leave to what is not loaded before it.

    What encoders allocate at work, beyond their weights; the verifier; the scratch of a search of vectors and the room
    for those that come. 0 where they are elsewhere. An encoder whose files are not here counts as 0: its loading
    reports why. ``namespaces``: those whose vectors are on a card, None for none.
    """
    if not _shares_device(settings):
        return 0
    reserve = _verifier_bytes(settings) + _encoder_bytes(settings.retrieval)
    if namespaces is not None:
        reserve += SCRATCH_BYTES + growth_bytes(settings.retrieval, namespaces)
    return reserve


def card_reserve(settings: Settings) -> int:
    """Return the bytes of the card of the vectors that none of them may take: for scratch, encoders and verifier."""
    return SCRATCH_BYTES + _encoder_bytes(settings.retrieval) + _verifier_bytes(settings)


def growth_bytes(settings: RetrievalSettings, namespaces: Namespaces) -> int:
    """Return the bytes of the card that stay free for vectors that come after the start.

    Where it is not set: a share of what is there, and the largest segment that a commit may write beside those that it
    is merged from, which are searched until it is open.
    """
    if settings.growth_gib is not None:
        return int(settings.growth_gib * GIB)
    sizes = [size for name in _names_of_files(settings, namespaces) for size in _vector_sizes(namespaces, name)]
    there = sum(estimate("flat", rows, dim).memory for rows, dim in sizes)
    merged = max((estimate("flat", min(rows, _MERGED_ROWS), dim).memory for rows, dim in sizes), default=0)
    return max(_LEAST_GROWTH, there // _GROWTH) + merged


def _verifier_bytes(settings: Settings) -> int:
    """Return what the verifier needs, which is loaded after the engine; the one that ships is as large as MiniLM."""
    chosen = settings.verifier
    options = EncoderOptions(device=_CARD)
    with suppress(ArrowheadError):
        estimate_of = cross_encoder_memory if chosen.model else encoder_memory
        return estimate_of(chosen.model or DEFAULT_ENCODER, options).total
    return 0


def _encoder_bytes(chosen: RetrievalSettings) -> int:
    options = EncoderOptions(device=_CARD, dtype=chosen.dtype)
    total = 0
    for name in chosen.local_encoders:
        with suppress(ArrowheadError):
            total += encoder_memory(name, options).activations
    if chosen.cross_encoder:
        with suppress(ArrowheadError):
            # Not among what is loaded before the engine.
            total += cross_encoder_memory(chosen.cross_encoder, options).total
    return total


@dataclass(frozen=True, slots=True)
class _CrossEncoder:
    """Score with the cross-encoder of the pool, loaded at first use."""

    pool: EncoderPool

    @property
    def name(self) -> str:
        return self.pool.cross_encoder_name or ""

    def score(self, query: str, passages: Sequence[PassageText]) -> Floats:
        return self.pool.cross_encoder().score(query, passages)


def _shares_device(settings: Settings) -> bool:
    """Return whether encoders and verifier take memory of a GPU of the engine."""
    device = settings.retrieval.device
    _, _, number = device.partition(":")
    if not is_on_card(device) or settings.model.engine == "remote":
        return False
    return settings.model.device != "cpu" and int(number or 0) in engine_options(settings.model).device_indices


def _names_of_files(chosen: RetrievalSettings, namespaces: Namespaces) -> list[str]:
    """Return the namespaces whose vectors this machine searches; those in a database are searched there."""
    return namespaces.names() if chosen.storage == "files" else []


def _vector_sizes(namespaces: Namespaces, name: str) -> list[tuple[int, int]]:
    """Return rows and dimension of the vectors of each encoder of a namespace, none where it is damaged."""
    try:
        with namespaces.using(name) as namespace:
            targets = map(namespace.settings.target_of, namespace.settings.encoder_ids)
            fingerprints = [namespace.store.meta(fingerprint_key(target)) for target in targets]
            rows = namespace.store.counts().passages
    except CorpusError as error:
        log.warning("namespace not counted: namespace=%s cause=%s", log_name(name), type(error).__name__)
        return []
    return [(rows, int(json.loads(one)["dim"])) for one in fingerprints if one]

"""Check that indices, encoders and engine fit into GPU memory, and load the first two before the engine.

An engine sizes itself by the memory of the whole GPU when it starts, and what is loaded later finds none. Therefore
indices and encoders are loaded first, and the check before that covers all three.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import suppress

from models.encoders.base import EncoderOptions
from models.encoders.registry import cross_encoder_memory, encoder_memory
from models.errors import ArrowheadError
from retrieval.corpus.errors import CorpusError
from retrieval.corpus.namespaces.dense import fingerprint_key
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.store.base import log_name
from retrieval.index.memory_estimate import GIB, MemoryBudget, MemoryClaim, estimate
from server.evidence.passages import Retrieval
from server.settings.schema import Settings
from server.wiring.models import engine_options
from server.wiring.retrieval import uses_card

log = logging.getLogger(__name__)
_CARD = "cuda"


def check_memory(settings: Settings, retrieval: Retrieval) -> list[str]:
    """Return the memory estimate line by line.

    There are no lines if no GPU is used or ``retrieval.card_gib`` does not give its size.

    Raises:
        IndexTooLarge: the sum does not fit; the message has the numbers.
    """
    chosen = settings.retrieval
    if chosen.card_gib is None or not uses_card(chosen):
        return []
    ledger = MemoryBudget({_CARD: chosen.card_gib})
    for claim in _claims(settings, retrieval.namespaces):
        ledger.claim(claim)
    remaining = ledger.left(_CARD) / GIB
    return [*ledger.table(_CARD), f"left for the engine's weights and cache: {remaining:.2f} GiB"]


def _claims(settings: Settings, namespaces: Namespaces) -> Iterator[MemoryClaim]:
    chosen = settings.retrieval
    if chosen.backend != "faiss":
        for name in namespaces.names():
            if num_bytes := _index_bytes(namespaces, name):
                yield MemoryClaim(f"vectors of namespace {log_name(name)}", "index", _CARD, num_bytes)
    options = EncoderOptions(device=_CARD, dtype=chosen.dtype, batch_tokens=chosen.batch_tokens)
    for name in chosen.encoder_names:
        yield MemoryClaim(name, "encoder", _CARD, encoder_memory(name, options).total)
    if chosen.cross_encoder:
        yield MemoryClaim(
            chosen.cross_encoder, "encoder", _CARD, cross_encoder_memory(chosen.cross_encoder, options).total
        )
    if settings.model.kv_cache_gib is not None:
        yield MemoryClaim("key-value cache", "engine", _CARD, int(settings.model.kv_cache_gib * GIB))


def engine_reserve(settings: Settings) -> int:
    """Return the bytes that encoders allocate at work on the engine's GPU, beyond their weights.

    0 where they run elsewhere. An encoder whose files are not here counts as 0: its loading reports why.
    """
    chosen = settings.retrieval
    if not uses_card(chosen) or not _shares_device(settings):
        return 0
    options = EncoderOptions(device=_CARD, dtype=chosen.dtype, batch_tokens=chosen.batch_tokens)
    total = 0
    for name in chosen.encoder_names:
        with suppress(ArrowheadError):
            total += encoder_memory(name, options).activations
    if chosen.cross_encoder:
        with suppress(ArrowheadError):
            # Not among what is loaded before the engine.
            total += cross_encoder_memory(chosen.cross_encoder, options).total
    return total


def _shares_device(settings: Settings) -> bool:
    _, _, number = settings.retrieval.device.partition(":")
    if settings.model.engine == "remote":
        return False
    return settings.model.device != "cpu" and int(number or 0) in engine_options(settings.model).device_indices


def _index_bytes(namespaces: Namespaces, name: str) -> int:
    """Return the bytes of a namespace's vectors on the GPU, as a flat index in 16 bits.

    A namespace that is damaged or has no vectors yet counts as 0.
    """
    try:
        with namespaces.using(name) as namespace:
            targets = map(namespace.settings.target_of, namespace.settings.encoder_ids)
            fingerprints = [namespace.store.meta(fingerprint_key(target)) for target in targets]
            rows = namespace.store.counts().passages
    except CorpusError as error:
        log.warning("namespace not counted: namespace=%s cause=%s", log_name(name), type(error).__name__)
        return 0
    return sum(estimate("flat", rows, int(json.loads(one)["dim"])).memory for one in fingerprints if one)


def preload(retrieval: Retrieval) -> None:
    """Load indices, then encoders.

    A load that fails is logged as a warning; requests that need the index or encoder report the cause.
    """
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

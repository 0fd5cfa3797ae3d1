"""Tell in which order a namespace has its passages."""

from __future__ import annotations

import threading

import numpy as np

from retrieval.corpus.store.base import PassageStore
from retrieval.index.base import Ids


class PassageOrder:
    """Know the order of a store's passages, read once in each generation; thread-safe."""

    def __init__(self, store: PassageStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: tuple[int, Ids, Ids] | None = None

    def places(self, ids: Ids) -> Ids:
        """Return the place of each passage; those that the store no longer has come last."""
        with self._lock:
            generation = self._store.generation()
            if self._known is None or self._known[0] != generation:
                every = self._store.passage_ids()
                by_id = np.argsort(every)
                self._known = (generation, every[by_id], by_id)
            _, ordered, places = self._known
        if not len(ordered):
            return np.zeros(len(ids), dtype=np.int64)
        at = np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)
        return np.where(ordered[at] == ids, places[at], len(ordered)).astype(np.int64)

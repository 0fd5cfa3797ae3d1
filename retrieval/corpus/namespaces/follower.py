"""Bring the indices that a server derives for itself up to date with what other servers changed."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Final, Protocol

from retrieval.corpus.namespaces.namespace import BATCH, Namespace
from retrieval.corpus.store.base import PassageStores, log_name
from retrieval.errors import CorpusError, IndexFault, NamespaceBusy, NamespaceUnknown

log = logging.getLogger(__name__)
# Each catch-up commits an index, which takes tens of milliseconds; a search is at most this much behind.
_PAUSE_S: Final = 1.0
# So many changes are caught up with while the search waits.
_SOON: Final = BATCH


class _Open(Protocol):
    def __call__(self, name: str, *, write: bool = False) -> Namespace: ...


class Follower:
    """Follow the changes of namespaces, each by one thread of this server at a time.

    Thread-safe. Where stores are one server's there is nothing to follow.
    """

    def __init__(self, stores: PassageStores, open_namespace: _Open) -> None:
        self._stores = stores
        self._open = open_namespace
        self._lock = threading.Lock()
        self._looked: dict[str, float] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._closing = threading.Event()

    def follow(self, name: str) -> None:
        """Catch up with a few changes before the caller goes on, with many in the background.

        A failure is logged: the search that follows meets its cause itself, or does without the newest passages.

        Raises:
            NamespaceUnknown: no namespace has this name.
            DatabaseUnavailable: the database does not answer.
        """
        if not self._stores.own_targets or not self._is_due(name):
            return
        with contextlib.closing(self._stores.open(name)) as store:
            waiting = max(store.waiting(target, _SOON + 1) for target in self._stores.own_targets)
        if waiting > _SOON:
            self._follow_in_background(name)
        elif waiting:
            self._catch_up(name)

    def close(self) -> None:
        """End what runs in the background after its current batch."""
        self._closing.set()
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
            thread.join()

    def _is_due(self, name: str) -> bool:
        now = time.monotonic()
        with self._lock:
            due = name not in self._threads and now - self._looked.get(name, -_PAUSE_S) >= _PAUSE_S
            if due:
                self._looked[name] = now
        return due

    def _follow_in_background(self, name: str) -> None:
        thread = threading.Thread(target=self._run, args=(name,), name="follow", daemon=True)
        with self._lock:
            if name in self._threads or self._closing.is_set():
                return
            self._threads[name] = thread
        thread.start()

    def _run(self, name: str) -> None:
        try:
            self._catch_up(name)
        except Exception as error:
            log.warning("namespace=%s: its own indices stay behind: %s", log_name(name), type(error).__name__)
        finally:
            with self._lock:
                del self._threads[name]

    def _catch_up(self, name: str) -> None:
        try:
            with (
                self._stores.own_lock(name),
                contextlib.closing(self._open(name, write=True)) as namespace,
                contextlib.closing(namespace.writer()) as writer,
            ):
                for target in namespace.settings.targets:
                    if target in self._stores.own_targets:
                        namespace.catch_up_index(writer, target, lambda _: self._closing.is_set())
        except NamespaceBusy:
            return  # another thread or process of this server does it
        except NamespaceUnknown:
            raise
        except (CorpusError, IndexFault) as error:
            log.warning("namespace=%s: its own indices stay behind: %s", log_name(name), type(error).__name__)

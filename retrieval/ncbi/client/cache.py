"""Cache replies in one SQLite file, across restarts and between processes.

All database work runs on the cache's own thread. A cache that cannot be read or written costs a warning and a request
to NCBI, never an answer. Knows nothing of calls: the caller supplies keys and ages.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from retrieval.storage.files import FILE_MODE, create_file, make_folder
from retrieval.types import RawReply

T = TypeVar("T")
_log = logging.getLogger(__name__)

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY,
    status INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    body BLOB NOT NULL,
    num_bytes INTEGER NOT NULL,
    expires_at REAL NOT NULL,
    used_at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS replies_by_use ON replies (used_at, length(body));
"""
# Fill level after an eviction, so that not every later reply evicts again.
_FILL_AFTER_EVICTION: Final = 0.9
_BUSY_TIMEOUT_S: Final = 5.0
# Writing the time of use at every hit would make readers wait for writers.
_TOUCH_AFTER_S: Final = 3600.0


class ReplyCache:
    """Store and return replies by key.

    ``max_bytes`` limits the stored (compressed) bodies. ``now`` is wall-clock seconds: ages outlive the process.
    """

    def __init__(self, path: Path, *, max_bytes: int = 512 * 2**20, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._now = now
        self._db: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._warned = False

    async def get(self, key: str) -> RawReply | None:
        return await self._run(lambda: self._get(key), None)

    async def put(self, key: str, reply: RawReply, *, max_age_s: float) -> None:
        await self._run(lambda: self._put(key, reply, max_age_s), None)

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._close)
            thread.shutdown(wait=False)

    async def _run(self, work: Callable[[], T], otherwise: T) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="ncbi-cache")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (sqlite3.Error, OSError, zlib.error) as error:
            if not self._warned:
                _log.warning("reply cache not usable, going on without: %s: %s", type(error).__name__, error)
                self._warned = True
            return otherwise

    # The rest runs on the cache's thread.

    def _open(self) -> sqlite3.Connection:
        if self._db is None:
            make_folder(self._path.parent)
            create_file(self._path)
            db = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
            try:
                self._use_write_ahead_log(db)
                db.execute("PRAGMA synchronous=NORMAL")
                db.executescript(_SCHEMA)
                self._path.chmod(FILE_MODE)  # it holds the text of questions
            except (sqlite3.Error, OSError):
                db.close()
                raise
            self._db = db
        return self._db

    @staticmethod
    def _use_write_ahead_log(db: sqlite3.Connection) -> None:
        """Set the journal mode, retrying while another process sets it too.

        SQLite does not wait in this case but reports "locked" at once.
        """
        give_up_at = time.monotonic() + _BUSY_TIMEOUT_S
        while True:
            try:
                db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                    raise
                time.sleep(0.01)

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _get(self, key: str) -> RawReply | None:
        db, now = self._open(), self._now()
        row = db.execute(
            "SELECT status, content_type, body, num_bytes, used_at FROM replies WHERE key = ? AND expires_at > ?",
            (key, now),
        ).fetchone()
        if row is None:
            return None
        status, content_type, body, num_bytes, used_at = row
        if now - used_at > _TOUCH_AFTER_S:
            db.execute("UPDATE replies SET used_at = ? WHERE key = ?", (now, key))
        text = zlib.decompress(body).decode("utf-8")
        return RawReply(status, content_type, text, num_bytes, from_cache=True, attempts=0)

    def _put(self, key: str, reply: RawReply, max_age_s: float) -> None:
        db, now = self._open(), self._now()
        body = zlib.compress(reply.body.encode("utf-8"))
        if len(body) > self._max_bytes:
            return
        db.execute("BEGIN IMMEDIATE")
        try:
            db.execute(
                "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?, ?, ?)",
                (key, reply.status, reply.content_type, body, reply.num_bytes, now + max_age_s, now),
            )
            self._evict(db, now)
            db.execute("COMMIT")
        except sqlite3.Error:
            db.execute("ROLLBACK")
            raise

    def _evict(self, db: sqlite3.Connection, now: float) -> None:
        (total,) = db.execute("SELECT COALESCE(SUM(length(body)), 0) FROM replies").fetchone()
        if total <= self._max_bytes:
            return
        db.execute("DELETE FROM replies WHERE expires_at <= ?", (now,))
        keep = self._max_bytes * _FILL_AFTER_EVICTION
        # Keep the most recently used replies whose running total fits.
        db.execute(
            "DELETE FROM replies WHERE key IN (SELECT key FROM (SELECT key, SUM(length(body)) OVER "
            "(ORDER BY used_at DESC, key ROWS UNBOUNDED PRECEDING) AS running FROM replies) WHERE running > ?)",
            (keep,),
        )

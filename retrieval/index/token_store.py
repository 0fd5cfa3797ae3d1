"""Store the token codes of a namespace's passages in one SQLite file, beside the index of their vectors.

Changes become visible and durable with ``commit``; a crash leaves the last commit. Each row has a checksum.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from models.encoders.base import Codes, EncoderFingerprint
from models.encoders.token_codes import CODES_VERSION, bytes_per_token
from retrieval.errors import INDEX_MISMATCH, INDEX_NOT_WRITTEN, IndexDamaged, IndexFault
from retrieval.storage.database import ReadPool
from retrieval.storage.files import create_file, make_filled_folder

FILE: Final = "codes.sqlite"
_READERS: Final = 4
_IDS_AT_ONCE: Final = 500
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS code (passage_id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, data BLOB NOT NULL);
"""


class TokenCodes(Protocol):
    """Read and, as the single writer, change the codes of a namespace; thread-safe."""

    def put(self, ids: Sequence[int], codes: Sequence[Codes]) -> None: ...

    def delete(self, ids: Sequence[int]) -> None: ...

    def commit(self) -> None: ...

    def get(self, ids: Sequence[int]) -> dict[int, Codes]: ...

    def missing(self, ids: Sequence[int]) -> list[int]: ...

    def __len__(self) -> int: ...

    def close(self) -> None: ...


class TokenStore:
    """Read and, as the single writer, change the codes of one folder.

    Thread-safe. A reader sees every commit of a writer in this process or another.
    """

    def __init__(self, folder: Path, fingerprint: EncoderFingerprint, *, write: bool) -> None:
        """Open the store; a writer creates it where there is none.

        Raises:
            IndexDamaged: it is missing or cannot be read.
            IndexFault: another encoder, or another version of this program, made its codes; it cannot be created.
        """
        self._path = folder / FILE
        self._width = bytes_per_token(fingerprint.dim)
        self._lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        identity = identity_of(fingerprint)
        if write:
            self._writer = _writer(self._path, identity)
        try:
            self._readers = ReadPool(self._path, _READERS)
            with self._reading() as connection:
                found = connection.execute("SELECT value FROM meta WHERE key = 'identity'").fetchone()
        except sqlite3.Error as error:
            self._close_writer()
            raise IndexDamaged(f"{self._path} cannot be read: {error}") from error
        if found is None or found[0] != identity:
            self.close()
            raise IndexFault(
                f"{self._path} has token vectors of another encoder or version", INDEX_MISMATCH, param="encoder"
            )

    def put(self, ids: Sequence[int], codes: Sequence[Codes]) -> None:
        """Store the codes of passages, replacing those of the same id."""
        rows = [
            (int(number), zlib.crc32(data), data)
            for number, one in zip(ids, codes, strict=True)
            for data in (one.tobytes(),)
        ]
        with self._writing() as connection:
            connection.executemany("INSERT OR REPLACE INTO code VALUES (?, ?, ?)", rows)

    def delete(self, ids: Sequence[int]) -> None:
        """Delete the codes of passages; unknown ids are ignored."""
        with self._writing() as connection:
            connection.executemany("DELETE FROM code WHERE passage_id = ?", [(int(number),) for number in ids])

    def commit(self) -> None:
        """Make all changes visible and durable.

        Raises:
            IndexFault: they were not made.
        """
        with self._writing() as connection:
            connection.commit()
            with contextlib.suppress(sqlite3.OperationalError):  # a reader may be at work
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def get(self, ids: Sequence[int]) -> dict[int, Codes]:
        """Return the codes uint8 [tokens, bytes] of those passages that have any.

        Raises:
            IndexDamaged: a row is not what was written.
        """
        found: dict[int, Codes] = {}
        for start in range(0, len(ids), _IDS_AT_ONCE):
            some = [int(number) for number in ids[start : start + _IDS_AT_ONCE]]
            marks = ",".join("?" * len(some))
            with self._reading() as connection:
                rows = connection.execute(f"SELECT passage_id, crc, data FROM code WHERE passage_id IN ({marks})", some)
                found |= {number: self._codes(number, crc, data) for number, crc, data in rows}
        return found

    def missing(self, ids: Sequence[int]) -> list[int]:
        """Return those ids that have no codes, after reading and checking the others."""
        found = self.get(ids)
        return [number for number in ids if number not in found]

    def __len__(self) -> int:
        with self._reading() as connection:
            return int(connection.execute("SELECT count(*) FROM code").fetchone()[0])

    def close(self) -> None:
        """Close the store and discard uncommitted changes."""
        self._close_writer()
        self._readers.close()

    def _codes(self, number: int, crc: int, data: bytes) -> Codes:
        if zlib.crc32(data) != crc or len(data) % self._width:
            raise IndexDamaged(f"{self._path}: the token vectors of passage {number} are not what was written")
        return np.frombuffer(data, np.uint8).reshape(-1, self._width)

    def _close_writer(self) -> None:
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.rollback()
                writer.close()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._readers.acquire() as connection:
                yield connection
        except sqlite3.Error as error:
            raise IndexDamaged(f"{self._path} cannot be read: {error}") from error

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._writer is None:
                raise IndexFault(f"{self._path} was opened for reading, or is closed")
            try:
                yield self._writer
            except sqlite3.Error as error:
                self._writer.rollback()
                raise IndexFault(f"{self._path} could not be written: {error}", INDEX_NOT_WRITTEN) from error


def open_token_store(folder: Path, fingerprint: EncoderFingerprint, write: bool) -> TokenCodes:
    return TokenStore(folder, fingerprint, write=write)


def verify_files(folder: Path) -> None:
    """Check every page and every row of the store of a folder, without its encoder.

    Raises:
        IndexDamaged: one is not what was written.
    """
    path = folder / FILE
    try:
        with contextlib.closing(ReadPool(path, 1)) as readers, readers.acquire() as connection:
            faults = [found for (found,) in connection.execute("PRAGMA quick_check(20)") if found != "ok"]
            if faults:
                raise IndexDamaged(f"{path}: {faults[0]}")
            if connection.execute("SELECT value FROM meta WHERE key = 'identity'").fetchone() is None:
                raise IndexDamaged(f"{path} does not say whose token vectors it has")
            for number, crc, data in connection.execute("SELECT passage_id, crc, data FROM code"):
                if zlib.crc32(data) != crc:
                    raise IndexDamaged(f"{path}: the token vectors of passage {number} are not what was written")
    except sqlite3.Error as error:
        raise IndexDamaged(f"{path} cannot be read: {error}") from error


def identity_of(fingerprint: EncoderFingerprint) -> str:
    """Return the encoder and the version that made codes, as a text to compare."""
    made: Mapping[str, Any] = {"version": CODES_VERSION, "encoder": fingerprint.as_dict()}
    return json.dumps(made, sort_keys=True)


def _writer(path: Path, identity: str) -> sqlite3.Connection:
    # Made whole: a reader that looks meanwhile would take one without its identity for another encoder's.
    make_filled_folder(path.parent, lambda draft: _opened(draft / FILE, identity).close())
    return _opened(path, identity)


def _opened(path: Path, identity: str) -> sqlite3.Connection:
    try:
        if not path.exists():
            create_file(path)
        connection = sqlite3.connect(path, timeout=30.0, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(_TABLES)
        connection.execute("INSERT OR IGNORE INTO meta VALUES ('identity', ?)", (identity,))
        connection.commit()
    except sqlite3.DatabaseError as error:
        fault = INDEX_NOT_WRITTEN if isinstance(error, sqlite3.OperationalError) else IndexDamaged.fault
        kind = IndexFault if fault is INDEX_NOT_WRITTEN else IndexDamaged
        raise kind(f"{path} cannot be opened for writing: {error}", fault) from error
    except OSError as error:
        raise IndexFault(f"{path}: {error.strerror}", INDEX_NOT_WRITTEN) from error
    return connection

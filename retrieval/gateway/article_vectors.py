"""Keep a vector of each article of the gateway's store, and find the articles nearest to a question.

For each encoder a folder beside the store has the index, whose ids are PMIDs, and a database with a digest of the text
behind each vector. An update encodes articles that are new or changed and removes those that are gone; after a crash,
the next update goes on behind the last commit. Searches see each commit.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from models.encoders.base import Encoder, PassageText
from retrieval.errors import IndexWriteFailed
from retrieval.formats.records import Article
from retrieval.gateway.store.reader import GatewayStore, decode
from retrieval.index.base import NO_ID, RowFilter, Rows
from retrieval.index.open import create_index, open_index
from retrieval.index.segments.index import SegmentedIndex
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.segments.storage import Storage
from retrieval.index.spec import BackendName, IndexSpec
from retrieval.storage.files import create_file, make_folder

_FOLDER: Final = "vectors"
_BATCH: Final = 256
COMMIT_ROWS: Final = 8192
_DIGEST_BYTES: Final = 12
# Of an article whose vector is not committed yet: it is known, should the article leave the store before the next try.
_NOT_YET: Final = b""
# Receives the number of articles read since the last call.
Watch = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class VectorUpdate:
    """Count the articles whose vectors an update has made, and those that it has removed."""

    encoded: int
    removed: int


@dataclass(frozen=True, slots=True)
class StoredArticle:
    """Hold an article with its day of publication, yyyymmdd, zeros where unknown."""

    article: Article
    day: int

    @property
    def text(self) -> PassageText:
        return PassageText(self.article.title, self.article.abstract)

    @property
    def digest(self) -> bytes:
        text = "\0".join((self.article.title, self.article.abstract, str(self.day)))
        return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES).digest()


class ArticleVectors:
    """Update and search the vectors of one encoder; safe from many threads, and beside updates of another process."""

    def __init__(self, data_dir: Path, encoder: Encoder, backend: BackendName = "faiss", device: str = "cpu") -> None:
        """Open nothing yet; ``backend`` and ``device`` search, a CPU writes."""
        fingerprint = encoder.fingerprint.as_dict()
        name = hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()[:_DIGEST_BYTES]
        self._folder = data_dir / _FOLDER / name
        self._encoder = encoder
        self._options = OpenOptions(device=device)
        self._spec = IndexSpec(dim=encoder.dim, metric=encoder.metric, encoder=fingerprint, backend=backend)
        self._reader: SegmentedIndex | None = None
        self._opening = threading.Lock()

    def close(self) -> None:
        with self._opening:
            if self._reader is not None:
                self._reader.close()
            self._reader = None

    def is_current(self, store: GatewayStore) -> bool:
        """Return whether the last update has seen all that the store has now.

        Raises:
            IndexFault: the index cannot be read.
        """
        reader = self._opened()
        return reader is not None and reader.manifest.corpus == _version(store)

    @property
    def rows(self) -> int:
        """Return the number of articles that have a vector.

        Raises:
            IndexFault: the index cannot be read.
        """
        reader = self._opened()
        return 0 if reader is None else reader.stats().rows

    def nearest(self, question: str, most: int, first_day: int = 0, last_day: int = 0) -> list[tuple[int, float]]:
        """Return PMIDs with their scores, best first; [] where there are no vectors.

        ``first_day``, ``last_day`` yyyymmdd, inclusive, 0 for no limit; an article without a date is in no range.

        Raises:
            IndexFault: the index cannot be read.
            ModelError: the encoder failed.
        """
        index = self._opened()
        if index is None:
            return []
        asked = self._encoder.encode_queries([question])
        found = index.search(asked, most, RowFilter(date_from=first_day, date_to=last_day))
        pairs = zip(found.ids[0].tolist(), found.scores[0].tolist(), strict=True)
        return [(pmid, score) for pmid, score in pairs if pmid != NO_ID]

    def update(
        self, store: GatewayStore, watch: Watch = lambda _: None, commit_rows: int = COMMIT_ROWS
    ) -> VectorUpdate:
        """Make the vectors those of the store's articles; commit after each ``commit_rows`` of them.

        Raises:
            IndexBusy: another process is updating.
            IndexDamaged: a file is not as it was written; the next update after the folder's removal makes all anew.
            IndexWriteFailed: the folder cannot be written; what was committed stays.
            ModelError: the encoder failed.
        """
        version = _version(store)
        try:
            make_folder(self._folder)
            with closing(self._writer()) as index, closing(_open_digests(self._folder)) as digests:
                update = _Update(self._encoder, index, digests)
                for articles in _batches(store):
                    update.take(articles)
                    if update.num_waiting >= commit_rows:
                        update.commit()
                    watch(len(articles))
                update.commit()
                removed = _remove_gone(store, index, digests)
                index.commit(version)
        except (OSError, sqlite3.Error) as error:
            raise IndexWriteFailed(f"{self._folder} could not be written: {error}") from error
        return VectorUpdate(update.encoded, removed)

    def _opened(self) -> SegmentedIndex | None:
        """Return the index at its last commit, None where there is none yet."""
        with self._opening:
            if self._reader is not None:
                self._reader.reload()
            elif Storage(self._index, self._options.disk).exists():
                self._reader = open_index(self._index, self._spec, self._options)
            return self._reader

    def _writer(self) -> SegmentedIndex:
        options, spec = OpenOptions(write=True), replace(self._spec, backend="faiss")
        if Storage(self._index, options.disk).exists():
            return open_index(self._index, spec, options)
        return create_index(self._index, spec, options)

    @property
    def _index(self) -> Path:
        return self._folder / "index"


class _Update:
    """Encode what is new or changed, and commit first the vectors, then the digests of their texts."""

    def __init__(self, encoder: Encoder, index: SegmentedIndex, digests: sqlite3.Connection) -> None:
        self._encoder, self._index, self._digests = encoder, index, digests
        self._waiting: dict[int, bytes] = {}
        self.encoded = 0

    def take(self, articles: Mapping[int, StoredArticle]) -> None:
        known = _known_digests(self._digests, articles)
        changed = {pmid: one for pmid, one in articles.items() if known.get(pmid) != one.digest}
        if not changed:
            return
        self._note(dict.fromkeys(changed, _NOT_YET))
        vectors = self._encoder.encode_passages([one.text for one in changed.values()])
        days = np.array([one.day for one in changed.values()], np.int32)
        self._index.add(Rows(ids=np.array(list(changed), np.int64), vectors=vectors, dates=days))
        self._waiting |= {pmid: one.digest for pmid, one in changed.items()}
        self.encoded += len(changed)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def commit(self) -> None:
        self._index.commit()
        self._note(self._waiting)
        self._waiting = {}

    def _note(self, digests: Mapping[int, bytes]) -> None:
        with self._digests:
            self._digests.executemany("INSERT OR REPLACE INTO article VALUES (?, ?)", digests.items())


def _version(store: GatewayStore) -> str:
    """Return what changes with every import and every sample."""
    (imports, last), *_ = store.query("SELECT count(*), max(finished) FROM imported")
    return f"{store.kind} {store.fingerprint} {imports} {last or ''}"


def _batches(store: GatewayStore) -> Iterator[dict[int, StoredArticle]]:
    """Yield the articles by PMID, in ascending order."""
    after, select = 0, "SELECT uid, number, body FROM pubmed WHERE uid > ? ORDER BY uid LIMIT ?"
    while rows := store.query(select, (after, _BATCH)):
        after = rows[-1][0]
        decoded = {uid: (decode("pubmed", body), number or 0) for uid, number, body in rows}
        yield {uid: StoredArticle(one, day) for uid, (one, day) in decoded.items() if isinstance(one, Article)}


def _open_digests(folder: Path) -> sqlite3.Connection:
    path = folder / "articles.sqlite"
    create_file(path)
    digests = sqlite3.connect(path)
    digests.execute("CREATE TABLE IF NOT EXISTS article (pmid INTEGER PRIMARY KEY, digest BLOB NOT NULL)")
    return digests


def _known_digests(digests: sqlite3.Connection, articles: Mapping[int, StoredArticle]) -> dict[int, bytes]:
    marks = ",".join("?" * len(articles))
    return dict(digests.execute(f"SELECT pmid, digest FROM article WHERE pmid IN ({marks})", list(articles)))


def _remove_gone(store: GatewayStore, index: SegmentedIndex, digests: sqlite3.Connection) -> int:
    """Remove the vectors of articles that the store no longer has; return how many there were."""
    after, removed = 0, 0
    select = "SELECT pmid FROM article WHERE pmid > ? ORDER BY pmid LIMIT ?"
    while known := [pmid for (pmid,) in digests.execute(select, (after, _BATCH))]:
        after = known[-1]
        marks = ",".join("?" * len(known))
        there = {uid for (uid,) in store.query(f"SELECT uid FROM pubmed WHERE uid IN ({marks})", known)}
        if gone := [pmid for pmid in known if pmid not in there]:
            index.delete(np.array(gone, np.int64))
            index.commit()
            with digests:
                digests.executemany("DELETE FROM article WHERE pmid = ?", [(pmid,) for pmid in gone])
            removed += len(gone)
    return removed

"""Keep the vectors of the articles of the gateway's store, and find the articles nearest to a question.

For each encoder a folder beside the store has the index, whose ids are PMIDs, the codes of token vectors where the
encoder gives them, and a database with a digest of the text behind each vector. An update encodes articles that are new
or changed and removes those that are gone; after a crash, the next update goes on behind the last commit. Searches see
each commit.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from models.encoders.base import Codes, Encoder, Floats, PassageText, TokenEncoder, encode_with_tokens
from retrieval.errors import INDEX_NOT_WRITTEN, IndexFault
from retrieval.formats.records import Article
from retrieval.gateway.store.reader import GatewayStore, decode
from retrieval.index.base import NO_ID, RowFilter, Rows
from retrieval.index.open import create_index, open_index
from retrieval.index.segments.index import SegmentedIndex
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.segments.storage import Storage
from retrieval.index.spec import BackendName, IndexSpec
from retrieval.index.token_store import FILE as CODES_FILE
from retrieval.index.token_store import TokenStore
from retrieval.storage.files import create_file, make_folder

_FOLDER: Final = "vectors"
_BATCH: Final = 256
COMMIT_ROWS: Final = 8192
_DIGEST_BYTES: Final = 12
# Of an article whose vector is not committed yet: it is known, should the article leave the store before the next try.
_NOT_YET: Final = b""
# Receives the number of articles read since the last call.
Watch = Callable[[int], None]
_Encode = Callable[[Sequence[PassageText]], tuple[Floats, list[Codes] | None]]


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

    def __init__(
        self, data_dir: Path, encoder: Encoder, backend: BackendName = "faiss", options: OpenOptions | None = None
    ) -> None:
        """Open nothing yet; ``backend`` with ``options`` searches, a CPU writes."""
        fingerprint = encoder.fingerprint.as_dict()
        name = hashlib.sha256(json.dumps(fingerprint, sort_keys=True).encode()).hexdigest()[:_DIGEST_BYTES]
        self._folder = data_dir / _FOLDER / name
        self._encoder = encoder
        self._options = options or OpenOptions()
        self._spec = IndexSpec(dim=encoder.dim, metric=encoder.metric, encoder=fingerprint, backend=backend)
        self._reader: SegmentedIndex | None = None
        self._codes: TokenStore | None = None
        self._opening = threading.Lock()

    def close(self) -> None:
        with self._opening:
            for opened in (self._reader, self._codes):
                if opened is not None:
                    opened.close()
            self._reader = self._codes = None

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

    def encoded(self, pmids: Sequence[int]) -> dict[int, tuple[Floats, Codes | None]]:
        """Return the vectors of those articles that have one, with the codes of their tokens, None for none.

        Raises:
            IndexFault: the index or the codes cannot be read.
        """
        index = self._opened()
        if index is None:
            return {}
        with self._opening:
            if self._codes is None and (self._folder / CODES_FILE).exists():
                self._codes = TokenStore(self._folder, self._encoder.fingerprint, write=False)
            codes = self._codes.get(pmids) if self._codes is not None else {}
        return {pmid: (vector, codes.get(pmid)) for pmid, vector in index.get(pmids).items()}

    def update(
        self, store: GatewayStore, watch: Watch = lambda _: None, *, tokens: bool = True, commit_rows: int = COMMIT_ROWS
    ) -> VectorUpdate:
        """Make the vectors those of the store's articles; commit after each ``commit_rows`` of them.

        ``tokens``: also keep the codes of their token vectors, where the encoder gives them.

        Raises:
            IndexFault: another process is updating; the folder cannot be written; what was committed stays.
            IndexDamaged: a file is not as it was written; the next update after the folder's removal makes all anew.
            ModelError: the encoder failed.
        """
        version = _version(store)
        try:
            with self._writing(tokens=tokens) as update:
                for articles in _batches(store):
                    update.take(articles)
                    if update.num_waiting >= commit_rows:
                        update.commit()
                    watch(len(articles))
                update.commit()
                update.remove_gone(store)
                update.end(version)
                return VectorUpdate(update.num_encoded, update.num_removed)
        except (OSError, sqlite3.Error) as error:
            raise IndexFault(f"{self._folder} could not be written: {error}", INDEX_NOT_WRITTEN) from error

    def _opened(self) -> SegmentedIndex | None:
        """Return the index at its last commit, None where there is none yet."""
        with self._opening:
            if self._reader is not None:
                self._reader.reload()
            elif Storage(self._index, self._options.disk).exists():
                self._reader = open_index(self._index, self._spec, self._options)
            return self._reader

    @contextmanager
    def _writing(self, *, tokens: bool) -> Iterator[_Update]:
        """Open all that an update writes; without ``tokens``, codes are only opened where there are outdated ones."""
        make_folder(self._folder)
        with ExitStack() as opened:
            index = opened.enter_context(closing(self._writer()))
            digests = opened.enter_context(closing(_open_digests(self._folder)))
            codes = None
            has_tokens = tokens and isinstance(self._encoder, TokenEncoder)
            if has_tokens or (self._folder / CODES_FILE).exists():
                codes = TokenStore(self._folder, self._encoder.fingerprint, write=True)
                opened.enter_context(closing(codes))
            yield _Update(self._encoded if tokens else self._encoded_plainly, index, codes, digests)

    def _encoded(self, texts: Sequence[PassageText]) -> tuple[Floats, list[Codes] | None]:
        return encode_with_tokens(self._encoder, texts)

    def _encoded_plainly(self, texts: Sequence[PassageText]) -> tuple[Floats, list[Codes] | None]:
        return self._encoder.encode_passages(texts), None

    def _writer(self) -> SegmentedIndex:
        options, spec = OpenOptions(write=True), replace(self._spec, backend="faiss")
        if Storage(self._index, options.disk).exists():
            return open_index(self._index, spec, options)
        return create_index(self._index, spec, options)

    @property
    def _index(self) -> Path:
        return self._folder / "index"


class _Update:
    """Encode what is new or changed; commit first codes and vectors, then the digests of their texts."""

    def __init__(
        self, encode: _Encode, index: SegmentedIndex, codes: TokenStore | None, digests: sqlite3.Connection
    ) -> None:
        self._encode, self._index, self._codes, self._digests = encode, index, codes, digests
        self._waiting: dict[int, bytes] = {}
        self.num_encoded = self.num_removed = 0

    def take(self, articles: Mapping[int, StoredArticle]) -> None:
        known = _known_digests(self._digests, articles)
        changed = {pmid: one for pmid, one in articles.items() if known.get(pmid) != one.digest}
        if not changed:
            return
        self._note(dict.fromkeys(changed, _NOT_YET))
        vectors, codes = self._encode([one.text for one in changed.values()])
        if self._codes is not None and codes is None:
            self._codes.delete(list(changed))
        elif self._codes is not None and codes is not None:
            self._codes.put(list(changed), codes)
        days = np.array([one.day for one in changed.values()], np.int32)
        self._index.add(Rows(ids=np.array(list(changed), np.int64), vectors=vectors, dates=days))
        self._waiting |= {pmid: one.digest for pmid, one in changed.items()}
        self.num_encoded += len(changed)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def commit(self) -> None:
        if self._codes is not None:
            self._codes.commit()
        self._index.commit()
        self._note(self._waiting)
        self._waiting = {}

    def end(self, version: str) -> None:
        """Commit which state of the store the vectors are of."""
        self._index.commit(version)

    def remove_gone(self, store: GatewayStore) -> None:
        """Remove what belongs to articles that the store no longer has."""
        after, select = 0, "SELECT pmid FROM article WHERE pmid > ? ORDER BY pmid LIMIT ?"
        while known := [pmid for (pmid,) in self._digests.execute(select, (after, _BATCH))]:
            after = known[-1]
            marks = ",".join("?" * len(known))
            there = {uid for (uid,) in store.query(f"SELECT uid FROM pubmed WHERE uid IN ({marks})", known)}
            gone = [pmid for pmid in known if pmid not in there]
            if gone:
                if self._codes is not None:
                    self._codes.delete(gone)
                self._index.delete(np.array(gone, np.int64))
                self.commit()
                with self._digests:
                    self._digests.executemany("DELETE FROM article WHERE pmid = ?", [(pmid,) for pmid in gone])
            self.num_removed += len(gone)

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

"""Stand-ins for an encoder and for indices: exact, slow, on the disk, and as strict as the real ones."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from models.encoders.base import Codes, EncoderFingerprint, Floats, Metric, PassageText
from models.encoders.token_codes import pack, rotation
from retrieval.corpus.namespaces.settings import Backends
from retrieval.corpus.store.sqlite_stores import SqlitePassageStores
from retrieval.errors import INDEX_BUSY, INDEX_INPUT_INVALID, IndexDamaged, IndexFault
from retrieval.index.base import NO_ID, Ids, IndexStats, Neighbours, RowFilter, Rows
from retrieval.lexical.base import LexicalIndex, Phrases
from retrieval.passages import Hit, Passage, type_bits
from retrieval.types import NameInText

DIM = 64
_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


class WordEncoder:
    """A vector of hashed words, of length 1. ``encoded``: passages so far; ``batches``,
    ``queries``: texts of each call; ``before`` is called before each batch."""

    def __init__(self, name: str = "words", revision: str = "1") -> None:
        self.name = name
        self.dim = DIM
        self.metric: Metric = "inner_product"
        self.encoded = 0
        self.batches: list[int] = []
        self.queries: list[int] = []
        self.before: Callable[[], None] = lambda: None
        self._revision = revision

    @property
    def fingerprint(self) -> EncoderFingerprint:
        return EncoderFingerprint(
            encoder_id=self.name, revision=self._revision, sha256=(("weights", "0" * 64),), pooling="mean",
            normalise=True, metric=self.metric, dim=DIM, max_query=64, max_passage=512, pairs=True,
        )  # fmt: skip

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        self.queries.append(len(texts))
        return np.stack([self._vector(text) for text in texts])

    def encode_passages(self, passages: Sequence[PassageText]) -> Floats:
        self.before()
        self.encoded += len(passages)
        self.batches.append(len(passages))
        return np.stack([self._vector(f"{passage.title} {passage.text}") for passage in passages])

    def count_query_tokens(self, text: str) -> int:
        return len(words_of(text)) + 2

    def _vector(self, text: str) -> Floats:
        vector = np.zeros(DIM, dtype=np.float32)
        for word in words_of(text):
            digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
            vector[digest[0] % DIM] += 1.0 if digest[1] % 2 else -1.0
        norm = float(np.linalg.norm(vector))
        return vector / norm if norm else vector


class TokenWordEncoder(WordEncoder):
    """Has a token vector for each word, of the word's own direction."""

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[Floats]]:
        return self.encode_queries(texts), [self._turned(text) for text in texts]

    def encode_passages_with_tokens(self, passages: Sequence[PassageText]) -> tuple[Floats, list[Codes]]:
        codes = [pack(self._turned(f"{passage.title} {passage.text}")) for passage in passages]
        return self.encode_passages(passages), codes

    def _turned(self, text: str) -> Floats:
        rows = [self._direction(word) for word in words_of(text)]
        return (np.stack(rows) if rows else np.zeros((0, DIM), np.float32)) @ rotation(DIM)

    def _direction(self, word: str) -> Floats:
        seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "big")
        drawn = np.random.RandomState(seed).standard_normal(DIM)
        return (drawn / np.linalg.norm(drawn)).astype(np.float32)


class _Folder:
    """One JSON file, replaced at once; a reader keeps what it read, only one writer may be."""

    def __init__(self, folder: Path, write: bool) -> None:
        self._path = folder / "index.json"
        self._write = write
        self.rows: dict[int, dict[str, Any]] = {}
        if write:
            folder.mkdir(parents=True, exist_ok=True)
        if self._path.exists():
            self.rows = {int(number): row for number, row in json.loads(self._path.read_text()).items()}
        elif write:
            self.commit()
        else:
            raise IndexDamaged(f"{self._path} is missing")

    def check(self) -> None:
        if not self._write:
            raise IndexFault("opened for reading", INDEX_BUSY)

    def commit(self) -> None:
        self.check()
        draft = self._path.with_suffix(".draft")
        draft.write_text(json.dumps(self.rows))
        draft.replace(self._path)


def _passes(row: dict[str, Any], number: int, where: RowFilter | None) -> bool:
    if where is None:
        return True
    dated = where.date_from or where.date_to
    return (
        (not dated or (row["date"] > 0 and where.date_from <= row["date"] <= (where.date_to or 99_999_999)))
        and (not where.types or bool(row["types"] & where.types))
        and not row["types"] & where.without_types
        and (where.ids is None or number in set(where.ids.tolist()))
    )


class FolderVectors:
    """A ``VectorIndex`` by brute force."""

    def __init__(self, folder: Path, dim: int, write: bool) -> None:
        self._folder = _Folder(folder, write)
        self.dim = dim
        self.metric: Metric = "inner_product"

    def add(self, rows: Rows) -> None:
        self._folder.check()
        if rows.vectors.shape != (len(rows.ids), self.dim) or len(set(rows.ids.tolist())) != len(rows.ids):
            raise IndexFault("shapes or ids", INDEX_INPUT_INVALID, param="ids")
        assert rows.dates is not None and rows.types is not None
        for place, number in enumerate(rows.ids.tolist()):
            self._folder.rows[number] = {
                "vector": rows.vectors[place].tolist(), "date": int(rows.dates[place]), "types": int(rows.types[place])
            }  # fmt: skip

    def delete(self, ids: Any) -> int:
        self._folder.check()
        return sum(self._folder.rows.pop(int(number), None) is not None for number in ids)

    def search(self, queries: Floats, k: int, where: RowFilter | None = None) -> Neighbours:
        rows = [(number, row) for number, row in self._folder.rows.items() if _passes(row, number, where)]
        ids = np.full((len(queries), k), NO_ID, dtype=np.int64)
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        if rows:
            found = queries @ np.array([row["vector"] for _, row in rows], dtype=np.float32).T
            for place, line in enumerate(found):
                best = np.argsort(-line, kind="stable")[:k]
                ids[place, : len(best)] = [rows[at][0] for at in best]
                scores[place, : len(best)] = line[best]
        return Neighbours(ids, scores)

    def get(self, ids: Sequence[int]) -> dict[int, Floats]:
        rows = self._folder.rows
        return {number: np.array(rows[number]["vector"], dtype=np.float32) for number in ids if number in rows}

    def commit(self) -> int:
        self._folder.commit()
        return 1

    def stats(self) -> IndexStats:
        size = len(self._folder.rows)
        return IndexStats(rows=size, deleted=0, segments=1, generation=1, bytes_memory=0, bytes_disk=0)

    def close(self) -> None:
        pass


class FolderWords:
    """A ``LexicalIndex`` that counts words; it has no phrases."""

    def __init__(self, folder: Path, write: bool) -> None:
        self._folder = _Folder(folder, write)

    def add(self, passages: Iterable[Passage], namespace: int = 0) -> int:
        self._folder.check()
        given = list(passages)
        for passage in given:
            self._folder.rows[passage.passage_id] = {
                "words": words_of(f"{passage.title} {passage.text}"), "date": passage.date,
                "types": type_bits(passage.types),
            }  # fmt: skip
        return len(given)

    def delete(self, ids: Sequence[int]) -> None:
        self._folder.check()
        for number in ids:
            self._folder.rows.pop(number, None)

    def commit(self) -> None:
        self._folder.commit()

    def search(self, query: str, k: int, where: RowFilter | None = None, names: Sequence[NameInText] = ()) -> list[Hit]:
        wanted = {
            word for text in (query, *(other for one in names for other in one.synonyms)) for word in words_of(text)
        }
        hits = [
            Hit(number, float(sum(word in wanted for word in row["words"])) / (10 + len(row["words"])))
            for number, row in self._folder.rows.items()
            if _passes(row, number, where)
        ]
        return sorted((hit for hit in hits if hit.score), key=lambda hit: -hit.score)[:k]

    def phrases(self) -> Phrases:
        raise NotImplementedError

    def with_words(self, words: Sequence[Sequence[str]], where: RowFilter | None = None) -> Ids:
        return np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._folder.rows)

    def close(self) -> None:
        pass


def keyword_search(index: LexicalIndex, query: str, k: int, where: RowFilter | None) -> list[Hit]:
    return index.search(query, k, where)


def backends(encoder: WordEncoder | None = None) -> Backends:
    made = encoder or WordEncoder()
    return Backends(
        stores=SqlitePassageStores,
        encoders=lambda _: made,
        vectors=lambda folder, opened, write: FolderVectors(folder, opened.dim, write),
        words=lambda folder, _, write: FolderWords(folder, write),
    )

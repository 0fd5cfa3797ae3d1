"""Segments on a card, or on the processor where it has no room: no search fails, and all find the same."""

from __future__ import annotations

import gc
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from index_rows import clustered, part_of, rows_for
from simulated_card import CardBackend, SimulatedCard
from waiting import wait_until

from models.encoders.base import Floats, Metric
from models.encoders.hashing import HashingEncoder
from retrieval.corpus.ingest.add import add_items, remove
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.errors import BACKEND_UNAVAILABLE, IndexFault
from retrieval.index.backends.base import Backend, SegmentVectors
from retrieval.index.backends.card import Card, CardUse
from retrieval.index.backends.faiss_cpu import FaissCpuBackend
from retrieval.index.base import Neighbours, RowFilter
from retrieval.index.open import create_index, open_index
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.spec import GIB, IndexSpec
from retrieval.passages import Document
from server.settings.retrieval import RetrievalSettings
from server.wiring.namespaces import build_namespaces

pytest.importorskip("faiss")
DIM, ROWS, K = 16, 300, 7
NAME = "notes"
WORDS = ("gene", "tumour", "liver", "acute", "phase", "kinase", "of", "the", "p53", "IL-6", "rare", "variant")


def card_of(memory: SimulatedCard, *, keep: int = 0, exact: bool = True, wait_s: float = 0.0) -> Card:
    return Card(
        lambda: CardBackend(memory, exact=exact), FaissCpuBackend(threads=1), memory.free, keep=keep, wait_s=wait_s
    )


def segment(metric: Metric = "inner_product", rows: int = ROWS) -> SegmentVectors:
    return SegmentVectors(kind="flat", metric=metric, vectors=clustered(rows, DIM).astype(np.float16))


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "rescored"])
@pytest.mark.parametrize("metric", ["inner_product", "l2"])
def test_a_full_card_finds_what_one_with_room_finds(metric: Metric, exact: bool) -> None:
    """The same rows and scores, with a mask and without, by structure and by scan."""
    data, queries = segment(metric), clustered(5, DIM, seed=1)
    mask = np.arange(ROWS) % 3 == 0
    roomy, full = (card_of(SimulatedCard(total), exact=exact).open(data) for total in (GIB, 0))

    for allowed in (None, mask):
        on, off = (one.search(queries, K, allowed, 1.0 if allowed is None else 1 / 3) for one in (roomy, full))
        assert np.array_equal(on[0], off[0])
        np.testing.assert_allclose(on[1], off[1], rtol=1e-6)
    assert roomy.exact and full.exact
    scan = full.flat
    assert scan is not None and scan.exact and scan.flat is scan
    assert np.array_equal(scan.search(queries, K, mask, 1 / 3)[0], on[0])
    assert (roomy.bytes_memory() > 0) and scan.bytes_memory() == 0


def test_a_segment_without_room_moves_there_when_there_is_some(caplog: pytest.LogCaptureFixture) -> None:
    """One warning, however many searches it lasts; what is kept free is not room."""
    caplog.set_level("INFO")
    memory, data = SimulatedCard(100_000), segment()
    card = card_of(memory, keep=90_000)
    searcher = card.open(data)
    queries = clustered(1, DIM)
    for _ in range(3):
        searcher.search(queries, K, None, 1.0)

    assert card.use() == CardUse(segments_off=1, bytes_off=ROWS * (2 * DIM + 2), searches_off=3)
    assert "1 (0.00 GiB) on the processor, as the card has no room" in str(card.use())
    card.keep = 80_000
    searcher.search(queries, K, None, 1.0)

    assert card.use() == CardUse(segments=1, bytes=ROWS * (2 * DIM + 2), searches_off=3)
    assert "processor" not in str(card.use())
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


def test_a_search_without_scratch_gives_the_room_of_its_segment_back() -> None:
    """Another program took what was free: the segment goes, the next one fits, and nobody sees an error."""
    memory, data = SimulatedCard(2 * ROWS * DIM * 2), segment()
    card = card_of(memory, wait_s=60.0)
    searcher, queries = card.open(data), clustered(4, DIM)
    before = searcher.search(queries, K, None, 1.0)
    memory.others = memory.free() - 1

    after = searcher.search(queries, K, None, 1.0)

    assert np.array_equal(before[0], after[0])
    assert (memory.refused, memory.held, card.use().segments_off) == (1, 0, 1)
    searcher.search(queries, K, None, 1.0)
    assert memory.refused == 1  # not tried again at once


def test_a_card_that_says_what_it_has_not_costs_no_search() -> None:
    """An allocation that fails although there seemed to be room, and a device that does not answer."""

    def silent() -> int:
        raise RuntimeError("no answer")

    memory, data, queries = SimulatedCard(100, says=GIB), segment(), clustered(2, DIM)
    card = card_of(memory, wait_s=60.0)
    searcher = card.open(data)
    assert (searcher.search(queries, K, None, 1.0)[0] >= 0).all()
    assert (memory.refused, card.use().segments_off) == (1, 1)
    mute = Card(lambda: CardBackend(SimulatedCard(GIB)), FaissCpuBackend(threads=1), silent, keep=1)
    assert (mute.open(data).search(queries, K, None, 1.0)[0] >= 0).all()


def test_a_device_that_does_not_work_is_an_error() -> None:
    """It is no want of room: whoever set it must hear of it."""

    def none() -> Backend:
        raise IndexFault("no driver", BACKEND_UNAVAILABLE)

    with pytest.raises(IndexFault, check=BACKEND_UNAVAILABLE.is_of):
        Card(none, FaissCpuBackend(), lambda: GIB).open(segment())


def test_a_merged_segment_waits_beside_those_that_it_was_merged_from(tmp_path: Path) -> None:
    """It is searched on the processor until the older generation is closed, then on the card."""
    rows = rows_for(clustered(ROWS, DIM))
    spec = IndexSpec(dim=DIM, metric="inner_product", backend="torch")
    writer = create_index(tmp_path / "index", IndexSpec(dim=DIM, metric="inner_product"))
    for start in range(0, ROWS, 100):
        writer.add(part_of(rows, slice(start, start + 100)))
        writer.commit()
    memory = SimulatedCard(ROWS * (2 * DIM + 2) + 4 * ROWS * 3)
    card = card_of(memory)
    options = OpenOptions(device="cuda", backend=card)
    older = open_index(tmp_path / "index", spec, options)
    assert (card.use().segments, card.use().segments_off) == (3, 0)
    writer.compact()

    newer = open_index(tmp_path / "index", spec, options, older.view)

    queries = clustered(1, DIM, seed=2)
    assert (card.use().segments, card.use().segments_off) == (3, 1)
    assert np.array_equal(newer.search(queries, K).ids, older.search(queries, K).ids)
    older.close()
    del older
    gc.collect()
    newer.search(queries, K)
    assert (card.use().segments, card.use().segments_off) == (1, 0)
    newer.close()
    writer.close()


@dataclass
class Site:
    """One folder of namespaces, read by a server with a small card and by one without."""

    memory: SimulatedCard
    keep: int
    folder: tempfile.TemporaryDirectory[str] = field(default_factory=tempfile.TemporaryDirectory)
    documents: list[str] = field(default_factory=list)
    added: int = 0

    def __post_init__(self) -> None:
        root = Path(self.folder.name)
        self.card = card_of(self.memory, keep=self.keep)
        on_card = RetrievalSettings(encoders=("hashing",), backend="torch", device="cuda")
        plain = RetrievalSettings(encoders=("hashing",), backend="faiss", device="cpu")
        self.served = build_namespaces(on_card, root, _encoder, card=self.card)
        self.plain = build_namespaces(plain, root, _encoder)
        self.served.create(NAME, NamespaceSettings(encoder="hashing", words="none"))

    def grow(self, passages: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        items = []
        for _ in range(passages):
            self.added += 1
            text = " ".join(rng.choice(WORDS, size=6)) + f" {self.added}."
            self.documents.append(f"note:{self.added}")
            document = Document(document_id=self.documents[-1], title="")
            items.append(ParsedDocument(document, text, (Span(0, len(text)),)))
        add_items(self.served, NAME, items)

    def shrink(self, passages: int) -> None:
        gone, self.documents = self.documents[:passages], self.documents[passages:]
        if gone:
            remove(self.served, NAME, gone)

    def check(self, seed: int, num_queries: int) -> None:
        """Search on both; with a filter on every other one."""
        if not self.added:
            return
        queries = _encoder("hashing").encode_queries(
            [f"{WORDS[(seed + one) % 12]} of the" for one in range(num_queries)]
        )
        where = RowFilter(ids=np.arange(1, self.added, 2, dtype=np.int64)) if seed % 2 else None
        found, truth = (_searched(one, queries, where) for one in (self.served, self.plain))
        assert np.array_equal(found.ids, truth.ids)
        # Sums of one vector are rounded otherwise where it is searched; a score may be near 0.
        np.testing.assert_allclose(found.scores, truth.scores, rtol=1e-6, atol=1e-6)

    def close(self) -> None:
        self.served.close()
        self.plain.close()
        self.folder.cleanup()


def _encoder(_: str) -> HashingEncoder:
    return HashingEncoder(DIM)


def _searched(namespaces: Namespaces, queries: Floats, where: RowFilter | None) -> Neighbours:
    with namespaces.using(NAME) as namespace:
        return namespace.vectors.search(queries, K, where)


CHANGES = st.one_of(
    st.tuples(st.just("grow"), st.integers(1, 40)),
    st.tuples(st.just("shrink"), st.integers(1, 40)),
    st.tuples(st.just("others"), st.integers(0, 8_000)),
    st.tuples(st.just("search"), st.integers(1, 20)),
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    total=st.integers(0, 8_000),
    keep=st.integers(0, 2_000),
    says=st.sampled_from((0, 0, 3_000, -3_000)),
    changes=st.lists(CHANGES, min_size=3, max_size=9),
)
def test_no_search_fails_whatever_the_card_has(
    total: int, keep: int, says: int, changes: list[tuple[str, int]]
) -> None:
    """Imports, removals, other programs and searches in any order: always the processor's hits, never an error."""
    site = Site(SimulatedCard(total, says), keep)
    try:
        for step, (change, size) in enumerate(changes):
            if change == "grow":
                site.grow(size, step)
            elif change == "shrink":
                site.shrink(size)
            elif change == "others":
                site.memory.others = size
            site.check(step, size if change == "search" else 2)
        assert site.card.use().bytes == 0 or site.memory.held > 0
    finally:
        site.close()
    memory = site.memory
    del site
    gc.collect()
    assert memory.held == 0  # nothing stays on the card


def test_searches_go_on_while_imports_fill_the_card() -> None:
    """Several threads search without a pause, and none of them meets an error."""
    site = Site(SimulatedCard(3_000), keep=500)
    site.grow(20, 0)
    failures: list[BaseException] = []
    done = threading.Event()
    searched = [0]

    def ask() -> None:
        queries = _encoder("hashing").encode_queries(["liver of the"])
        while not done.is_set():
            try:
                assert _searched(site.served, queries, None).ids.shape == (1, K)
                searched[0] += 1
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for step in range(8):
            site.grow(15, step)
            site.shrink(5)
            before = searched[0]
            wait_until(lambda least=before + 3: searched[0] >= least or bool(failures))  # type: ignore[misc]
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert site.card.use().segments_off > 0
    site.check(0, 2)
    site.close()

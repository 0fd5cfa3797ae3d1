"""The parts of a vector index that stand alone: choice of type, merging, ledger, filters, the search thread."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.encoders.base import Floats, Metric
from retrieval.index.backends.base import SegmentVectors
from retrieval.index.backends.scoring import exact_top_k, merge_hits
from retrieval.index.base import NO_ID, Neighbours, RowFilter
from retrieval.index.errors import BackendUnavailable, IndexFault, IndexInputInvalid, IndexOverloaded, IndexTooLarge
from retrieval.index.memory_estimate import GIB, MemoryBudget, MemoryClaim, check_build, estimate
from retrieval.index.open import create_index
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.segments.search_thread import Search, SearchThread
from retrieval.index.segments.snapshot import SegmentGroup, groups_at_commit, packed
from retrieval.index.spec import KINDS, IndexSpec, kind_for, kind_of, lists_for, pq_parts, probes_for


def test_the_type_follows_the_number_of_rows() -> None:
    """Exact up to fifty thousand; a small segment is exact whatever was asked for."""
    assert [kind_for(rows) for rows in (0, 50_000, 50_001, 4_000_000)] == ["flat", "flat", "ivf-rabitq", "ivf-rabitq"]
    assert kind_of("hnsw", 999) == "flat"
    assert kind_of("hnsw", 1_000) == "hnsw"
    assert (lists_for(1_000_000), lists_for(38_000_000), lists_for(10)) == (4_000, 65_536, 1)
    assert [pq_parts(dim) for dim in (768, 384, 32, 7, 1)] == [96, 96, 8, 1, 1]


@given(st.integers(1, 65_536), st.floats(0.01, 1), st.floats(0, 1))
def test_probes_grow_with_selectivity_within_their_bounds(lists: int, share: float, selectivity: float) -> None:
    """Never none, never more than there are, never fewer for a narrower filter."""
    probes = probes_for(lists, share, selectivity)

    assert probes_for(lists, share) <= probes <= lists
    assert probes >= 1


@pytest.mark.parametrize("changes", [{"dim": 0}, {"metric": "cosine"}, {"kind": "lsh"}])
def test_a_spec_that_cannot_be_is_refused(changes: dict[str, object]) -> None:
    """By name of the field."""
    with pytest.raises(IndexInputInvalid) as fault:
        IndexSpec(**{"dim": 8, "metric": "l2", **changes})  # type: ignore[arg-type]
    assert fault.value.param in changes


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "flat"])
def test_the_torch_back_end_refuses_types_that_it_cannot_build(tmp_path: Path, kind: str) -> None:
    """Before anything is written."""
    with pytest.raises(IndexInputInvalid):
        create_index(tmp_path / "index", IndexSpec(dim=8, metric="l2", kind=kind, backend="torch"))  # type: ignore[arg-type]
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("backend", ["faiss-gpu", "torch"])
def test_a_device_that_is_not_there_is_named(tmp_path: Path, backend: str) -> None:
    """With the wheel, so that the reader can tell a missing device from a wrong build."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("faiss")
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    spec = IndexSpec(dim=8, metric="l2", backend=backend)  # type: ignore[arg-type]

    with pytest.raises(BackendUnavailable, match=r"faiss-|torch 2") as fault:
        create_index(tmp_path / "index", spec, OpenOptions(device="cuda:0"))

    assert fault.value.hint


@given(st.lists(st.integers(1, 40_000), max_size=60))
def test_merging_keeps_every_part_once_and_the_number_of_segments_small(sizes: list[int]) -> None:
    """Committed one by one: fewer than eight in each tier that may still be merged."""
    pieces: list[SegmentGroup] = []
    for number, size in enumerate(sizes, start=1):
        pieces = groups_at_commit(pieces, [SegmentGroup((number,), size, 0)], 4_000_000)

    assert sorted(part for piece in pieces for part in piece.parts) == list(range(1, len(sizes) + 1))
    assert sum(piece.alive for piece in pieces) == sum(sizes)
    assert len(pieces) <= 7 * 4


def test_neither_faiss_nor_torch_is_loaded_before_it_is_asked_for() -> None:
    """They take seconds and memory, and after faiss no process may fork."""
    code = "import sys, retrieval.index.open; print(sorted({'faiss', 'torch'} & set(sys.modules)))"
    root = str(Path(__file__).parents[4])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_packing_keeps_within_the_largest_segment() -> None:
    """Small ones go together first."""
    found = packed([SegmentGroup((n,), size, 0) for n, size in enumerate([70, 20, 50, 40, 100])], 100)

    assert [piece.alive for piece in found] == [60, 50, 70, 100]


@pytest.mark.parametrize(
    ("kind", "per_row"),
    [("flat", 1536), ("sq8", 768), ("ivf-sq8", 792), ("ivf-pq", 124), ("hnsw", 1808), ("ivf-rabitq", 904)],
)
def test_estimates_are_near_what_was_measured(kind: str, per_row: int) -> None:
    """Bytes per vector at 200,000 x 768."""
    found = estimate(kind, 200_000, 768)  # type: ignore[arg-type]

    assert found.memory / 200_000 == pytest.approx(per_row, rel=0.08)
    assert found.disk >= 200_000 * 1536


def test_the_ledger_refuses_what_does_not_fit_and_tells_the_numbers() -> None:
    """All of PubMed flat is 54.4 GiB; beside it, an engine gets the rest and nothing may come after it."""
    ledger = MemoryBudget({"cuda:0": 80.0}, reserve_gib=3.0)
    pubmed = estimate("flat", 38_000_000, 768).memory
    ledger.claim(MemoryClaim("pubmed", "index", "cuda:0", pubmed))
    with pytest.raises(IndexTooLarge, match=r"54\.39 GiB of cuda:0, of which 22\..*index pubmed: 54\.39"):
        ledger.claim(MemoryClaim("again", "index", "cuda:0", pubmed))
    ledger.claim(MemoryClaim("medcpt", "encoder", "cuda:0", 1 * GIB))
    ledger.claim(MemoryClaim("llama", "engine", "cuda:0", ledger.left("cuda:0")))
    assert ledger.left("cuda:0") == 0
    with pytest.raises(IndexFault, match="before medcpt"):
        ledger.claim(MemoryClaim("late", "index", "cuda:0", 0))
    ledger.release("llama")
    assert ledger.left("cuda:0") > 20 * GIB
    with pytest.raises(IndexFault, match="budget"):
        ledger.claim(MemoryClaim("x", "index", "cuda:1", 0))


def test_a_build_that_would_not_fit_is_refused_before_it_starts() -> None:
    """By memory or by disk."""
    with pytest.raises(IndexTooLarge, match="of memory is left"):
        check_build("hnsw", 38_000_000, 768, memory_left=8 * GIB, disk_left=1 << 50)
    with pytest.raises(IndexTooLarge, match="on the disk"):
        check_build("ivf-rabitq", 1_000_000, 768, memory_left=64 * GIB, disk_left=GIB)
    assert check_build("flat", 1_000, 768, memory_left=GIB, disk_left=GIB).build == 0


def test_scanning_in_blocks_is_scanning_at_once() -> None:
    """More rows than one block; equal vectors in the order of their rows."""
    vectors = np.random.default_rng(0).standard_normal((20_000, 4)).astype(np.float16)
    vectors[[3, 9_000, 19_999]] = 9
    queries = np.ones((2, 4), np.float32)

    rows, scores = exact_top_k("inner_product", queries, vectors, np.arange(20_000), 5)

    assert rows[0, :3].tolist() == [3, 9_000, 19_999]
    assert scores[0, :3].tolist() == [36, 36, 36]
    assert merge_hits([], 2, 3).ids.tolist() == [[NO_ID] * 3] * 2


def _echo(calls: list[int]) -> Search:
    def search(queries: Floats, k: int, where: RowFilter | None) -> Neighbours:
        calls.append(len(queries))
        ids = np.repeat(queries[:, :1].astype(np.int64), k, axis=1) + np.arange(k)
        return Neighbours(ids, ids.astype(np.float32))

    return search


def test_requests_that_wait_together_are_searched_together() -> None:
    """Each gets its own lines and its own k; other filters go by themselves."""
    calls: list[int] = []
    search, gate = _echo(calls), threading.Event()

    def blocking(queries: Floats, k: int, where: RowFilter | None) -> Neighbours:
        gate.wait(10)
        return search(queries, k, where)

    owner = SearchThread(window_s=0.0, bound=100)
    first = owner.submit(blocking, np.zeros((1, 1), np.float32), 1, None)
    one = RowFilter(types=1)
    replies = [
        owner.submit(search, np.full((n, 1), n * 10, np.float32), n, where)
        for n, where in ((1, None), (2, None), (3, one), (4, RowFilter(types=1)))
    ]
    gate.set()

    assert first.result(10).ids.tolist() == [[0]]
    assert [reply.result(10).ids.shape for reply in replies] == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert replies[1].result().ids[0].tolist() == [20, 21]
    owner.close()
    assert sum(calls) == 11


def test_a_fault_of_a_search_is_raised_where_it_was_asked() -> None:
    """And the thread goes on."""
    owner = SearchThread()

    def fail(queries: Floats, k: int, where: RowFilter | None) -> Neighbours:
        raise IndexFault("device lost")

    with pytest.raises(IndexFault, match="device lost"):
        owner.search(fail, np.zeros((1, 1), np.float32), 1, None)
    assert owner.search(_echo([]), np.zeros((1, 1), np.float32), 1, None).ids.tolist() == [[0]]
    owner.close()
    with pytest.raises(IndexFault, match="closed"):
        owner.search(fail, np.zeros((1, 1), np.float32), 1, None)


def test_the_queue_is_bounded_and_close_answers_what_was_taken() -> None:
    """Too many is an error at once, not a longer wait."""
    gate, entered, search = threading.Event(), threading.Event(), _echo([])

    def blocking(queries: Floats, k: int, where: RowFilter | None) -> Neighbours:
        entered.set()
        gate.wait(10)
        return search(queries, k, where)

    owner = SearchThread(window_s=0.0, bound=2)
    query = np.zeros((1, 1), np.float32)
    replies = [owner.submit(blocking, query, 1, None)]
    assert entered.wait(10)
    replies += [owner.submit(blocking, query, 1, None) for _ in range(2)]
    with pytest.raises(IndexOverloaded):
        owner.submit(blocking, query, 1, None)
    gate.set()
    owner.close()

    assert all(reply.result(0).ids.tolist() == [[0]] for reply in replies)


def test_a_gpu_style_index_searches_through_its_owner(tmp_path: Path) -> None:
    """The whole index behind one thread, on the CPU: many callers, one answer each."""
    pytest.importorskip("torch")
    from retrieval.index.backends.torch_flat import TorchFlatBackend
    from retrieval.index.segments.index import IndexResources, SegmentedIndex
    from retrieval.index.segments.manifest import Manifest
    from retrieval.index.segments.storage import Storage

    options = OpenOptions(write=True)
    create_index(tmp_path / "index", IndexSpec(dim=8, metric="l2", backend="torch"), options).close()
    manifest = Manifest(generation=0, dim=8, metric="l2", kind="auto", encoder={})
    storage = Storage(tmp_path / "index", options.disk)
    index = SegmentedIndex(IndexResources(storage, TorchFlatBackend(), options, SearchThread(window_s=0.001)), manifest)
    from retrieval.index.base import Rows

    vectors = np.random.default_rng(0).standard_normal((500, 8)).astype(np.float32)
    index.add(Rows(ids=np.arange(1, 501), vectors=vectors))
    index.commit()
    found: dict[int, int] = {}

    def ask(row: int) -> None:
        found[row] = int(index.search(vectors[row : row + 1], 1).ids[0, 0])

    threads = [threading.Thread(target=ask, args=(row,)) for row in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == {row: row + 1 for row in range(20)}
    index.close()


def test_torch_keeps_one_mask_for_many_searches() -> None:
    """A forbidden row is not among what the searcher returns, whatever its score."""
    pytest.importorskip("torch")
    from retrieval.index.backends.torch_flat import TorchFlatBackend

    vectors = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float16)
    searcher = TorchFlatBackend().open(SegmentVectors(kind="flat", metric="inner_product", vectors=vectors))
    allowed = np.zeros(300, np.bool_)
    allowed[5:8] = True

    rows, scores = searcher.search(np.ones((2, 8), np.float32), 10, allowed, 0.01)

    assert sorted(rows[0, :3].tolist()) == [5, 6, 7]
    assert (rows[:, 3:] == NO_ID).all() and np.isneginf(scores[:, 3:]).all()
    assert searcher.bytes_memory() == 300 * 8 * 2


@pytest.mark.parametrize("metric", ["inner_product", "l2"])
def test_blocks_on_a_device_are_searched_as_one(metric: Metric) -> None:
    """The GPU back end's searcher over blocks on the CPU: rows of the whole segment, masks met by fetching more."""
    faiss = pytest.importorskip("faiss")
    from retrieval.index.backends.faiss_build import metric_of
    from retrieval.index.backends.faiss_gpu import GpuSearcher

    vectors = np.random.default_rng(0).standard_normal((900, 8)).astype(np.float32)
    blocks = []
    for start in range(0, 900, 400):
        blocks.append((start, faiss.IndexFlat(8, metric_of(faiss, metric))))
        blocks[-1][1].add(vectors[start : start + 400])
    searcher = GpuSearcher(faiss, tuple(blocks), 0, 1.0)
    allowed = np.arange(900) % 3 == 1
    queries = vectors[1:800:100]

    rows, scores = searcher.search(queries, 5, None, 1.0)
    some, _ = searcher.search(queries, 5, allowed, 1 / 3)

    truth, _ = exact_top_k(metric, queries, vectors, np.arange(900), 5)
    assert np.array_equal(rows, truth)
    assert (np.diff(scores, axis=1) <= 0).all()
    filtered, _ = exact_top_k(metric, queries, vectors, np.flatnonzero(allowed), 5)
    there = some != NO_ID
    assert allowed[some[there]].all()
    assert np.array_equal(some[there], filtered[there])

"""The one thread that searches: batches, faults, bounds, close."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from models.encoders.base import Floats
from retrieval.errors import INDEX_FULL, IndexFault
from retrieval.index.base import Neighbours, RowFilter
from retrieval.index.open import create_index
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.segments.search_thread import Search, SearchThread
from retrieval.index.spec import IndexSpec


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
        gate.wait(120)
        return search(queries, k, where)

    owner = SearchThread(window_s=0.0, bound=100)
    first = owner.submit(blocking, np.zeros((1, 1), np.float32), 1, None)
    one = RowFilter(types=1)
    replies = [
        owner.submit(search, np.full((n, 1), n * 10, np.float32), n, where)
        for n, where in ((1, None), (2, None), (3, one), (4, RowFilter(types=1)))
    ]
    gate.set()

    assert first.result(120).ids.tolist() == [[0]]
    assert [reply.result(120).ids.shape for reply in replies] == [(1, 1), (2, 2), (3, 3), (4, 4)]
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
        gate.wait(120)
        return search(queries, k, where)

    owner = SearchThread(window_s=0.0, bound=2)
    query = np.zeros((1, 1), np.float32)
    replies = [owner.submit(blocking, query, 1, None)]
    assert entered.wait(120)
    replies += [owner.submit(blocking, query, 1, None) for _ in range(2)]
    with pytest.raises(IndexFault, check=INDEX_FULL.is_of):
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

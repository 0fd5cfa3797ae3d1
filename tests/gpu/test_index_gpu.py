"""Vector indices on a CUDA device: the contract's main points, over the owner's thread."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from index_rows import clustered, like_medcpt, matching_mask, nearest, part_of, recall, rows_for

from models.encoders.base import Metric
from models.torch_runtime.devices import free_memory
from retrieval.index.backends.card import Card
from retrieval.index.backends.faiss_cpu import FaissCpuBackend
from retrieval.index.backends.torch_flat import TorchFlatBackend
from retrieval.index.base import NO_ID, RowFilter
from retrieval.index.open import create_index, open_index
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.spec import BackendName, FilteredSearch, IndexSpec, KindChoice

pytestmark = pytest.mark.gpu
VARIANTS: list[tuple[BackendName, KindChoice, float]] = [
    ("torch", "flat", 0.999),
    ("faiss-gpu", "flat", 0.999),
    ("faiss-gpu", "ivf-sq8", 0.9),
]
FILTERS = [
    RowFilter(namespaces=frozenset({2})),
    RowFilter(namespaces=frozenset({9})),
    RowFilter(date_from=19950000, date_to=19991231, without_types=0b11),
    RowFilter(ids=np.arange(1, 300, dtype=np.int64)),
]


@pytest.fixture(params=VARIANTS, ids=lambda variant: f"{variant[0]}-{variant[1]}")
def variant(request: pytest.FixtureRequest) -> tuple[BackendName, KindChoice, float]:
    backend, kind, least = request.param
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    if backend == "faiss-gpu" and not hasattr(pytest.importorskip("faiss"), "StandardGpuResources"):
        pytest.skip("the installed faiss is a build for CPUs")
    return backend, kind, least


@pytest.mark.parametrize("metric", ["inner_product", "l2"])
def test_the_device_finds_the_nearest_rows(
    variant: tuple[BackendName, KindChoice, float], metric: Metric, tmp_path: Path
) -> None:
    """Over committed rows, the tail and tombstones; opened again, the same."""
    backend, kind, least = variant
    rows, queries = rows_for(clustered(20_000, 128)), clustered(40, 128, seed=1)
    spec = IndexSpec(dim=128, metric=metric, kind=kind, backend=backend)
    index = create_index(tmp_path / "index", spec, OpenOptions(device="cuda:0"))
    index.add(part_of(rows, slice(0, 15_000)))
    index.commit()
    index.add(part_of(rows, slice(15_000, 20_000)))
    index.delete(rows.ids[:100])
    mask = np.arange(20_000) >= 100

    assert recall(index.search(queries, 10).ids, nearest(metric, rows, queries, 10, mask)) >= least
    index.commit()
    before = index.search(queries, 10)
    index.close()
    again = open_index(tmp_path / "index", spec, OpenOptions(device="cuda:0"))
    assert (again.search(queries, 10).ids == before.ids).mean() > 0.99
    again.close()


@pytest.mark.parametrize("filtered", ["structure", "gather"])
def test_the_device_never_leaks_past_a_filter(
    variant: tuple[BackendName, KindChoice, float], filtered: FilteredSearch, tmp_path: Path
) -> None:
    """With k over the number of survivors, and over what the device can return at once."""
    backend, kind, _ = variant
    rows = rows_for(clustered(12_000, 64))
    spec = IndexSpec(dim=64, metric="inner_product", kind=kind, backend=backend)
    index = create_index(tmp_path / "index", spec, OpenOptions(device="cuda:0", filtered=filtered))
    index.add(rows)
    index.commit()
    for where in FILTERS:
        survivors = set(rows.ids[matching_mask(rows, where)].tolist())
        found = index.search(clustered(4, 64, seed=2), len(survivors) + 7, where)
        for ids in found.ids:
            assert set(ids[: len(survivors)].tolist()) == survivors
            assert (ids[len(survivors) :] == NO_ID).all()
    index.close()


def test_close_scores_keep_their_order_on_the_device(
    variant: tuple[BackendName, KindChoice, float], tmp_path: Path
) -> None:
    """Products of about 67, hundredths apart."""
    backend, kind, _ = variant
    vectors, queries = like_medcpt(5_000)
    rows = rows_for(vectors)
    spec = IndexSpec(dim=256, metric="inner_product", kind=kind, backend=backend)
    index = create_index(tmp_path / "index", spec, OpenOptions(device="cuda:0", probe_share=1.0))
    index.add(rows)
    index.commit()

    assert recall(index.search(queries, 10).ids, nearest("inner_product", rows, queries, 10)) >= 0.97
    index.close()


def test_many_threads_share_the_device(variant: tuple[BackendName, KindChoice, float], tmp_path: Path) -> None:
    """While a writer commits: each caller gets its own answer."""
    backend, kind, _ = variant
    rows = rows_for(clustered(6_000, 64))
    index = create_index(
        tmp_path / "index",
        IndexSpec(dim=64, metric="l2", kind=kind, backend=backend),
        OpenOptions(device="cuda:0", probe_share=1.0),
    )
    index.add(part_of(rows, slice(0, 3_000)))
    index.commit()
    wrong: list[int] = []

    def ask(start: int) -> None:
        some = range(start, 3_000, 300)
        wrong.extend(row for row in some if index.search(rows.vectors[row : row + 1], 1).ids[0, 0] != rows.ids[row])

    threads = [threading.Thread(target=ask, args=(start,)) for start in range(16)]
    for thread in threads:
        thread.start()
    for start in range(3_000, 6_000, 1_000):
        index.add(part_of(rows, slice(start, start + 1_000)))
        index.commit()
    for thread in threads:
        thread.join()

    assert not wrong
    index.close()


def test_a_full_card_is_searched_beside_the_processor(tmp_path: Path) -> None:
    """With the device's own account of its memory, and a search's scratch within its bound."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    rows, queries = rows_for(clustered(200_000, 64)), clustered(1_024, 64, seed=1)
    index = create_index(tmp_path / "index", IndexSpec(dim=64, metric="l2", kind="flat"), OpenOptions())
    index.add(rows)
    index.commit()
    index.close()
    scratch = 1 << 28
    card = Card(
        lambda: TorchFlatBackend(device="cuda:0", scratch_bytes=scratch),
        FaissCpuBackend(),
        lambda: free_memory("cuda:0"),
        keep=1 << 60,
        wait_s=0.0,
    )
    spec = IndexSpec(dim=64, metric="l2", backend="torch")
    index = open_index(tmp_path / "index", spec, OpenOptions(device="cuda:0", backend=card))
    before = index.search(queries, 10)
    assert card.use().segments_off == 1
    card.keep = scratch
    index.search(queries[:1], 10)
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()

    after = index.search(queries, 10)

    assert (card.use().segments, card.use().segments_off) == (1, 0)
    assert torch.cuda.max_memory_allocated() - held <= scratch
    assert (after.ids == before.ids).mean() > 0.999
    index.close()

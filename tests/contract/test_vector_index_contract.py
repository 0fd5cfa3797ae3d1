"""What every back end and every type of vector index promises."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from index_rows import DIM, clustered, like_medcpt, matching_mask, nearest, part_of, recall, rows_for

from models.encoders.base import Metric
from retrieval.corpus.chunking import Chunker, Chunking
from retrieval.corpus.store.postgres_stores import PostgresPassageStores
from retrieval.errors import INDEX_INPUT_INVALID, IndexFault
from retrieval.index.base import NO_ID, RowFilter, Rows, VectorIndex
from retrieval.index.open import create_index, open_index
from retrieval.index.pgvector.indices import IndexKey, PgVectorIndices, drop_indices
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.spec import BackendName, FilteredSearch, IndexSpec, KindChoice
from server.state.database import Database, PassageDatabase

ROWS = 2_000


@dataclass(frozen=True)
class Variant:
    """A back end with a type, and the recall at 10 that it must reach on clustered vectors."""

    backend: BackendName | Literal["pgvector"]
    kind: KindChoice
    recall: float

    def spec(self, dim: int = DIM, metric: Metric = "inner_product") -> IndexSpec:
        backend: BackendName = "faiss" if self.backend == "pgvector" else self.backend
        return IndexSpec(dim=dim, metric=metric, kind=self.kind, backend=backend, encoder={"encoder_id": "test"})


VARIANTS = [
    Variant("faiss", "flat", 0.999),
    Variant("faiss", "sq8", 0.99),
    Variant("faiss", "ivf-sq8", 0.9),
    Variant("faiss", "ivf-pq", 0.85),
    Variant("faiss", "hnsw", 0.97),
    Variant("faiss", "ivf-rabitq", 0.9),
    Variant("torch", "flat", 0.999),
]
# The table without a graph, and with one that is searched whatever the filter.
SHARED = [Variant("pgvector", "flat", 0.999), Variant("pgvector", "hnsw", 0.99)]
FILTERS = {
    "namespace": RowFilter(namespaces=frozenset({2})),
    "no namespace": RowFilter(namespaces=frozenset({9})),
    "dates": RowFilter(date_from=19950000, date_to=19991231),
    "from a date": RowFilter(date_from=20200000),
    "until a date": RowFilter(date_to=19901231),
    "types": RowFilter(types=0b101),
    "without types": RowFilter(without_types=0b1111110111),
    "ids": RowFilter(ids=np.arange(1, 300, dtype=np.int64)),
    "all at once": RowFilter(namespaces=frozenset({1, 3}), date_from=20000000, without_types=0b11),
}
Make = Callable[..., Any]
of_files = pytest.mark.parametrize(
    "variant", VARIANTS, indirect=True, ids=lambda found: f"{found.backend}-{found.kind}"
)


@pytest.fixture(params=[*VARIANTS, *SHARED], ids=lambda variant: f"{variant.backend}-{variant.kind}")
def variant(request: pytest.FixtureRequest) -> Variant:
    found: Variant = request.param
    if found.backend in {"faiss", "torch"}:
        pytest.importorskip(found.backend)
    return found


@dataclass
class Place:
    """Where indices are made and opened again: a folder, or a database."""

    folder: Path
    variant: Variant
    shared: PgVectorIndices | None = None
    made: list[VectorIndex] = field(default_factory=list)

    def make(self, dim: int = DIM, metric: Metric = "inner_product", **options: int) -> VectorIndex:
        """A new index of the variant; keyword arguments are the options', which a database has none of."""
        spec, name = self.variant.spec(dim, metric), f"index{len(self.made)}"
        if self.shared is not None:
            self.made.append(self.shared.open(IndexKey("ns", name), spec, write=True))
        else:
            chosen = OpenOptions(threads=1, **options)  # type: ignore[arg-type]
            self.made.append(create_index(self.folder / name, spec, chosen))
        return self.made[-1]

    def reader(self) -> VectorIndex:
        if self.shared is not None:
            return self.shared.open(IndexKey("ns", "index0"), self.variant.spec(), write=False)
        return open_index(self.folder / "index0", self.variant.spec())


@pytest.fixture
def place(variant: Variant, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    place = Place(tmp_path, variant)
    database: PassageDatabase | None = None
    if variant.backend == "pgvector":
        database = PassageDatabase(Database(request.getfixturevalue("postgres").new_database()), connections=4)
        stores = PostgresPassageStores(tmp_path, database, drop_indices)
        with stores.creating("ns", {}, Chunker(Chunking()), ()):
            pass
        place.shared = PgVectorIndices(database, exact_rows=10_000 if variant.kind == "flat" else 0)
    yield place
    for index in place.made:
        index.close()
    if database is not None:
        database.close()


@pytest.fixture
def make(place: Place) -> Make:
    return place.make


@pytest.mark.parametrize("metric", ["inner_product", "l2"])
def test_it_finds_the_nearest_rows_best_first(make: Make, variant: Variant, metric: Metric) -> None:
    """After a commit, against exact search; an inner-product HNSW that kept an L2 storage would fail here."""
    rows, queries = rows_for(clustered(ROWS)), clustered(40, seed=1)
    index: VectorIndex = make(metric=metric)
    index.add(rows)
    index.commit()

    found = index.search(queries, 10)

    assert recall(found.ids, nearest(metric, rows, queries, 10)) >= variant.recall
    assert (np.diff(found.scores, axis=1) <= 0).all()
    assert found.ids.dtype == np.int64 and found.scores.dtype == np.float32


@pytest.mark.parametrize("metric", ["inner_product", "l2"])
def test_scores_are_the_true_ones(make: Make, metric: Metric) -> None:
    """Whatever was centred or made small: inner products, or negated squared distances, of the vectors given."""
    rows, queries = rows_for(clustered(ROWS) + np.float32(2.0)), clustered(5, seed=1)
    index = make(metric=metric)
    index.add(rows)
    index.commit()

    found = index.search(queries, 5)

    of = {int(one): vector for one, vector in zip(rows.ids, rows.vectors, strict=True)}
    for query, ids, scores in zip(queries, found.ids, found.scores, strict=True):
        truth = [of[one] @ query if metric == "inner_product" else -((of[one] - query) ** 2).sum() for one in ids]
        assert np.allclose(scores, truth, atol=5e-3)


def test_close_scores_far_from_nought_keep_their_order(make: Make, variant: Variant) -> None:
    """MedCPT's products are about 67 and hundredths apart: neither float16 nor a quantiser may swap them."""
    vectors, queries = like_medcpt(ROWS)
    rows = rows_for(vectors)
    index = make(dim=256, probe_share=1)
    index.add(rows)
    index.commit()

    found, truth = index.search(queries, 10), nearest("inner_product", rows, queries, 10)

    assert 60 < float(found.scores.mean()) < 75
    if variant.kind == "ivf-pq":
        assert recall(found.ids, truth) >= 0.6
    else:
        assert recall(found.ids, truth) >= 0.97
        assert (found.ids[:, :3] == truth[:, :3]).mean() >= 0.97


def test_rows_are_found_before_they_are_committed(make: Make) -> None:
    """The tail is searched with the segments, exactly."""
    rows, queries = rows_for(clustered(ROWS)), clustered(10, seed=1)
    index = make()
    index.add(part_of(rows, slice(0, 1_500)))
    index.commit()
    index.add(part_of(rows, slice(1_500, ROWS)))

    found = index.search(rows.vectors[1_500:1_540], 1)

    assert (found.ids[:, 0] == rows.ids[1_500:1_540]).all()
    assert index.stats().rows == ROWS
    assert index.search(queries, 10).ids.min() > 0


def test_a_row_added_again_takes_the_place_of_the_old_one(make: Make) -> None:
    """In a segment and in the tail: the old vector is never found, and the id is there once."""
    rows = rows_for(clustered(ROWS))
    index = make()
    index.add(rows)
    index.commit()
    for again in (1, 2):
        index.add(Rows(ids=rows.ids[:1], vectors=-rows.vectors[:1] * again, namespaces=np.array([8], np.int32)))

        found = index.search(-rows.vectors[:1], 50)

        assert found.ids[0, 0] == rows.ids[0]
        assert (found.ids == rows.ids[0]).sum() == 1
    assert index.stats().rows == ROWS
    only = index.search(rows.vectors[:1], 5, RowFilter(namespaces=frozenset({8})))
    assert only.ids[0].tolist() == [int(rows.ids[0]), *[NO_ID] * 4]
    index.commit()
    assert index.search(-rows.vectors[:1], 1).ids[0, 0] == rows.ids[0]


def test_deleted_rows_are_never_found_again(make: Make, place: Place) -> None:
    """Before a commit, after it, after a compaction and after the index is opened again."""
    rows = rows_for(clustered(ROWS))
    index = make()
    index.add(rows)
    index.commit()
    gone = rows.ids[:200]

    assert index.delete(np.concatenate([gone, gone, [10**15]])) == 200
    assert index.delete(gone) == 0
    for step in (index.commit, getattr(index, "compact", index.commit), lambda: None):
        step()
        assert not np.isin(index.search(rows.vectors[:200], 30).ids, gone).any()
    assert index.stats().deleted == 0
    index.close()
    again = place.reader()
    assert not np.isin(again.search(rows.vectors[:200], 30).ids, gone).any()
    assert again.stats().rows == ROWS - 200
    again.close()


@pytest.mark.parametrize("filtered", ["structure", "scan", "gather", None])
def test_no_row_that_a_filter_forbids_is_ever_returned(make: Make, filtered: FilteredSearch | None) -> None:
    """With k over the number of survivors, half of the rows in the tail and some deleted; all survivors are found."""
    rows = rows_for(clustered(ROWS))
    index = make(filtered=filtered)
    index.add(part_of(rows, slice(0, 1_300)))
    index.commit()
    index.add(part_of(rows, slice(1_300, ROWS)))
    index.delete(rows.ids[::10])
    for name, where in FILTERS.items():
        mask = matching_mask(rows, where)
        mask[::10] = False
        survivors = set(rows.ids[mask].tolist())

        found = index.search(clustered(6, seed=2), len(survivors) + 7, where)

        for ids, scores in zip(found.ids, found.scores, strict=True):
            assert set(ids[: len(survivors)].tolist()) == survivors, name
            assert (ids[len(survivors) :] == NO_ID).all(), name
            assert np.isneginf(scores[len(survivors) :]).all(), name


@pytest.mark.parametrize(("filtered", "least"), [("structure", 0.8), ("scan", 0.97), ("gather", 0.99), (None, 0.97)])
def test_filtered_hits_are_the_nearest_that_pass(
    make: Make, variant: Variant, filtered: FilteredSearch | None, least: float
) -> None:
    """Few survivors are scored themselves, so exactly; else the structure is searched more widely, and never leaks."""
    rows, queries = rows_for(clustered(ROWS)), clustered(20, seed=1)
    index = make(filtered=filtered)
    index.add(rows)
    index.commit()
    for name in ("namespace", "dates", "types", "all at once"):
        mask = matching_mask(rows, FILTERS[name])

        found = index.search(queries, 10, FILTERS[name])

        assert np.isin(found.ids, [*rows.ids[mask], NO_ID]).all(), name
        assert recall(found.ids, nearest("inner_product", rows, queries, 10, mask)) >= least, name


def test_an_empty_index_and_no_queries_give_empty_places(make: Make) -> None:
    """No hit is NO_ID and minus infinity, not the last row."""
    index = make()
    index.commit()

    found = index.search(clustered(3), 4)

    assert (found.ids == NO_ID).all() and np.isneginf(found.scores).all()
    assert found.ids.shape == (3, 4)
    assert index.search(np.empty((0, DIM), np.float32), 4).ids.shape == (0, 4)


def test_k_over_the_number_of_rows_fills_up_with_empty_places(make: Make) -> None:
    """Each row is there once."""
    rows = rows_for(clustered(1_200))
    index = make()
    index.add(rows)
    index.commit()

    found = index.search(rows.vectors[:2], 1_205)

    assert sorted(found.ids[0, :1_200].tolist()) == sorted(rows.ids.tolist())
    assert (found.ids[:, 1_200:] == NO_ID).all()


def test_equal_scores_stand_in_the_order_of_their_ids(make: Make) -> None:
    """The same article under many ids: the result does not depend on the order of adding."""
    vectors = clustered(1_100)
    vectors[:6] = vectors[0]
    index = make(probe_share=1)
    index.add(Rows(ids=np.arange(2_000, 900, -1, dtype=np.int64), vectors=vectors))
    index.commit()

    assert index.search(vectors[:1], 6).ids[0].tolist() == [1995, 1996, 1997, 1998, 1999, 2000]


def bad_rows() -> list[tuple[Rows, str]]:
    one, two, zeros = np.array([1]), np.zeros((2, DIM), np.float32), np.zeros((1, DIM), np.float32)
    return [
        (Rows(ids=one, vectors=np.full((1, DIM), np.nan, np.float32)), "vectors"),
        (Rows(ids=one, vectors=np.full((1, DIM), np.inf, np.float32)), "vectors"),
        (Rows(ids=one, vectors=np.full((1, DIM), 1e9, np.float32)), "vectors"),
        (Rows(ids=one, vectors=np.zeros((1, DIM + 1), np.float32)), "vectors"),
        (Rows(ids=one, vectors=np.zeros((1, DIM), np.int32)), "vectors"),
        (Rows(ids=np.array([1, 2]), vectors=zeros), "vectors"),
        (Rows(ids=np.array([3, 3]), vectors=two), "ids"),
        (Rows(ids=np.array([0]), vectors=zeros), "ids"),
        (Rows(ids=np.array([-1]), vectors=zeros), "ids"),
        (Rows(ids=np.array([1.5]), vectors=zeros), "ids"),
        (Rows(ids=np.array([2**64 - 1], np.uint64), vectors=zeros), "ids"),
        (Rows(ids=one, vectors=zeros, dates=np.zeros(2, np.int32)), "dates"),
        (Rows(ids=one, vectors=zeros, namespaces=np.array([2**40])), "namespaces"),
    ]


def test_rows_that_cannot_be_are_refused_and_nothing_changes(make: Make) -> None:
    """NaN, infinities, float16's limits, shapes, ids twice or below one: the error names what is wrong."""
    index = make()
    for rows, param in bad_rows():
        with pytest.raises(IndexFault, check=INDEX_INPUT_INVALID.is_of) as fault:
            index.add(rows)
        assert fault.value.param == param
    assert index.stats().rows == 0


def test_queries_that_cannot_be_are_refused(make: Make) -> None:
    """Shape, values, k, and a filter whose ids do not ascend."""
    index = make()
    one = np.zeros((1, DIM), np.float32)
    for queries, k in ((np.zeros(DIM, np.float32), 3), (one + np.float32("nan"), 3), (one, 0), (one[:, 1:], 3)):
        with pytest.raises(IndexFault, check=INDEX_INPUT_INVALID.is_of):
            index.search(queries, k)
    with pytest.raises(IndexFault, check=INDEX_INPUT_INVALID.is_of):
        index.search(one, 3, RowFilter(ids=np.array([3, 1])))


@of_files
def test_an_index_that_is_opened_again_answers_the_same(make: Make, variant: Variant, tmp_path: Path) -> None:
    """Ids and scores, to the bit, with tombstones; columns and vectors too."""
    rows, queries = rows_for(clustered(ROWS)), clustered(20, seed=1)
    index = make()
    index.add(rows)
    index.commit()
    index.delete(rows.ids[:20])
    index.commit("corpus digest")
    before, filtered = index.search(queries, 10), index.search(queries, 10, FILTERS["dates"])
    exported = list(index.export())
    index.close()

    again = open_index(tmp_path / "index0", variant.spec())

    for after, expected in (
        (again.search(queries, 10), before),
        (again.search(queries, 10, FILTERS["dates"]), filtered),
    ):
        assert np.array_equal(after.ids, expected.ids) and np.array_equal(after.scores, expected.scores)
    for part, expected_part in zip(again.export(), exported, strict=True):
        assert np.array_equal(part.ids, expected_part.ids) and np.array_equal(part.vectors, expected_part.vectors)
    assert again.manifest.corpus == "corpus digest"
    assert again.stats().generation == 2
    again.close()


@of_files
def test_small_segments_are_merged_and_every_row_stays(make: Make) -> None:
    """Ten commits leave a few segments, and each row is found by its own vector."""
    rows = rows_for(clustered(300))
    index = make(tail_rows=20)
    for start in range(0, 300, 30):
        index.add(part_of(rows, slice(start, start + 30)))
        index.commit()

    assert index.stats().segments == 3
    assert (index.search(rows.vectors, 1).ids[:, 0] == rows.ids).mean() > 0.99
    index.compact()
    assert index.stats().segments == 1
    assert (index.search(rows.vectors, 1).ids[:, 0] == rows.ids).mean() > 0.99


@of_files
def test_readers_see_whole_commits_while_a_writer_goes_on(make: Make, variant: Variant, tmp_path: Path) -> None:
    """Each commit replaces all rows by those of its own namespace: a search never finds two commits mixed."""
    vectors = clustered(300)
    ids = np.arange(1, 301, dtype=np.int64)
    index = make(tail_rows=100)
    index.add(Rows(ids=ids, vectors=vectors, namespaces=np.full(300, 1, np.int32)))
    index.commit()
    reader = open_index(tmp_path / "index0", variant.spec())
    stop, faults = threading.Event(), []

    def read() -> None:
        try:
            while not stop.is_set():
                reader.reload()
                parts = list(reader.export())
                steps = {int(n) for part in parts for n in part.namespaces}  # type: ignore[union-attr]
                hits = reader.search(vectors[:2], 300)
                if len(steps) != 1 or sum(len(part.ids) for part in parts) != 300 or (hits.ids == NO_ID).any():
                    faults.append(f"{steps}")
        except Exception as fault:
            faults.append(repr(fault))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for step in range(2, 8):
        index.add(Rows(ids=ids, vectors=vectors, namespaces=np.full(300, step, np.int32)))
        index.commit()
    stop.set()
    for thread in threads:
        thread.join()
    reader.reload()

    assert not faults
    assert reader.stats().generation == index.stats().generation
    reader.close()


def test_a_closed_index_and_a_reader_say_so(make: Make, place: Place) -> None:
    """No silent nothing."""
    index = make()
    index.add(rows_for(clustered(10)))
    index.commit()
    reader = place.reader()
    with pytest.raises(IndexFault, match="reading"):
        reader.add(rows_for(clustered(10)))
    reader.close()
    index.close()
    with pytest.raises(IndexFault, match="closed"):
        index.search(clustered(1), 1)

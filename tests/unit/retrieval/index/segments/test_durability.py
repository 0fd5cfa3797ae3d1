"""Vector indices on the disk: damage is found, a failed write changes nothing, a kill leaves a whole generation."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from index_rows import DIM, clustered, part_of, rows_for

from retrieval.errors import (
    INDEX_BUSY,
    INDEX_INPUT_INVALID,
    INDEX_MISMATCH,
    INDEX_NOT_WRITTEN,
    IndexDamaged,
    IndexFault,
)
from retrieval.index.base import Rows
from retrieval.index.open import create_index, open_index
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.spec import IndexSpec, KindChoice
from retrieval.storage.files import Disk, FileLock
from scripts.crash_index import Plan, run

ROOT = Path(__file__).parents[5]


def spec(kind: KindChoice = "flat", **changes: object) -> IndexSpec:
    fields: dict[str, object] = {
        "dim": DIM,
        "metric": "inner_product",
        "encoder": {"encoder_id": "a", "max": [64, 512]},
    }
    return IndexSpec(kind=kind, **{**fields, **changes})  # type: ignore[arg-type]


def made(folder: Path, kind: KindChoice = "flat", rows: int = 1_200) -> Path:
    """An index with a tombstone file."""
    if kind != "flat":
        pytest.importorskip("faiss")
    index = create_index(folder, spec(kind))
    index.add(rows_for(clustered(rows)))
    index.commit()
    index.delete(np.arange(1, 100, 7))
    index.commit()
    index.close()
    return folder


class FailingDisk(Disk):
    """Full after so many bytes; ``bytes`` may be raised again."""

    def __init__(self, left: int) -> None:
        self.left = left

    def write_block(self, handle: int, data: bytes) -> None:
        if len(data) > self.left:
            super().write_block(handle, data[: self.left])
            self.left = 0
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.left -= len(data)
        super().write_block(handle, data)


@pytest.mark.parametrize("kind", ["flat", "ivf-rabitq", "hnsw"])
def test_one_flipped_byte_in_any_file_is_found_and_named(tmp_path: Path, kind: KindChoice) -> None:
    """Of columns, vectors, the search structure, the tombstones and both copies of the manifest."""
    folder = made(tmp_path / "index", kind)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    assert len(files) == (9 if kind == "flat" else 10)
    for path in files:
        whole = path.read_bytes()
        for index_key in (0, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:index_key] + bytes([whole[index_key] ^ 4]) + whole[index_key + 1 :])
            with pytest.raises(IndexDamaged, match=path.name):
                open_index(folder, spec(kind))
        path.write_bytes(whole)
    open_index(folder, spec(kind)).close()


def test_a_cut_or_missing_file_is_found_without_reading_digests(tmp_path: Path) -> None:
    """A mapped file that is cut would kill the process at the first search."""
    folder = made(tmp_path / "index", "ivf-sq8")
    for path in sorted((folder / "segments").rglob("*")) + sorted((folder / "deleted").iterdir()):
        if path.is_dir():
            continue
        whole = path.read_bytes()
        path.write_bytes(whole[:-1])
        with pytest.raises(IndexDamaged, match=path.name):
            open_index(folder, spec(), OpenOptions(verify="sizes"))
        path.unlink()
        with pytest.raises(IndexDamaged, match=path.name):
            open_index(folder, spec(), OpenOptions(verify="sizes"))
        path.write_bytes(whole)
    (folder / "manifest.json").unlink()
    with pytest.raises(IndexDamaged, match="no index"):
        open_index(folder, spec())


def test_sizes_alone_are_checked_where_that_is_asked_for(tmp_path: Path) -> None:
    """Reading 58 GB of vectors for their digest takes minutes; the caller decides."""
    folder = made(tmp_path / "index")
    path = folder / "segments" / "00000001" / "vectors.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))

    open_index(folder, spec(), OpenOptions(verify="sizes")).close()
    with pytest.raises(IndexDamaged):
        open_index(folder, spec())


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"dim": DIM + 1}, "dim"),
        ({"metric": "l2"}, "metric"),
        ({"encoder": {"encoder_id": "b", "max": [64]}}, "encoder"),
    ],
    ids=["dim", "metric", "encoder"],
)
def test_an_index_of_another_encoder_dimension_or_metric_does_not_open(
    tmp_path: Path, changes: dict[str, Any], param: str
) -> None:
    """It would answer, and wrongly."""
    folder = made(tmp_path / "index")

    with pytest.raises(IndexFault, check=INDEX_MISMATCH.is_of) as fault:
        open_index(folder, spec(**changes))

    assert fault.value.param == param
    open_index(folder, spec(encoder={"max": (64, 512), "encoder_id": "a"})).close()


def test_there_is_one_writer_and_no_second_index_in_a_folder(tmp_path: Path) -> None:
    """Readers are not kept out."""
    folder = made(tmp_path / "index")
    with pytest.raises(IndexFault, match="already", check=INDEX_INPUT_INVALID.is_of):
        create_index(folder, spec())
    writer = open_index(folder, spec(), OpenOptions(write=True))
    with pytest.raises(IndexFault, check=INDEX_BUSY.is_of):
        open_index(folder, spec(), OpenOptions(write=True))
    open_index(folder, spec()).close()
    writer.close()
    open_index(folder, spec(), OpenOptions(write=True)).close()


@pytest.mark.parametrize("kind", ["flat", "ivf-rabitq"])
def test_a_full_disk_leaves_the_old_generation_and_loses_nothing(tmp_path: Path, kind: KindChoice) -> None:
    """Wherever in a commit it fills up; when there is room again, the same commit goes through."""
    folder, disk = made(tmp_path / "index", kind), FailingDisk(1 << 40)
    index = open_index(folder, spec(kind), OpenOptions(write=True, disk=disk))
    before = index.stats()
    more = rows_for(clustered(1_500, seed=3))
    index.add(Rows(ids=more.ids + 100_000, vectors=more.vectors))
    for room in (0, 100, 20_000, 90_000):
        disk.left = room
        with pytest.raises(IndexFault, check=INDEX_NOT_WRITTEN.is_of):
            index.commit()
        reader = open_index(folder, spec(kind))
        assert (reader.stats().rows, reader.stats().generation) == (before.rows, before.generation)
        reader.close()
        assert (index.search(more.vectors[:5], 1).ids[:, 0] > 100_000).all()
    assert len(list((folder / "segments").iterdir())) == 1

    disk.left = 1 << 40
    index.commit()

    assert index.stats().rows == before.rows + 1_500
    index.close()
    open_index(folder, spec(kind)).close()


class FailingRename(Disk):
    """Fails at the last step of a commit: ``late`` after the new manifest is in its place, else before."""

    def __init__(self, *, late: bool) -> None:
        self.late, self.armed = late, False

    def replace(self, path: Path, data: bytes) -> None:
        if not (self.armed and path.name == "manifest.json"):
            super().replace(path, data)
            return
        if self.late:
            super().replace(path, data)
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("late", [False, True])
def test_a_commit_that_fails_at_its_last_step_can_be_made_again(tmp_path: Path, late: bool) -> None:
    """Whether or not the disk holds the new generation already: it is whole, and so is the one after it."""
    folder, disk = made(tmp_path / "index"), FailingRename(late=late)
    index = open_index(folder, spec(), OpenOptions(write=True, disk=disk))
    rows = index.stats().rows
    index.add(Rows(ids=np.array([100_000]), vectors=clustered(1)))
    index.delete(rows_for(clustered(1_200)).ids[-1:])
    disk.armed = True
    for _ in range(2):
        with pytest.raises(IndexFault, check=INDEX_NOT_WRITTEN.is_of):
            index.commit()
        reader = open_index(folder, spec())
        assert (reader.search(clustered(1), 1).ids[0, 0] == 100_000) == late
        reader.close()

    disk.armed = False
    index.commit()
    index.close()

    again = open_index(folder, spec(), OpenOptions(write=True))
    assert again.stats().rows == rows
    assert len(list((folder / "manifests").iterdir())) == 1
    again.close()


def test_a_tail_that_cannot_be_sealed_refuses_the_next_rows(tmp_path: Path) -> None:
    """Memory stays bounded, and what was taken stays."""
    disk, rows = FailingDisk(1 << 40), rows_for(clustered(300))
    index = create_index(tmp_path / "index", spec(), OpenOptions(tail_rows=100, disk=disk))
    index.add(part_of(rows, slice(0, 150)))
    disk.left = 0

    with pytest.raises(IndexFault, check=INDEX_NOT_WRITTEN.is_of):
        index.add(part_of(rows, slice(150, 300)))

    assert index.stats().rows == 150
    disk.left = 1 << 40
    index.add(part_of(rows, slice(150, 300)))
    assert index.commit() == 1
    assert index.stats().rows == 300
    index.close()


@pytest.mark.server
def test_a_limit_of_the_system_on_file_sizes_is_a_failed_write(tmp_path: Path) -> None:
    """The real errno of the real system call, in a process of its own."""
    code = (
        "import resource, signal, sys\n"
        f"sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'tests/data')!r}]\n"
        "from pathlib import Path\n"
        "from index_rows import clustered, rows_for\n"
        "from retrieval.errors import IndexFault\n"
        "from retrieval.index.open import create_index, open_index\n"
        "from retrieval.index.spec import IndexSpec\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))\n"
        "spec = IndexSpec(dim=32, metric='l2')\n"
        "index = create_index(Path(sys.argv[1]), spec)\n"
        "index.add(rows_for(clustered(2_000)))\n"
        "try:\n"
        "    index.commit()\n"
        "except IndexFault as fault:\n"
        "    print('refused:', fault.message)\n"
        "print(open_index(Path(sys.argv[1]), spec).stats().rows, index.stats().rows)\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "index")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    assert "File too large" in done.stdout and done.stdout.split("\n")[1] == "0 2000"


def test_files_of_a_generation_stay_while_it_is_read(tmp_path: Path) -> None:
    """And go with the first commit after its last reader."""
    folder = made(tmp_path / "index")
    reader = open_index(folder, spec())
    writer = open_index(folder, spec(), OpenOptions(write=True))
    old = set((folder / "segments").iterdir())
    writer.add(rows_for(clustered(1_200, seed=5)))
    writer.compact()
    assert old < set((folder / "segments").iterdir())
    assert reader.stats().generation == 2
    assert reader.reload()
    assert not reader.reload()
    writer.delete(np.array([8]))
    writer.commit()

    assert not old & set((folder / "segments").iterdir())
    assert len(list((folder / "manifests").iterdir())) == 2
    reader.close()
    writer.close()


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """Sealed tails, half-written files and manifests that never became current."""
    folder = made(tmp_path / "index")
    (folder / "segments" / "00000009").mkdir()
    (folder / "segments" / "00000009" / "ids.npy").write_bytes(b"half")
    (folder / "deleted" / "00000003-00000001.npy").write_bytes(b"half")
    (folder / "manifests" / "00000003.json").write_bytes(b"half")
    (folder / ".manifest.json.123.tmp").write_bytes(b"half")

    open_index(folder, spec(), OpenOptions(write=True)).close()

    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert not {name for name in names if "9/" in name or "3-" in name or "3.json" in name or "tmp" in name}
    open_index(folder, spec()).close()


def test_a_lock_is_lost_by_closing_and_shared_among_readers(tmp_path: Path) -> None:
    """Many readers, or one writer."""
    path = tmp_path / "file"
    path.write_bytes(b"content")
    one, two = FileLock(path, shared=True), FileLock(path, shared=True)
    with pytest.raises(BlockingIOError):
        FileLock(path)
    one.close()
    two.close()
    FileLock(path).close()


@pytest.mark.server
def test_kills_at_random_moments_lose_and_mix_nothing(tmp_path: Path) -> None:
    """A few of the thousand that scripts/crash_index.py makes."""
    tally = run(Plan(trials=6, ids=200, seed=1), tmp_path)

    assert tally.trials == 6
    assert not tally.faults


def test_an_earlier_view_spares_reading_what_did_not_change(tmp_path: Path) -> None:
    """Segments that it has are taken as they are; those of another index in the folder's place are read."""
    folder = made(tmp_path / "index")
    first = open_index(folder, spec())
    view = first.view
    first.close()
    again = open_index(folder, spec(), None, view)
    assert [id(live.segment) for live in again.view.segments] == [id(live.segment) for live in view.segments]
    again.close()

    shutil.rmtree(folder)
    made(folder, rows=900)
    other = open_index(folder, spec(), None, view)
    assert not {id(live.segment) for live in other.view.segments} & {id(live.segment) for live in view.segments}
    assert other.search(clustered(900)[:1], 1).scores[0, 0] > 0.99
    other.close()

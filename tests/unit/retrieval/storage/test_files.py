"""Private files have their mode from the start, whatever the umask, and earlier ones are closed to others."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from retrieval.ncbi.client.cache import ReplyCache
from retrieval.storage.files import (
    Disk,
    FileLock,
    build_lock,
    close_to_others,
    create_draft,
    create_file,
    make_folder,
    private_umask,
)
from retrieval.types import RawReply


@pytest.fixture(autouse=True, params=[0o022, 0o000])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_all_folders_on_the_way_are_the_owners_alone(tmp_path: Path) -> None:
    """Not only the last one, as ``mkdir`` with a mode would; existing ones stay as they are."""
    (tmp_path / "there").mkdir(mode=0o755)
    before = _mode(tmp_path / "there")
    make_folder(tmp_path / "there" / "a" / "b")
    make_folder(tmp_path / "there" / "a" / "b")

    assert (before, _mode(tmp_path / "there")) == (before, before)
    assert [_mode(tmp_path / "there" / name) for name in ("a", "a/b")] == [0o700, 0o700]
    with pytest.raises(OSError, match="File exists"):
        create_file(tmp_path / "file")
        make_folder(tmp_path / "file")


async def test_files_of_the_storage_layer_are_the_owners_alone(tmp_path: Path) -> None:
    """Files, locks, drafts; a database with its journal, which SQLite makes after the file."""
    folder = tmp_path / "data"
    make_folder(folder)
    Disk().replace(folder / "file", b"x")
    FileLock(folder / "lock").close()
    with build_lock(folder / "target", 0.0):
        create_draft(folder / "target")
    cache = ReplyCache(folder / "replies" / "ncbi.sqlite")
    await cache.put("key", RawReply(200, "", "body", 4), max_age_s=60)
    found = {path.name: _mode(path) for path in folder.rglob("*")}
    await cache.close()

    assert {name for name in found if name.startswith("ncbi")} >= {"ncbi.sqlite", "ncbi.sqlite-wal"}
    assert [name for name, mode in found.items() if mode & 0o077] == []


def test_what_libraries_create_by_name_follows_the_umask_of_the_command(tmp_path: Path) -> None:
    """Within the block; after it the shell's umask is back."""
    before = os.umask(0o022)
    os.umask(before)
    with private_umask(), closing(sqlite3.connect(tmp_path / "db")) as db:
        db.execute("CREATE TABLE t (x)")
    assert _mode(tmp_path / "db") == 0o600
    assert os.umask(before) == before


def test_earlier_data_is_closed_without_following_links(tmp_path: Path) -> None:
    """All of a tree; the owner's rights stay; what a link leads to, and a folder that all share, stay as they are."""
    root, outside, shared = tmp_path / "root", tmp_path / "outside", tmp_path / "shared"
    for folder in (root, root / "deep", outside, shared):
        folder.mkdir()
        folder.chmod(0o755)
        (folder / "file").write_text("x")
        (folder / "file").chmod(0o644)
    shared.chmod(0o1777)
    (root / "run").write_text("#!")
    (root / "run").chmod(0o755)
    (root / "link").symlink_to(outside)

    assert close_to_others(root) == 5
    assert [_mode(root / name) for name in ("", "deep", "file", "deep/file", "run")] == [
        0o700, 0o700, 0o600, 0o600, 0o700,
    ]  # fmt: skip
    assert (_mode(outside), _mode(outside / "file")) == (0o755, 0o644)
    assert close_to_others(shared) == 0 and _mode(shared / "file") == 0o644
    assert close_to_others(tmp_path / "absent") == 0

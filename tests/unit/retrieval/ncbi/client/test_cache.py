"""The cache of replies: age, size, damage, two processes."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import sys
from pathlib import Path

import pytest

from retrieval.ncbi.client.cache import ReplyCache
from retrieval.types import RawReply

REPLY = RawReply(200, "application/json", '{"α": 1}', 9)


async def test_a_reply_survives_a_restart(tmp_path: Path) -> None:
    """A second cache on the file of a closed one has its replies, and says that they come from the cache."""
    first = ReplyCache(tmp_path / "sub" / "c.sqlite")
    await first.put("k", REPLY, max_age_s=60)
    await first.close()
    second = ReplyCache(tmp_path / "sub" / "c.sqlite")
    found = await second.get("k")
    await second.close()

    assert found is not None
    assert (found.body, found.status, found.num_bytes, found.from_cache) == (REPLY.body, 200, 9, True)


async def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    """Building a cache touches no file; closing an unused one does not either."""
    await ReplyCache(tmp_path / "c.sqlite").close()

    assert not await asyncio.to_thread(lambda: list(tmp_path.iterdir()))


async def test_an_old_reply_is_gone(tmp_path: Path) -> None:
    """Past its age a reply is not given any more."""
    time_now = [1000.0]
    cache = ReplyCache(tmp_path / "c.sqlite", now=lambda: time_now[0])
    await cache.put("k", REPLY, max_age_s=60)
    time_now[0] += 59
    young = await cache.get("k")
    time_now[0] += 2
    old = await cache.get("k")
    await cache.close()

    assert young is not None and old is None


async def test_the_size_is_bounded_and_the_least_used_goes_first(tmp_path: Path) -> None:
    """Beyond its bound the cache drops what was used longest ago and keeps what was used last."""
    time_now = [0.0]
    cache = ReplyCache(tmp_path / "c.sqlite", max_bytes=20_000, now=lambda: time_now[0])
    noise = [random.Random(number).randbytes(1000).hex() for number in range(40)]
    for number, body in enumerate(noise):
        time_now[0] += 5000
        await cache.put(str(number), RawReply(200, "", body, len(body)), max_age_s=1e9)
        await cache.get("0")
    kept = [number for number in range(len(noise)) if await cache.get(str(number)) is not None]
    await cache.close()
    (size,) = sqlite3.connect(tmp_path / "c.sqlite").execute("SELECT SUM(LENGTH(body)) FROM replies").fetchone()

    assert 10_000 < size <= 20_000
    assert 0 in kept and len(noise) - 1 in kept and 1 not in kept


async def test_a_damaged_file_costs_no_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With garbage for a file the cache finds nothing, keeps nothing, and says so once."""
    (tmp_path / "c.sqlite").write_bytes(b"no database at all" * 100)
    cache = ReplyCache(tmp_path / "c.sqlite")
    await cache.put("k", REPLY, max_age_s=60)
    found = await cache.get("k")
    await cache.close()

    assert found is None
    assert caplog.text.count("not usable") == 1


WRITER = """
import asyncio, sys
from pathlib import Path
from retrieval.ncbi.client.cache import ReplyCache
from retrieval.types import RawReply

async def main(path, name):
    cache = ReplyCache(Path(path))
    for i in range(60):
        await cache.put(f"{name}{i}", RawReply(200, "", name * 500, 500), max_age_s=600)
        await cache.get(f"{name}{i}")
    await cache.close()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.server
async def test_two_processes_share_one_file(tmp_path: Path) -> None:
    """Two processes write at once; a third reader finds every reply of both."""
    path, root = tmp_path / "c.sqlite", Path(__file__).parents[5]
    writers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, str(path), name, cwd=root, stderr=asyncio.subprocess.PIPE
        )
        for name in "ab"
    ]
    errors = [(await writer.communicate())[1] for writer in writers]
    cache = ReplyCache(path)
    found = [await cache.get(f"{name}{i}") for name in "ab" for i in range(60)]
    await cache.close()

    assert errors == [b"", b""]
    assert None not in found


async def test_the_event_loop_runs_while_the_database_is_locked(tmp_path: Path) -> None:
    """Another process holding the write lock delays a put, not the loop."""
    cache = ReplyCache(tmp_path / "c.sqlite")
    await cache.put("k", REPLY, max_age_s=60)
    other = sqlite3.connect(tmp_path / "c.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    put = asyncio.create_task(cache.put("k2", REPLY, max_age_s=60))
    for _ in range(10):
        await asyncio.sleep(0.01)
    still_waiting = not put.done()
    other.execute("COMMIT")
    other.close()
    await put
    found = await cache.get("k2")
    await cache.close()

    assert still_waiting and found is not None

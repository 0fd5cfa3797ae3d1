"""Work in a thread that outlives its caller, and not the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from server.daemon_thread import run_in_daemon_thread


async def test_result_and_error_come_back() -> None:
    assert await run_in_daemon_thread(lambda: threading.current_thread().name, "work") == "work"
    with pytest.raises(ZeroDivisionError):
        await run_in_daemon_thread(lambda: 1 // 0, "work")


async def test_a_caller_that_is_cancelled_leaves_it_to_its_end() -> None:
    go, ended = threading.Event(), threading.Event()

    def work() -> None:
        go.wait(60)
        ended.set()

    caller = asyncio.create_task(run_in_daemon_thread(work, "work"))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    assert caller.cancelled() and not ended.is_set()
    go.set()
    assert await asyncio.to_thread(ended.wait, 60)


@pytest.mark.server
def test_a_process_ends_before_it() -> None:
    program = """
import asyncio, time
from server.daemon_thread import run_in_daemon_thread
async def main():
    asyncio.create_task(run_in_daemon_thread(lambda: time.sleep(600), "work"))
    await asyncio.sleep(0.1)
asyncio.run(main())
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True).stderr == b""

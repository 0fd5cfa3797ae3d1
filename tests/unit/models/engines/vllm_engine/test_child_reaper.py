"""No engine process outlives a server that was killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the guard reads /proc")

# A server whose "engine" has a worker of its own; the engine ignores SIGTERM, as a busy one may.
SERVER = """
import multiprocessing, signal, sys, time
from models.engines.vllm_engine.child_reaper import ProcessReaper
def worker():
    time.sleep(600)
def engine(pipe):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = multiprocessing.get_context("fork").Process(target=worker)
    child.start()
    pipe.send(child.pid)
    child.join()
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    guard = ProcessReaper()
    child = context.Process(target=engine, args=(theirs,))
    child.start()
    guard.watch()
    print(child.pid, ours.recv(), guard._helper.pid, flush=True)
    order = sys.stdin.readline().strip()
    if order == "release":
        guard.release()
        print("released", flush=True)
        time.sleep(600)
    time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def until(condition: Callable[[], bool]) -> bool:
    """Whether the condition comes true; a minute is far more than it takes."""
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


@pytest.fixture
def server() -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    root = Path(__file__).parents[5]
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert process.stdout is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    yield process, pids
    process.kill()
    # The children hold the pipe too: reading it to its end before they are gone would wait for them.
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.server
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_server_takes_its_engine_and_the_engines_workers_with_it(
    server: tuple[subprocess.Popen[str], list[int]], number: int
) -> None:
    """Also one that ignores SIGTERM; then the guard itself ends."""
    process, pids = server
    assert all(map(is_alive, pids))
    process.send_signal(number)
    process.wait()

    assert until(lambda: not any(map(is_alive, pids)))


@pytest.mark.server
def test_a_released_guard_ends_and_leaves_the_processes_alone(server: tuple[subprocess.Popen[str], list[int]]) -> None:
    """After an orderly end the guard has nothing to do, whatever becomes of the ids."""
    process, (engine, worker, helper) = server
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("release\n")
    process.stdin.flush()

    assert process.stdout.readline() == "released\n"
    assert until(lambda: not is_alive(helper))
    assert is_alive(engine) and is_alive(worker)

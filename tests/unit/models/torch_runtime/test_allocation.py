"""What a process keeps beside what it uses has a bound, and the owner's own variables win."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from models.torch_runtime.allocation import limit_kept_memory

# glibc writes a paragraph for each arena to stderr.
THREADS = """
import ctypes, threading
from models.torch_runtime.allocation import limit_kept_memory

limit_kept_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
barrier = threading.Barrier(8)

def allocate():
    barrier.wait()
    libc.malloc(1000)
    barrier.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
[one.start() for one in threads]
[one.join() for one in threads]
libc.malloc_stats()
"""


@pytest.mark.server
@pytest.mark.parametrize(("given", "most"), [({}, 2), ({"MALLOC_ARENA_MAX": "4"}, 4)])
def test_threads_share_arenas(given: dict[str, str], most: int) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    command = [sys.executable, "-c", THREADS]
    ended = subprocess.run(command, env=environ | given, timeout=60, check=True, stderr=subprocess.PIPE, text=True)
    assert ended.stderr.count("Arena ") == most


def test_compiled_kernels_are_bounded_unless_their_owner_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "")
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY")
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "7")
    limit_kept_memory()
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "64"
    assert os.environ["LRU_CACHE_CAPACITY"] == "7"

"""A thread that ends with its call."""

from __future__ import annotations

import contextvars
import gc
import subprocess
import sys
import threading
import weakref

import pytest

from models.own_thread import in_own_thread


def test_what_is_computed_comes_back() -> None:
    """From another thread, that is gone then."""
    inside = in_own_thread(threading.current_thread)
    assert inside is not threading.current_thread()
    assert not inside.is_alive()


def test_an_error_is_the_callers() -> None:
    """The same object, and nothing keeps it or its frames alive afterwards."""

    class Fault(Exception):
        pass

    def fail() -> None:
        raise Fault("no")

    with pytest.raises(Fault, match="no") as raised:
        in_own_thread(fail)
    kept = weakref.ref(raised.value)
    del raised
    gc.collect()
    assert kept() is None


def test_context_variables_are_seen() -> None:
    """A request's id and its counts go along."""
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")
    name.set("here")
    assert in_own_thread(name.get) == "here"


def test_openmps_helpers_end_with_it() -> None:
    """Otherwise every thread that ever computed would keep as many helpers as there are cores."""
    program = """
import os, time, torch
from models.own_thread import in_own_thread
torch.set_num_threads(2)
a = torch.randn(600, 600)
def tasks(): return len(os.listdir("/proc/self/task"))
in_own_thread(lambda: a @ a)
before = tasks()
inside = [in_own_thread(lambda: ((a @ a), tasks())[1]) for _ in range(20)]
assert max(inside) > before, (before, inside)
end = time.monotonic() + 20
while tasks() != before:  # the system takes a moment to bury them
    assert time.monotonic() < end, (before, tasks())
    time.sleep(0.01)
"""
    if sys.platform != "linux":
        pytest.skip("threads are counted in /proc")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr

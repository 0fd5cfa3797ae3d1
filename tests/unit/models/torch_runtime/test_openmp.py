"""A thread that ends with its call, and helpers that do not wait long."""

from __future__ import annotations

import contextvars
import gc
import os
import subprocess
import sys
import threading
import weakref

import pytest

from models.torch_runtime.openmp import limit_spin_count, run_in_new_thread


@pytest.mark.parametrize(
    ("given", "spins"), [({}, "20000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)]
)
def test_helpers_limit_spin_count_unless_their_owner_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], spins: str | None
) -> None:
    """OpenMP's own variables win."""
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        # Set first, so that what the call sets is taken back at the end too.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    limit_spin_count()
    assert os.environ.get("GOMP_SPINCOUNT") == spins


@pytest.mark.parametrize(("given", "timeout"), [({}, "14"), ({"OPENBLAS_THREAD_TIMEOUT": "20"}, "20")])
def test_the_helpers_of_numpy_sleep_soon_as_well(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], timeout: str
) -> None:
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "")
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT")
    monkeypatch.setenv("GOMP_SPINCOUNT", "20000")
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    limit_spin_count()
    assert os.environ["OPENBLAS_THREAD_TIMEOUT"] == timeout


@pytest.mark.server
def test_the_command_line_sets_it_before_numpy_is_loaded() -> None:
    """OpenBLAS reads it when it is loaded."""
    program = "import sys; import server.cli.main; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0


@pytest.mark.server
def test_openmp_reads_it() -> None:
    """GNU's OpenMP tells what it took when it is loaded. vLLM's CPU build has later children load it at their start."""
    program = """
from models.torch_runtime.openmp import limit_spin_count
limit_spin_count()
import torch
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith(("GOMP_", "OMP_", "LD_PRELOAD"))}
        | {"OMP_DISPLAY_ENV": "verbose"},
    )
    if "GOMP_SPINCOUNT" not in done.stderr:
        pytest.skip("this torch brings another OpenMP")
    assert "GOMP_SPINCOUNT = '20000'" in done.stderr


def test_what_is_computed_comes_back() -> None:
    """From another thread, that is gone then."""
    inside = run_in_new_thread(threading.current_thread)
    assert inside is not threading.current_thread()
    assert not inside.is_alive()


def test_an_error_is_the_callers() -> None:
    """The same object, and nothing keeps it or its frames alive afterwards."""

    class Fault(Exception):
        pass

    def fail() -> None:
        raise Fault("no")

    with pytest.raises(Fault, match="no") as raised:
        run_in_new_thread(fail)
    kept = weakref.ref(raised.value)
    del raised
    gc.collect()
    assert kept() is None


def test_context_variables_are_seen() -> None:
    """A request's id and its counts go along."""
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")
    name.set("here")
    assert run_in_new_thread(name.get) == "here"


@pytest.mark.server
def test_openmps_helpers_end_with_it() -> None:
    """Otherwise every thread that ever computed would keep as many helpers as there are cores."""
    program = """
import os, time, torch
from models.torch_runtime.openmp import run_in_new_thread
torch.set_num_threads(2)
a = torch.randn(600, 600)
def tasks(): return set(os.listdir("/proc/self/task"))
run_in_new_thread(lambda: a @ a)
before = tasks()
inside = [run_in_new_thread(lambda: ((a @ a), tasks())[1]) for _ in range(20)]
assert all(len(seen - before) >= 2 for seen in inside), (before, inside)
helpers = set.union(*inside) - before
end = time.monotonic() + 20
while helpers & tasks():  # the system takes a moment to bury them
    assert time.monotonic() < end, helpers & tasks()
    time.sleep(0.01)
"""
    if sys.platform != "linux":
        pytest.skip("threads are counted in /proc")
    # A product of matrices takes no more threads than this variable says.
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr

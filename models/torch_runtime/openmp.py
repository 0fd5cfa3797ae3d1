"""Control OpenMP's helper threads in a process that runs torch on the CPU: how many live, and how long they spin.

Every thread that computes with torch on the CPU gets its own OpenMP helper threads, which live as long as the thread.
As soon as a process has more helpers than cores, OpenMP puts them to sleep after every parallel region instead of
letting them spin until the next: a decode step then takes almost twice as long, even while no other thread computes.
So the engine's thread is the only permanent one that computes; the others are short-lived.

A helper spins for up to 300,000 iterations before it sleeps: on cores that other programs use too, it then burns the
time in which the thread that it waits for could have run. The helpers of numpy's OpenBLAS spin for 2^26 cycles, some
30 ms, after every product that is large enough for them, and so hold up torch and faiss in the same process.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

_T = TypeVar("_T")
# Long enough for the pause between two layers, short enough not to slow other programs.
_SPINS: Final = "20000"
_DEFAULT_SPINS: Final = "300000"
# OpenBLAS spins for 2 to this power, in cycles; 26 where nothing is set.
_BLAS_TIMEOUT: Final = "14"


def limit_spin_count() -> None:
    """Shorten the time that the helper threads of GNU OpenMP and of OpenBLAS spin before they sleep.

    torch and faiss bring GNU OpenMP and numpy brings OpenBLAS, which read their environment when they are loaded: call
    this before the first import of any. Variables that are set already (``OMP_WAIT_POLICY``, ``GOMP_SPINCOUNT``,
    ``OPENBLAS_THREAD_TIMEOUT``) win.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", _BLAS_TIMEOUT)
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)


def default_spin_count(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that undo ``limit_spin_count`` for a process that computes alone.

    Values that were not set by ``limit_spin_count`` stay as they are.
    """
    return {"GOMP_SPINCOUNT": _DEFAULT_SPINS} if environ.get("GOMP_SPINCOUNT") == _SPINS else {}


def run_in_new_thread(call: Callable[[], _T]) -> _T:
    """Run ``call`` in a thread of its own and return its result or raise its error.

    Blocks until ``call`` has ended.
    """
    context = contextvars.copy_context()
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(context.run(call))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="arrowhead-compute", daemon=True)
    thread.start()
    thread.join()
    if errors:
        try:
            raise errors[0]
        finally:
            errors.clear()  # the error's traceback holds this frame
    return results[0]

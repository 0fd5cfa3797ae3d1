"""What a process with torch on the processor must know of OpenMP: whose helpers live, and how long they wait awake.

Every thread that has torch compute on the processor gets helpers of its own from OpenMP, and keeps them while it lives.
Once all of a process's helpers together are more than its cores, OpenMP lets them sleep at every turn instead of
waiting for the next: a decode step then takes almost twice as long, also while nobody else computes
(docs/benchmarks.md). So the engine's thread is the only lasting one that computes; others come and go.

A helper that waits awake waits for up to 300,000 turns of a loop before it sleeps: on cores that other programs use too
it then burns the time in which the thread that it waits for could have run.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

_T = TypeVar("_T")
# Long enough for the pause between two layers, short enough not to matter to a neighbour (docs/benchmarks.md).
_SPINS: Final = "20000"
_USUAL_SPINS: Final = "300000"


def wait_briefly() -> None:
    """Of GNU's OpenMP, which torch and faiss bring. It reads its environment when it is loaded, so this comes before
    the first import of either. Whoever has set one of the two variables is left alone."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)


def usual_wait(environ: Mapping[str, str]) -> dict[str, str]:
    """For a process that computes alone: takes ``wait_briefly`` back, and nothing that somebody else has set."""
    return {"GOMP_SPINCOUNT": _USUAL_SPINS} if environ.get("GOMP_SPINCOUNT") == _SPINS else {}


def in_own_thread(call: Callable[[], _T]) -> _T:
    """Blocks until ``call`` has ended; returns what it returns and raises what it raises."""
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

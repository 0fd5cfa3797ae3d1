"""A thread that ends with what it computed, and takes its OpenMP threads with it.

Every thread that has torch compute on the processor gets helpers of its own from OpenMP, and keeps them while it lives.
Once all of a process's helpers together are more than its cores, OpenMP lets them sleep at every turn instead of
waiting for the next: a decode step then takes almost twice as long, also while nobody else computes
(docs/benchmarks.md). So the engine's thread is the only lasting one that computes; others come and go.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


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

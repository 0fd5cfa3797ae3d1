"""The lock that is handed on in turn."""

from __future__ import annotations

import threading

from models.encoders.transformers_encoder.loading import FifoLock


def test_a_waiting_thread_goes_before_one_that_asks_again() -> None:
    """A loop that lets go and takes the lock again cannot keep others out."""
    lock, order = FifoLock(), list[str]()
    waiting, inside = threading.Event(), threading.Event()

    def query() -> None:
        inside.wait()
        waiting.set()
        with lock:
            order.append("query")

    thread = threading.Thread(target=query)
    thread.start()
    with lock:
        inside.set()
        waiting.wait()
        # Until the other thread stands at the door, which it then holds.
        while not lock._entry_lock.locked():
            threading.Event().wait(0.001)
    for _ in range(3):
        with lock:
            order.append("bulk")
    thread.join()

    assert order == ["query", "bulk", "bulk", "bulk"]


def test_an_error_inside_lets_go() -> None:
    """The next one can enter."""
    lock = FifoLock()
    try:
        with lock:
            raise ValueError
    except ValueError:
        pass

    with lock:
        pass

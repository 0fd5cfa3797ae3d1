"""Run decode steps on one thread, the only one that runs the model.

Accepts requests from any thread and delivers the outputs.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from models.engines.batch_decode import BatchDecoder, Output
from models.engines.running import RunningSequence
from models.errors import EngineUnavailable
from models.types import EngineStats

log = logging.getLogger(__name__)

# A single failed step can be a request that ran out of memory; several in a row are a failed engine.
_MAX_FAILURES = 3


class DecodeWorker:
    """Run a ``BatchDecoder`` on a thread of its own.

    ``deliver`` is called on that thread with the outputs of each step, in order.
    """

    def __init__(self, decoder: BatchDecoder, deliver: Callable[[list[Output]], None]) -> None:
        self._decoder = decoder
        self._deliver = deliver
        self._inbox: deque[RunningSequence | str] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._closed = False
        self._failures = 0
        self._stats = EngineStats()
        self._thread = threading.Thread(target=self._run, name="arrowhead-decode", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, blocking until the step in progress is over."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self._stopping

    def submit(self, sequence: RunningSequence) -> None:
        """Queue a sequence.

        Raises:
            EngineUnavailable: the worker has ended, so the sequence would never finish.
        """
        if not self._post(sequence):
            raise EngineUnavailable("the engine was stopped")

    def abort(self, request_id: str) -> None:
        self._post(request_id)

    def stats(self) -> EngineStats:
        arriving = sum(isinstance(item, RunningSequence) for item in self._inbox.copy())
        return replace(self._stats, waiting=self._stats.waiting + arriving)

    def _post(self, item: RunningSequence | str) -> bool:
        with self._wake:
            if self._closed:
                return False
            self._inbox.append(item)
            self._wake.notify()
            return True

    def _run(self) -> None:
        try:
            self._serve()
        except Exception:  # unexpected outside a step: fail all requests, or they would wait for ever
            log.exception("decode worker died")
        with self._wake:
            self._closed = True
        outputs = self._drain() + self._decoder.fail_all(EngineUnavailable("the engine was stopped"))
        self._stats = self._decoder.stats()
        self._deliver(outputs)

    def _serve(self) -> None:
        while self._wait_for_work():
            outputs = self._drain() + self._step()
            self._stats = self._decoder.stats()
            if outputs:
                self._deliver(outputs)

    def _wait_for_work(self) -> bool:
        with self._wake:
            while not (self._stopping or self._inbox or self._decoder.has_work):
                self._wake.wait()
        return not self._stopping

    def _drain(self) -> list[Output]:
        outputs: list[Output] = []
        with self._wake:
            items = list(self._inbox)
            self._inbox.clear()
        for item in items:
            if isinstance(item, RunningSequence):
                self._decoder.add(item)
            else:
                outputs += self._decoder.abort(item)
        return outputs

    def _step(self) -> list[Output]:
        if not self._decoder.has_work:
            return []
        try:
            outputs = self._decoder.step()
        except Exception as error:  # whatever torch raises, end the requests and keep the server running
            self._failures += 1
            log.exception("decode step failed failures=%d", self._failures)
            with self._wake:
                self._stopping = self._stopping or self._failures >= _MAX_FAILURES
            return self._decoder.fail_all(EngineUnavailable(f"the decode step failed: {type(error).__name__}"))
        self._failures = 0
        return outputs

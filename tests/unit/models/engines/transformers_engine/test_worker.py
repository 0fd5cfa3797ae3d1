"""The thread that decodes, when it breaks where nothing is expected to break."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from models.engines.transformers_engine.continuous_batching import BatchDecoder, Output
from models.engines.transformers_engine.engine import DecodeWorker
from models.engines.transformers_engine.sequences import RunningSequence
from models.errors import EngineUnavailable
from models.types import EngineStats, GenerateParams


class _Broken:
    """A decoder that cannot take a request in, and has one open already."""

    has_work = False

    def add(self, sequence: RunningSequence) -> None:
        raise MemoryError

    def fail_all(self, error: Any) -> list[Output]:
        return [Output("open", error)]

    def stats(self) -> EngineStats:
        return EngineStats()


def test_a_worker_that_dies_ends_its_requests(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for a dead thread: open requests get an error, later ones are refused, and it counts as dead."""
    delivered: list[Output] = []
    ended = threading.Event()

    def deliver(outputs: list[Output]) -> None:
        delivered.extend(outputs)
        ended.set()

    worker = DecodeWorker(cast(BatchDecoder, _Broken()), deliver)
    worker.start()
    sequence = RunningSequence("new", [1], GenerateParams(max_tokens=1), seed="", max_tokens=1)
    worker.submit(sequence)
    assert ended.wait(120)
    worker.stop()

    assert [type(output.result) for output in delivered] == [EngineUnavailable]
    assert not worker.is_alive()
    with pytest.raises(EngineUnavailable):
        worker.submit(sequence)
    assert "decode worker died" in caplog.text

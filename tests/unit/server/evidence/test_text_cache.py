"""What is computed of texts, as vectors of statements: once, within a bound, shared by questions at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from models.encoders.base import Floats, PassageText
from models.encoders.hashing import HashingEncoder
from server.evidence.graph import StatementVectors

ENCODER = HashingEncoder(dim=32)
# Of one kept vector of 32 dimensions.
ENTRY = 2 * 32 + 320


class Bench:
    """``batches``: what was encoded; the gate can hold it back or break it."""

    def __init__(self, **options: Any) -> None:
        self.batches: list[list[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fault: Exception | None = None
        self.vectors = StatementVectors(ENCODER.fingerprint.as_dict(), self._encode, **options)

    async def _encode(self, texts: Sequence[str]) -> Floats:
        self.batches.append(list(texts))
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return ENCODER.encode_passages([PassageText("", text) for text in texts])

    @property
    def encoded(self) -> list[str]:
        return [text for batch in self.batches for text in batch]


async def test_a_statement_is_encoded_once() -> None:
    """Also where it comes twice in one question; the vectors are the encoder's, to float16."""
    bench = Bench()
    first = await bench.vectors.of(["a treats b", "c treats d", "a treats b"])
    again = await bench.vectors.of(["e treats f", "a treats b"])
    assert bench.encoded == ["a treats b", "c treats d", "e treats f"]
    assert first.dtype == np.float32 and np.array_equal(first[0], first[2]) and np.array_equal(again[1], first[0])
    exact = ENCODER.encode_passages([PassageText("", "a treats b")])
    assert np.array_equal(first[:1], exact.astype(np.float16).astype(np.float32))


async def test_questions_at_once_share_what_is_under_way() -> None:
    """Each encodes only what no other has begun."""
    bench = Bench()
    bench.gate.clear()
    one = asyncio.create_task(bench.vectors.of(["a", "b"]))
    two = asyncio.create_task(bench.vectors.of(["b", "c"]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    bench.gate.set()
    found = await asyncio.gather(one, two)
    assert bench.encoded == ["a", "b", "c"]
    assert np.array_equal(found[0][1], found[1][0])


async def test_who_goes_away_takes_nothing_from_who_waits() -> None:
    """The first asker is cancelled, the second still gets its vectors."""
    bench = Bench()
    bench.gate.clear()
    one = asyncio.create_task(bench.vectors.of(["a"]))
    await asyncio.sleep(0)
    two = asyncio.create_task(bench.vectors.of(["a"]))
    await asyncio.sleep(0)
    one.cancel()
    await asyncio.wait([one])
    bench.gate.set()
    assert (await two).shape == (1, 32) and bench.encoded == ["a"]


async def test_a_failure_is_everyones_and_not_kept() -> None:
    """The next question tries again."""
    bench = Bench()
    bench.fault = RuntimeError("no encoder")
    found = await asyncio.gather(*(bench.vectors.of(["a"]) for _ in range(2)), return_exceptions=True)
    assert [str(fault) for fault in found] == ["no encoder"] * 2
    bench.fault = None
    assert (await bench.vectors.of(["a"])).shape == (1, 32)
    assert len(bench.vectors) == 1


async def test_the_least_used_goes_first_when_the_bound_is_reached() -> None:
    """Bytes are counted, not statements."""
    bench = Bench(max_bytes=2 * ENTRY)
    await bench.vectors.of(["a", "b"])
    await bench.vectors.of(["a"])
    await bench.vectors.of(["c"])
    assert (len(bench.vectors), bench.vectors.num_bytes) == (2, 2 * ENTRY)
    await bench.vectors.of(["a"])
    await bench.vectors.of(["b"])
    assert bench.encoded == ["a", "b", "c", "b"]


@pytest.mark.parametrize("max_bytes", [0, ENTRY, 10**6])
async def test_more_statements_than_are_kept_are_all_answered(max_bytes: int) -> None:
    """In batches; the order is the question's."""
    bench = Bench(max_bytes=max_bytes)
    texts = [f"statement {number}" for number in range(300)]
    found = await bench.vectors.of(texts)
    exact = ENCODER.encode_passages([PassageText("", text) for text in texts])
    assert np.allclose(found, exact, atol=1e-3)
    assert max(map(len, bench.batches)) <= 128 and bench.vectors.num_bytes <= max_bytes


async def test_another_encoders_vectors_are_never_given() -> None:
    """The fingerprint is part of the key."""
    other = HashingEncoder(dim=64).fingerprint.as_dict()
    one, two = Bench().vectors, StatementVectors(other, Bench()._encode)
    assert one._key("a") != two._key("a")

"""A replica that would answer wrongly is refused at the start, with what to do about it."""

from __future__ import annotations

import pytest

from models.errors import EngineUnavailable
from models.types import GenerateParams

from .conftest import Connect, Start

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ({"model": "another"}, r"it serves another and not tiny: name the served model with model\.served_name"),
        ({"token_shift": 1}, r"its tokenizer is another one: .* \(model\.name\)"),
        ({"vocabulary": 300}, r"it does not take token id \d+: Token id \d+ is out of vocabulary"),
        ({"has_route": False}, r"its token-in, token-out route is off: start it with: .*--enable-scale-out"),
        ({"counts_cached": False}, r"it does not count cached tokens: start it with: .*--enable-prompt-tokens-details"),
        ({"key": "sesame"}, r"it refuses the key: set model\.api_key"),
    ],
)
async def test_a_replica_that_does_not_fit_is_refused(
    start: Start, connect: Connect, behaviour: dict[str, object], message: str
) -> None:
    """By its address and the reason."""
    bad = await start(**behaviour)
    with pytest.raises(EngineUnavailable, match=f"^model.url: {bad.url}: {message}"):
        await connect(bad)


async def test_a_router_without_tokenize_is_taken(
    start: Start, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """The comparison is left out, which the log says."""
    engine = await connect(await start(has_tokenize=False))
    assert engine.is_ready()
    assert "tokenizer not compared" in caplog.text


async def test_priorities_are_sent_to_those_that_schedule_by_them(start: Start, connect: Connect) -> None:
    """Others refuse each request that has one."""
    for has_priorities, sent in ((True, -3), (False, None)):
        replica = await start(has_priorities=has_priorities)
        engine = await connect(replica)
        assert [d async for d in engine.generate([5], GenerateParams(max_tokens=1, priority=3), "r")]
        assert replica.seen[-1].get("priority") == sent


async def test_a_start_without_any_replica_ends(start: Start, connect: Connect) -> None:
    replica = await start()
    await replica.stop()
    with pytest.raises(EngineUnavailable, match=f"^model.url: {replica.url} does not answer after 0.3 s: ConnectError"):
        await connect(replica, start_s=0.3)

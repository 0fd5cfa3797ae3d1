"""The slot of the one engine: what runs before the first request."""

from __future__ import annotations

from models.catalog import ModelCard
from models.engines.base import Engine
from models.engines.options import EngineOptions
from models.engines.scripted_engine import Rule, ScriptedEngine
from models.errors import ContextTooLong
from server.engine_slot import EngineSlot

CARD = ModelCard(name="scripted", source=".")


def _slot() -> EngineSlot:
    return EngineSlot(CARD, lambda: ScriptedEngine(CARD, EngineOptions(), [Rule("", "hi")]))


async def test_a_warm_up_runs_before_the_engine_is_ready() -> None:
    """It gets the loaded engine, while requests are still refused."""
    seen: list[str] = []

    async def warm_up(engine: Engine) -> None:
        seen.append(f"{engine.name} {slot.state}")

    slot = _slot()
    slot.when_loaded(warm_up)
    await slot.load()

    assert seen == [f"{slot.get().name} loading"]


async def test_a_warm_up_that_fails_does_not_stop_the_server() -> None:
    """A slow first answer is better than none."""

    async def warm_up(_: Engine) -> None:
        raise ContextTooLong("no room")

    slot = _slot()
    slot.when_loaded(warm_up)
    await slot.load()

    assert slot.state == "ready"

"""The slot of the one engine: what runs before the first request, and what comes after an engine's death."""

from __future__ import annotations

import asyncio

import pytest
from waiting import until

from models.card import ModelCard
from models.engines.base import Engine, EngineOptions, ExplainsFailure
from models.engines.scripted_engine import Rule, ScriptedEngine
from models.errors import CONTEXT_TOO_LONG, EngineUnavailable, ModelError
from server.engine.lifecycle import EngineLifecycle, RestartPolicy
from server.error_mapping import error_reply

CARD = ModelCard(name="scripted", source=".")


def _lifecycle() -> EngineLifecycle:
    return EngineLifecycle(CARD, lambda: ScriptedEngine(CARD, EngineOptions(), [Rule("", "hi")]))


async def test_a_warm_up_runs_before_the_engine_is_ready() -> None:
    """It gets the loaded engine, while requests are still refused."""
    seen: list[str] = []

    async def warm_up(engine: Engine) -> None:
        seen.append(f"{engine.name} {lifecycle.state}")

    lifecycle = _lifecycle()
    lifecycle.when_loaded(warm_up)
    await lifecycle.load()

    assert seen == [f"{lifecycle.get().name} loading"]


async def test_a_warm_up_that_fails_does_not_stop_the_server() -> None:
    """A slow first answer is better than none."""

    async def warm_up(_: Engine) -> None:
        raise ModelError("no room", CONTEXT_TOO_LONG)

    lifecycle = _lifecycle()
    lifecycle.when_loaded(warm_up)
    await lifecycle.load()

    assert lifecycle.state == "ready"


def _dying(restarts: RestartPolicy, *, broken_from: int = 99) -> tuple[EngineLifecycle, list[ScriptedEngine]]:
    """A slot whose engines are kept; from the ``broken_from``-th on they cannot be built."""
    built: list[ScriptedEngine] = []

    def build() -> Engine:
        if len(built) >= broken_from:
            raise EngineUnavailable("no memory")
        built.append(ScriptedEngine(CARD, EngineOptions(), [Rule("", "hi")]))
        return built[-1]

    return EngineLifecycle(CARD, build, restarts), built


async def test_a_dead_engine_is_replaced() -> None:
    """While it is away requests are refused with a time to come back, and /ready has the reason."""
    lifecycle, built = _dying(RestartPolicy(tries=1, backoff_s=0.2))
    await lifecycle.load()
    await built[0].close()

    assert (lifecycle.state, lifecycle.reason) == ("restarting", "EngineDied")
    with pytest.raises(EngineUnavailable) as refused:
        lifecycle.get()
    await until(lambda: lifecycle.state == "ready")

    assert error_reply(refused.value).code == "engine_unavailable"
    assert int(error_reply(refused.value).headers["Retry-After"]) >= 1
    assert lifecycle.get() is built[1]
    assert (lifecycle.reason, lifecycle.restarts.total) == ("", 1)
    await lifecycle.close()


async def test_an_engine_that_stays_dead_is_given_up() -> None:
    """After the last try the slot says that there will be none: the process ends on that."""
    lifecycle, built = _dying(RestartPolicy(tries=2, backoff_s=0.01), broken_from=1)
    await lifecycle.load()
    await built[0].close()

    async with asyncio.timeout(120):
        await lifecycle.permanently_failed.wait()

    assert (lifecycle.state, lifecycle.reason, lifecycle.restarts.total) == ("failed", "EngineDied", 2)
    with pytest.raises(EngineUnavailable, match="has died"):
        lifecycle.get()
    await lifecycle.close()


class Explaining(ScriptedEngine, ExplainsFailure):
    """An engine in another process, of which the last exception is known."""

    def failure_cause(self) -> str:
        return "OutOfMemoryError: no memory"


async def test_the_cause_of_a_death_is_told_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The last exception of the engine's process, then that of the restart."""
    engine = Explaining(CARD, EngineOptions(), [Rule("", "hi")])
    engines = iter([engine])

    def build() -> Engine:
        for one in engines:
            return one
        raise EngineUnavailable("vLLM cannot run /srv/models/llama: /srv/models/llama/x.json is damaged")

    lifecycle = EngineLifecycle(CARD, build, RestartPolicy(tries=1, backoff_s=0.2))
    await lifecycle.load()
    assert lifecycle.cause == ""
    await engine.close()
    await until(lambda: lifecycle.cause != "")
    died = lifecycle.cause
    async with asyncio.timeout(120):
        await lifecycle.permanently_failed.wait()

    assert died == "the engine has died: OutOfMemoryError: no memory"
    assert "engine died: name=scripted cause=OutOfMemoryError: no memory" in caplog.text
    assert "no other has started: vLLM cannot run llama: x.json is damaged" in lifecycle.cause
    await lifecycle.close()


async def test_a_cause_names_no_folders() -> None:
    """The model by its name, other files by theirs; addresses stay."""
    card = ModelCard(name="llama", source="/srv/My Models/llama 3")
    lifecycle = EngineLifecycle(card, lambda: ScriptedEngine(card, EngineOptions(), []))
    lifecycle.failure = EngineUnavailable("/srv/My Models/llama 3: '/etc/a/b.json', http://host/v1/x and/or 1/2")
    assert lifecycle.cause == "llama: 'b.json', http://host/v1/x and/or 1/2"

"""What the routes are given: the models that may be named, and how many requests are admitted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from bare_services import CARD, bare_services, plain_lifecycle

from models.engines.base import AsgiSend, EngineOptions, LayerCall, OpenAiLayer, ServesOpenAi
from models.engines.scripted_engine import Rule, ScriptedEngine
from server.app import create_app
from server.auth.authentication import OPERATOR
from server.engine.lifecycle import EngineLifecycle
from server.errors import RequestError
from server.methods.base import AnswerRequest
from server.methods.direct import LoraAdapterMethod
from server.settings.loading import SettingsInvalid
from server.settings.model import ModelSettings
from server.settings.schema import Settings
from server.settings.server import ServerSettings
from server.wiring.services import Services


class LayeredEngine(ScriptedEngine, ServesOpenAi):
    """An engine that chose 300 slots, with a layer that says which model it was asked for."""

    slots = 300

    async def openai_layer(self) -> OpenAiLayer:
        async def layer(call: LayerCall, send: AsgiSend) -> None:
            body = f'{{"id": "x", "model": "{call.body["model"]}", "usage": {{"prompt_tokens": 1}}}}'.encode()
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})

        return layer


def _services(folder: Path, settings: Settings, adapters: tuple[str, ...] = ("notes",)) -> Services:
    options = EngineOptions(max_num_seqs=settings.model.max_num_seqs)
    lifecycle = EngineLifecycle(CARD, lambda: LayeredEngine(CARD, options, [Rule("", "plain")]))
    named = {name: LoraAdapterMethod(name, CARD) for name in adapters}
    return bare_services(settings, lifecycle, folder, adapters=named)


async def test_what_cannot_be_swept_does_not_keep_the_rest(tmp_path: Path) -> None:
    (tmp_path / "namespaces" / ".files.sqlite").mkdir(parents=True)
    swept = threading.Event()
    responses = SimpleNamespace(sweep=swept.set, close=swept.clear)
    services = bare_services(Settings(), plain_lifecycle(), tmp_path, responses=responses)
    await services.start_jobs()
    assert await asyncio.to_thread(swept.wait, 10)
    await services.close()


async def test_the_salt_of_a_key_is_its_own_unless_keys_share_a_cache(tmp_path: Path) -> None:
    """What an organisation's keys share is one salt; with "none" there is none."""
    shared = {"organisation": ServerSettings(cache_salt="organisation:lab"),
              "none": ServerSettings(cache_salt="none"), "key": ServerSettings()}  # fmt: skip
    salts = {}
    for name, chosen in shared.items():
        services = _services(tmp_path / name, Settings(server=chosen))
        salts[name] = [services.salt_for(key) for key in ("first", "second")]
        await services.retrieval.close()
    assert salts == {"organisation": ["organisation:lab"] * 2, "none": [""] * 2, "key": ["first", "second"]}


@asynccontextmanager
async def _loaded(folder: Path, settings: Settings | None = None) -> AsyncIterator[Services]:
    services = _services(folder, settings or Settings())
    services.start()
    await services.loaded()
    yield services
    await services.close()


@pytest.mark.parametrize(
    ("settings", "running"),
    [
        (Settings(), 300 + 256),
        (Settings(server=ServerSettings(max_in_flight=7)), 7),
        (Settings(model=ModelSettings(max_num_seqs=9)), 18),
    ],
)
async def test_as_many_requests_are_admitted_as_fit_the_slots(tmp_path: Path, settings: Settings, running: int) -> None:
    """Those that the engine chose, unless a setting says otherwise; before it is loaded, those of any machine."""
    async with _loaded(tmp_path, settings) as services:
        assert services.admission.limits.running == running


async def test_an_adapter_is_a_model_of_the_list_and_reaches_the_layer(tmp_path: Path) -> None:
    """By its name, for all keys that may use the plain model."""
    async with _loaded(tmp_path) as services, _client(services) as ask:
        assert [one.id for one in services.models(OPERATOR)] == ["base", "notes"]
        for name in ("base", "notes"):
            reply = await ask("/v1/completions", {"model": name, "prompt": "x"})
            assert (reply.status_code, reply.json()["model"]) == (200, name)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
        ("/v1/completions", {"prompt": "x", "arrowhead": {"a": 1}}),
    ],
)
async def test_the_base_models_weights_never_answer_for_an_adapter(
    tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    """A chat without a template, and a request with our own options, are not for vLLM's layer."""
    async with _loaded(tmp_path) as services, _client(services) as ask:
        reply = await ask(path, {"model": "notes"} | body)
        error = reply.json()["error"]
        assert (reply.status_code, error["param"]) == (422, "model") and "the adapter notes" in error["message"]


async def test_an_adapter_has_no_answer_of_its_own() -> None:
    """For callers that go round the routes, as the command line does."""
    method = LoraAdapterMethod("notes", CARD)
    with pytest.raises(RequestError, match="the adapter notes"):
        async for _ in method.answer(AnswerRequest(request_id="1", prompt="x")):
            raise AssertionError("it answered")


async def test_an_adapter_needs_a_name_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match=r"model\.lora_adapters: base is the name of a model"):
        _services(tmp_path, Settings(), ("base",))


@asynccontextmanager
async def _client(services: Services) -> AsyncIterator[Callable[[str, dict[str, Any]], Any]]:
    transport = httpx.ASGITransport(create_app(services))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:

        async def ask(path: str, body: dict[str, Any]) -> httpx.Response:
            async with asyncio.timeout(120):
                return await http.post(path, json=body)

        yield ask

"""Services that are put together by hand: one engine, the plain model, and the parts that a test brings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import openai

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.scripted_engine import Rule, ScriptedEngine
from server.app import create_app
from server.engine.lifecycle import EngineLifecycle
from server.methods.direct import Direct
from server.settings.schema import Settings
from server.traces import MemoryTraceStore
from server.wiring.retrieval import build_retrieval
from server.wiring.services import Components, Services
from server.wiring.state import open_key_lookup

CARD: Final = ModelCard(name="base", source="-", prompt_form="base")
OPERATOR: Final = "an-operators-key"
_URL: Final = "http://127.0.0.1:8000"


def keyed_settings(folder: Path, *operators: str, **retrieval: Any) -> Settings:
    """Settings with these keys of operators, and a file in ``folder`` for others."""
    server = {"api_keys": operators or (OPERATOR,), "keys_file": str(folder / "keys.json")}
    return Settings.model_validate({"server": server, "retrieval": {"encoders": "hashing", **retrieval}})


def plain_lifecycle() -> EngineLifecycle:
    """An engine that writes "plain", whatever it is asked."""
    return EngineLifecycle(CARD, lambda: ScriptedEngine(CARD, EngineOptions(), [Rule("", "plain")]))


def bare_services(settings: Settings, lifecycle: EngineLifecycle, folder: Path, **parts: Any) -> Services:
    """Services over the namespaces of ``folder``; ``parts`` are further fields of ``Components``, or others of them."""
    if "retrieval" not in parts:
        parts["retrieval"] = build_retrieval(settings.retrieval, folder / "namespaces")
    if settings.server.api_keys:
        parts["key_lookup"] = open_key_lookup(settings, None)
    usual: dict[str, Any] = {"methods": {"direct": Direct(lifecycle)}, "traces": MemoryTraceStore(max_traces=9)}
    return Services(Components(settings=settings, lifecycle=lifecycle, **(usual | parts)))


@asynccontextmanager
async def reached(services: Services) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the application in this process, once its model is loaded."""
    app = create_app(services)
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=transport, base_url=_URL) as http:
        await services.loaded()
        yield http


def sdk(http: httpx2.AsyncClient, key: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{_URL}/v1", api_key=key, http_client=http, max_retries=0)

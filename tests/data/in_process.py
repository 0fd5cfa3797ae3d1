"""An application in this process, asked through all of its layers, without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI
from shipped_data import give_data

from server.app import create_app
from server.settings.schema import Settings
from server.wiring.bootstrap import build_services

HOST: Final = "127.0.0.1:8000"
OPERATOR: Final = "a-key-of-the-settings"


@dataclass(frozen=True)
class Site:
    """An application in this process. ``keys`` by whose they are."""

    app: FastAPI
    keys: dict[str, str]

    async def send(
        self, method: str, target: str, *headers: tuple[str, str], body: bytes = b"{}", host: str = HOST
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body; ``target`` reaches the application as it stands here."""
        path, _, query = target.partition("?")
        fields = [("host", host), ("content-type", "application/json"), *headers]
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in fields],
            "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 8000), "state": {},
        }  # fmt: skip
        sent: list[Any] = []
        parts = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Any:
            return next(parts, None) or await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        reply = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
        return sent[0]["status"], reply, b"".join(message.get("body", b"") for message in sent[1:])

    def bearer(self, who: str) -> tuple[str, str]:
        return ("authorization", f"Bearer {self.keys[who]}")

    async def json(self, method: str, target: str, who: str, body: Any = None) -> tuple[int, Any]:
        data = json.dumps(body if body is not None else {}).encode()
        status, _, reply = await self.send(method, target, self.bearer(who), body=data)
        return status, json.loads(reply)


@asynccontextmanager
async def served(folder: Path, settings: Mapping[str, Mapping[str, Any]]) -> AsyncIterator[Site]:
    """A scripted server that keeps all it writes in ``folder``; ``settings`` by group, beside those."""
    (folder / "script.json").write_text(json.dumps([{"regex": "(?s).", "text": " An answer."}]))
    groups: dict[str, dict[str, Any]] = {
        "server": {"keys_file": str(folder / "keys.json")},
        "model": {"engine": "scripted", "script": str(folder / "script.json"), "data_dir": str(folder / "models")},
        "ncbi": {"eutils_url": "http://127.0.0.1:9", "cache_path": str(folder / "cache.sqlite")},
        "audit": {"path": str(folder / "audit.jsonl")},
        "retrieval": {"encoders": "hashing", "data_dir": str(folder / "namespaces")},
        "gateway": {"data_dir": str(folder / "gateway")},
        "graph": {"data_dir": str(folder / "graphs")},
    }
    merged = {name: groups.get(name, {}) | dict(settings.get(name, {})) for name in groups.keys() | settings.keys()}
    give_data(folder)
    services = build_services(Settings.model_validate(merged))
    services.start()
    await services.loaded()
    yield Site(create_app(services), {"operator": OPERATOR})
    await services.close()

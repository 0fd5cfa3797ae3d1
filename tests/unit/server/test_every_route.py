"""Every route of the application, whoever added it, against every way to come in without a key."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from fastapi import FastAPI
from in_process import HOST, Site
from shipped_data import give_data
from starlette.routing import Route

from server.app import create_app
from server.auth.authentication import OPERATOR, FileKeyStore
from server.auth.keys import NewKey, Scopes
from server.methods.base import AnswerRequest
from server.middleware import OPEN_PATHS
from server.settings.schema import Settings
from server.wiring.bootstrap import build_services

OPEN = "/health"
_VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Keys: an operator's, two that may do all but each other's, a limited one, one that only reads; a revoked and an
    expired one."""
    folder = tmp_path_factory.mktemp("every-route")
    (folder / "script.json").write_text(json.dumps([{"regex": "(?s).", "text": " An answer."}]))
    operator = "a-key-of-the-settings"
    settings = Settings.model_validate(
        {
            "server": {"api_keys": (operator,), "keys_file": str(folder / "keys.json")},
            "model": {"engine": "scripted", "script": str(folder / "script.json")},
            "ncbi": {"eutils_url": "http://127.0.0.1:9", "cache_path": str(folder / "cache.sqlite")},
            "audit": {"path": str(folder / "audit.jsonl")},
            "retrieval": {"encoders": "hashing", "data_dir": str(folder / "namespaces")},
            "graph": {"data_dir": str(folder / "graphs")},
            "gateway": {"data_dir": str(folder / "gateway")},
        }
    )
    keys = {"operator": operator} | _stored(FileKeyStore(folder / "keys.json"))
    give_data(folder)
    services = build_services(settings)
    services.start()
    await services.loaded()
    yield Site(create_app(services), keys)
    await services.close()


def _stored(store: FileKeyStore) -> dict[str, str]:
    past = datetime.now(UTC) - timedelta(seconds=1)
    wishes = [
        NewKey(name="anna"),
        NewKey(name="ben"),
        NewKey(name="cleo", scopes=Scopes(namespaces=("shared", "annas"), methods=("direct",))),
        NewKey(name="own", scopes=Scopes(namespaces=())),
        NewKey(name="reader", scopes=Scopes(may_change=False)),
        NewKey(name="slow", scopes=Scopes(requests_per_minute=2, tokens_per_minute=1000)),
        NewKey(name="revoked"),
        NewKey(name="expired", expires=past),
    ]
    made = {wish.name: store.create(wish)[0] for wish in wishes}
    store.revoke("revoked")
    return made


def _routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Each verb and path, with something in place of its parameters."""
    for route in _flat(app.routes):
        path = route.path
        for name in route.param_convertors:
            path = path.replace(f"{{{name}:path}}", "x").replace(f"{{{name}}}", "x")
        for method in sorted(route.methods or ()):
            yield method, path


def _flat(routes: Any) -> Iterator[Route]:
    """Also those of routers and mounted applications."""
    for route in routes:
        if isinstance(route, Route):
            yield route
        else:
            inner = getattr(route, "routes", None) or getattr(getattr(route, "original_router", None), "routes", ())
            yield from _flat(inner)


def _tricks(keys: dict[str, str]) -> Iterator[tuple[str, tuple[tuple[str, str], ...], str]]:
    """What it is called, its headers, and the query."""
    key = keys["anna"]
    for name, value in {
        "wrong": "Bearer wrong-key-000", "revoked": f"Bearer {keys['revoked']}", "expired": f"Bearer {keys['expired']}",
        "basic": f"Basic {key}", "bare": key, "no space": f"Bearer{key}", "empty": "Bearer ",
        "two": f"Bearer {key} {key}", "list": f"Bearer {key}, Bearer {key}", "long": "Bearer " + "x" * 50_000,
        "not ascii": "Bearer ключ\xe9", "cut": f"Bearer {key[:-1]}", "longer": f"Bearer {key}0",
        "upper": f"Bearer {key.upper()}", "id": f"Bearer {key[:8]}",
    }.items():  # fmt: skip
        yield name, (("authorization", value),), ""
    yield "none", (), ""
    yield "twice", (("authorization", f"Bearer {key}"),) * 2, ""
    yield "wrong first", (("authorization", "Bearer wrong-key-000"), ("authorization", f"Bearer {key}")), ""
    for header in ("x-api-key", "api-key", "x-authorization", "proxy-authorization", "x-forwarded-authorization"):
        yield header, ((header, f"Bearer {key}"), (header, key)), ""
    yield "cookie", (("cookie", f"authorization=Bearer {key}; api_key={key}; token={key}"),), ""
    yield "query", (), f"api_key={key}&key={key}&token={key}&access_token={key}&authorization=Bearer%20{key}"
    yield "claims", (("x-forwarded-for", "127.0.0.1"), ("x-real-ip", "127.0.0.1"), ("x-original-url", OPEN)), ""
    yield "override", (("x-http-method-override", "GET"), ("x-rewrite-url", OPEN)), ""


def _spellings(path: str) -> list[str]:
    """The same place, said otherwise; also as it stands before the server's parser has decoded it."""
    return [
        path, f"{path}/", f"/{path}", f"//{HOST}{path}", path.replace("/v1", "//v1"), path.replace("/v1/", "/v1%2f"),
        path.replace("/", "%2f"), f"/v1/..{path}", f"/health/..{path}", f"/health/../..{path}", f"{OPEN}{path}",
        f"/.{path}", f"{path};/health", f"{path}%00", f"{path}#/health", f"http://{HOST}{path}", f"{path.upper()}",
        f"http://{HOST}/health{path}", f"\\health{path}", f"{path}?/health", f"/health%2f..{path}", f"{path}/../health",
    ]  # fmt: skip


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_routes_are_all_there(site: Site) -> None:
    """So that the tables below are not empty."""
    found = set(_routes(site.app))
    assert {
        ("POST", "/v1/chat/completions"),
        ("GET", OPEN),
        ("DELETE", "/v1/jobs/x"),
        ("PUT", "/v1/namespaces/x/files"),
    } <= found
    assert len(found) > 20


async def test_no_route_answers_without_a_key(site: Site) -> None:
    """401, whatever is sent in the key's place; with a key each of them answers something else."""
    for method, path in _routes(site.app):
        if path in OPEN_PATHS:
            continue
        for name, headers, query in _tricks(site.keys):
            status, reply, body = await site.send(method, f"{path}?{query}", *headers)
            assert (status, reply["www-authenticate"]) == (401, "Bearer"), (method, path, name)
            error = json.loads(body)["error"]
            assert (error["code"], set(error)) == ("invalid_api_key", {"message", "type", "param", "code"})
        status, _, _ = await site.send(method, path, site.bearer("anna"))
        assert status not in (401, 500), (method, path)
    for store in (await site.json("GET", "/v1/vector_stores", "anna"))[1]["data"]:  # one is made of an empty body
        assert (await site.json("DELETE", f"/v1/vector_stores/{store['id']}", "anna"))[0] == 200


async def test_no_spelling_of_a_path_goes_round_the_key(site: Site) -> None:
    """Nor any verb: what looks like the open route to a parser is not it to the guard."""
    for _, path in _routes(site.app):
        for spelling in set(_spellings(path)) - OPEN_PATHS if path not in OPEN_PATHS else ():
            for method in _VERBS:
                status, _, _ = await site.send(method, spelling)
                assert status == 401, (method, spelling)


async def test_no_host_and_no_page_goes_round_the_key(site: Site) -> None:
    """A name that is not ours is 400, another page 403, before anything else, also with a key and on the open route."""
    for method, path in _routes(site.app):
        for host in ("evil.example", "EVIL.example:8000", "127.0.0.1.evil.example"):
            assert (await site.send(method, path, site.bearer("anna"), host=host))[0] == 400
        for origin in ("http://evil.example", "null", "http://localhost:3000"):
            status, reply, body = await site.send(method, path, site.bearer("anna"), ("origin", origin))
            assert (status, json.loads(body)["error"]["code"]) == (403, "origin_not_allowed"), (method, path)
            assert "server.cors_origins" in json.loads(body)["error"]["message"]
            assert not any(name.startswith("access-control") for name in reply)
        if path not in OPEN_PATHS:
            assert (await site.send(method, path, host="LOCALHOST:8000"))[0] == 401


async def test_the_open_route_is_open(site: Site) -> None:
    """And tells nothing."""
    status, _, body = await site.send("GET", OPEN, ("authorization", "Bearer wrong-key-000"))
    assert (status, json.loads(body)) == (200, {"status": "ok"})


async def test_the_open_page_is_the_same_for_everybody(site: Site) -> None:
    """It holds nothing of the server or of a key: what it shows needs one."""
    for path in sorted(OPEN_PATHS - {OPEN}):
        without, with_key = [await site.send("GET", path, *more) for more in ((), (site.bearer("anna"),))]
        assert without[0] == with_key[0] == 200
        assert without[2] == with_key[2]
        assert b"scripted" not in without[2]
    assert (await site.send("GET", "/openapi.json"))[0] == 401


async def test_what_is_no_http_is_shut(site: Site) -> None:
    """A web socket has no route and gets no key check, so it gets nothing at all."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    await site.app({"type": "websocket", "path": "/v1/models", "headers": []}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_traces_are_their_owners(site: Site) -> None:
    """An operator has no more of another one's questions than anybody else."""
    ask = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
    for route, body in (("chat/completions", ask), ("completions", {"model": "scripted", "prompt": "hello"})):
        status, done = await site.json("POST", f"/v1/{route}", "anna", body)
        assert status == 200
        assert (await site.json("GET", f"/v1/traces/{done['id']}", "anna"))[0] == 200
        for who in ("ben", "cleo", "operator"):
            status, reply = await site.json("GET", f"/v1/traces/{done['id']}", who)
            assert (status, reply) == await site.json("GET", f"/v1/traces/{done['id']}", "own")
            assert (status, reply["error"]["code"]) == (404, "trace_not_found")


async def test_models_are_those_of_the_key(site: Site) -> None:
    """Not listed, not found, not asked: as if there were none; in every route that takes a model's name."""
    listed = (await site.json("GET", "/v1/models", "cleo"))[1]["data"]
    assert [model["id"] for model in listed if "method" in model] == ["arrowhead", "scripted", "scripted:auto"]
    assert len((await site.json("GET", "/v1/models", "anna"))[1]["data"]) > 2
    messages = [{"role": "user", "content": "hello"}]
    for name in ("scripted:genegpt", "scripted:kg-rag"):
        for method, path, body in (
            ("GET", f"/v1/models/{name}", {}),
            ("POST", "/v1/chat/completions", {"model": name, "messages": messages}),
            ("POST", "/v1/chat/completions", {"model": name, "messages": messages, "stream": True}),
            ("POST", "/v1/completions", {"model": name, "prompt": "hello"}),
        ):
            status, reply = await site.json(method, path, "cleo", body)
            assert (status, reply["error"]["code"]) == (404, "model_not_found")
            absent = json.loads(json.dumps(body).replace(name, "scripted:nothing"))
            missing = await site.json(method, path.replace(name, "scripted:nothing"), "cleo", absent)
            assert missing[1]["error"]["message"].replace("scripted:nothing", name) == reply["error"]["message"]
    status, _ = await site.json("POST", "/v1/chat/completions", "cleo", {"model": "scripted", "messages": messages})
    assert status == 200


async def _make(site: Site, name: str, who: str) -> dict[str, Any]:
    """A namespace with one passage; the job that added it."""
    status, _ = await site.json("POST", "/v1/namespaces", who, {"name": name, "encoder": "none", "words": "tantivy"})
    assert status == 201
    document = {"documents": [{"id": "one", "text": "A word about zebras."}]}
    status, job = await site.json("POST", f"/v1/namespaces/{name}/documents?wait=60", who, document)
    assert (status, job["state"]) == (200, "done")
    return dict(job)


async def _seen(site: Site, who: str) -> list[str]:
    listed = (await site.json("GET", "/v1/namespaces", who))[1]["data"]
    return [one["name"] for one in listed if not one["sample"]]


def _calls_on_annas(passage_id: str) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        ("GET", "/v1/namespaces/annas", {}),
        ("PATCH", "/v1/namespaces/annas", {"title": "Mine"}),
        ("GET", "/v1/namespaces/annas/documents", {}),
        ("GET", "/v1/namespaces/annas/documents/x", {}),
        ("DELETE", "/v1/namespaces/annas/documents/x", {}),
        ("GET", "/v1/namespaces/annas/unread", {}),
        ("DELETE", "/v1/namespaces/annas/unread", {}),
        ("GET", "/v1/namespaces/annas/documents/x/file", {}),
        ("GET", "/v1/namespaces/annas/documents/x/pages/1.png", {}),
        ("GET", "/v1/namespaces/annas/documents/x/pages/1/text", {}),
        ("GET", f"/v1/passages/annas/{passage_id}", {}),
        ("POST", "/v1/search", {"query": "zebras", "namespaces": ["annas"]}),
        ("POST", "/v1/search", {"query": "zebras", "namespaces": ["common", "annas"]}),
        ("POST", "/v1/namespaces/annas/documents", {"documents": [{"id": "two", "text": "b"}]}),
        ("DELETE", "/v1/namespaces/annas/documents", {"ids": ["one"]}),
        ("PUT", "/v1/namespaces/annas/files?filename=a.txt", {}),
        ("POST", "/v1/namespaces/annas/files?filename=a.txt", {}),
        ("POST", "/v1/namespaces/annas/queries", {"term": "asthma"}),
        ("POST", "/v1/namespaces/annas/update", {}),
        ("POST", "/v1/namespaces/annas/verify", {}),
        ("DELETE", "/v1/namespaces/annas", {}),
    ]


async def test_namespaces_and_jobs_of_another_key_are_as_if_they_were_not_there(site: Site) -> None:
    """404 with the words that an absent one gets, in every route with a namespace, and no name in any list."""
    await _make(site, "common", "operator")
    job = await _make(site, "annas", "anna")
    (found,) = (await site.json("POST", "/v1/search", "anna", {"query": "zebras", "namespaces": ["annas"]}))[1]["data"]
    calls = _calls_on_annas(found["id"])
    named = {path.replace("x", "annas", 1) for _, path in _routes(site.app) if path.startswith("/v1/namespaces/x")}
    assert named <= {path.partition("?")[0].replace("/pages/1", "/pages/x") for _, path, _ in calls}
    for method, path, body in calls:
        status, reply = await site.json(method, path, "ben", body)
        assert (status, reply["error"]["code"]) == (404, "namespace_not_found"), path
        absent = json.loads(json.dumps(body).replace("annas", "absent"))
        missing = await site.json(method, path.replace("annas", "absent"), "ben", absent)
        assert missing[1]["error"]["message"].replace("absent", "annas") == reply["error"]["message"], path
    for method in ("GET", "DELETE"):
        assert (await site.json(method, f"/v1/jobs/{job['id']}", "ben"))[0] == 404
        assert (await site.json(method, f"/v1/jobs/{job['id']}", "operator"))[0] == 404
    assert (await site.json("GET", "/v1/jobs", "ben"))[1]["data"] == []
    hits = (await site.json("POST", "/v1/search", "ben", {"query": "zebras"}))[1]
    assert (hits["arrowhead"]["namespaces"], {hit["namespace"] for hit in hits["data"]}) == (["common"], {"common"})
    assert {who: await _seen(site, who) for who in ("operator", "anna", "ben", "cleo", "own", "reader")} == {
        "operator": ["annas", "common"], "anna": ["annas", "common"], "ben": ["common"], "cleo": ["annas"],
        "own": [], "reader": ["common"],
    }  # fmt: skip


async def test_a_key_reads_what_is_listed_for_it_and_what_it_made(site: Site) -> None:
    """A list shares a namespace of another key; with an empty one a key has its own alone."""
    await _make(site, "owns", "own")
    assert (await _seen(site, "own"), await _seen(site, "cleo")) == (["owns"], ["annas"])
    assert (await site.json("POST", "/v1/search", "cleo", {"query": "zebras"}))[1]["arrowhead"]["namespaces"] == [
        "annas"
    ]
    assert (await site.json("DELETE", "/v1/namespaces/owns", "own"))[0] == 200
    await _make(site, "owns", "ben")
    assert await _seen(site, "own") == []


async def test_a_key_that_reads_changes_nothing(site: Site) -> None:
    """403 with the remedy; what it may not even read is 404 or 403, never changed."""
    for method, path, body in (
        ("POST", "/v1/namespaces", {"name": "mine"}),
        ("DELETE", "/v1/namespaces/common", {}),
        ("POST", "/v1/namespaces/common/documents", {"documents": [{"id": "a", "text": "b"}]}),
        ("PUT", "/v1/namespaces/common/files?filename=a.txt", {}),
        ("POST", "/v1/namespaces/common/verify", {}),
        ("POST", "/v1/namespaces/annas/update", {}),
    ):
        status, reply = await site.json(method, path, "reader", body)
        assert (status, reply["error"]["code"]) == (403, "not_granted"), path
        assert "arrowhead key create" in reply["error"]["message"]
    assert (await site.json("GET", "/v1/namespaces/common", "reader"))[1]["documents"] == 1


async def test_methods_are_told_what_their_key_reads(site: Site) -> None:
    """Whichever route built the request: an ask has the namespaces of its key, None only for an operator.

    A method that searches none is told of none.
    """
    services, asks = site.app.state.services, [AnswerRequest(request_id="r")]
    served, told = services.models(OPERATOR)[0]._replace(name="medrag"), {}
    for who in ("operator", "ben", "cleo", "own"):
        owner = services.key_lookup.find(site.keys[who]).owner
        told[who] = (await services.with_namespaces(served, owner, asks))[0].namespaces
    assert told == {
        "operator": None, "ben": frozenset({"common", "notes", "owns"}), "cleo": frozenset({"annas"}),
        "own": frozenset(),
    }  # fmt: skip
    plain = await services.with_namespaces(services.find("scripted", OPERATOR), owner, asks)
    assert plain[0].namespaces == frozenset()


async def test_a_rate_is_kept_before_the_body_is_read(site: Site) -> None:
    """429 in OpenAI's shape with its headers, which every answer of a limited key has."""
    status, reply, _ = await site.send("GET", "/v1/models", site.bearer("slow"))
    assert (status, reply["x-ratelimit-limit-requests"], reply["x-ratelimit-remaining-requests"]) == (200, "2", "1")
    ask = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}).encode()
    status, reply, _ = await site.send("POST", "/v1/chat/completions", site.bearer("slow"), body=ask)
    assert (status, reply["x-ratelimit-remaining-tokens"]) == (200, "1000")
    status, reply, body = await site.send("POST", "/v1/chat/completions", site.bearer("slow"), body=b"not json")
    assert (status, json.loads(body)["error"]["code"]) == (429, "rate_limit_exceeded")
    assert 1 <= int(reply["retry-after"]) <= 31
    assert (reply["x-ratelimit-remaining-requests"], reply["x-ratelimit-reset-requests"][-1]) == ("0", "s")
    assert int(reply["x-ratelimit-remaining-tokens"]) < 1000
    _, reply, _ = await site.send("GET", "/v1/models", site.bearer("anna"))
    assert not any(name.startswith("x-ratelimit") for name in reply)


async def test_no_log_names_a_key(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """At the lowest level, whatever was done with it."""
    caplog.set_level("DEBUG")
    for name, headers, query in _tricks(site.keys):
        await site.send("POST", f"/v1/chat/completions?{query}", *headers, body=name.encode())
        await site.send("GET", f"/v1/traces/{site.keys['anna']}?{query}", site.bearer("anna"))
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert "Unauthorized" in said
    assert not any(key in said or key[:20] in said for key in site.keys.values())

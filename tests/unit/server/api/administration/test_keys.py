"""Keys that administer make, change and revoke others; the first key of a server is made with its code."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from in_process import OPERATOR, Site, served

from server.auth.authentication import FileKeyStore
from server.auth.keys import NewKey, Scopes
from server.errors import RequestError
from server.middleware import OPEN_PATHS
from server.types import key_id

KEYS = "/v1/admin/keys"

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Keys: an operator's, an administrator's."""
    folder = tmp_path_factory.mktemp("keys")
    async with served(folder, {"server": {"api_keys": (OPERATOR,)}}) as made:
        store = FileKeyStore(folder / "keys.json")
        made.keys["root"] = store.create(NewKey(name="root", scopes=Scopes(may_administer=True)))[0]
        yield made


@pytest.fixture
def anna(site: Site) -> Iterator[str]:
    """The id of a key that may do all but administer."""
    store = FileKeyStore(site.app.state.services.settings.server.keys_file)
    site.keys["anna"], made = store.create(NewKey(name="anna"))
    yield made.id
    with suppress(RequestError):
        store.revoke(made.id)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bare(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """A server that other machines reach, before its first key."""
    async with served(tmp_path_factory.mktemp("bare"), {"server": {"host": "0.0.0.0"}}) as made:
        yield made


def routes() -> Iterator[tuple[str, str, Any]]:
    yield "GET", KEYS, None
    yield "POST", KEYS, {"name": "ben"}
    yield "POST", f"{KEYS}/12345678", {"name": "ben"}
    yield "DELETE", f"{KEYS}/12345678", None
    yield "GET", "/v1/admin/overview", None
    yield "DELETE", "/v1/admin/jobs/job-1", None


async def test_only_keys_that_administer_may_come_in(site: Site, anna: str) -> None:
    """Whatever else a key may do; what it may is told to the page."""
    for method, path, body in routes():
        status, told = await site.json(method, path, "anna", body)
        assert (status, told["error"]["code"]) == (403, "not_granted"), path
    for who, may in (("operator", True), ("root", True), ("anna", False)):
        assert (await site.json("GET", "/v1/permissions", who))[1]["may_administer"] is may


async def test_a_key_is_made_and_its_secret_shown_once(site: Site) -> None:
    """It works from the next request on; neither the list nor a cache has its secret."""
    wish = {"name": "ben", "expires": "90d", "scopes": {"methods": ["direct"], "requests_per_minute": 60}}
    status, headers, body = await site.send("POST", KEYS, site.bearer("root"), body=json.dumps(wish).encode())
    made = json.loads(body)
    assert (status, headers["cache-control"], made["name"], made["state"]) == (201, "no-store", "ben", "active")
    assert made["id"] == key_id(made["secret"]) and made["scopes"]["methods"] == ["direct"]
    site.keys["ben"] = made["secret"]
    assert (await site.json("GET", "/v1/permissions", "ben"))[1]["key_id"] == made["id"]
    status, told = await site.json("GET", KEYS, "root")
    assert status == 200 and made["secret"] not in json.dumps(told)
    shown = [(one["name"], one["fixed"]) for one in told["data"]]
    assert (shown[:2], shown[-1]) == ([("", True), ("root", False)], ("ben", False))
    assert all(one["left"] == "no data left this machine" and one["egress"] == "off" for one in told["data"])


async def test_a_key_is_renamed_and_its_limits_change_at_once(site: Site, anna: str) -> None:
    """What is not named stays; null ends an expiry."""
    _, told = await site.json("POST", f"{KEYS}/{anna}", "root", {"name": "anna b", "expires": "2099-01-31"})
    assert (told["name"], told["expires"]) == ("anna b", "2099-01-31T00:00:00+00:00")
    scopes = {"may_change": False, "egress": "off", "namespaces": []}
    _, told = await site.json("POST", f"{KEYS}/{anna}", "root", {"scopes": scopes, "expires": None})
    assert (told["name"], told["expires"]) == ("anna b", None)
    assert (told["scopes"]["namespaces"], told["scopes"]["may_change"]) == ([], False)
    assert (await site.json("GET", "/v1/permissions", "anna"))[1]["may_change_namespaces"] is False


async def test_a_revoked_key_ends_at_once(site: Site, anna: str) -> None:
    """And cannot be revoked again."""
    assert (await site.json("DELETE", f"{KEYS}/{anna}", "root"))[1]["state"] == "revoked"
    assert (await site.json("GET", "/v1/permissions", "anna"))[0] == 401
    assert (await site.json("DELETE", f"{KEYS}/{anna}", "root"))[0] == 409


async def test_an_administrator_stays_one(site: Site) -> None:
    """By id or by name, a key neither revokes itself nor gives its right away; another administrator may do both."""
    _, made = await site.json("POST", KEYS, "operator", {"name": "zoe", "scopes": {"may_administer": True}})
    zoe, site.keys["zoe"] = made["id"], made["secret"]
    for which in (zoe, "zoe"):
        assert (await site.json("DELETE", f"{KEYS}/{which}", "zoe"))[0] == 409
        assert (await site.json("POST", f"{KEYS}/{which}", "zoe", {"scopes": {}}))[0] == 409
    assert (await site.json("POST", f"{KEYS}/{zoe}", "zoe", {"name": "head"}))[1]["name"] == "head"
    assert (await site.json("POST", f"{KEYS}/{zoe}", "root", {"scopes": {}}))[0] == 200
    assert (await site.json("GET", KEYS, "zoe"))[0] == 403


@pytest.mark.parametrize(
    ("wish", "status", "field"),
    [
        ({}, 422, "name"),
        ({"name": "ben", "rate": 5}, 422, "rate"),
        ({"name": "ben", "scopes": {"methods": ["magic"]}}, 422, "scopes.methods"),
        ({"name": "ben", "scopes": {"methods": []}}, 422, None),
        ({"name": "ben", "scopes": {"egress": "all"}}, 422, "scopes.egress"),
        ({"name": "ben", "scopes": {"requests_per_minute": 0}}, 422, None),
        ({"name": "ben", "expires": "yesterday"}, 422, "expires"),
        ({"name": "ben", "expires": "2020-01-01"}, 422, "expires"),
        ({"name": "a/b"}, 409, None),
        ({"name": "anna"}, 409, None),
    ],
)
async def test_a_wrong_wish_is_refused(site: Site, anna: str, wish: Any, status: int, field: str | None) -> None:
    """With the field at fault, and no key made."""
    before = (await site.json("GET", KEYS, "root"))[1]
    got, told = await site.json("POST", KEYS, "root", wish)
    assert (got, told["error"]["param"]) == (status, field)
    assert (await site.json("GET", KEYS, "root"))[1] == before


async def test_keys_of_the_settings_are_shown_and_not_changed(site: Site) -> None:
    """Their place is told."""
    for method in ("POST", "DELETE"):
        status, told = await site.json(method, f"{KEYS}/{key_id(OPERATOR)}", "root", {"name": "x"})
        assert status == 409 and "server.api_keys" in told["error"]["message"]


async def test_a_server_without_keys_makes_none_over_http(tmp_path: Path) -> None:
    """Any program of the machine could lock its user out."""
    async with served(tmp_path, {}) as open_site:
        status, _, body = await open_site.send("POST", KEYS, body=b'{"name": "mallory"}')
        assert status == 409 and b"arrowhead key create --admin" in body
        status, _, body = await open_site.send("GET", KEYS)
        assert (status, json.loads(body)["data"]) == (200, [])
        status, _, body = await open_site.send("POST", "/v1/setup", body=b'{"code": "x"}')
        assert (status, json.loads(body)["error"]["code"]) == (403, "setup_refused")


def code_of(site: Site) -> str:
    code: str = site.app.state.services.first_key.code
    return code


async def set_up(site: Site, code: str, **more: str) -> tuple[int, Any]:
    status, _, body = await site.send("POST", "/v1/setup", body=json.dumps({"code": code, **more}).encode())
    return status, json.loads(body)


async def test_before_the_first_key_only_the_page_answers(bare: Site) -> None:
    """401 with what to do for everything else, also with a key of another server; the code is told to nobody."""
    for path in ("/v1/models", "/ready", "/metrics", "/v1/permissions", KEYS, "/openapi.json", "/nowhere"):
        for headers in ((), (("authorization", "Bearer ah-of-another-server"),)):
            status, reply, body = await bare.send("GET", path, *headers)
            error = json.loads(body)["error"]
            assert (status, error["code"], reply["www-authenticate"]) == (401, "first_key_needed", "Bearer")
            assert "printed when it started" in error["message"] and "arrowhead key create" in error["message"]
            assert code_of(bare).encode() not in body
    for path in sorted(OPEN_PATHS):
        status, _, body = await bare.send("GET", path)
        assert status == 200 and code_of(bare).encode() not in body


async def test_the_code_makes_one_key_that_administers(bare: Site) -> None:
    """A wrong code does not, nor one without a name or with a store that cannot be written, which leave the code.

    From then on every route needs a key; a second use of the code is refused as any request without one.
    """
    code = code_of(bare)
    assert (await set_up(bare, "AAAA-AAAA-AAAA-AAAA"))[1]["error"]["code"] == "setup_refused"
    assert (await set_up(bare, code, name="a/b"))[0] == 409
    assert (await set_up(bare, "x" * 101))[0] == 422
    lock = bare.app.state.services.settings.server.keys_file.with_name("keys.json.lock")
    await asyncio.to_thread(lock.unlink)
    await asyncio.to_thread(lock.mkdir)
    assert (await set_up(bare, code))[0] == 503
    await asyncio.to_thread(lock.rmdir)
    status, told = await set_up(bare, code.lower(), name="Zoe")
    assert (status, told["name"], told["scopes"]["may_administer"]) == (201, "Zoe", True)
    status, again = await set_up(bare, code)
    assert (status, again["error"]["code"]) == (401, "invalid_api_key")
    bare.keys["zoe"] = told["secret"]
    assert (await bare.json("GET", KEYS, "zoe"))[0] == 200
    assert (await bare.json("POST", "/v1/setup", "zoe", {"code": code}))[0] == 403

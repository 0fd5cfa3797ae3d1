"""The list of collections over HTTP, and the job that adds one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from in_process import OPERATOR, Site, served

from server.auth.authentication import FileKeyStore
from server.auth.keys import NewKey

LIST = "/v1/admin/collections"


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    async with served(tmp_path, {"server": {"api_keys": (OPERATOR,)}}) as made:
        made.keys["anna"] = FileKeyStore(tmp_path / "keys.json").create(NewKey(name="anna"))[0]
        yield made


async def test_the_list_says_what_each_costs_where_its_files_go_and_what_keeps_the_server_from_it(site: Site) -> None:
    status, told = await site.json("GET", f"{LIST}?time=true", "operator")

    listed = {one["name"]: one for one in told["data"]}
    assert status == 200 and listed["pubmed"]["seconds"] > 1 and listed["guidelines"]["seconds"] is None
    assert listed["statpearls"]["obstacle"] == "off" and listed["primekg"]["obstacle"] == "files"
    assert listed["primekg"]["folder"].endswith("/arrowhead/collections/primekg")
    assert all(one["licence"] and one["commands"] for one in listed.values())


async def test_a_press_adds_what_lies_in_the_folder(site: Site, tmp_path: Path) -> None:
    """For keys that administer alone; without files, the reply says where they go."""
    status, told = await site.json("POST", f"{LIST}/guidelines", "operator", {})
    assert status == 409 and told["error"]["code"] == "collection_files_missing"
    folder = tmp_path / "data/arrowhead/collections/guidelines"
    folder.mkdir(parents=True)
    (folder / "one.txt").write_text("A guideline on quolls.")

    status, job = await site.json("POST", f"{LIST}/guidelines?wait=60", "operator", {})

    assert status == 200 and job["kind"] == "collection" and job["result"]["added"] == 1
    assert (await site.json("GET", "/v1/namespaces/guidelines", "anna"))[1]["documents"] == 1
    for method, target in (("GET", LIST), ("POST", f"{LIST}/guidelines")):
        assert (await site.json(method, target, "anna", {} if method == "POST" else None))[0] == 403
    assert (await site.json("POST", f"{LIST}/none", "operator", {}))[1]["error"]["code"] == "collection_not_found"

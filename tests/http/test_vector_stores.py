"""``/v1/files`` and ``/v1/vector_stores`` by the official SDK in this process, and ``file_search`` in answers."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import openai
import pytest
import pytest_asyncio
from bare_services import OPERATOR, bare_services, keyed_settings, plain_lifecycle, reached, sdk
from corpus_files import pdf
from lexical_verifier import LexicalVerifier
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from server_process import Served

from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.passages import Document
from server.auth.authentication import FileKeyStore, Principal
from server.auth.keys import NewKey, Scopes
from server.evidence.passages import PassageService
from server.evidence.verifier import VerifierService
from server.jobs.queue import Job, JobSpec, WorkOrder
from server.jobs.vector_stores import JOB_KIND
from server.methods.direct import Direct
from server.methods.medrag.method import MedRag
from server.methods.shared.reading.gate import Gate
from server.wiring.retrieval import build_retrieval
from server.wiring.services import Services

PAGE = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
OTHER_OPERATOR = "another-operators-key"
HEPARIN = b"Protamine reverses heparin. It is given slowly into a vein, and the dose follows that of heparin."
DRUGS = b"Warfarin is reversed by vitamin K. In an emergency prothrombin complex is given as well."
QUESTION = "Which drug reverses heparin?"


@dataclass(frozen=True)
class Site:
    """The application, its services, and its keys by name."""

    http: httpx2.AsyncClient
    services: Services
    keys: dict[str, str]

    def client(self, who: str = "operator") -> openai.AsyncOpenAI:
        return sdk(self.http, self.keys[who])


def _services(folder: Path) -> Services:
    settings = keyed_settings(folder, OPERATOR, OTHER_OPERATOR, max_upload_bytes=4096)
    lifecycle = plain_lifecycle()
    retrieval = build_retrieval(settings.retrieval, folder / "namespaces")
    passages = PassageService(retrieval, settings.retrieval)
    verifier = VerifierService("lexical", LexicalVerifier)
    methods = {"direct": Direct(lifecycle), "medrag": MedRag(lifecycle, passages, Gate(verifier), 256)}
    parts = {"retrieval": retrieval, "passages": passages, "verifier": verifier, "closers": (retrieval.close,)}
    return bare_services(settings, lifecycle, folder, methods=methods, **parts)


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    keys = {"operator": OPERATOR, "other": OTHER_OPERATOR}
    store = FileKeyStore(tmp_path / "keys.json")
    for name, may_change in (("writer", True), ("reader", False)):
        keys[name] = store.create(NewKey(name=name, scopes=Scopes(may_change=may_change)))[0]
    services = _services(tmp_path)
    async with reached(services) as http:
        yield Site(http, services, keys)


async def test_a_file_comes_back_as_it_was_sent(site: Site) -> None:
    client = site.client()
    made = await client.files.create(file=("heparin.txt", HEPARIN), purpose="assistants")
    assert (made.object, made.bytes, made.filename, made.purpose) == ("file", len(HEPARIN), "heparin.txt", "assistants")
    assert (await client.files.retrieve(made.id)).id == made.id
    assert [one.id async for one in client.files.list(purpose="assistants")] == [made.id]
    assert [one.id async for one in client.files.list(purpose="user_data")] == []
    assert (await client.files.content(made.id)).content == HEPARIN
    assert (await client.files.delete(made.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await client.files.retrieve(made.id)


async def _store_with(client: openai.AsyncOpenAI, **files: tuple[bytes, dict[str, Any]]) -> str:
    store = await client.vector_stores.create(name="My papers (2026)")
    for name, (content, attributes) in files.items():
        member = await client.vector_stores.files.upload_and_poll(
            vector_store_id=store.id, file=(f"{name}.txt", content), attributes=attributes, poll_interval_ms=20
        )
        assert (member.status, member.attributes) == ("completed", attributes)
    return store.id


async def test_a_search_finds_the_passage_with_its_file(site: Site) -> None:
    client = site.client()
    store = await _store_with(client, heparin=(HEPARIN, {"year": 2026}), drugs=(DRUGS, {"year": 2020}))
    found = await client.vector_stores.search(store, query=QUESTION, max_num_results=1)
    (hit,) = found.data
    assert (hit.filename, hit.attributes, hit.content[0].text) == ("heparin.txt", {"year": 2026}, HEPARIN.decode())
    assert 0 < hit.score <= 1
    place = (hit.model_extra or {})["arrowhead"]
    assert HEPARIN.decode()[place["start"] : place["end"]] == hit.content[0].text
    made = await client.vector_stores.retrieve(store)
    assert (made.name, made.status, made.file_counts.completed, made.file_counts.total) == (
        "My papers (2026)",
        "completed",
        2,
        2,
    )


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"type": "eq", "key": "year", "value": 2026}, {"heparin.txt"}),
        ({"type": "ne", "key": "year", "value": 2026}, {"drugs.txt"}),
        ({"type": "gte", "key": "year", "value": 2020}, {"heparin.txt", "drugs.txt"}),
        ({"type": "in", "key": "year", "value": [1999, 2020]}, {"drugs.txt"}),
        ({"type": "nin", "key": "year", "value": [2020, 2026]}, set()),
        (
            {
                "type": "and",
                "filters": [
                    {"type": "lt", "key": "year", "value": 2026},
                    {"type": "eq", "key": "kind", "value": "note"},
                ],
            },
            {"drugs.txt"},
        ),
    ],
)
async def test_filters_hold_by_attributes(site: Site, filters: Any, names: set[str]) -> None:
    client = site.client()
    store = await _store_with(client, heparin=(HEPARIN, {"year": 2026}), drugs=(DRUGS, {"year": 2020, "kind": "note"}))
    found = await client.vector_stores.search(store, query="reverses heparin warfarin", filters=filters)
    assert {hit.filename for hit in found.data} == names


async def test_a_batch_is_polled_to_its_end(site: Site) -> None:
    """One file of the batch cannot be read, and says so."""
    client = site.client()
    store = await client.vector_stores.create(name="batch")
    ids = [
        (await client.files.create(file=(name, content), purpose="user_data")).id
        for name, content in (("a.txt", HEPARIN), ("b.txt", DRUGS), ("c.pdf", b"%PDF-1.7 broken"))
    ]
    batch = await client.vector_stores.file_batches.create_and_poll(
        store.id, file_ids=ids, attributes={"of": "batch"}, poll_interval_ms=20
    )
    counts = batch.file_counts
    assert (batch.status, counts.completed, counts.failed, counts.total) == ("completed", 2, 1, 3)
    members = {
        one.id: one async for one in client.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id)
    }
    assert {member.attributes["of"] for member in members.values() if member.attributes} == {"batch"}
    failed = members[ids[2]]
    assert failed.status == "failed" and failed.last_error and failed.last_error.code == "unsupported_file"
    assert str(site.services.retrieval.namespaces.root) not in failed.last_error.message
    only = [one.id async for one in client.vector_stores.files.list(store.id, filter="failed")]
    assert only == [ids[2]]
    again = await client.vector_stores.file_batches.create_and_poll(
        store.id, file_ids=[ids[0], ids[2]], attributes={"of": "another"}, poll_interval_ms=20
    )
    counts = again.file_counts
    assert (again.status, counts.completed, counts.failed, counts.total) == ("completed", 1, 1, 2)
    known = await client.vector_stores.files.create(store.id, file_id=ids[0])
    known = await client.vector_stores.files.poll(known.id, vector_store_id=store.id, poll_interval_ms=20)
    assert (known.status, known.attributes) == ("completed", {"of": "another"})
    for one in (batch, again):
        found = await client.vector_stores.file_batches.retrieve(one.id, vector_store_id=store.id)
        assert found.file_counts == one.file_counts


async def test_a_cancelled_batch_ends(site: Site) -> None:
    client = site.client()
    store = await client.vector_stores.create(name="cancelled")
    files = [(f"{n}.txt", HEPARIN + str(n).encode() * n) for n in range(12)]
    ids = [(await client.files.create(file=file, purpose="user_data")).id for file in files]
    batch = await client.vector_stores.file_batches.create(store.id, file_ids=ids)
    ended = await client.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id)
    ended = await client.vector_stores.file_batches.poll(ended.id, vector_store_id=store.id, poll_interval_ms=20)
    counts = ended.file_counts
    assert counts.in_progress == 0 and counts.total == 12 and counts.cancelled + counts.completed == 12


async def test_a_file_whose_reading_was_cut_short_is_read_again(site: Site) -> None:
    """A killed server may have stored its documents, and nothing of the file itself."""
    client = site.client()
    store = await _store_with(client, heparin=(HEPARIN, {}))
    stores, (own,) = site.services.vector_stores, site.services.vector_stores.all(_operator(site))
    (member,) = stores.members(own)
    begun = replace(member, state="in_progress", documents=())
    stores.put_member(begun)
    job = Job(JobSpec(JOB_KIND, store, member.owner))
    await asyncio.to_thread(stores.perform, job, WorkOrder({"members": [asdict(begun)]}))
    assert stores.member(own, member.file_id) == member


def _operator(site: Site) -> Principal:
    return site.services.key_lookup.find(OPERATOR)


async def test_a_citation_names_the_page_of_a_pdf(site: Site) -> None:
    client = site.client()
    store = (await client.vector_stores.create(name="pages")).id
    content = pdf("The trial had two arms.", "Protamine reverses heparin.")
    await client.vector_stores.files.upload_and_poll(
        vector_store_id=store, file=("trial.pdf", content), poll_interval_ms=20
    )
    tool: Any = {"type": "file_search", "vector_store_ids": [store]}
    extra = {"arrowhead": {"synthesis": "extractive"}}
    made = await client.responses.create(model="base", input=QUESTION, tools=[tool], extra_body=extra)
    message: Any = made.output[-1]
    cited = message.content[0].annotations[0]
    assert (cited.filename, cited.page, cited.quote) == ("trial.pdf", 2, "Protamine reverses heparin.")


async def test_every_namespace_is_a_vector_store(site: Site) -> None:
    """Its documents are files under their own ids."""
    namespaces, client = site.services.retrieval.namespaces, site.client()
    namespaces.create("papers", NamespaceSettings(encoder="hashing"))
    text = HEPARIN.decode()
    document = Document(document_id="PMID:1", title="Trial", url="https://example.org/1")
    add_items(namespaces, "papers", [ParsedDocument(document, text, (Span(0, len(text)),), whole=True)])
    made = await client.vector_stores.retrieve("papers")
    assert (made.name, made.file_counts.completed) == ("papers", 1)
    assert [one.id async for one in client.vector_stores.files.list("papers")] == ["PMID:1"]
    (hit,) = (await client.vector_stores.search("papers", query=QUESTION)).data
    assert (hit.file_id, hit.filename) == ("PMID:1", "Trial")
    await client.vector_stores.files.update("PMID:1", vector_store_id="papers", attributes={"year": 2026})
    filters: Any = {"type": "eq", "key": "year", "value": 2026}
    assert len((await client.vector_stores.search("papers", query=QUESTION, filters=filters)).data) == 1


async def test_attributes_and_text_of_a_file(site: Site) -> None:
    client = site.client()
    store = await _store_with(client, heparin=(HEPARIN, {}))
    (member,) = [one async for one in client.vector_stores.files.list(store)]
    changed = await client.vector_stores.files.update(member.id, vector_store_id=store, attributes={"seen": True})
    assert changed.attributes == {"seen": True}
    text = [one.text async for one in client.vector_stores.files.content(member.id, vector_store_id=store)]
    assert text == [HEPARIN.decode()]
    assert (await client.vector_stores.files.delete(member.id, vector_store_id=store)).deleted
    assert (await client.vector_stores.search(store, query=QUESTION)).data == []
    assert (await client.files.retrieve(member.id)).id == member.id


async def test_two_files_of_one_name_and_two_of_one_content(site: Site) -> None:
    """Neither replaces the other, and what one gave stays when its twin goes."""
    client = site.client()
    store = await client.vector_stores.create(name="twins")
    ids: list[str] = []
    for content in (HEPARIN, DRUGS, HEPARIN):
        one = await client.vector_stores.files.upload_and_poll(
            vector_store_id=store.id, file=("same.txt", content), attributes={"n": len(ids)}, poll_interval_ms=20
        )
        ids.append(one.id)
    for number, file_id in enumerate(ids):  # one that passes, of those with the same content
        passes: Any = {"type": "eq", "key": "n", "value": number}
        (hit,) = (await client.vector_stores.search(store.id, query="reverses", filters=passes)).data
        assert (hit.file_id, hit.attributes) == (file_id, {"n": number})
    assert len((await client.vector_stores.search(store.id, query="reverses")).data) == 2
    await client.files.delete(ids[2])
    assert len((await client.vector_stores.search(store.id, query="reverses")).data) == 2
    await client.files.delete(ids[0])
    left = await client.vector_stores.search(store.id, query="reverses")
    assert [hit.file_id for hit in left.data] == [ids[1]]


@pytest.mark.parametrize("stranger", ["other", "writer", "reader"])
async def test_what_one_key_uploads_no_other_key_sees(site: Site, stranger: str) -> None:
    """Not even another key of the settings: neither files nor vector stores, by list, id or search."""
    store = await _store_with(site.client(), heparin=(HEPARIN, {}))
    (member,) = [one async for one in site.client().vector_stores.files.list(store)]
    client = site.client(stranger)
    assert [one async for one in client.files.list()] == []
    assert store not in [one.id async for one in client.vector_stores.list()]
    tool: Any = {"type": "file_search", "vector_store_ids": [store]}
    for ask in (
        lambda: client.files.retrieve(member.id),
        lambda: client.files.content(member.id),
        lambda: client.vector_stores.retrieve(store),
        lambda: client.vector_stores.search(store, query=QUESTION),
        lambda: client.vector_stores.files.retrieve(member.id, vector_store_id=store),
        lambda: client.responses.create(model="base:medrag", input=QUESTION, tools=[tool]),
        lambda: client.chat.completions.create(
            model="base", messages=[{"role": "user", "content": QUESTION}], tools=[tool]
        ),
    ):
        with pytest.raises(openai.NotFoundError):
            await ask()


@pytest.mark.parametrize("stranger", ["other", "writer"])
async def test_no_route_shows_another_keys_store(site: Site, stranger: str) -> None:
    """By namespace and id: passages, documents, lists, searches, changes, and the tools and resources for agents."""
    store = await _store_with(site.client(), heparin=(HEPARIN, {}))

    async def get(who: str, path: str, **body: Any) -> httpx2.Response:
        method, headers = "POST" if body else "GET", {"Authorization": f"Bearer {site.keys[who]}"}
        return await site.http.request(method, path, headers=headers, json=body or None)

    (found,) = (await get("operator", "/v1/search", query=QUESTION, namespaces=[store])).json()["data"]
    passage, document = f"/v1/passages/{store}/{found['id']}", f"/documents/{quote(found['document_id'], safe='')}"
    own = [passage, *(f"/v1/namespaces/{store}{path}" for path in ("", "/documents", document, "/unread"))]
    for path in own:
        assert (await get("operator", path)).status_code == 200, path
        assert (await get(stranger, path)).status_code == 404, path
    assert (await get(stranger, "/v1/search", query=QUESTION, namespaces=[store])).status_code == 404
    assert (await get(stranger, f"/v1/namespaces/{store}/verify", wait=1)).status_code == 404
    for path in ("/v1/namespaces", "/v1/vector_stores"):
        assert store in (await get("operator", path)).text and store not in (await get(stranger, path)).text
    everywhere = await get(stranger, "/v1/search", query=QUESTION)
    assert store not in everywhere.text
    site.http.headers["Authorization"] = f"Bearer {site.keys[stranger]}"
    async with Client(streamable_http_client("http://127.0.0.1:8000/mcp", http_client=site.http)) as agent:
        read = await agent.call_tool("read_passage", {"namespace": store, "id": found["id"]})
        searched = await agent.call_tool("search", {"query": QUESTION, "namespaces": [store]})
        assert read.is_error and searched.is_error
        with pytest.raises(MCPError):
            await agent.read_resource(f"arrowhead://passages/{store}/{found['id']}")


async def test_a_key_that_may_not_change_uploads_nothing(site: Site) -> None:
    with pytest.raises(openai.PermissionDeniedError):
        await site.client("reader").files.create(file=("a.txt", HEPARIN), purpose="assistants")
    with pytest.raises(openai.PermissionDeniedError):
        await site.client("reader").vector_stores.create(name="x")


async def test_lists_go_page_by_page_past_damage(site: Site, tmp_path: Path) -> None:
    client = site.client("writer")
    ids = [(await client.vector_stores.create(name=f"store {n}")).id for n in range(5)]
    first = await client.vector_stores.list(limit=2, order="asc")
    assert ([one.id for one in first.data], first.has_more) == (ids[:2], True)
    assert [one.id async for one in client.vector_stores.list(limit=2, order="asc")] == ids
    files = [(await client.files.create(file=(f"{n}.txt", b"x"), purpose="user_data")).id for n in range(3)]
    assert [one.id async for one in client.files.list(limit=2)] == files[::-1]
    assert [one.id async for one in client.files.list(limit=1, after=files[1])] == files[:1]
    for listing in (client.files.list(after="file-none"), client.vector_stores.list(after="vs_none")):
        with pytest.raises(openai.UnprocessableEntityError, match="after: this list has no such id"):
            await listing
    with sqlite3.connect(tmp_path / "namespaces" / ".files.sqlite") as stored:
        stored.execute("UPDATE arrowhead_records SET body = X'7B' WHERE id IN (?, ?)", (files[1], ids[0]))
    assert [one.id async for one in client.files.list(limit=1)] == [files[2], files[0]]
    assert {one.id async for one in client.vector_stores.list()} == set(ids)
    site.services.vector_stores.sweep()


async def test_a_vector_store_is_renamed_and_deleted(site: Site) -> None:
    client = site.client()
    store = await _store_with(client, heparin=(HEPARIN, {}))
    changed = await client.vector_stores.update(store, name="Über Heparin ☃", metadata={"team": "icu"})
    assert (changed.name, changed.metadata) == ("Über Heparin ☃", {"team": "icu"})
    assert (await client.vector_stores.delete(store)).deleted
    assert store not in site.services.retrieval.namespaces.names()
    with pytest.raises(openai.NotFoundError) as caught:
        await client.vector_stores.retrieve(store)
    assert caught.value.body["param"] == "vector_store_id"  # type: ignore[index]


async def test_what_has_expired_is_neither_found_nor_kept(site: Site) -> None:
    client = site.client()
    store = await _store_with(client, heparin=(HEPARIN, {}))
    made = await client.vector_stores.update(store, expires_after={"anchor": "last_active_at", "days": 1})
    assert made.expires_at and made.last_active_at and made.expires_at - made.last_active_at == 86_400
    stores = site.services.vector_stores
    (own,) = stores.all(_operator(site))
    stores.put(replace(own, active=own.active - 90_000))
    assert (await client.vector_stores.retrieve(store)).status == "expired"
    with pytest.raises(openai.NotFoundError):
        await client.vector_stores.search(store, query=QUESTION)
    await asyncio.to_thread(stores.sweep)
    assert store not in site.services.retrieval.namespaces.names()


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/vector_stores", {"name": 5}, "name"),
        ("/v1/vector_stores", {"expires_after": {"anchor": "created_at", "days": 1}}, "expires_after.anchor"),
        ("/v1/vector_stores", {"metadata": {"k": "x" * 600}}, "metadata.k"),
        ("/v1/vector_stores", {"colour": "red"}, "colour"),
        ("/v1/vector_stores", {"file_ids": ["file-none"]}, "file_ids"),
        ("/v1/vector_stores/{store}/files", {"file_id": "file-none"}, "file_id"),
        ("/v1/vector_stores/{store}/file_batches", {}, "file_ids"),
        ("/v1/vector_stores/{store}/search", {"query": "x", "max_num_results": 51}, "max_num_results"),
        ("/v1/vector_stores/{store}/search", {"query": "x", "filters": {"type": "like"}}, "filters.type"),
        (
            "/v1/vector_stores/{store}/search",
            {"query": "x", "filters": {"type": "or", "filters": [{"type": "gt", "key": "y", "value": True}]}},
            "filters.filters[0].value",
        ),
        ("/v1/vector_stores/none/search", {"query": "x"}, "vector_store_id"),
    ],
)
async def test_errors_name_the_field(site: Site, path: str, body: Any, param: str) -> None:
    store = (await site.client().vector_stores.create(name="x")).id
    headers = {"Authorization": f"Bearer {OPERATOR}"}
    reply = await site.http.post(path.format(store=store), json=body, headers=headers)
    error = reply.json()["error"]
    assert (reply.status_code in (404, 422), error["type"]) == (True, "invalid_request_error"), error
    assert error["param"] == param


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        (5, "tools"),
        ([{"type": "file_search"}, {"type": "file_search"}], "tools"),
        ([{"type": "file_search"}], "tools[0].vector_store_ids"),
        ([{"type": "file_search", "vector_store_ids": [5]}], "tools[0].vector_store_ids[0]"),
        ([{"type": "file_search", "vector_store_ids": ["none"]}], "tools[0].vector_store_ids"),
        ([{"type": "file_search", "vector_store_ids": ["x"], "max_num_results": 0}], "tools[0].max_num_results"),
        ([{"type": "file_search", "vector_store_ids": ["x"], "filters": {"type": "eq"}}], "tools[0].filters.key"),
        (
            [{"type": "file_search", "vector_store_ids": ["x"], "ranking_options": {"score_threshold": 0.5}}],
            "tools[0].ranking_options",
        ),
    ],
)
async def test_a_wrong_tool_is_refused_by_name(site: Site, tools: Any, param: str) -> None:
    headers = {"Authorization": f"Bearer {OPERATOR}"}
    for path, asked in (
        ("/v1/responses", {"input": QUESTION}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": QUESTION}]}),
    ):
        reply = await site.http.post(path, json={"model": "base", "tools": tools} | asked, headers=headers)
        error = reply.json()["error"]
        assert (reply.status_code in (404, 422), error["param"]) == (True, param), error


async def test_uploads_are_bounded(site: Site) -> None:
    client = site.client()
    with pytest.raises(openai.APIStatusError) as caught:
        await client.files.create(file=("big.txt", b"x" * 80_000), purpose="assistants")
    assert caught.value.status_code == 413
    for file, purpose, param in ((("a.txt", b""), "assistants", "file"), (("a.txt", b"x"), "vision", "purpose")):
        with pytest.raises(openai.UnprocessableEntityError) as refused:
            await client.files.create(file=file, purpose=purpose)  # type: ignore[arg-type]
        assert refused.value.body["param"] == param  # type: ignore[index]


async def test_a_form_of_another_site_is_refused(site: Site) -> None:
    headers = {"Authorization": f"Bearer {OPERATOR}", "Origin": "https://evil.example"}
    reply = await site.http.post(
        "/v1/files", files={"file": ("a.txt", b"x")}, data={"purpose": "assistants"}, headers=headers
    )
    assert reply.status_code == 403


async def test_a_response_searches_files_and_cites_them(site: Site) -> None:
    client = site.client()
    store = await _store_with(client, heparin=(HEPARIN, {"year": 2026}), drugs=(DRUGS, {"year": 2020}))
    tool: Any = {"type": "file_search", "vector_store_ids": [store], "max_num_results": 5}
    made = await client.responses.create(
        model="base",
        input=QUESTION,
        tools=[tool],
        include=["file_search_call.results"],
        extra_body={"arrowhead": {"synthesis": "extractive"}},
    )
    (call,) = [item for item in made.output if item.type == "file_search_call"]
    assert (call.status, call.queries) == ("completed", [QUESTION])
    assert call.results and call.results[0].filename == "heparin.txt" and call.results[0].attributes == {"year": 2026}
    message = made.output[-1]
    assert message.type == "message" and message.content[0].type == "output_text"
    part = message.content[0]
    cited = part.annotations[0]
    assert cited.type == "file_citation" and cited.filename == "heparin.txt"
    more = cited.model_extra or {}
    assert more["quote"] == "Protamine reverses heparin."
    assert HEPARIN.decode()[more["start"] : more["end"]] == more["quote"]
    assert part.text[: cited.index].endswith("Protamine reverses heparin.”")


async def test_a_streamed_response_builds_the_same_items(site: Site) -> None:
    client = site.client()
    store = await _store_with(client, heparin=(HEPARIN, {}))
    tool: Any = {"type": "file_search", "vector_store_ids": [store]}
    asked: dict[str, Any] = {"model": "base:medrag", "input": QUESTION, "tools": [tool]}
    extra = {"arrowhead": {"synthesis": "extractive"}}
    kinds = []
    async with client.responses.stream(**asked, extra_body=extra) as stream:
        async for event in stream:
            kinds.append(event.type)  # noqa: PERF401
        final = await stream.get_final_response()
    searched = [kind for kind in kinds if "file_search" in kind]
    assert searched == [f"response.file_search_call.{what}" for what in ("in_progress", "searching", "completed")]
    assert "response.output_text.annotation.added" in kinds
    whole = await client.responses.create(**asked, extra_body=extra)
    kinds_of = [[item.type for item in one.output] for one in (final, whole)]
    assert kinds_of[0] == kinds_of[1]


async def test_a_chat_searches_files_within_a_filter(site: Site) -> None:
    client = site.client()
    store = await _store_with(client, heparin=(HEPARIN, {"year": 2026}), drugs=(DRUGS, {"year": 2020}))
    extra = {"arrowhead": {"synthesis": "extractive"}}
    for year, name in ((2026, "heparin.txt"), (2020, None)):
        filters = {"type": "eq", "key": "year", "value": year}
        tool: Any = {"type": "file_search", "vector_store_ids": [store], "filters": filters}
        made = await client.chat.completions.create(
            model="base", messages=[{"role": "user", "content": QUESTION}], tools=[tool], extra_body=extra
        )
        annotations: Any = made.choices[0].message.annotations or []
        cited = {one.file_citation["filename"] for one in annotations}
        assert name is None or cited == {name}
        assert "heparin.txt" not in cited or year == 2026


async def test_a_search_that_finds_nothing_says_so(site: Site) -> None:
    client = site.client()
    store = (await client.vector_stores.create(name="empty")).id
    tool: Any = {"type": "file_search", "vector_store_ids": [store]}
    made = await client.responses.create(
        model="base", input=QUESTION, tools=[tool], include=["file_search_call.results"]
    )
    call = next(item for item in made.output if item.type == "file_search_call")
    assert (call.status, call.results) == ("completed", [])
    assert "Nothing was found" in made.output_text


@pytest.mark.weights
def test_the_pages_example_runs(
    embedded_model: Served, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands, but for the address."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(program.replace("http://127.0.0.1:8000", embedded_model.url), "files.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "Protamine" in printed and "heparin.txt" in printed

"""Stored responses, conversations and answers in the background, by the official SDK in this process."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import pytest_asyncio
from bare_services import CARD, OPERATOR, bare_services, keyed_settings, reached, sdk
from cryptography.fernet import Fernet
from server_process import Served

from models.engines.base import EngineOptions
from models.engines.scripted_engine import ScriptedEngine
from retrieval.storage.records import Records, SqliteDatabase
from server.auth.authentication import FileKeyStore
from server.auth.keys import NewKey
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Event, Method
from server.methods.direct import Direct
from server.state.responses import StoredResponses, read_seal
from server.wiring.retrieval import build_retrieval
from server.wiring.services import Services

PAGE = (Path(__file__).parents[2] / "docs" / "stored-responses.md").read_text(encoding="utf-8")


class Waiting:
    """The plain model, which does not answer "wait" before the test lets it."""

    name = "direct"
    description = "waits"

    def __init__(self, inner: Method) -> None:
        self._inner = inner
        self.may_go_on = asyncio.Event()

    def check(self, ask: AnswerRequest) -> None:
        self._inner.check(ask)

    async def answer(self, ask: AnswerRequest) -> AsyncIterator[Event]:
        if ask.question == "wait":
            await self.may_go_on.wait()
        if ask.question == "fail":
            raise RuntimeError("a fault of the test")
        async for event in self._inner.answer(ask):
            yield event
            if ask.question == "fail late":
                raise RuntimeError("a fault of the test")


def _answer(prompt: str) -> str:
    """Say what the model was shown, in one line."""
    return " " + " | ".join(line for line in prompt.splitlines() if line.strip())


@dataclass(frozen=True)
class Site:
    """The application, its keys by name, and the method that waits."""

    http: httpx2.AsyncClient
    keys: dict[str, str]
    method: Waiting
    folder: Path
    clients: list[openai.AsyncOpenAI] = field(default_factory=list)

    def client(self, who: str = "operator") -> openai.AsyncOpenAI:
        return sdk(self.http, self.keys[who])


def _services(folder: Path, method: Callable[[EngineLifecycle], Waiting]) -> tuple[Services, Waiting]:
    settings = keyed_settings(folder)
    lifecycle = EngineLifecycle(CARD, lambda: ScriptedEngine(CARD, EngineOptions(), _answer))
    waiting = method(lifecycle)
    retrieval = build_retrieval(settings.retrieval, folder / "namespaces")
    key_file = folder / "responses.key"
    if not key_file.exists():
        key_file.write_bytes(Fernet.generate_key())
    services = bare_services(
        settings,
        lifecycle,
        folder,
        methods={"direct": waiting},
        retrieval=retrieval,
        responses=StoredResponses(Records(SqliteDatabase(folder / "responses.sqlite")), read_seal(key_file)),
        closers=(retrieval.close,),
    )
    return services, waiting


async def _site(folder: Path) -> AsyncIterator[Site]:
    name = f"ben-{uuid.uuid4().hex}"
    keys = {"operator": OPERATOR, "ben": FileKeyStore(folder / "keys.json").create(NewKey(name=name))[0]}
    services, method = _services(folder, lambda lifecycle: Waiting(Direct(lifecycle)))
    async with reached(services) as http:
        yield Site(http, keys, method, folder)


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async for one in _site(tmp_path):
        yield one


async def _polled(client: openai.AsyncOpenAI, response_id: str) -> Any:
    async with asyncio.timeout(20):
        while True:
            found = await client.responses.retrieve(response_id)
            if found.status not in ("queued", "in_progress"):
                return found
            await asyncio.sleep(0.02)


async def test_a_response_follows_the_one_before(site: Site) -> None:
    client = site.client()
    first = await client.responses.create(model="base", input="My name is Ada.", instructions="Be brief.")
    assert (first.store, first.previous_response_id) == (True, None)  # type: ignore[attr-defined]
    second = await client.responses.create(model="base", input="What is my name?", previous_response_id=first.id)
    assert "My name is Ada." in second.output_text and "What is my name?" in second.output_text
    assert second.output_text.startswith("My name is Ada.")  # and not with the instructions, which are of one request
    assert second.previous_response_id == first.id
    third = await client.responses.create(model="base", input="And now?", previous_response_id=second.id)
    assert third.output_text.index("My name is Ada.") < third.output_text.index("What is my name?")


async def test_a_stored_response_is_read_again_and_deleted(site: Site) -> None:
    client = site.client()
    made = await client.responses.create(model="base", input="hello", metadata={"team": "icu"})
    found = await client.responses.retrieve(made.id)
    assert (found.output_text, found.metadata, found.status) == (made.output_text, {"team": "icu"}, "completed")
    (item,) = [one async for one in await client.responses.input_items.list(made.id)]
    assert item.type == "message" and item.content[0].text == "hello"  # type: ignore[union-attr]
    await client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(made.id)


async def test_a_streamed_response_is_stored_before_it_ends(site: Site) -> None:
    client = site.client()
    async with client.responses.stream(model="base", input="hello") as stream:
        async for event in stream:
            if event.type == "response.completed":
                assert (await client.responses.retrieve(event.response.id)).output_text == event.response.output_text


async def test_a_stream_that_fails_is_stored_as_failed(site: Site) -> None:
    client = site.client()
    async with client.responses.stream(model="base", input="fail late") as stream:
        ended = [event async for event in stream][-1]
    assert ended.type == "response.failed"
    assert (await client.responses.retrieve(ended.response.id)).status == "failed"


async def test_a_full_conversation_is_refused_before_the_answer(site: Site) -> None:
    client = site.client()
    talk = await client.conversations.create()
    items: Any = [{"type": "message", "role": "user", "content": "x"}] * 20
    for _ in range(50):
        await client.conversations.items.create(talk.id, items=items)
    with pytest.raises(openai.APIStatusError, match="a conversation has at most 1000 items") as refused:
        await client.responses.create(model="base", input="hello", conversation=talk.id)
    assert refused.value.body["param"] == "conversation"  # type: ignore[index]


async def test_what_is_not_to_be_stored_is_not(site: Site) -> None:
    client = site.client()
    made = await client.responses.create(model="base", input="hello", store=False)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(made.id)
    with pytest.raises(openai.NotFoundError) as refused:
        await client.responses.create(model="base", input="more", previous_response_id=made.id)
    assert refused.value.param == "previous_response_id"


async def test_a_request_that_is_not_stored_may_follow_one_that_is(site: Site) -> None:
    client = site.client()
    first = await client.responses.create(model="base", input="My name is Ada.")
    second = await client.responses.create(
        model="base", input="What is my name?", previous_response_id=first.id, store=False
    )
    assert "My name is Ada." in second.output_text


async def test_no_key_reads_what_is_anothers(site: Site) -> None:
    made = await site.client().responses.create(model="base", input="My name is Ada.")
    talk = await site.client().conversations.create(items=[{"type": "message", "role": "user", "content": "Ada"}])
    ben = site.client("ben")
    for ask in (
        lambda: ben.responses.retrieve(made.id),
        lambda: ben.responses.delete(made.id),
        lambda: ben.responses.cancel(made.id),
        lambda: ben.responses.input_items.list(made.id),
        lambda: ben.responses.create(model="base", input="x", previous_response_id=made.id),
        lambda: ben.responses.create(model="base", input="x", conversation=talk.id),
        lambda: ben.conversations.retrieve(talk.id),
        lambda: ben.conversations.items.list(talk.id),
        lambda: ben.conversations.update(talk.id, metadata={}),
        lambda: ben.conversations.delete(talk.id),
        lambda: ben.conversations.items.create(talk.id, items=[{"role": "user", "content": "x"}]),
    ):
        with pytest.raises(openai.NotFoundError):
            await ask()


async def test_nothing_of_it_is_readable_on_the_disk(site: Site) -> None:
    await site.client().responses.create(model="base", input="My patient is called Zebulon.")
    written = b"".join(path.read_bytes() for path in site.folder.glob("responses.sqlite*"))
    assert len(written) > 1000 and b"Zebulon" not in written


async def test_turns_of_a_conversation(site: Site) -> None:
    client = site.client()
    talk = await client.conversations.create(
        metadata={"topic": "names"}, items=[{"type": "message", "role": "user", "content": "My name is Ada."}]
    )
    made = await client.responses.create(model="base", input="What is my name?", conversation=talk.id)
    assert "My name is Ada." in made.output_text and made.conversation and made.conversation.id == talk.id
    items = [one async for one in client.conversations.items.list(talk.id, order="asc")]
    assert [one.role for one in items] == ["user", "user", "assistant"]  # type: ignore[union-attr]
    again = await client.responses.create(model="base", input="Again?", conversation={"id": talk.id}, store=False)
    assert "What is my name?" in again.output_text
    assert len([one async for one in client.conversations.items.list(talk.id)]) == 5
    first: Any = items[0]
    assert (await client.conversations.items.retrieve(first.id, conversation_id=talk.id)).id == first.id
    await client.conversations.items.delete(first.id, conversation_id=talk.id)
    forgotten = await client.responses.create(model="base", input="And?", conversation=talk.id)
    assert "My name is Ada." not in forgotten.output_text.split("What is my name?")[0]
    assert (await client.conversations.update(talk.id, metadata={"a": "b"})).metadata == {"a": "b"}
    assert (await client.conversations.delete(talk.id)).deleted
    with pytest.raises(openai.NotFoundError):
        await client.conversations.retrieve(talk.id)


async def test_an_answer_in_the_background_is_polled(site: Site) -> None:
    client = site.client()
    made = await client.responses.create(model="base", input="wait", background=True)
    assert (made.status, made.output, made.background) == ("queued", [], True)
    assert (await client.responses.retrieve(made.id)).status == "in_progress"
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        await client.responses.create(model="base", input="x", previous_response_id=made.id)
    assert refused.value.param == "previous_response_id"
    talk = await client.conversations.create()
    kept = await client.responses.create(model="base", input="wait", background=True, conversation=talk.id)
    await client.conversations.delete(talk.id)
    site.method.may_go_on.set()
    alone = await _polled(client, kept.id)
    assert (alone.status, alone.conversation, "wait" in alone.output_text) == ("completed", None, True)
    ended = await _polled(client, made.id)
    assert (ended.status, "wait" in ended.output_text) == ("completed", True)


async def test_an_answer_in_the_background_is_cancelled(site: Site) -> None:
    client = site.client()
    made = await client.responses.create(model="base", input="wait", background=True)
    assert (await client.responses.cancel(made.id)).status == "cancelled"
    site.method.may_go_on.set()
    assert (await client.responses.retrieve(made.id)).status == "cancelled"
    whole = await client.responses.create(model="base", input="hello")
    with pytest.raises(openai.UnprocessableEntityError):
        await client.responses.cancel(whole.id)


async def test_a_failure_in_the_background_is_told(site: Site) -> None:
    client = site.client()
    made = await client.responses.create(model="base", input="fail", background=True)
    ended = await _polled(client, made.id)
    assert ended.status == "failed" and ended.error and ended.error.code == "server_error"
    assert "fault of the test" not in ended.error.message


async def test_a_deleted_answer_in_the_background_stays_deleted(site: Site) -> None:
    client = site.client()
    made = await client.responses.create(model="base", input="wait", background=True)
    await client.responses.delete(made.id)
    site.method.may_go_on.set()
    await asyncio.sleep(0)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(made.id)


async def test_answers_in_the_background_are_bounded_and_lost_ones_told(tmp_path: Path) -> None:
    """After a restart those that ran have failed; all else is still there."""
    ids: list[str] = []
    async for site in _site(tmp_path):
        client = site.client()
        wait: Any = {"model": "base", "input": "wait", "background": True}
        begun = await asyncio.gather(*(client.responses.create(**wait) for _ in range(20)), return_exceptions=True)
        ids = [one.id for one in begun if not isinstance(one, BaseException)]
        assert len(ids) == 16 and {type(one) for one in begun[16:]} == {openai.RateLimitError}
        ids.append((await client.responses.create(model="base", input="hello")).id)
    async for site in _site(tmp_path):
        after = await site.client().responses.create(model="base", input="hello", previous_response_id=ids[1])
        assert after.status == "completed"  # as behind one that failed
        found = [await site.client().responses.retrieve(one) for one in (ids[0], ids[-1])]
        assert [one.status for one in found] == ["failed", "completed"]
        assert found[0].error and "ended before its answer" in found[0].error.message


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"store": "yes"}, "store"),
        ({"previous_response_id": 5}, "previous_response_id"),
        ({"previous_response_id": "a", "conversation": "b"}, "previous_response_id"),
        ({"conversation": {"name": "x"}}, "conversation"),
        ({"conversation": "conv_none"}, "conversation"),
        ({"background": True, "store": False}, "background"),
        ({"background": True, "stream": True}, "background"),
        ({"previous_response_id": "resp_none"}, "previous_response_id"),
    ],
)
async def test_errors_name_the_field(site: Site, body: dict[str, Any], param: str) -> None:
    headers = {"Authorization": f"Bearer {OPERATOR}"}
    reply = await site.http.post("/v1/responses", json={"model": "base", "input": "x"} | body, headers=headers)
    error = reply.json()["error"]
    assert (reply.status_code in (404, 422), error["param"]) == (True, param)


async def test_items_that_are_not_read_are_refused(site: Site) -> None:
    headers = {"Authorization": f"Bearer {OPERATOR}"}
    for items, param in (
        ([{"type": "computer_call"}], "items[0].type"),
        ([{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}], "items[0].content[0]"),
        ([{"role": "user", "content": "x"}] * 21, "items"),
    ):
        reply = await site.http.post("/v1/conversations", json={"items": items}, headers=headers)
        assert (reply.status_code, reply.json()["error"]["param"]) == (422, param)


def test_where_nothing_is_stored_it_is_said(client: openai.OpenAI) -> None:
    """By default."""
    for ask in (lambda: client.responses.retrieve("resp_1"), lambda: client.conversations.create()):
        with pytest.raises(openai.NotFoundError, match="responses_key_file"):
            ask()


@pytest.mark.weights
def test_the_pages_example_runs(
    host_with: Callable[[dict[str, str | None]], AbstractContextManager[Served]],
    embedded_settings: dict[str, str | None],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """As it stands, but for the address."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "key").write_bytes(Fernet.generate_key())
    settings = embedded_settings | {"ARROWHEAD_STATE__RESPONSES_KEY_FILE": str(tmp_path / "key")}
    with host_with(settings) as server:
        exec(compile(program.replace("http://127.0.0.1:8000", server.url), "stored-responses.md", "exec"), {})
    assert "completed" in capsys.readouterr().out

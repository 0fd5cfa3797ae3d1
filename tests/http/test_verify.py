"""``POST /v1/verify`` in this process, with a verifier without weights."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from bare_services import OPERATOR, bare_services, keyed_settings, plain_lifecycle, reached
from jsonschema import Draft202012Validator
from lexical_verifier import LexicalVerifier

from models.errors import ModelNotFound
from models.verifiers.base import Judgement, Pair
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.search.searcher import SearchOptions
from retrieval.passages import Document
from server.api.retrieval.verify import MAX_CHARS, MAX_QUERY
from server.auth.authentication import FileKeyStore
from server.auth.keys import NewKey, Scopes
from server.evidence.verifier import VerifierService
from server.wiring.services import Services

CLAIM = "Aspirin lowers the risk of stroke."
YES = "Aspirin lowers the risk of stroke in men."
NO = "Aspirin never lowers the risk of stroke."


class Slow(LexicalVerifier):
    """Judge when it is told to."""

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.may_go.set()
        self.begun = threading.Event()

    def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        self.begun.set()
        assert self.may_go.wait(30)
        return super().judge(pairs)


@dataclass(frozen=True)
class Site:
    """The application, its keys by name, and what judges."""

    http: httpx2.AsyncClient
    services: Services
    keys: dict[str, str]
    verifier: Slow
    passage: str

    async def verify(self, body: Any, who: str = "operator", **headers: str) -> tuple[int, Any]:
        sent = {"Authorization": f"Bearer {self.keys[who]}", **headers}
        async with asyncio.timeout(60):
            reply = await self.http.post("/v1/verify", json=body, headers=sent)
        return reply.status_code, reply.json()


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    store = FileKeyStore(tmp_path / "keys.json")
    wishes = [NewKey(name="anna"), NewKey(name="ben", scopes=Scopes(namespaces=("other",)))]
    keys = {"operator": OPERATOR} | {wish.name: store.create(wish)[0] for wish in wishes}
    verifier = Slow()
    service = VerifierService("lexical", lambda: verifier)
    services = bare_services(keyed_settings(tmp_path), plain_lifecycle(), tmp_path, verifier=service)
    namespaces = services.retrieval.namespaces
    for name in ("papers", "other"):
        namespaces.create(name, NamespaceSettings(encoder="hashing"))
    document = Document(document_id="PMID:1", title="Aspirin")
    add_items(namespaces, "papers", [ParsedDocument(document, YES, (Span(0, len(YES)),), whole=True)])
    (hit,) = services.retrieval.searcher.search("aspirin", ["papers"], SearchOptions(k=1))
    async with reached(services) as http:
        yield Site(http, services, keys, verifier, str(hit.passage.passage_id))


async def test_each_piece_has_a_result_and_the_surest_decides(site: Site) -> None:
    """The sentence is quoted with its place in the piece."""
    evidence = ["The heart pumps blood.", f"It was a trial. {YES}"]
    status, reply = await site.verify({"claim": CLAIM, "evidence": evidence})

    assert (status, reply["object"], reply["model"]) == (200, "verification", "lexical")
    assert [result["index"] for result in reply["results"]] == [0, 1]
    sentence = reply["results"][1]["sentence"]
    assert evidence[1][sentence["start"] : sentence["end"]] == sentence["text"] == YES
    assert reply["overall"] == {
        "verdict": "supported",
        "index": 1,
        "probabilities": {"supports": 1.0, "contradicts": 0.0, "neither": 0.0},
    }
    assert reply["results"][1]["relevance"] == 1.0


async def test_the_reply_is_as_the_document_says(site: Site) -> None:
    status, reply = await site.verify({"claim": CLAIM, "evidence": ["Blood.", YES]})
    document = (await site.http.get("/openapi.json", headers={"Authorization": f"Bearer {OPERATOR}"})).json()
    described = document["paths"]["/v1/verify"]["post"]
    schema = described["responses"]["200"]["content"]["application/json"]["schema"]
    whole = schema | {"components": document["components"]}

    assert status == 200
    assert [error.message for error in Draft202012Validator(whole).iter_errors(reply)] == []
    assert {"422", "429", "503", "504"} <= set(described["responses"])
    assert [one["name"] for one in described["parameters"]] == ["X-Request-Timeout"]


async def test_to_a_question_supports_is_yes(site: Site) -> None:
    """And contradicts no; what says neither tells nothing."""
    question = "Aspirin lowers the risk of stroke?"
    for evidence, verdict in (([YES], "supported"), ([NO, "Blood."], "contradicted"), (["Blood."], "not_told")):
        status, reply = await site.verify({"question": question, "evidence": evidence, "model": "lexical"})
        assert (status, reply["overall"]["verdict"]) == (200, verdict)


async def test_a_passage_is_named_by_its_id(site: Site) -> None:
    """In its namespace or in all that the key reads, beside texts."""
    for piece in ({"passage": site.passage}, {"passage": site.passage, "namespace": "papers"}):
        status, reply = await site.verify({"claim": CLAIM, "evidence": ["Blood.", piece]})
        assert (status, reply["overall"]["verdict"], reply["overall"]["index"]) == (200, "supported", 1)
        assert reply["results"][1]["sentence"]["text"] == YES


@pytest.mark.parametrize("piece", [{}, {"namespace": "papers"}])
async def test_a_key_has_no_passage_of_a_namespace_outside_its_scopes(site: Site, piece: dict[str, str]) -> None:
    """As if it were not there."""
    body = {"claim": CLAIM, "evidence": [{"passage": site.passage} | piece]}
    status, reply = await site.verify(body, "ben")
    none = await site.verify({"claim": CLAIM, "evidence": [{"passage": "12"} | piece]}, "ben")

    field = "evidence[0].namespace" if piece else "evidence[0].passage"
    assert (status, reply["error"]["param"]) == (404, field)
    assert (none[0], none[1]["error"]["code"]) == (404, reply["error"]["code"])


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"evidence": [YES]}, 422, "claim"),
        ({"claim": CLAIM, "question": "Why?", "evidence": [YES]}, 422, "claim"),
        ({"claim": "", "evidence": [YES]}, 422, "claim"),
        ({"question": " ? ", "evidence": [YES]}, 422, "question"),
        ({"claim": "x" * (MAX_QUERY + 1), "evidence": [YES]}, 422, "claim"),
        ({"claim": CLAIM}, 422, "evidence"),
        ({"claim": CLAIM, "evidence": []}, 422, "evidence"),
        ({"claim": CLAIM, "evidence": YES}, 422, "evidence"),
        ({"claim": CLAIM, "evidence": [YES] * 2049}, 422, "evidence"),
        ({"claim": CLAIM, "evidence": ["word " * (MAX_CHARS // 8)] * 2}, 422, "evidence"),
        ({"claim": CLAIM, "evidence": ["It is so. " * 1001]}, 422, "evidence"),
        ({"claim": CLAIM, "evidence": [YES, " ... "]}, 422, "evidence[1]"),
        ({"claim": CLAIM, "evidence": [7]}, 422, "evidence[0]"),
        ({"claim": CLAIM, "evidence": [{}]}, 422, "evidence[0].passage"),
        ({"claim": CLAIM, "evidence": [{"passage": 5}]}, 422, "evidence[0].passage"),
        ({"claim": CLAIM, "evidence": [{"passage": "one"}]}, 422, "evidence[0].passage"),
        ({"claim": CLAIM, "evidence": [{"passage": "1", "text": YES}]}, 422, "evidence[0].text"),
        ({"claim": CLAIM, "evidence": [{"passage": "9" * 19}]}, 404, "evidence[0].passage"),
        ({"claim": CLAIM, "evidence": [{"passage": "5", "namespace": "nowhere"}]}, 404, "evidence[0].namespace"),
        ({"claim": CLAIM, "evidence": [{"passage": "5", "namespace": "../papers"}]}, 404, "evidence[0].namespace"),
        ({"claim": CLAIM, "evidence": [YES], "model": "gpt"}, 404, "model"),
        ({"claim": CLAIM, "evidence": [YES], "colour": 1}, 422, "colour"),
    ],
)
async def test_a_wrong_request_names_its_field(site: Site, body: Any, status: int, param: str) -> None:
    """In OpenAI's error shape, before any model is loaded."""
    code, reply = await site.verify(body)
    assert (code, set(reply["error"])) == (status, {"message", "type", "param", "code"})
    assert reply["error"]["param"] == param
    assert not site.verifier.begun.is_set()


async def test_the_deadline_ends_the_wait(site: Site) -> None:
    """The client's header can shorten it."""
    site.verifier.may_go.clear()
    status, reply = await site.verify({"claim": CLAIM, "evidence": [YES]}, **{"X-Request-Timeout": "0.1"})
    assert (status, reply["error"]["code"]) == (504, "timeout")
    status, reply = await site.verify({"claim": CLAIM, "evidence": [YES]}, **{"X-Request-Timeout": "soon"})
    assert (status, reply["error"]["param"]) == (422, "X-Request-Timeout")
    site.verifier.may_go.set()
    assert (await site.verify({"claim": CLAIM, "evidence": [YES]}))[0] == 200


async def test_two_keys_are_served_at_once_and_one_key_in_turn(site: Site) -> None:
    """A key that asks much has one place, so that another one's request is judged beside it."""
    site.verifier.may_go.clear()
    body = {"claim": CLAIM, "evidence": [YES]}
    first = [asyncio.create_task(site.verify(body, "anna")) for _ in range(3)]
    assert await asyncio.to_thread(site.verifier.begun.wait, 30)
    other = asyncio.create_task(site.verify({"claim": CLAIM, "evidence": [NO]}, "ben"))
    await asyncio.sleep(0.05)
    waiting = site.services.verifier._waiting
    assert [part.pairs[0].evidence for part in waiting] == [NO]

    site.verifier.may_go.set()
    assert (await other)[1]["overall"]["verdict"] == "contradicted"
    assert [(await one)[1]["overall"]["verdict"] for one in first] == ["supported"] * 3


async def test_a_model_that_cannot_be_loaded_is_a_clear_503(tmp_path: Path) -> None:
    """The setting is named, and no path; the list of models has the verifier all the same."""

    def load() -> LexicalVerifier:
        raise ModelNotFound("/srv/nli is not here")

    service = VerifierService("nli", load)
    services = bare_services(keyed_settings(tmp_path), plain_lifecycle(), tmp_path, verifier=service)
    async with reached(services) as http:
        http.headers["Authorization"] = f"Bearer {OPERATOR}"
        reply = await http.post("/v1/verify", json={"claim": CLAIM, "evidence": [YES]})
        error = reply.json()["error"]
        assert (reply.status_code, error["code"]) == (503, "verifier_unavailable")
        assert "/srv/nli" not in error["message"]
        assert "verifier.model" in error["message"]
        assert reply.headers["Retry-After"]
        models = (await http.get("/v1/models")).json()["data"]
        assert [one["id"] for one in models if one["arrowhead"]["routes"][:1] == ["/v1/verify"]] == ["nli"]

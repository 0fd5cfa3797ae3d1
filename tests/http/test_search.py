"""Searching namespaces as plain HTTP clients do, against a real server process."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from http_calls import Site

PAGE = (Path(__file__).parents[2] / "docs" / "retrieval-http.md").read_text(encoding="utf-8")
DOCUMENTS: list[dict[str, Any]] = [
    {"id": "PMID:1", "title": "Aspirin after infarction", "text": "Aspirin lowers mortality after infarction.",
     "date": "2020-05-02", "types": ["Journal Article", "Review"], "url": "https://example.org/1",
     "authors": ["Doe J"], "journal": "Heart", "licence": "CC BY"},
    {"id": "PMID:2", "title": "Statins", "text": "Statins lower cholesterol; aspirin does not.", "date": "2021",
     "types": ["randomized controlled trial"], "retracted_by": ["PMID:9"]},
    {"id": "PMID:3", "title": "Broken legs", "text": "A fracture of the femur heals in weeks."},
]  # fmt: skip
pytestmark = pytest.mark.weights
RETRIEVERS = ("dense", "bm25", "pes2", "hybrid")


@pytest.fixture(scope="module")
def site(
    host_with: Callable[..., AbstractContextManager[Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    settings = {
        "ARROWHEAD_RETRIEVAL__ENCODERS": "hashing,minilm",
        "ARROWHEAD_RETRIEVAL__CROSS_ENCODER": "overlap",
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path_factory.mktemp("corpora")),
        "ARROWHEAD_SERVER__MAX_IN_FLIGHT": "64",
    }
    with host_with(settings) as running:
        made = Site(running.url)
        made.create("heart")
        made.add("heart", *DOCUMENTS)
        made.create("words-only", encoder="none")
        made.add("words-only", {"id": "note", "text": "Aspirin is an old drug."})
        yield made


def test_every_retriever_finds_the_passage_with_where_it_is_from(site: Site) -> None:
    """Nothing of the document is lost on the way; the id is a text, as 63 bits do not survive JavaScript."""
    for retriever in RETRIEVERS:
        (first, *_) = site.search(query="aspirin infarction", namespaces=["heart"], retriever=retriever, k=2)
        assert first["document_id"] == "PMID:1", retriever
        assert isinstance(first["id"], str) and int(first["id"]) > 0
        assert first["text"] == "Aspirin lowers mortality after infarction."
        assert (first["start"], first["end"]) == (0, len(first["text"]))
        assert (first["date"], first["types"]) == ("2020-05-02", ["journal article", "review"])
        assert (first["url"], first["authors"], first["licence"]) == ("https://example.org/1", ["Doe J"], "CC BY")
        expected = {"bm25", "dense"} if retriever == "hybrid" else {retriever}
        assert set(first["ranks"]) == expected, retriever


def test_filters_hold_for_every_retriever(site: Site) -> None:
    """Dates in both forms, types, documents; a document without a date fails where one is given."""
    wanted: list[tuple[dict[str, Any], set[str]]] = [
        ({"date_from": "2020-06-01"}, {"PMID:2"}),
        ({"date_to": "20200601"}, {"PMID:1"}),
        ({"types": ["review"]}, {"PMID:1"}),
        ({"without_types": ["review", "retracted publication"]}, {"PMID:3"}),
        ({"documents": ["PMID:2", "PMID:3"]}, {"PMID:2", "PMID:3"}),
        ({"documents": []}, set()),
    ]
    for where, expected in wanted:
        for retriever in RETRIEVERS:
            query = "aspirin statins fracture"
            found = site.search(query=query, namespaces=["heart"], retriever=retriever, filter=where)
            assert {one["document_id"] for one in found} == expected, (where, retriever)


def test_many_queries_are_answered_in_their_order(site: Site) -> None:
    """A list of passages for each; the notice of a retraction stands with its document."""
    body = {"queries": ["statins", "femur"], "namespaces": ["heart"], "k": 1}
    status, reply = site.call("POST", "/v1/search", body)
    assert (status, reply["object"]) == (200, "list")
    first, second = (result["data"][0] for result in reply["results"])
    assert (first["document_id"], first["retracted_by"]) == ("PMID:2", ["PMID:9"])
    assert second["document_id"] == "PMID:3"


def test_the_retriever_is_what_all_namespaces_have(site: Site) -> None:
    """Hybrid where there are words and vectors, else words; without names, all namespaces are searched."""
    for names, expected in ((["heart"], "hybrid"), (["words-only"], "bm25"), ("all", "bm25"), (None, "bm25")):
        body = {"query": "aspirin"} | ({"namespaces": names} if names else {})
        _, reply = site.call("POST", "/v1/search", body)
        assert reply["arrowhead"]["retriever"] == expected, names
    assert {one["namespace"] for one in reply["data"]} == {"heart", "words-only"}
    assert reply["arrowhead"]["waiting"] == {}


def test_names_are_also_searched_for_by_synonyms_of_the_gateways_store(site: Site) -> None:
    """The reply tells which; without words there is nothing to expand."""
    site.add("heart", {"id": "PMID:4", "text": "Interleukin 6 rises after surgery."})
    body = {"query": "IL-6", "namespaces": ["heart"], "retriever": "bm25", "expand": True}
    reply = site.call("POST", "/v1/search", body)[1]
    assert [one["document_id"] for one in reply["data"]] == ["PMID:4"]
    assert reply["arrowhead"]["expanded"] == [{"name": "IL-6", "synonyms": ["interleukin 6"]}]
    off = site.call("POST", "/v1/search", body | {"expand": False})[1]
    assert (off["data"], off["arrowhead"]["expanded"]) == ([], [])
    dense = site.call("POST", "/v1/search", body | {"retriever": "dense"})[1]
    assert dense["arrowhead"]["expanded"] == []
    many = {"queries": ["IL-6", "no name"], "namespaces": ["heart"], "expand": True}
    assert [one["name"] for one in site.call("POST", "/v1/search", many)[1]["arrowhead"]["expanded"]] == ["IL-6"]
    site.done(site.call("DELETE", "/v1/namespaces/heart/documents", {"ids": ["PMID:4"]}))


def test_the_reply_tells_what_was_fused(site: Site) -> None:
    """Of RRF-4 also what is missing; an encoder that the namespace does not have is refused with the remedy."""
    body = {"query": "aspirin", "namespaces": ["heart"], "retriever": "rrf-4"}
    record = site.call("POST", "/v1/search", body)[1]["arrowhead"]
    assert record["rankers"] == ["bm25", "dense:hashing"]
    assert record["missing"] == ["contriever", "specter", "medcpt"]
    status, reply = site.call("POST", "/v1/search", body | {"retriever": "bm25+dense:minilm"})
    assert (status, reply["error"]["param"]) == (422, "retriever")
    assert "arrowhead index add" in reply["error"]["message"]
    described = site.call("GET", "/v1/namespaces/heart")[1]
    assert described["encoders"] == [{"encoder": "hashing", "recall": 1.0}]


def test_pes2_tells_its_keywords_and_their_counts(site: Site) -> None:
    """Content words of a plain query; of a marked one the marks, phrases too. The order is that of the counts."""
    body = {"query": "Does aspirin lower mortality?", "namespaces": ["heart"], "retriever": "pes2"}
    reply = site.call("POST", "/v1/search", body)[1]
    assert [one["text"] for one in reply["keywords"]] == ["aspirin", "lower", "mortality"]
    assert {one["document_id"]: one["counts"] for one in reply["data"]} == {"PMID:1": [1, 1, 1], "PMID:2": [1, 1, 0]}
    marked = body | {"query": "#Does **Aspirin** act *after infarction*?", "retriever": "bm25+pes2"}
    reply = site.call("POST", "/v1/search", marked)[1]
    assert reply["keywords"] == [{"text": "Aspirin", "fixed": True}, {"text": "after infarction", "fixed": False}]
    assert reply["data"][0]["counts"] == [1, 1]


def test_keywords_are_counted_in_the_hits_of_any_retriever(site: Site) -> None:
    """Those that were asked for, each spelling once."""
    body = {"query": "fracture aspirin", "count": ["ASPIRINS", "aspirin", "femur"]}
    for retriever in ("dense", "bm25", "hybrid", "pes2"):
        reply = site.call("POST", "/v1/search", body | {"namespaces": ["heart"], "retriever": retriever})[1]
        assert reply["keywords"] == [{"text": "ASPIRINS", "fixed": False}, {"text": "femur", "fixed": False}]
        of = {one["document_id"]: one["counts"] for one in reply["data"]}
        assert of == {"PMID:1": [1, 0], "PMID:2": [1, 0], "PMID:3": [0, 1]}, retriever
    many = {"queries": ["aspirin"], "count": body["count"], "retriever": "bm25"}
    reply = site.call("POST", "/v1/search", many)[1]
    (result,) = reply["results"]
    assert {one["namespace"]: one["counts"] for one in result["data"] if one["document_id"] != "PMID:2"} == {
        "heart": [1, 0],
        "words-only": [1, 0],
    }
    reply = site.call("POST", "/v1/search", {"query": "aspirin", "retriever": "bm25"})[1]
    assert reply["keywords"] == [] and "counts" not in reply["data"][0]


def test_the_cross_encoder_has_the_last_word(site: Site) -> None:
    """Of as many as it was asked to judge."""
    found = site.search(query="statins lower cholesterol", namespaces=["heart"], retriever="dense", rerank=3)
    assert found[0]["document_id"] == "PMID:2"
    assert found[0]["score"] > found[1]["score"]


def test_texts_are_left_out_on_demand(site: Site) -> None:
    """And can be had one by one, under the id."""
    (found,) = site.search(query="femur", namespaces=["heart"], k=1, include_text=False)
    assert "text" not in found
    status, passage = site.call("GET", f"/v1/passages/heart/{found['id']}")
    assert (status, passage["text"]) == (200, "A fracture of the femur heals in weeks.")
    assert passage["also_in"] == []


@pytest.mark.parametrize("path", ["/v1/passages/heart/7", "/v1/passages/heart/x", "/v1/passages/heart/" + "9" * 30])
def test_an_unknown_passage_is_not_found(site: Site, path: str) -> None:
    """Also where the id can be none."""
    status, reply = site.call("GET", path)
    assert (status, reply["error"]["code"]) == (404, "passage_not_found")


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({}, 422, "query"),
        ({"query": "a", "queries": ["b"]}, 422, "query"),
        ({"query": " ?"}, 422, "query"),
        ({"query": "half \ud800"}, 422, "query"),
        ({"query": "nul \u0000"}, 422, "query"),
        ({"queries": []}, 422, "queries"),
        ({"queries": ["a"] * 65}, 422, "queries"),
        ({"queries": ["a", ""]}, 422, "queries[1]"),
        ({"query": "a", "k": 0}, 422, "k"),
        ({"query": "a", "k": 1001}, 422, "k"),
        ({"query": "a", "k": "5"}, 422, "k"),
        ({"query": "a", "rerank": -1}, 422, "rerank"),
        ({"query": "a", "rerank": 1001}, 422, "rerank"),
        ({"query": "a", "retriever": "magic"}, 422, "retriever"),
        ({"query": "a", "namespaces": []}, 422, "namespaces"),
        ({"query": "a", "namespaces": ["nowhere"]}, 404, "namespaces"),
        ({"query": "a", "namespaces": ["../heart"]}, 404, "namespaces"),
        ({"query": "a", "namespaces": ["words-only"], "retriever": "dense"}, 422, "retriever"),
        ({"query": "a", "filter": {"date_from": "2020-13-01"}}, 422, "filter.date_from"),
        ({"query": "a", "filter": {"date_to": 20200101}}, 422, "filter.date_to"),
        ({"query": "a", "filter": {"date_from": "20210101", "date_to": "20200101"}}, 422, "filter.date_from"),
        ({"query": "a", "filter": {"colour": "red"}}, 422, "filter.colour"),
        ({"query": "a", "colour": "red"}, 422, "colour"),
        ({"query": "a", "count": []}, 422, "count"),
        ({"query": "a", "count": ["-"]}, 422, "count[0]"),
        ({"query": "a", "count": ["a"] * 65}, 422, "count"),
    ],
)
def test_a_wrong_search_names_its_field(site: Site, body: dict[str, Any], status: int, param: str) -> None:
    """In OpenAI's error shape."""
    code, reply = site.call("POST", "/v1/search", body)
    assert (code, reply["error"]["param"]) == (status, param), reply


def test_without_any_namespace_the_remedy_is_told(
    host_with: Callable[..., AbstractContextManager[Any]], tmp_path: Path
) -> None:
    """And re-ranking without a cross-encoder names the setting."""
    with host_with({"ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path / "none")}) as running:
        status, reply = Site(running.url).call("POST", "/v1/search", {"query": "a"})
        assert (status, reply["error"]["code"]) == (404, "namespace_not_found")
        assert "POST /v1/namespaces" in reply["error"]["message"]
        status, reply = Site(running.url).call("POST", "/v1/search", {"query": "a", "rerank": 1})
        assert (status, reply["error"]["param"]) == (422, "rerank")


def test_an_encoder_with_weights_finds_by_meaning(site: Site) -> None:
    """No word of the question stands in the passage."""
    site.create("meaning", encoder="minilm", words="none")
    site.add("meaning", *DOCUMENTS)
    (found,) = site.search(query="bone injury of the thigh", namespaces=["meaning"], k=1)
    assert found["document_id"] == "PMID:3"
    status, _ = site.call("DELETE", "/v1/namespaces/meaning")
    assert status == 200


def test_searches_hold_up_no_stream(site: Site) -> None:
    """Forty at once, all answered right, while a chat streams to its end."""
    found: list[str] = []

    def ask() -> None:
        found.append(site.search(query="aspirin infarction", namespaces=["heart"], k=1)[0]["document_id"])

    threads = [threading.Thread(target=ask) for _ in range(40)]
    for thread in threads:
        thread.start()
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{site.url}/v1/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        lines = reply.read().decode().split("\n\n")
    for thread in threads:
        thread.join()
    assert lines[-2] == "data: [DONE]"
    assert found == ["PMID:1"] * 40


def test_the_pages_example_runs(embedded_model: Any, tmp_path: Path) -> None:
    """On a fresh install, as it stands but for the address: the search finds the note, and nothing is left."""
    (commands,) = re.findall(r"^```bash\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    own = commands.replace("http://127.0.0.1:8000", embedded_model.url)
    shown = subprocess.run(["bash", "-ec", own], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=True)
    assert '"document_id":"note-1"' in shown.stdout and '"outcome":"added"' in shown.stdout.replace(" ", "")
    assert "asthma" not in urllib.request.urlopen(f"{embedded_model.url}/v1/namespaces").read().decode()

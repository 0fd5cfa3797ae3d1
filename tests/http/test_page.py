"""The page's routes over HTTP: files with validators, rendered Markdown within its bounds, what a key may do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest

KEY = "a-key-of-the-page-1"


@pytest.fixture(scope="module")
def http(running: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.url, timeout=120) as client:
        yield client


def test_the_page_and_its_files_are_sent_with_validators(http: httpx.Client) -> None:
    """A second request for the same file costs no body."""
    for path, kind in (
        ("/", "text/html"),
        ("/web/app.js", "text/javascript"),
        ("/web/inter-latin.woff2", "font/woff2"),
        ("/web/texts.json", "application/json"),
    ):
        first = http.get(path)
        again = http.get(path, headers={"if-none-match": first.headers["etag"]})
        assert (first.status_code, first.headers["content-type"].split(";")[0]) == (200, kind)
        assert first.headers["cache-control"] == "no-cache" and first.headers["x-content-type-options"] == "nosniff"
        assert (again.status_code, again.content) == (304, b"")
    assert http.get("/web/gone.js").status_code == 404


def test_texts_are_rendered_in_their_order(http: httpx.Client) -> None:
    reply = http.post("/v1/render", json={"texts": ["**a**", "<b>x</b>"]})

    assert [one["html"] for one in reply.json()["data"]] == [
        "<p><strong>a</strong></p>\n",
        "<p>&lt;b&gt;x&lt;/b&gt;</p>\n",
    ]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"texts": []}, "texts"),
        ({"texts": ["x"] * 65}, "texts"),
        ({"texts": "x"}, "texts"),
        ({"texts": [1]}, "texts[0]"),
        ({"texts": ["x"], "html": True}, "html"),
        ({}, "texts"),
    ],
)
def test_a_wrong_body_is_refused_by_name(http: httpx.Client, body: Any, param: str) -> None:
    reply = http.post("/v1/render", json=body)

    assert (reply.status_code, reply.json()["error"]["param"]) == (422, param)


def test_too_much_text_is_refused(host_with: Callable[..., AbstractContextManager[Any]]) -> None:
    """By the bound of characters, where the body's own bound is larger."""
    with host_with({"ARROWHEAD_SERVER__MAX_BODY_BYTES": "1000000"}) as server:
        reply = httpx.post(f"{server.url}/v1/render", json={"texts": ["x" * 50_000, "y" * 50_001]}, timeout=120)
    assert (reply.status_code, reply.json()["error"]["param"]) == (422, "texts")


def test_a_key_is_told_what_it_may_do(host_with: Callable[..., AbstractContextManager[Any]]) -> None:
    """The page itself needs none; without one nothing is told."""
    with host_with({"ARROWHEAD_SERVER__API_KEYS": KEY}) as server:
        assert httpx.get(f"{server.url}/").status_code == 200
        assert httpx.get(f"{server.url}/v1/permissions").status_code == 401
        assert httpx.get(f"{server.url}/v1/status").status_code == 401
        told = httpx.get(f"{server.url}/v1/permissions", headers={"authorization": f"Bearer {KEY}"}).json()
    assert (told["needs_key"], told["may_change_namespaces"], told["egress"]) == (True, True, "off")
    assert "genegpt" in told["methods"] and len(told["key_id"]) == 8


def test_the_language_that_was_chosen_goes_before_the_browsers(http: httpx.Client) -> None:
    """In the words of the page and in its first reply; a cache keeps them apart."""
    german = {"Accept-Language": "de-CH, de;q=0.9"}
    texts = http.get("/web/texts.json", headers=german)
    chosen = http.get("/web/texts.json", headers=german | {"Cookie": "arrowhead_language=fr"})
    page = http.get("/", headers=german | {"Cookie": "arrowhead_language=fr"}).text

    assert (texts.json()["language"], chosen.json()["language"]) == ("de", "fr")
    assert '<html lang="fr" dir="ltr" data-languages="de en es fr' in page and ">Littérature</a>" in page
    assert chosen.headers["vary"] == "Accept-Language, Cookie"

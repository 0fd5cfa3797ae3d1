"""A namespace filled from PubMed over HTTP: keywords, full texts, progress, cancelling, going on after a kill."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from http_calls import SETTINGS, Site
from pubmed_server import Pubmed, serve_pubmed

Serve = Callable[..., AbstractContextManager[Any]]
KEYWORDS = {"keywords": ["quoll", "dasyurus/marsupial"], "date_from": "2000-01-01"}
TERM = '"quoll"[Title/Abstract] AND ("dasyurus"[Title/Abstract] OR "marsupial"[Title/Abstract])'


@pytest.fixture
def pubmed() -> Iterator[Pubmed]:
    with serve_pubmed() as server:
        yield server


def settings_of(pubmed: Pubmed, folder: Path) -> dict[str, str]:
    return SETTINGS | {"ARROWHEAD_NCBI__EUTILS_URL": pubmed.url, "ARROWHEAD_RETRIEVAL__DATA_DIR": str(folder)}


def until(site: Site, job: dict[str, Any], holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The progress of a job when it is such."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        progress = site.call("GET", f"/v1/jobs/{job['id']}")[1]["progress"] or {}
        if holds(progress):
            return progress
        time.sleep(0.02)
    raise AssertionError(progress)


def test_keywords_find_articles_with_their_full_texts_by_section_and_without_reviews_by_choice(
    host_with: Serve, pubmed: Pubmed, tmp_path: Path
) -> None:
    """Reviews are in unless they are excluded; a full text has its sections, an update fetches nothing twice."""
    pubmed.reviews, pubmed.free = {"102"}, {"103"}
    with host_with(settings_of(pubmed, tmp_path / "namespaces")) as running:
        site = Site(running.url)
        for name in ("all", "studies"):
            site.create(name)
        every = site.done(site.call("POST", "/v1/namespaces/all/queries", KEYWORDS | {"full_text": True}))
        chosen = KEYWORDS | {"with_reviews": False}
        studies = site.done(site.call("POST", "/v1/namespaces/studies/queries", chosen))
        (told,), (fewer,) = every["result"]["queries"], studies["result"]["queries"]
        assert (told["counted"], told["full_texts"], told["added"]["added"]) == (3, 1, 4)
        assert (fewer["counted"], fewer["added"]["added"]) == (2, 2)
        terms = [query["term"] for endpoint, query in pubmed.calls if endpoint == "esearch"]
        assert terms[0] == TERM and terms[-1] == f"{TERM} NOT review[Publication Type]"
        _, text = site.call("GET", "/v1/namespaces/all/documents/PMC:9103")
        assert [one["section"] for one in text["data"]] == ["Methods", "Results"]
        _, review = site.call("GET", "/v1/namespaces/all/documents/PMID:102")
        assert "review" in review["types"]

        pubmed.found.insert(0, "104")
        pubmed.calls.clear()
        (told,) = site.done(site.call("POST", "/v1/namespaces/studies/update", {}))["result"]["queries"]
        assert (told["known"], told["added"]["added"], pubmed.records_sent()) == (2, 1, ["104"])
        assert site.call("GET", "/v1/namespaces/studies")[1]["queries"][0]["count"] == 3


def test_a_fetch_that_is_killed_goes_on_where_it_was(serve_with: Serve, pubmed: Pubmed, tmp_path: Path) -> None:
    """Progress has records, rate and the time that is left; the next start fetches what is not stored."""
    pubmed.found, pubmed.held_after = [str(number) for number in range(1000, 1700)], 2
    settings = settings_of(pubmed, tmp_path / "namespaces")
    with serve_with(settings) as running:
        site = Site(running.url)
        site.create("papers")
        _, job = site.call("POST", "/v1/namespaces/papers/queries", KEYWORDS)
        progress = until(site, job, lambda told: bool(told.get("read")))
        assert progress["expected"] == 700 and 200 <= progress["arrived"] <= 400
        assert progress["remaining_s"] >= 0  # 0.0 on a quick machine: it is rounded to tenths
        assert progress["documents_per_s"] > 0
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(120)
    pubmed.going.set()
    pubmed.calls.clear()

    with serve_with(settings) as running:
        site = Site(running.url)
        (told,) = site.ended((200, job))["result"]["queries"]
        assert told["known"] >= 200 and told["added"]["added"] == 700 - told["known"]
        after = site.call("GET", "/v1/namespaces/papers")[1]
        assert len(after["queries"]) == 1 and after["documents"] == 700
        assert sorted(pubmed.records_sent()) == sorted(set(pubmed.records_sent()))
        assert len(pubmed.records_sent()) == 700 - told["known"]
        assert site.done(site.call("POST", "/v1/namespaces/papers/verify?wait=30", {}))["result"]["whole"]


def test_a_fetch_is_cancelled_and_what_came_is_kept(host_with: Serve, pubmed: Pubmed, tmp_path: Path) -> None:
    """While NCBI does not answer; the query is not stored as done."""
    pubmed.found, pubmed.held_after = [str(number) for number in range(1000, 1700)], 2
    with host_with(settings_of(pubmed, tmp_path / "namespaces")) as running:
        site = Site(running.url)
        site.create("papers")
        asked = site.call("POST", "/v1/namespaces/papers/queries", KEYWORDS)
        until(site, asked[1], lambda told: told.get("read", 0) > 0)
        assert site.call("DELETE", f"/v1/jobs/{asked[1]['id']}")[0] in (200, 202)
        job = site.ended(asked)
        assert job["state"] == "cancelled" and job["progress"]["left"] == "no data left this machine"
        told = site.call("GET", "/v1/namespaces/papers")[1]
        assert told["documents"] >= 200 and told["queries"] == []

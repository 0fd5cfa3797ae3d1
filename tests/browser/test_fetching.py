"""A namespace filled from PubMed in the page: progress, cancelling, what is new, and jobs that ran before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import page_server
import pytest
import server_process
from http_calls import SETTINGS, Site
from pubmed_server import Pubmed, serve_pubmed

TEXTS = json.loads((server_process.ROOT / "server/web/static/en.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pubmed() -> Iterator[Pubmed]:
    with serve_pubmed() as server:
        yield server


@pytest.fixture(scope="module")
def serving(pubmed: Pubmed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home: Path = tmp_path_factory.mktemp("fetching")
    environment = page_server.scripted_environment(home, pubmed.url) | SETTINGS
    with server_process.serve(environment) as server:
        yield server.url


def fetch(page: Any, url: str, name: str, words: str) -> Any:
    """The job of a fetch by keywords into a new namespace."""
    Site(url).create(name)
    page.goto(f"{url}/#/library/{name}")
    page.locator("#q-term").fill(words)
    page.locator("#q-limit").fill("1000")
    page.get_by_role("button", name=TEXTS["fetch.go"], exact=True).click()
    return page.locator(".job", has_text=words)


def test_a_fetch_tells_how_it_ended_and_is_kept_for_updates(serving: str, pubmed: Pubmed, page: Any) -> None:
    """Articles, full texts and what left; run again, what is new alone."""
    pubmed.found, pubmed.free, pubmed.reviews = ["101", "102", "103"], {"103"}, {"102"}
    page.goto(f"{serving}/#/library")
    Site(serving).create("kept")
    page.goto(f"{serving}/#/library/kept")
    page.locator("#q-term").fill("quoll, dasyurus/marsupial")
    page.get_by_label(TEXTS["fetch.full"]).check()
    page.get_by_label(TEXTS["fetch.no_reviews"]).check()
    page.get_by_role("button", name=TEXTS["fetch.go"], exact=True).click()
    job = page.locator(".job", has_text="quoll")
    job.get_by_text("3 documents added, 1 full text").wait_for()
    assert job.get_by_text(TEXTS["left.nothing"]).is_visible()
    kept = page.locator(".card", has_text=TEXTS["fetch.kept"])
    kept.get_by_text("with full texts").wait_for()
    assert "NOT review" in kept.locator("code").inner_text()

    pubmed.found.insert(0, "104")
    page.get_by_role("button", name=TEXTS["fetch.update"]).click()
    page.locator(".job", has_text=TEXTS["fetch.update"]).get_by_text("1 document added, 2 were there").wait_for()
    page.get_by_role("tab", name=TEXTS["library.tab.documents"]).click()
    page.locator(".document", has_text="On quoll 104.").wait_for()
    assert page.seen.complaints == []


def test_a_fetch_shows_records_rate_and_time_and_is_cancelled(serving: str, pubmed: Pubmed, page: Any) -> None:
    """Also after the page was left and opened again; what came is kept."""
    pubmed.found, pubmed.calls = [str(number) for number in range(1000, 1700)], []
    pubmed.held_after = 2
    job = fetch(page, serving, "long", "numbat")
    job.get_by_text("of 700 records").wait_for()
    job.get_by_text("documents a second").wait_for()
    job.get_by_text("left").wait_for()
    assert "about" in job.inner_text()
    page.reload()
    page.get_by_role("tab", name=TEXTS["library.tab.add"]).click()
    again = page.locator(".job", has_text=TEXTS["job.query"])
    again.get_by_text("of 700 records").wait_for()
    again.get_by_role("button", name=TEXTS["add.cancel"]).click()
    again.get_by_text(TEXTS["add.cancelled"]).wait_for()
    pubmed.going.set()
    page.get_by_role("tab", name=TEXTS["library.tab.documents"]).click()
    page.locator(".document").first.wait_for()
    assert page.seen.complaints == []


def test_a_keyword_with_signs_of_pubmeds_syntax_is_refused_with_the_remedy(serving: str, page: Any) -> None:
    """As a query it is sent as it is written."""
    Site(serving).create("refused")
    page.goto(f"{serving}/#/library/refused")
    page.locator("#q-term").fill("quoll[Title]")
    page.get_by_role("button", name=TEXTS["fetch.go"], exact=True).click()
    page.locator(".error-text", has_text="is no keyword").wait_for()
    page.locator("#q-by").select_option("term")
    page.locator("#q-term").fill("DOWN")
    page.get_by_role("button", name=TEXTS["fetch.go"], exact=True).click()
    page.locator(".job.bad").wait_for()

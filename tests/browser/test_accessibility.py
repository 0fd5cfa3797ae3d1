"""axe-core on every screen, with what people have in it: lists, answers, pages, dialogs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import corpus_files
import page_screens
import pytest
import server_process
from http_calls import Site

TEXTS = json.loads((server_process.ROOT / "server/web/static/en.json").read_text(encoding="utf-8"))
SCREENS = ("", "literature", "articles", "library", "status")
PDF = corpus_files.pdf("Protamine reverses heparin at once.", "", title="Heparin, with a picture")
Checks = list[tuple[str, str, str, str]]


@pytest.fixture(scope="module")
def filled(shipped: Any) -> Iterator[str]:
    """A namespace with a PDF of which a page is a picture, an article, a retracted one, and a query of the gateway."""
    site = Site(shipped.url)
    site.create("screens")
    site.done(site.upload("screens", "heparin.pdf", PDF))
    row = {"title": "On heparin", "text": "Heparin acts on factor Xa. Protamine reverses it.", "date": "2020"}
    site.add("screens", row | {"id": "PMID:34000001"}, row | {"id": "PMID:34000002", "retracted_by": ["77"]})
    query = {"keywords": ["lasmiditan"], "limit": 3}
    (told,) = site.done(site.call("POST", "/v1/namespaces/screens/queries", query))["result"]["queries"]
    assert told["added"]["added"] == 3  # the built-in gateway has them
    yield shipped.url
    site.call("DELETE", "/v1/namespaces/screens")


def pdf_of(url: str) -> str:
    data = Site(url).call("GET", "/v1/namespaces/screens/documents?query=heparin.pdf")[1]["data"]
    return str(data[0]["id"])


@pytest.fixture(params=["light", "dark"])
def check(request: Any, browser: Any, axe: str) -> Iterator[tuple[Any, Callable[[str], None], Checks]]:
    """A tab, what looks at it now, and what was found that is serious."""
    context = browser.new_context(color_scheme=request.param, bypass_csp=True, reduced_motion="reduce")
    context.set_default_timeout(120_000)
    page = context.new_page()
    found: Checks = []

    def look(where: str) -> None:
        page.wait_for_timeout(200)
        page.evaluate(axe)
        for one in page.evaluate(page_screens.RULES)["violations"]:
            if one["impact"] in ("serious", "critical"):
                found.append((where, one["impact"], one["id"], one["nodes"][0]["html"]))

    yield page, look, found
    context.close()


def test_axe_finds_nothing_serious_on_screens_and_answers(shipped: Any, check: Any) -> None:
    """On every screen, and with an answer, its panel and its details open."""
    page, look, found = check
    for screen in SCREENS:
        page.goto(f"{shipped.url}/#/{screen}")
        page.wait_for_selector("main h1")
        look(screen)
    page.goto(f"{shipped.url}/#/chat")
    page.wait_for_selector(".empty")
    page_screens.choose(page, "medrag")
    page.get_by_role("button", name="Which drug reverses heparin?").click()
    page.locator(".cite").first.click()
    look("panel")
    page.get_by_role("button", name=TEXTS["turn.details"]).click()
    look("details")
    assert found == []


def test_axe_finds_nothing_serious_in_the_knowledge_base(filled: str, check: Any) -> None:
    """Documents, all retrievers, what adds to it, a page with text and one without."""
    page, look, found = check
    page.goto(f"{filled}/#/library/screens")
    page.locator(".document").nth(5).wait_for()
    look("documents")
    page.get_by_role("tab", name=TEXTS["library.tab.search"]).click()
    page.get_by_label(TEXTS["search.placeholder"]).fill("Which drug reverses heparin?")
    page.get_by_label(TEXTS["search.placeholder"]).press("Enter")
    page.locator("table").wait_for()
    look("search")
    page.get_by_role("tab", name=TEXTS["library.tab.add"]).click()
    page.locator(".card", has_text=TEXTS["fetch.kept"]).wait_for()
    page.get_by_role("button", name=TEXTS["fetch.update"]).click()
    page.locator(".job", has_text="were there").wait_for()
    look("adding")
    for number in (1, 2):
        page.goto(f"{filled}/#/reader/screens/{pdf_of(filled)}?page={number}")
        page.reload()
        page.locator(".pdf-page img").wait_for()
        look(f"page {number}")
    page.goto(f"{filled}/#/reader/screens/PMID:34000002")
    page.locator(".sheet", has_text="factor Xa").wait_for()
    look("retracted article")
    assert found == []


def test_axe_finds_nothing_serious_in_articles_and_keywords(filled: str, check: Any) -> None:
    """A list with some chosen, their summaries, the options of WeiseEule, and its keywords."""
    page, look, found = check
    page.goto(f"{filled}/#/articles")
    page.locator("#a-text").fill("heparin and protamine")
    page.get_by_text(TEXTS["articles.more"]).click()
    page.locator("#a-place").select_option("screens")
    page.get_by_role("button", name=TEXTS["articles.go"]).click()
    page.get_by_label("Choose “On heparin”").check()
    look("articles")
    page.get_by_role("button", name=TEXTS["articles.summarise"]).click()
    page.locator(".turn .answer[aria-busy=false] .tools").wait_for()
    look("summaries")
    page.goto(f"{filled}/#/chat")
    page_screens.choose(page, "weiseeule")
    page.get_by_role("button", name=TEXTS["options.title"]).click()
    page.get_by_label("screens", exact=True).check()
    look("options")
    page.keyboard.press("Escape")
    page.locator("#question").fill("#Which drug reverses **heparin**?")
    page.locator("#question").press("Enter")
    page.locator(".turn .answer[aria-busy=false] .tools").wait_for()
    page.get_by_role("button", name=TEXTS["turn.details"]).click()
    page.get_by_role("tab", name=TEXTS["details.keywords"]).click()
    look("keywords")
    assert found == []


def test_a_page_without_text_says_so_with_the_remedy(filled: str, page: Any) -> None:
    """Its picture is shown; nothing can be selected."""
    page.goto(f"{filled}/#/reader/screens/{pdf_of(filled)}?page=2")
    page.locator(".no-text").wait_for()
    assert page.locator(".no-text").inner_text() == TEXTS["reader.no_text"] and "OCR" in TEXTS["reader.no_text"]
    assert page.locator(".word").count() == 0 and page.locator(".pdf-page img").is_visible()
    page.keyboard.press("ArrowLeft")
    page.locator(".word", has_text="Protamine").wait_for()
    assert page.locator(".no-text").count() == 0
    assert page.seen.complaints == []

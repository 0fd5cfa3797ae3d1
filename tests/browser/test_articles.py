"""Articles for a text, and the hits of each retriever, in the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import server_process
from http_calls import Site

TEXTS = json.loads((server_process.ROOT / "server/web/static/en.json").read_text(encoding="utf-8"))
PAPERS = (
    ("PMID:34000001", "SWR1 in yeast", "SWR1 deposits H2A.Z in yeast. Deletion of SWR1 raised mutation rates at CAN1."),
    ("PMID:34000002", "EXO1 and repair", "EXO1 excises mismatches. Mutation rates rise in cells without EXO1."),
    ("PMID:12000003", "SWR1 in rice", "SWR1 controls the internodes of rice through gibberellin."),
    ("note", "A note", "SWR1 was discussed in the laboratory meeting on Monday."),
)


@pytest.fixture(scope="module")
def library(shipped: Any) -> Iterator[str]:
    site = Site(shipped.url)
    site.create("chromatin")
    rows = [{"id": name, "title": title, "text": text, "date": "2020"} for name, title, text in PAPERS]
    site.add("chromatin", *rows)
    yield shipped.url
    site.call("DELETE", "/v1/namespaces/chromatin")


def find(page: Any, url: str, text: str, part: str = "") -> Any:
    page.goto(f"{url}/#/articles")
    page.locator("#a-text").fill(text)
    page.get_by_text(TEXTS["articles.more"]).click()
    page.locator("#a-place").select_option("chromatin")
    page.locator("#a-part").fill(part)
    page.get_by_role("button", name=TEXTS["articles.go"]).click()
    return page.locator(".article")


def test_articles_are_found_chosen_and_summarised(library: str, page: Any) -> None:
    """Each sentence of a summary has its article behind it, marked; a document without PMID cannot be chosen."""
    articles = find(page, library, "SWR1 and mutation rates")
    articles.nth(2).wait_for(timeout=120_000)
    assert page.get_by_label(f"Choose “{PAPERS[3][1]}”").is_disabled()
    assert TEXTS["source.api"] in articles.filter(has_text=PAPERS[3][1]).inner_text()
    go = page.get_by_role("button", name=TEXTS["articles.summarise"])
    assert go.is_disabled()
    page.get_by_label(f"Choose “{PAPERS[0][1]}”").check()
    page.get_by_role("status").filter(has_text="1 article chosen").wait_for()
    go.click()
    turn = page.locator(".turn")
    turn.locator(".answer[aria-busy=false] .tools").wait_for(timeout=120_000)
    assert "Deletion of SWR1 raised mutation rates at CAN1." in turn.locator(".content").inner_text()
    turn.locator(".cite").first.click()
    assert "Deletion of SWR1 raised mutation rates at CAN1." in page.locator(".panel mark").all_inner_texts()
    page.reload()
    page.locator(".article").first.wait_for()
    page.locator(".turn .content").wait_for()
    assert page.seen.complaints == []


def test_a_part_of_pubmed_restricts_the_list(library: str, page: Any) -> None:
    """As ``query #34`` does; where it has nothing, the answer says so."""
    articles = find(page, library, "SWR1", "12")
    articles.first.wait_for(timeout=120_000)
    assert articles.locator(".article-title").all_inner_texts() == ["SWR1 in rice"]
    find(page, library, "SWR1", "99")
    page.get_by_text("No article was found in chromatin").wait_for(timeout=120_000)


def test_the_chosen_go_into_a_question(library: str, page: Any) -> None:
    """They alone are read for it."""
    find(page, library, "SWR1").first.wait_for(timeout=120_000)
    page.get_by_label(f"Choose “{PAPERS[2][1]}”").check()
    page.get_by_role("button", name=TEXTS["articles.ask"]).click()
    page.wait_for_selector(".empty")
    page.locator("#question").fill("#What does **SWR1** control?")
    page.locator("#question").press("Enter")
    turn = page.locator(".turn")
    turn.locator(".answer[aria-busy=false] .tools").wait_for(timeout=120_000)
    assert [one for one in turn.locator(".reference").all_inner_texts() if "rice" not in one] == []
    assert "internodes of rice" in turn.locator(".content").inner_text()

"""What can be asked about a selected text: only what the served model or a method without one can do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import corpus_files
import pytest
import server_process
from http_calls import Site

TEXTS = json.loads((server_process.ROOT / "server/web/static/en.json").read_text(encoding="utf-8"))
PAGE = "Heparin acts on factor Xa. Protamine reverses heparin at once."
ARTICLE = "Heparin acts on factor Xa. Protamine reverses heparin. The weather was fine on Monday."
WAYS = [TEXTS["reader.summarise"], TEXTS["reader.explain"], TEXTS["reader.ask"]]


def fill(url: str) -> str:
    """Make a namespace with a PDF and an article; return the PDF's address in the page."""
    site = Site(url)
    site.create("selected")
    site.done(site.upload("selected", "heparin.pdf", corpus_files.pdf(PAGE, title="Heparin")))
    site.add("selected", {"id": "PMID:34000001", "title": "On heparin", "text": ARTICLE, "date": "2020"})
    data = site.call("GET", "/v1/namespaces/selected/documents?query=heparin.pdf")[1]["data"]
    return f"{url}/#/reader/selected/{data[0]['id']}"


@pytest.fixture(scope="module")
def unable(shipped: Any) -> Iterator[tuple[str, str]]:
    """The address of a server whose model does not chat, and of its PDF."""
    yield shipped.url, fill(shipped.url)
    Site(shipped.url).call("DELETE", "/v1/namespaces/selected")


@pytest.fixture(scope="module")
def able(scripted: Any) -> Iterator[tuple[str, str]]:
    yield scripted.url, fill(scripted.url)
    Site(scripted.url).call("DELETE", "/v1/namespaces/selected")


def select(page: Any, address: str, where: str) -> Any:
    """Select all text of a document; return the menu's buttons."""
    page.goto(address)
    page.locator(f"{where} >> nth=0").wait_for()
    page.evaluate(f"document.getSelection().selectAllChildren(document.querySelector('{where}'))")
    page.locator(".selection-menu").wait_for()
    return page.locator(".selection-menu button")


def asked(page: Any) -> Any:
    """Send what stands in the chat's field; return the turn when its answer has ended."""
    page.wait_for_selector(".empty")
    page.locator("#question").press("Enter")
    turn = page.locator(".turn")
    turn.locator(".answer[aria-busy=false] .tools").wait_for(timeout=120_000)
    return turn


@pytest.mark.parametrize("way", ["summarise", "explain"])
def test_a_model_that_chats_is_asked_about_the_selected_text(able: tuple[str, str], page: Any, way: str) -> None:
    """The question names the task and has the text; the plain model answers it."""
    buttons = select(page, able[1], ".text-layer")
    assert buttons.all_inner_texts() == WAYS
    buttons.get_by_text(TEXTS[f"reader.{way}"], exact=True).click()
    turn = asked(page)
    assert turn.locator("h2").inner_text().startswith(TEXTS[f"reader.{way}.prompt"].split("\n")[0])
    assert "Protamine reverses heparin at once." in turn.locator("h2").inner_text()
    assert turn.locator(".byline").inner_text() == TEXTS["method.direct"]
    assert turn.locator(".content").inner_text() == f"The model's {way}."
    assert page.seen.complaints == []


def test_without_such_a_model_a_file_can_only_be_asked_about(unable: tuple[str, str], page: Any) -> None:
    """A button that could not be answered is not there."""
    buttons = select(page, unable[1], ".text-layer")
    assert buttons.all_inner_texts() == [TEXTS["reader.ask"]]
    buttons.click()
    turn = asked(page)
    assert turn.locator(".byline").inner_text() == TEXTS["method.medrag"]
    assert "heparin" in turn.locator(".content").inner_text().casefold()


def test_without_such_a_model_an_article_is_summed_up_by_its_own_sentences(unable: tuple[str, str], page: Any) -> None:
    """Those that say most about the selected text, with their source; the next question is one like any other."""
    buttons = select(page, f"{unable[0]}/#/reader/selected/PMID:34000001", ".sheet")
    assert buttons.all_inner_texts() == [WAYS[0], WAYS[2]]
    buttons.get_by_text(WAYS[0], exact=True).click()
    page.get_by_text(TEXTS["chat.sums_up"]).wait_for()
    turn = asked(page)
    assert turn.locator(".byline").inner_text() == TEXTS["method.weiseeule"]
    assert "Protamine reverses heparin." in turn.locator(".content").inner_text()
    assert turn.locator(".reference").all_inner_texts()[0].count("On heparin") == 1
    assert page.get_by_text(TEXTS["chat.sums_up"]).count() == 0
    turn.locator(".cite").first.click()
    assert any("Protamine reverses heparin." in text for text in page.locator(".panel mark").all_inner_texts())
    turn.evaluate("(node) => { node.dataset.before = true; }")
    page.get_by_role("button", name=TEXTS["turn.retry"]).click()
    page.locator(".turn:not([data-before]) .answer[aria-busy=false] .tools").wait_for(timeout=120_000)
    assert turn.locator(".byline").inner_text() == TEXTS["method.weiseeule"]
    assert "Protamine reverses heparin." in turn.locator(".content").inner_text()
    assert page.seen.complaints == []


@pytest.mark.parametrize(
    ("words", "text", "places"),
    [
        ("We saw interac- tions of warfarin here", "saw interactions of warfarin", [1, 2, 3, 4, 5]),
        ("5 x 106 cells were given twice", "5 x 10⁶ cells were", [0, 1, 2, 3, 4]),
        ("Nothing of it is there", "saw interactions of warfarin", []),
    ],
)
def test_a_passage_is_marked_where_a_line_end_breaks_its_words(
    unable: tuple[str, str], page: Any, words: str, text: str, places: list[int]
) -> None:
    """Its text has them whole, and powers raised."""
    page.goto(unable[0])
    found = [{"text": word} for word in words.split()]
    script = "async ([words, text]) => [...(await import('/web/reader.js')).wordsOf(words, text)]"
    assert page.evaluate(script, [found, text]) == places

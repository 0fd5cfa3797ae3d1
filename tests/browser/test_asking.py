"""The box of the start page: Auto, sources that are switched on, and another source for an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
import server_process

TEXTS = json.loads((server_process.ROOT / "server/web/static/en.json").read_text(encoding="utf-8"))
QUESTION = "Which compounds treat multiple sclerosis?"


def begin(page: Any, url: str) -> None:
    page.goto(url)
    page.wait_for_selector(".empty")


def switch(page: Any, source: str) -> Any:
    button = page.get_by_role("button", name=TEXTS[f"sources.{source}"], exact=True)
    button.click()
    return button


def ask(page: Any, question: str) -> tuple[Any, dict[str, Any]]:
    """The turn when its answer has ended, and the body of its request."""
    with page.expect_request("**/v1/chat/completions") as request:
        page.locator("#question").fill(question)
        page.locator("#question").press("Enter")
    return ended(page), request.value.post_data_json


def ended(page: Any) -> Any:
    turn = page.locator(".turn").last
    turn.locator(".answer[aria-busy=false] .tools").wait_for()
    turn.locator(".instead").wait_for()
    return turn


def test_a_newcomer_asks_without_a_choice_and_is_told_the_source(shipped: Any, page: Any) -> None:
    """Auto is on; one press asks another source instead, which takes the place of the answer."""
    begin(page, shipped.url)
    assert page.locator(".source[aria-pressed=true]").all_inner_texts() == [TEXTS["sources.auto"]]
    turn, body = ask(page, QUESTION)

    assert body["model"] == "arrowhead" and "methods" not in body["arrowhead"]
    assert turn.get_by_text(TEXTS["made.kg-rag"]).count() == 1
    assert turn.get_by_role("button", name=TEXTS["instead.kg-rag"]).count() == 0
    turn.get_by_role("button", name=TEXTS["instead.clinfo"]).click()
    page.locator(".turn .byline", has_text=TEXTS["method.clinfo"]).wait_for()
    turn = ended(page)
    assert page.locator(".turn").count() == 1
    turn.get_by_role("button", name=TEXTS["instead.auto"]).click()
    page.locator(".turn .byline", has_text=TEXTS["method.auto"]).wait_for()
    assert ended(page).get_by_text(TEXTS["made.kg-rag"]).count() == 1
    assert page.seen.complaints == []


def test_what_ships_treats_a_newcomers_first_question(shipped: Any, page: Any) -> None:
    begin(page, shipped.url)
    turn, _ = ask(page, "What is the treatment for rheumatoid arthritis?")
    assert turn.locator(".fact.good", has_text=TEXTS["outcome.answered"]).count() == 1
    assert "Methotrexate" in turn.inner_text()


@pytest.mark.parametrize(("place", "said"), [(1, "Protamine"), (2, "APOE"), (3, "Cladribine"), (4, "FLT3")])
def test_each_example_of_the_start_page_is_answered(shipped: Any, page: Any, place: int, said: str) -> None:
    """By what its source says, and not by what stands near its words elsewhere."""
    begin(page, shipped.url)
    page.get_by_role("button", name=TEXTS[f"example.auto.{place}"]).click()
    assert said.casefold() in ended(page).locator(".answer").inner_text().casefold()


def test_one_source_alone_is_asked_by_its_method(shipped: Any, page: Any) -> None:
    """The examples are those that it answers; pressed again, all are asked."""
    begin(page, shipped.url)
    graph = switch(page, "kg-rag")
    page.get_by_role("button", name=TEXTS["example.kg-rag.1"]).wait_for()
    turn, body = ask(page, QUESTION)

    assert body["model"].endswith(":kg-rag") and turn.locator(".byline").inner_text() == TEXTS["method.kg-rag"]
    graph.click()
    assert page.locator(".source[aria-pressed=true]").all_inner_texts() == [TEXTS["sources.auto"]]


def test_several_sources_are_those_of_auto(shipped: Any, page: Any) -> None:
    """Also after the page was left; by keyboard, the focus stays on the switch."""
    begin(page, shipped.url)
    switch(page, "medrag")
    page.get_by_role("button", name=TEXTS["sources.clinfo"], exact=True).focus()
    page.keyboard.press("Space")
    assert page.evaluate("document.activeElement.textContent") == TEXTS["sources.clinfo"]
    page.reload()
    page.wait_for_selector(".empty")
    _, body = ask(page, "Which drug reverses heparin?")

    assert body["model"] == "arrowhead" and body["arrowhead"]["methods"] == ["medrag", "weiseeule", "clinfo"]
    assert page.seen.complaints == []


@pytest.mark.parametrize(
    ("typed", "asked"), [("/genegpt Is LMP10 protein-coding?", ":genegpt"), ("/no Is it?", "arrowhead")]
)
def test_a_question_may_begin_with_a_methods_name(shipped: Any, page: Any, typed: str, asked: str) -> None:
    """What is no name stays in the question."""
    begin(page, shipped.url)
    turn, body = ask(page, typed)
    assert body["model"].endswith(asked)
    assert turn.locator("h2").inner_text() == (typed.removeprefix("/genegpt ") if asked == ":genegpt" else typed)


def test_what_was_chosen_to_be_stricter_stays_so(shipped: Any, page: Any) -> None:
    begin(page, shipped.url)
    page.get_by_role("button", name=TEXTS["options.title"]).click()
    page.get_by_label(TEXTS["options.strict"]).check()
    page.keyboard.press("Escape")
    switch(page, "kg-rag")
    _, body = ask(page, QUESTION)
    assert body["arrowhead"]["grounded"] == "strict"


def test_examples_about_the_notes_are_there_as_long_as_these_are_searched(scripted: Any, page: Any) -> None:
    """A document of one's own takes the notes out of the search, and then their examples would find nothing."""
    listed: list[dict[str, Any]] = [{"name": "notes", "sample": True, "documents": 98}, {"name": "own", "documents": 0}]
    page.route("**/v1/namespaces", lambda route: route.fulfill(json={"object": "list", "data": listed}))
    begin(page, scripted.url)
    page.wait_for_timeout(300)
    assert page.locator(".example", has_text=TEXTS["example.medrag.1"]).count() == 1
    listed[1]["documents"] = 1

    page.reload()

    page.locator(".example", has_text=TEXTS["example.auto.2"]).wait_for()
    page.locator(".example", has_text=TEXTS["example.medrag.1"]).wait_for(state="detached")

"""What the page says of sources and of what left: what was told, and nothing for what was not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import page_screens
import pytest
import server_process
from http_calls import Site

TEXTS = json.loads((server_process.ROOT / "server/web/static/en.json").read_text(encoding="utf-8"))
ARTICLE = "https://pubmed.ncbi.nlm.nih.gov/34000001"
OTHER = "https://pubmed.ncbi.nlm.nih.gov/34000002"
EDGE = {"edge": "a|b|c", "text": "Gene A is b of C.", "node_urls": ["https://www.ncbi.nlm.nih.gov/gene/1", ""]}
RETRACTED = "async ([turn, one]) => (await import('/web/evidence.js')).isRetracted(turn, one)"
RECORD = "async ([turn, one]) => (await import('/web/evidence.js')).recordOf(turn, one)?.record.id ?? null"
SHOWN = """async (turn) => { const { AnswerView } = await import('/web/answer.js');
  return new AnswerView(turn, {}).node.textContent; }"""
TURN = {
    "question": "q",
    "model": "m",
    "method": "genegpt",
    "state": "done",
    "content": "",
    "thinking": "",
    "steps": [],
    "references": [],
    "created": 0,
    "seconds": 0,
}


def turn_of(*citations: dict[str, Any], calls: tuple[Any, ...] = ()) -> dict[str, Any]:
    return {"trace": {"details": {"citations": list(citations)}, "calls": list(calls)}}


@pytest.fixture(scope="module")
def modules(scripted: Any, browser: Any) -> Iterator[Any]:
    """A page in which functions of its modules are called; nothing in it is pressed."""
    context = browser.new_context(locale="en-GB")
    opened = context.new_page()
    opened.goto(scripted.url)
    opened.wait_for_selector(".empty")
    yield opened
    context.close()


@pytest.mark.parametrize(
    ("cited", "url", "is_retracted"),
    [
        ({"number": 1, "retracted": False}, "", False),
        ({"number": 1, "retracted": True}, "", True),
        ({"number": 1, "retracted": []}, "", False),
        ({"number": 1, "retracted_by": []}, "", False),
        ({"number": 1, "retracted_by": ["PMID 1"]}, "", True),
        ({"number": 2, "retracted": True}, "", False),
        ({**EDGE, "pmids": ["34000001"], "pmid_urls": [ARTICLE], "retracted": []}, ARTICLE, False),
        ({**EDGE, "pmids": ["34000001"], "pmid_urls": [ARTICLE], "retracted": ["34000001"]}, ARTICLE, True),
        ({**EDGE, "pmids": ["34000001"], "pmid_urls": [ARTICLE, OTHER], "retracted": ["34000001"]}, OTHER, False),
        ({**EDGE, "pmids": [], "pmid_urls": [], "retracted": []}, "https://www.ncbi.nlm.nih.gov/gene/1", False),
    ],
)
def test_a_source_is_retracted_where_its_record_says_so(
    modules: Any, cited: dict[str, Any], url: str, is_retracted: bool
) -> None:
    """An empty list of retracted articles is none, and another article's retraction is not this one's."""
    reference = {"number": 1, "title": "A title", "url": url}

    assert modules.evaluate(RETRACTED, [turn_of(cited), reference]) is is_retracted


def test_an_article_of_a_look_up_is_retracted_where_the_reply_lists_it(modules: Any) -> None:
    call = {"record": {"db": "pubmed", "retracted": ["34000001"], "records": []}}
    answers = [
        modules.evaluate(RETRACTED, [turn_of(calls=(call,)), {"number": 1, "title": "", "url": url}])
        for url in (ARTICLE, OTHER)
    ]

    assert answers == [True, False]


def test_statements_of_the_graph_that_ships_have_no_badge(shipped: Any, page: Any) -> None:
    """None of their articles is retracted."""
    page.goto(shipped.url)
    page_screens.choose(page, "kg-rag")
    page.get_by_role("button", name=TEXTS["example.kg-rag.1"], exact=True).click()
    page.locator(".answer[aria-busy=false] .reference").first.wait_for()

    assert page.locator(".badge", has_text=TEXTS["retracted"]).count() == 0


def test_a_record_without_a_title_is_not_that_of_every_source(modules: Any) -> None:
    """Each text begins with an empty one; the page of a record names it."""
    records = [{"id": "7", "title": "", "text": "seven"}, {"id": "34000001", "title": "On heparin", "text": "it"}]
    turn = turn_of(calls=({"record": {"records": records}},))
    found = [
        modules.evaluate(RECORD, [turn, {"number": 1, "title": title, "url": url}])
        for title, url in (("On heparin, PubMed", f"{ARTICLE}/"), ("Something", ""), ("Else", f"{OTHER}7"))
    ]

    assert found == ["34000001", None, None]


@pytest.mark.parametrize(
    ("told", "is_said"),
    [({"egress": "no data left this machine"}, True), ({}, False), ({"egress": ""}, False), (None, False)],
)
def test_nothing_left_is_said_only_where_it_was_told(modules: Any, told: Any, is_said: bool) -> None:
    text = modules.evaluate(SHOWN, {**TURN, "told": told, "trace": None, "error": None})

    assert (TEXTS["left.nothing"] in text) is is_said


@pytest.mark.parametrize("method", ["medrag", "kg-rag", "clinfo"])
def test_an_answer_of_quotes_is_said_to_be_one(shipped: Any, page: Any, method: str) -> None:
    """Where nothing in a quote is a number or an identifier, too."""
    site = Site(shipped.url)
    # The page asks the only collection, and offers no example of the notes, where a test before has left one.
    names = {one["name"] for one in site.call("GET", "/v1/namespaces")[1]["data"]} - {"notes"}
    for name in names:
        site.call("DELETE", f"/v1/namespaces/{name}")
    page.goto(shipped.url)
    page_screens.choose(page, method)
    page.locator("#question").fill(TEXTS[f"example.{method}.{2 if method == 'clinfo' else 1}"])
    page.locator("#question").press("Enter")
    page.locator(".answer[aria-busy=false] .tools").wait_for(timeout=90_000)

    # The page looks quotes up in the trace, which it fetches behind the answer.
    page.locator(".fact.good", has_text=TEXTS["support.quoted"]).wait_for()


@pytest.mark.parametrize(
    ("answer", "is_quoted"),
    [
        ("“Protamine reverses heparin.” [1]", True),
        ("Heparin: “protamine\nreverses heparin” [1]", True),
        ("“Heparin, a review”: “protamine reverses heparin” [1]", True),
        ("“Verified”: “protamine reverses heparin” [1]", False),
        ("“Protamine does not reverse heparin.” [1]", False),
        ("“Protamine reverses heparin.” “It is slow.”", False),
        ("Protamine reverses heparin. [1]", False),
        ("“…”", False),
    ],
)
def test_a_quote_is_one_that_stands_in_a_source(modules: Any, answer: str, is_quoted: bool) -> None:
    """A changed one, or one of two, is none."""
    text = "Heparin is old. Protamine reverses heparin at once."
    turn = {"references": [{"number": 1, "title": "Heparin, a review (drugs)", "text": text}], "trace": None}
    code = "async ([turn, answer]) => (await import('/web/evidence.js')).isQuoted(turn, answer)"

    assert modules.evaluate(code, [turn, answer]) is is_quoted


def test_a_call_that_nobody_answered_was_not_answered_here(modules: Any) -> None:
    """A refused one has no destination."""
    code = "async (call) => (await import('/web/details.js')).whereOf(call)"
    route = {"went_to": "gateway", "left": False}
    where = [modules.evaluate(code, {"record": one}) for one in (None, {"egress": None}, {"egress": route})]

    assert where == ["", "", TEXTS["where.here"]]


@pytest.mark.parametrize(
    "address", ["constructor", "%", "__proto__/x", "toString", "chat/%", "reader", "reader/%E0", ""]
)
def test_an_address_that_names_no_screen_shows_one(scripted: Any, page: Any, address: str) -> None:
    """Also one that cannot be decoded, or has a name that every object of JavaScript has."""
    page.goto(f"{scripted.url}/#/{address}")
    page.locator(".empty, .library-body .tabs, .library-body .blank, .library-body .problem").first.wait_for()

    assert page.title() in ("Chat · Arrowhead", "Collections · Arrowhead")
    assert page.seen.complaints == []


def test_a_wrong_address_in_an_open_page_shows_a_screen_too(scripted: Any, page: Any) -> None:
    page.goto(scripted.url)
    page.get_by_role("link", name=TEXTS["nav.status"]).click()
    page.locator(".status-card").first.wait_for()
    page.evaluate("location.hash = '#/constructor'")

    page.wait_for_selector(".empty")
    assert page.seen.complaints == []

"""What others write does nothing but stand there; a key is asked for, kept as told, and decides what is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import page_screens
import page_server
import server_process

from server.auth.authentication import FileKeyStore
from server.auth.keys import NewKey, Scopes

TEXTS = json.loads((server_process.ROOT / "server/web/static/en.json").read_text(encoding="utf-8"))
KEY = page_server.KEYS[0]


def ask(page: Any, url: str, method: str, question: str) -> Any:
    page.goto(url)
    page_screens.choose(page, method)
    page.locator("#question").fill(question)
    page.locator("#question").press("Enter")
    page.locator(".answer[aria-busy=false] .tools").wait_for()
    return page.locator(".turn").last


def assert_harmless(page: Any, url: str) -> None:
    """Nothing ran, nothing was fetched, no element came in that could do either."""
    page.wait_for_timeout(200)
    assert page.evaluate("window.hacked") is None
    assert page.seen.hosts() == {url.removeprefix("http://")}
    forbidden = "main :is(script, iframe, img, style, object, embed, form form, [onerror], [onload], [onclick])"
    assert page.locator(forbidden).count() == 0
    hrefs = page.locator("main a").evaluate_all("(links) => links.map((one) => one.href)")
    assert all(href.startswith(("http://", "https://")) for href in hrefs)


def test_an_answer_full_of_attacks_is_text(scripted: Any, page: Any) -> None:
    """Scripts, handlers, frames, styles and addresses of scripts stay words; a link to a site shows its address."""
    turn = ask(page, scripted.url, "direct", "hostile")
    turn.locator(".content", has_text="https://example.org/page").wait_for()

    assert_harmless(page, scripted.url)
    text = turn.locator(".content").inner_text()
    assert "script>window.hacked=1" in text and "\u202e" not in text and "dose" in text
    assert turn.locator(".content a").count() == 0
    assert page.seen.complaints == []


def test_a_record_full_of_attacks_is_text(scripted: Any, page: Any) -> None:
    """In the list of sources, in the panel, in the transcript and in the steps."""
    turn = ask(page, scripted.url, "genegpt", "record")
    turn.locator(".reference").click()
    page.locator(".panel .passage").wait_for()
    page.get_by_role("button", name=TEXTS["turn.details"]).click()
    for tab in page.get_by_role("tab").all():
        tab.click()

    assert_harmless(page, scripted.url)
    assert "window.hacked=1" in page.locator(".panel").inner_text()
    assert "\u202e" not in page.locator("body").inner_text()


def test_a_question_full_of_attacks_is_text(scripted: Any, page: Any) -> None:
    """Also in the list of chats, after a reload."""
    ask(page, scripted.url, "direct", page_server.ATTACK + page_server.BIDI)
    page.reload()
    page.locator(".turn h2").wait_for()

    assert_harmless(page, scripted.url)
    assert "<script>" in page.locator(".history-list").inner_text()


def test_markup_that_did_not_pass_the_server_is_refused_by_the_browser(scripted: Any, page: Any) -> None:
    """Trusted Types: a script of the page could not insert a text as HTML if it tried."""
    page.goto(scripted.url)
    page.wait_for_selector(".empty")

    assert page.evaluate("() => { try { document.body.innerHTML = '<b>x</b>'; } catch (e) { return e.name; } }") == (
        "TypeError"
    )


def test_a_wrong_key_is_told_and_the_right_one_opens(guarded: Any, page: Any) -> None:
    """It is in no storage unless that was chosen, and gone after a reload."""
    page.goto(guarded.url)
    page.locator("#key").fill("ah-wrong")
    page.get_by_role("button", name=TEXTS["key.go"]).click()
    page.locator("#key-error", has_text=TEXTS["key.wrong"]).wait_for()
    page.locator("#key").fill(KEY)
    page.get_by_role("button", name=TEXTS["key.go"]).click()
    page.wait_for_selector(".empty")

    kept = "JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage), document.cookie])"
    assert KEY not in page.evaluate(kept)
    assert not [url for url in page.seen.requests if KEY in url]
    page.reload()
    page.wait_for_selector("#key")


def test_a_key_can_stay_in_the_tab(guarded: Any, page: Any) -> None:
    """By choice; signing out removes it."""
    page.goto(guarded.url)
    page.locator("#key").fill(KEY)
    page.locator("#key-stays").check()
    page.locator("#key").press("Enter")
    page.wait_for_selector(".empty")
    page.reload()
    page.wait_for_selector(".empty")
    page.get_by_role("button", name=TEXTS["key.out"]).click()
    page.wait_for_selector("#key")

    assert page.evaluate("sessionStorage.length") == 0


def test_the_scopes_of_a_key_decide_what_is_shown(guarded: Any, keys_file: Path, page: Any) -> None:
    """No methods and no buttons that it may not use; the reason is told."""
    store = FileKeyStore(keys_file)
    secret, _ = store.create(NewKey(name="reader", scopes=Scopes(methods=("direct",), may_change=False)))
    page.goto(guarded.url)
    page.locator("#key").fill(secret)
    page.locator("#key").press("Enter")
    page.wait_for_selector(".empty")
    # Auto answers by what the key may use: here the plain model alone.
    assert page.locator(".source").all_inner_texts() == [TEXTS["sources.auto"]]
    page.get_by_role("button", name=TEXTS["options.title"]).click()
    assert page.locator("#method option").all_inner_texts() == [TEXTS["method.auto"], TEXTS["method.direct"]]
    page.keyboard.press("Escape")
    page.get_by_role("link", name=TEXTS["nav.library"]).click()
    page.get_by_text(TEXTS["library.read_only"]).wait_for()
    assert page.get_by_role("button", name=TEXTS["library.create"]).count() == 0
    page.get_by_role("link", name=TEXTS["nav.literature"]).click()
    page.get_by_text(TEXTS["literature.missing"]).wait_for()


def test_a_key_with_odd_characters_is_refused_here(guarded: Any, page: Any) -> None:
    """No browser could send it in a header."""
    page.goto(guarded.url)
    page.locator("#key").fill("ключ\u2028")
    page.get_by_role("button", name=TEXTS["key.go"]).click()

    page.get_by_role("alert").filter(has_text=TEXTS["key.wrong"]).wait_for()

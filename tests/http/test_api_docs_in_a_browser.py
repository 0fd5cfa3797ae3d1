"""``/docs`` in Chromium, where one is installed (Debian: apt install chromium): what a reader sees and can do."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import chromium
import pytest

KEY = "reading-in-a-browser-1"
LOADED = "document.querySelectorAll('details').length"
STATE = "document.getElementById('state').textContent"
CHAT = "document.querySelectorAll('details')[0]"
SAID = f"{CHAT}.querySelector('[role=status]').textContent"
REPLY = f"{CHAT}.querySelector('pre').textContent"
PUT_IN = "((node, text) => { node.value = text; })"
# Each control with neither a label nor words of its own.
NAMELESS = """[...document.querySelectorAll('input, select, textarea, button, pre')]
  .filter((one) => !(one.labels && one.labels.length) && !one.textContent.trim() && !one.ariaLabel)
  .map((one) => one.outerHTML)"""


@pytest.fixture(scope="module")
def guarded(host_with: Callable[..., AbstractContextManager[Any]]) -> Iterator[Any]:
    with host_with({"ARROWHEAD_SERVER__API_KEYS": KEY}) as server:
        yield server


@pytest.fixture
def page(tmp_path: Path) -> Iterator[chromium.Page]:
    program = chromium.installed()
    if program is None:
        pytest.skip("there is no Chromium here (Debian: apt install chromium)")
    with chromium.opened(program, tmp_path / "profile") as opened:
        yield opened


def _open(page: chromium.Page, url: str, wanted: str = LOADED) -> None:
    page.call("Page.navigate", url=f"{url}/docs")
    page.wait_for(f"document.readyState === 'complete' && {wanted}")


def _open_chat(page: chromium.Page, url: str, question: str) -> None:
    """The chat's operation is open, with a question of the scripted model in its body."""
    _open(page, url)
    page.value(f"{CHAT}.open = true")
    page.wait_for(f"{CHAT}.querySelector('textarea')")
    body = json.dumps({"model": "scripted:genegpt", "messages": [{"role": "user", "content": question}]})
    page.value(f"{PUT_IN}({CHAT}.querySelector('textarea'), {json.dumps(body)})")


def _described(url: str, key: str = "") -> list[tuple[str, Any]]:
    """The paths of the server's document with their operations."""
    request = urllib.request.Request(f"{url}/openapi.json", headers={"Authorization": f"Bearer {key}"} if key else {})
    with urllib.request.urlopen(request, timeout=120) as reply:
        return list(json.load(reply)["paths"].items())


def test_every_operation_is_shown_and_nothing_is_asked_elsewhere(running: Any, page: chromium.Page) -> None:
    """All of the document opened: no complaint of script, policy or network; each control has a name; a small phone's
    width is enough."""
    page.call("Emulation.setDeviceMetricsOverride", width=320, height=700, deviceScaleFactor=1, mobile=True)
    _open(page, running.url)
    page.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.wait_for("document.querySelectorAll('details form').length === document.querySelectorAll('details').length")

    assert page.value("[...document.querySelectorAll('summary code')].map((one) => one.textContent).sort()") == sorted(
        path for path, verbs in _described(running.url) for _ in verbs
    )
    assert page.value(NAMELESS) == []
    assert page.value("document.documentElement.scrollWidth") <= 320
    assert page.value(STATE) == "This server needs no key."
    assert {urlsplit(url)[:2] for url in page.requests()} == {urlsplit(running.url)[:2]}
    assert page.complaints() == []


def test_a_key_is_asked_for_and_taken_by_keyboard_alone(guarded: Any, page: chromium.Page) -> None:
    """Without one, with a wrong one, with the right one: it is said each time. The field has the focus from the
    start, and it is no part of any address."""
    _open(page, guarded.url, f"{STATE} === 'This server needs a key.'")
    page.press(*"wrong", "Enter")
    page.wait_for(f"{STATE} === 'The server does not take this key.'")
    assert page.value(LOADED) == 0

    page.press(*KEY, "Enter")
    page.wait_for(f"{STATE} === 'Loaded.'")
    page.press("Tab", "Tab", "Enter")
    page.wait_for(f"{CHAT}.open && {CHAT}.querySelector('textarea')")

    assert page.value("document.activeElement.tagName") == "SUMMARY"
    assert page.value(LOADED) == sum(len(verbs) for _, verbs in _described(guarded.url, KEY))
    assert not [url for url in page.requests() if "wrong" in url or KEY in url]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_answer_is_asked_for_on_the_page(running: Any, page: chromium.Page, is_streamed: bool) -> None:
    """The reply as it comes, with its status and its request's id."""
    _open_chat(page, running.url, "What is the official gene symbol of LMP10?")
    if is_streamed:
        page.value(f"{CHAT}.querySelector('[type=checkbox]').click()")
    page.value(f"{CHAT}.querySelector('form button').click()")
    page.wait_for(f"{CHAT}.querySelector('form button').textContent === 'Send' && {SAID}")

    assert page.value(SAID).startswith("200 OK, x-request-id ")
    assert "PSMB10" in page.value(REPLY)
    assert page.value(REPLY).rstrip().endswith("data: [DONE]" if is_streamed else "}")
    assert page.complaints() == []


def test_an_answer_can_be_stopped(running: Any, page: chromium.Page) -> None:
    """By the button that began it."""
    _open_chat(page, running.url, "dead")
    for text in ("Stop", "Send"):
        page.value(f"{CHAT}.querySelector('form button').click()")
        page.wait_for(f"{CHAT}.querySelector('form button').textContent === '{text}'")

    assert page.value(SAID) == "Stopped."


def test_a_server_that_goes_away_is_said_to_be_gone(
    serve_with: Callable[..., AbstractContextManager[Any]], page: chromium.Page
) -> None:
    """In the middle of a stream what came stays; after it no request is left waiting."""
    with serve_with({}) as server:
        _open_chat(page, server.url, "dead")
        page.value(f"{CHAT}.querySelector('[type=checkbox]').click()")
        page.value(f"{CHAT}.querySelector('form button').click()")
        page.wait_for(f"{REPLY}.includes('data: ')")
        server.process.kill()
        page.wait_for(f"{SAID}.includes('The reply broke off')")
        assert "data: " in page.value(REPLY)

    page.value(f"{CHAT}.querySelector('form button').click()")
    page.wait_for(f"{SAID} === 'The server cannot be reached.'")
    page.value("document.querySelector('header button').click()")
    page.wait_for(f"{STATE} === 'The server cannot be reached.'")

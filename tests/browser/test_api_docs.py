"""``/docs`` in a browser: Swagger UI over this server's document, bound to this server, behind its key."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import page_server
from server_process import Served

KEY = page_server.KEYS[0]


def test_a_key_is_asked_for_and_goes_to_this_server_alone(guarded: Served, page: Any) -> None:
    """Without one, with a wrong one, with the right one: it is said each time, and a request carries the key."""
    page.goto(f"{guarded.url}/docs")
    page.get_by_text("This server needs a key.").wait_for()
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    page.get_by_text("The server does not take this key.").wait_for()
    page.keyboard.type(KEY)
    page.keyboard.press("Enter")
    page.get_by_text("Loaded.").wait_for()
    page.locator("#operations-Answers-get__v1_models button.opblock-summary-control").click()
    with page.expect_response(f"{guarded.url}/v1/models") as reply:
        page.get_by_role("button", name="Execute").click()

    assert reply.value.status == 200
    assert page.locator(".opblock").count() > 38
    assert {urlsplit(url).netloc for url in page.seen.requests if url.startswith("http")} == {
        urlsplit(guarded.url).netloc
    }
    assert not [url for url in page.seen.requests if KEY in url]
    assert [text for text in page.seen.complaints if "401" not in text] == []

"""The first start of a server that other machines reach, and the administrator's screen."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import page_server
import pytest
import server_process
from http_calls import Site
from page_screens import BEYOND, RULES

TEXTS = json.loads((server_process.ROOT / "server/web/static/en.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Started:
    """A server before its first key, with the code that it printed."""

    url: str
    code: str


@pytest.fixture
def started(tmp_path: Any) -> Iterator[Started]:
    environment = page_server.scripted_environment(tmp_path, "http://127.0.0.1:9")
    with server_process.serve(environment | {"ARROWHEAD_SERVER__HOST": "0.0.0.0"}) as server:
        found = re.search(r"with the code (\S+)", server.log())
        assert found is not None
        yield Started(server.url.replace("0.0.0.0", "127.0.0.1"), found[1])


def button(page: Any, key: str, **more: Any) -> Any:
    return page.get_by_role("button", name=TEXTS[key], exact=True, **more)


def serious(page: Any, axe: str) -> list[tuple[str, str, str]]:
    """What axe-core finds, in light and dark."""
    page.evaluate(axe)
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(200)
        bad = [one for one in page.evaluate(RULES)["violations"] if one["impact"] in ("serious", "critical")]
        found += [(scheme, one["id"], one["nodes"][0]["html"]) for one in bad]
    return found


def beyond(page: Any) -> list[str]:
    """What does not fit narrow and wide windows."""
    found: list[str] = []
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(100)
        wide = page.evaluate("document.documentElement.scrollWidth > innerWidth") * ["the page"]
        found += [f"{width}: {one}" for one in [*wide, *page.evaluate(BEYOND)]]
    return found


def test_the_first_start_leads_to_a_key_and_to_the_keys_of_others(started: Started, browser: Any) -> None:
    """The code makes a key, which is shown once; its owner makes another one, changes and revokes it."""
    context = browser.new_context(locale="en-GB", permissions=["clipboard-read", "clipboard-write"])
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.goto(started.url)
    page.locator("#setup-code").fill("AAAA-AAAA")
    page.locator("#setup-code").press("Enter")
    page.locator("#setup-error", has_text="9 tries are left").wait_for()
    page.locator("#setup-code").fill(started.code)
    button(page, "setup.go").click()
    secret = page.locator(".secret").inner_text()
    button(page, "copy.title").click()
    assert page.evaluate("navigator.clipboard.readText()") == secret
    button(page, "setup.enter").click()
    page.locator("#nav a", has_text=TEXTS["nav.admin"]).click()
    button(page, "admin.key.new").click()
    page.locator("#key-name").fill("anna")
    page.get_by_text(TEXTS["admin.key.limits"]).click()
    page.locator("#key-rate").fill("60")
    page.get_by_label(TEXTS["method.clinfo"]).uncheck()
    button(page, "admin.key.make").click()
    anna = page.locator("dialog .secret").inner_text()
    page.keyboard.press("Escape")
    row = page.locator("tr", has_text="60 requests a minute")
    row.wait_for()
    assert anna not in page.content() and secret not in page.content()
    told = Site(started.url, anna).call("GET", "/v1/permissions")[1]
    assert "clinfo" not in told["methods"] and "genegpt" in told["methods"] and not told["may_administer"]
    row.get_by_role("button", name=f"{TEXTS['admin.key.change']}: anna").click()
    page.locator("#key-name").fill("anna b")
    page.locator("#key-rate").fill("")
    button(page, "admin.key.save").click()
    row = page.locator("tr", has_text="anna b")
    row.get_by_role("button", name=f"{TEXTS['admin.key.revoke']}: anna b").click()
    page.locator("dialog .danger").click()
    page.get_by_text(TEXTS["admin.keys.ended.one"].replace("{n}", "1")).wait_for()
    assert Site(started.url, anna).call("GET", "/v1/permissions")[0] == 401
    context.close()


def test_the_new_screens_fit_and_axe_finds_nothing_serious(started: Started, browser: Any, axe: str) -> None:
    """Setup, the new key, the administrator's screen and its forms, narrow and wide, in light and dark."""
    context = browser.new_context(bypass_csp=True, reduced_motion="reduce", locale="en-GB")
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.goto(started.url)
    page.locator("#setup-code").fill(started.code)
    found = [("setup", beyond(page), serious(page, axe))]
    button(page, "setup.go").click()
    page.locator(".secret").wait_for()
    found.append(("key", beyond(page), serious(page, axe)))
    button(page, "setup.enter").click()
    page.locator("#nav a", has_text=TEXTS["nav.admin"]).click()
    page.locator(".cards .card").nth(3).wait_for()
    found.append(("administration", beyond(page), serious(page, axe)))
    button(page, "admin.key.new").click()
    page.get_by_text(TEXTS["admin.key.limits"]).click()
    found.append(("form", beyond(page), serious(page, axe)))
    context.close()

    assert [one for one in found if one[1] or one[2]] == []


def test_who_does_not_administer_sees_no_administration(started: Started, page: Any) -> None:
    """Neither in the header nor under the status; the address leads to why."""
    made = Site(started.url).call("POST", "/v1/setup", {"code": started.code})[1]
    plain = Site(started.url, made["secret"]).call("POST", "/v1/admin/keys", {"name": "anna"})[1]
    page.goto(started.url)
    page.locator("#key").fill(plain["secret"])
    page.locator("#key").press("Enter")
    page.locator("#nav a", has_text=TEXTS["nav.status"]).click()
    page.locator(".status-card").nth(4).wait_for()
    assert page.get_by_role("link", name=TEXTS["nav.admin"]).count() == 0
    page.evaluate("location.hash = '#/admin'")
    page.locator(".error-text", has_text="does not administer").wait_for()


def test_another_language_keeps_what_is_typed(scripted: Any, page: Any) -> None:
    """In the box of the chat, and in fields of other screens."""
    expect = pytest.importorskip("playwright.sync_api").expect
    for screen, field in (("chat", "question"), ("literature", "l-question"), ("articles", "a-text")):
        page.goto(f"{scripted.url}/#/{screen}")
        page.locator(f"#{field}").fill("half a question")
        for language in ("fr", "en"):
            page.locator(".top .language").select_option(language)
            page.locator(f"html[lang={language}]").wait_for(state="attached")
            expect(page.locator(f"#{field}")).to_have_value("half a question")
    assert page.seen.complaints == []

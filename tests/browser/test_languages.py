"""The languages of the page: the browser's, or the one that was chosen, on every screen and at every width."""

from __future__ import annotations

import json
from typing import Any

import pytest
import server_process

STATIC = server_process.ROOT / "server/web/static"
SCREENS = ("chat", "literature", "articles", "library", "status")
# Frames whose content goes beyond their side.
BEYOND = """[...document.querySelectorAll('body *')].filter((one) =>
  one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll, .unseen, .nav'))
  .map((one) => one.className)"""


def texts(language: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((STATIC / f"{language}.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("language", ["de", "fr", "es"])
def test_every_screen_speaks_the_browsers_language_and_fits(scripted: Any, browser: Any, language: str) -> None:
    """640 is what is left of 1280 at a zoom of 200 %; one catalogue is fetched."""
    context = browser.new_context(locale=f"{language}-CH", viewport={"width": 320, "height": 400})
    page = context.new_page()
    page.set_default_timeout(120_000)
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    words = texts(language)
    for screen in SCREENS:
        page.goto(f"{scripted.url}/#/{screen}")
        page.wait_for_selector(f"main.screen-{screen} h1", state="attached")
        title = words[f"nav.{'literature' if screen == 'articles' else screen}"]
        assert page.title() == f"{title} · Arrowhead"
        for width in (320, 640, 1280):
            page.set_viewport_size({"width": width, "height": 400})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, screen
            assert page.evaluate(BEYOND) == [], screen
    assert page.evaluate("document.documentElement.lang") == language
    assert sum(url.endswith(".json") for url in asked) == 1
    context.close()


def test_a_language_that_is_chosen_is_kept(scripted: Any, browser: Any) -> None:
    """The screen changes at once, without another load; the next visit begins in it."""
    context = browser.new_context(locale="en-GB")
    page = context.new_page()
    page.goto(scripted.url)
    page.wait_for_selector(".empty")
    page.evaluate("window.same = true")
    choice = page.locator(".top .language")
    assert choice.locator("option").all_inner_texts() == ["Deutsch", "English", "Español", "Français"]
    choice.select_option("fr")
    page.locator("#nav a", has_text=texts("fr")["nav.literature"]).wait_for()
    page.locator(".empty h1", has_text=texts("fr")["chat.hello"]).wait_for()
    assert page.evaluate("[document.documentElement.lang, window.same]") == ["fr", True]
    page.reload()
    page.locator(".empty h1", has_text=texts("fr")["chat.hello"]).wait_for()
    assert page.locator("#nav a").nth(1).inner_text() == texts("fr")["nav.literature"]
    context.close()


def test_numbers_and_dates_are_written_as_in_the_language(scripted: Any, browser: Any) -> None:
    """And as in the reader's country, where its language is that of the page."""
    code = """async () => { const { bytes, count, day, seconds } = await import('/web/dom.js');
      return [count(12345.5), bytes(1500000), seconds(2.25), day(Date.UTC(2026, 2, 1, 12))]; }"""
    found = {}
    for locale in ("de-DE", "en-GB"):
        context = browser.new_context(locale=locale, timezone_id="UTC")
        page = context.new_page()
        page.goto(scripted.url)
        page.wait_for_selector(".empty")
        found[locale] = page.evaluate(code)
        context.close()

    assert found["de-DE"] == ["12.345,5", "1,5 MB", "2,3 s", "01.03.2026"]
    assert found["en-GB"] == ["12,345.5", "1.5 MB", "2.3 s", "1 Mar 2026"]

"""Each screen with what people have in it: it fits narrow and wide windows, and everybody can use it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import page_screens
import pytest
from http_calls import Site


@pytest.fixture(scope="module")
def filled(shipped: Any, browser: Any) -> Iterator[str]:
    page_screens.fill(shipped.url, browser)
    further = [f"a-collection-whose-name-is-long-{number}" for number in range(3)]
    for name in further:
        Site(shipped.url).create(name)
    yield shipped.url
    for name in (page_screens.NAME, *further):
        Site(shipped.url).call("DELETE", f"/v1/namespaces/{name}")


@pytest.mark.parametrize("name", page_screens.SCREENS)
def test_a_filled_screen_fits_narrow_and_wide_windows(filled: str, page: Any, name: str) -> None:
    """Nothing is cut off or scrolls to the side but tables and the like, in frames of their own."""
    page.set_viewport_size({"width": 390, "height": 800})
    page_screens.SCREENS[name](page, filled)
    for width in (390, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(page_screens.BEYOND) == []
    assert page.seen.complaints == []


@pytest.mark.parametrize("name", page_screens.SCREENS)
def test_axe_finds_nothing_serious_on_a_filled_screen(filled: str, browser: Any, axe: str, name: str) -> None:
    """In light and dark: a review with its table of evidence and its sources, counts of keywords, a page of a PDF."""
    context = browser.new_context(bypass_csp=True, reduced_motion="reduce")
    context.set_default_timeout(120_000)
    page = context.new_page()
    page_screens.SCREENS[name](page, filled)
    page.evaluate(axe)
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(200)
        violations = page.evaluate(page_screens.RULES)["violations"]
        bad = [one for one in violations if one["impact"] in ("serious", "critical")]
        found += [(scheme, one["id"], one["nodes"][0]["html"]) for one in bad]
    context.close()

    assert found == []

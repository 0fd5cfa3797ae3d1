"""The list of collections on the page: what each costs, what keeps the server from it, and a press that adds one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import server_process
from http_calls import Site
from page_screens import TEXTS


def test_a_press_adds_what_lies_in_the_folder_and_its_job_is_found_again(
    shipped: server_process.Running, page: Any
) -> None:
    """The bell leads to it after a reload."""
    listed = Site(shipped.url).call("GET", "/v1/admin/collections")[1]["data"]
    folder = Path(next(one["folder"] for one in listed if one["name"] == "guidelines"))
    folder.mkdir(parents=True)
    (folder / "quolls.txt").write_text("A guideline on quolls.")
    page.goto(f"{shipped.url}/#/library")
    page.get_by_role("link", name=TEXTS["corpora.title"]).click()
    card = page.locator(".status-card", has=page.get_by_role("heading", name="guidelines"))
    card.get_by_text("quolls.txt").wait_for()
    page.locator(".status-card", has_text="statpearls").get_by_text(TEXTS["corpora.off"]).wait_for()
    assert "arrowhead collections add primekg kg.csv" in page.locator(".status-card", has_text="PrimeKG").inner_html()

    card.get_by_role("button").click()

    card.locator(".job").get_by_text("1 document added").wait_for()
    page.reload()
    page.locator(".bell").click()
    page.locator("dialog .job", has_text=TEXTS["job.collection"]).first.get_by_role("link").click()
    card.wait_for()
    assert page.seen.complaints == []
    Site(shipped.url).call("DELETE", "/v1/namespaces/guidelines")

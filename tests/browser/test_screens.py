"""The other screens, each by its main way: knowledge base, search, reader, literature, status."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import corpus_files
import page_screens
import pytest
import server_process
from http_calls import Site

TEXTS = json.loads((server_process.ROOT / "server/web/static/en.json").read_text(encoding="utf-8"))
PAGES = ("Heparin acts on factor Xa. Protamine reverses heparin at once.", "Warfarin lowers vitamin K. It is slow.")
NOTE = "# Omega-3\nIn 84 adults with high triglycerides, omega-3 fatty acids lowered triglycerides by 20 percent."


@pytest.fixture(scope="module")
def filled(shipped: Any, browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A namespace ``papers`` with a PDF of two pages and a note, made and filled by hand in the page."""
    folder = tmp_path_factory.mktemp("files")
    pdf = corpus_files.saved_pdf(folder / "heparin.pdf", corpus_files.pdf(*PAGES, title="Heparin and warfarin"))
    (folder / "omega.md").write_text(NOTE)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{shipped.url}/#/library")
    page.get_by_role("button", name=TEXTS["library.create"]).last.click()
    page.locator("#ns-name").fill("papers")
    page.locator("#ns-name").press("Enter")
    page.locator("#files").set_input_files([str(pdf), str(folder / "omega.md"), str(folder / "broken.pdf")])
    for name in ("heparin.pdf", "omega.md"):
        page.locator(".job", has_text=name).get_by_text("1 document added").wait_for(timeout=120_000)
    page.locator(".job.bad", has_text="broken.pdf").wait_for(timeout=120_000)
    context.close()
    yield shipped.url


def test_files_are_added_with_the_fault_of_a_broken_one(filled: str, page: Any) -> None:
    """The fixture dropped three files; two are listed, newest first, and the PDF has its pages."""
    page.goto(f"{filled}/#/library/papers")
    page.locator(".document").nth(1).wait_for()

    assert page.locator(".document").count() == 2
    listed = page.locator(".document", has_text="Heparin and warfarin").inner_text()
    assert "2 pages" in listed and TEXTS["documents.waiting"] not in listed
    assert page.seen.complaints == []


def test_documents_are_found_by_name_and_a_pmid_is_told_to_be_missing(filled: str, page: Any) -> None:
    page.goto(f"{filled}/#/library/papers")
    field = page.get_by_label(TEXTS["documents.search"])
    field.fill("warfarin")
    field.press("Enter")
    page.get_by_role("status").filter(has_text="1 document").wait_for()
    field.fill("PMID: 12345678")
    field.press("Enter")

    page.get_by_text("PMID 12345678 is not in this collection.").wait_for()


def test_a_late_listing_does_not_take_the_place_of_a_newer_one(filled: str, page: Any) -> None:
    """The first listing is held back until the search for a name has been answered."""
    held: list[Any] = []
    page.route(
        "**/papers/documents?limit=*",
        lambda route: route.continue_() if "query=" in route.request.url else held.append(route),
    )
    page.goto(f"{filled}/#/library/papers")
    field = page.get_by_label(TEXTS["documents.search"])
    field.fill("warfarin")
    field.press("Enter")
    status = page.get_by_role("status").filter(has_text="1 document")
    status.wait_for()
    with page.expect_response(lambda reply: "query=" not in reply.url and "/documents?" in reply.url):
        held[0].continue_()
    page.evaluate("fetch('/health').then((reply) => reply.text())")

    assert status.count() == 1 and page.locator(".document").count() == 1


def test_all_retrievers_stand_side_by_side_with_the_counts_of_keywords(filled: str, page: Any) -> None:
    """A fixed keyword is said to be one; the table counts it. Blanks alone are no search."""
    page.goto(f"{filled}/#/library/papers")
    page.get_by_role("tab", name=TEXTS["library.tab.search"]).click()
    field = page.get_by_label(TEXTS["search.placeholder"])
    field.fill("  ")
    field.press("Enter")
    assert page.locator(".retriever").count() == 0
    field.fill("Which drug reverses heparin?")
    field.press("Enter")
    page.locator("table").wait_for()
    columns = page.locator(".retriever h3").all_inner_texts()
    page.get_by_role("button", name="heparin", exact=True).click()
    page.locator("th svg").wait_for()

    assert columns == [TEXTS[f"retriever.{name}"] for name in ("hybrid", "dense", "bm25", "pes2")]
    assert page.get_by_role("button", name="heparin", exact=True).get_attribute("aria-pressed") == "true"
    row = page.locator("tbody tr", has_text="Heparin and warfarin").first.locator("td").all_inner_texts()
    assert row[-1] == "2"
    assert all(page.locator(".retriever").nth(place).locator(".hit").count() >= 1 for place in range(4))


def test_the_table_has_the_counts_of_the_server_in_all_spellings(shipped: Any, page: Any) -> None:
    """A phrase that was marked is one keyword; what is fixed comes first, in the table too."""
    site = Site(shipped.url)
    site.create("spellings")
    site.add(
        "spellings",
        {"id": "a", "title": "Cytokines", "text": "IL-6, il6 and IL 6 are one. Blood eosinophils fell."},
        {"id": "b", "title": "Eosinophils", "text": "Blood eosinophil counts rose; blood eosinophils rose again."},
    )
    page.goto(f"{shipped.url}/#/library/spellings")
    page.get_by_role("tab", name=TEXTS["library.tab.search"]).click()
    field = page.get_by_label(TEXTS["search.placeholder"])
    field.fill("#Does *il-6* raise **blood eosinophils**?")
    field.press("Enter")
    page.locator("table").wait_for()
    rows = page.locator("tbody tr")

    assert page.locator(".chip").all_inner_texts() == ["il-6", "blood eosinophils"]
    assert [row.locator("td").all_inner_texts() for row in rows.all()] == [
        ["Cytokines", "3", "1"],
        ["Eosinophils", "0", "2"],
    ]
    page.locator(".chip", has_text="blood eosinophils").click()
    page.locator("th svg").wait_for(state="detached")
    page.locator(".chip", has_text="il-6").click()
    page.locator("th svg").wait_for()
    assert page.locator("th", has=page.locator("svg")).inner_text() == "il-6"
    assert page.seen.complaints == []
    site.call("DELETE", "/v1/namespaces/spellings")


def test_a_citation_opens_the_pdf_at_its_page_with_the_sentence_marked(filled: str, page: Any) -> None:
    """The text of the page can be selected, and goes into a question."""
    page.goto(filled)
    page_screens.choose(page, "medrag")
    page.get_by_role("button", name=TEXTS["options.title"]).click()
    page.get_by_label("papers").check()
    page.keyboard.press("Escape")
    page.locator("#question").fill("What reverses heparin at once?")
    page.locator("#question").press("Enter")
    page.locator(".cite").first.click()
    page.get_by_role("link", name="Open page 1").click()
    page.locator(".pdf-page img").wait_for()

    marked = [word.strip() for word in page.locator(".word.marked").all_inner_texts()]
    assert marked == ["Protamine", "reverses", "heparin", "at", "once."]
    assert page.locator(".reader-bar").get_by_text("of 2").count() == 1
    page.evaluate("document.getSelection().selectAllChildren(document.querySelector('.text-layer'))")
    page.get_by_role("button", name=TEXTS["reader.ask"]).click()
    page.wait_for_selector(".empty")
    assert page.locator("#question").input_value().startswith("Heparin acts on factor Xa.")
    assert page.seen.complaints == []


def test_pages_are_turned_by_keyboard_and_number(filled: str, page: Any) -> None:
    page.goto(f"{filled}/#/library/papers")
    page.get_by_role("link", name="Heparin and warfarin").click()
    page.locator(".pdf-page img").wait_for()
    page.keyboard.press("ArrowRight")
    page.locator(".word", has_text="Warfarin").wait_for()

    assert page.get_by_role("button", name=TEXTS["reader.next"]).is_disabled()
    page.get_by_role("spinbutton").fill("1")
    page.get_by_role("spinbutton").press("Enter")
    page.locator(".word", has_text="Protamine").wait_for()


def test_a_document_without_pages_is_read_as_text(filled: str, page: Any) -> None:
    page.goto(f"{filled}/#/library/papers")
    page.get_by_role("link", name="Omega-3").click()

    page.locator(".sheet", has_text="lowered triglycerides by 20 percent").wait_for()


def test_a_review_shows_flow_answer_evidence_and_its_exports(filled: str, page: Any, tmp_path: Path) -> None:
    """The counts of the flow add up; the table sorts and has the columns that are filled; the report is saved."""
    page.goto(f"{filled}/#/literature")
    page.locator("#l-question").fill("What lowered triglycerides in adults with high triglycerides?")
    page.locator("#l-question").press("Enter")
    page.locator(".evidence tbody tr").first.wait_for(timeout=120_000)
    numbers = [int(text) for text in page.locator(".flow-number").all_inner_texts()]
    found, duplicates, screened, excluded, included, cited = numbers

    assert found - duplicates == screened and screened - excluded == included >= cited
    assert page.locator(".evidence tbody tr").count() == included
    page.get_by_role("button", name=TEXTS["evidence.article"]).click()
    assert page.locator("th[aria-sort=ascending]").inner_text() == TEXTS["evidence.article"]
    # Without a model that fills the others, the columns are those of the record and the quoted result.
    heads = [TEXTS[f"evidence.{name}"] for name in ("number", "article", "level", "design", "result")]
    assert page.locator(".evidence th .sort").all_inner_texts() == heads
    assert page.get_by_label(TEXTS["evidence.quotes"]).count() == 0
    with page.expect_download() as download:
        page.get_by_role("button", name=TEXTS["export.docx"]).click()
    download.value.save_as(tmp_path / "report.docx")
    assert (tmp_path / "report.docx").read_bytes()[:2] == b"PK"
    page.reload()
    page.locator(".evidence tbody tr").first.wait_for()
    assert page.seen.complaints == []


def test_a_review_is_a_document_with_columns_exclusions_and_what_is_new(filled: str, page: Any) -> None:
    """A column is filled from the articles, an excluded one leaves the counts, and a second run says what is gone."""
    page.goto(f"{filled}/#/literature")
    page.locator("#l-question").fill("Is lasmiditan effective for the acute treatment of migraine?")
    page.locator("#l-question").press("Enter")
    rows = page.locator(".evidence tbody tr")
    rows.first.wait_for()
    included = rows.count()
    page.get_by_role("button", name=TEXTS["column.add"]).click()
    page.locator("#c-name").fill("dose")
    page.locator("#c-question").fill("Which dose was given?")
    page.locator("#c-question").press("Enter")
    page.locator(".evidence th", has_text="dose").wait_for()
    page.locator(".evidence", has_text=TEXTS["column.unstated"]).wait_for()

    rows.first.get_by_role("button").click()
    page.locator("#x-reason").fill("animals")
    page.locator("#x-reason").press("Enter")
    page.locator("summary", has_text=TEXTS["exclude.list.one"].replace("{n}", "1")).wait_for()
    assert rows.count() == included - 1
    assert (
        page.locator(".flow-box", has_text=TEXTS["flow.excluded_by_hand"]).locator(".flow-number").inner_text() == "1"
    )

    page.get_by_role("button", name=TEXTS["review.again"]).click()
    changes = page.locator(".changes", has_text=TEXTS["review.gone"])
    changes.wait_for()
    assert "animals" in changes.inner_text()
    page.reload()
    changes.wait_for()
    assert page.locator("#l-question").input_value().startswith("Is lasmiditan")
    assert page.seen.complaints == []


def test_the_bell_shows_work_and_tells_when_it_is_ready(filled: str, page: Any) -> None:
    """It counts what runs; the title counts what has ended on another screen, until the list was looked at."""
    page.goto(f"{filled}/#/literature")
    page.locator("#l-question").fill(TEXTS["literature.placeholder"])
    page.locator("#l-question").press("Enter")
    page.wait_for_url("**/#/literature/review_*")
    page.locator("#nav a", has_text=TEXTS["nav.status"]).click()
    page.locator(".bell.ready").wait_for()
    assert page.title().startswith("(1) ")
    bell = page.get_by_role("button", name=TEXTS["work.ready.one"].replace("{n}", "1"))
    bell.click()
    page.locator("dialog .job", has_text=TEXTS["literature.placeholder"]).first.get_by_role("link").click()
    page.locator(".evidence tbody tr").first.wait_for()

    assert page.title() == f"{TEXTS['nav.literature']} · Arrowhead"


def test_the_example_of_a_review_is_answered_by_what_ships(filled: str, page: Any) -> None:
    """It stands in the empty field, beside what is said to be searched."""
    page.goto(f"{filled}/#/literature")
    page.get_by_text(TEXTS["literature.off"]).wait_for()
    field = page.locator("#l-question")
    field.fill(str(field.get_attribute("placeholder")))
    field.press("Enter")
    page.locator(".answer[aria-busy=false] .tools").wait_for(timeout=120_000)
    assert page.locator(".fact.good", has_text=TEXTS["outcome.answered"]).count() == 1
    assert page.locator(".evidence tbody tr").count() >= 1 and page.locator(".reference").count() >= 1


def test_the_status_tells_model_privacy_and_sizes(filled: str, page: Any) -> None:
    page.goto(f"{filled}/#/status")
    card = page.locator(".status-card")
    card.filter(has_text="papers").wait_for()
    card.filter(has_text="640").first.wait_for()

    assert "arrowhead-small" in card.filter(has_text=TEXTS["status.licence"]).inner_text()
    assert TEXTS["status.audit.off"] in card.filter(has_text=TEXTS["status.audit"]).inner_text()
    assert page.seen.complaints == []


def test_a_document_and_a_namespace_are_removed_after_asking(shipped: Any, page: Any) -> None:
    page.goto(f"{shipped.url}/#/library")
    page.get_by_role("button", name=TEXTS["library.create"]).last.click()
    page.locator("#ns-name").fill("short")
    page.locator("#ns-name").press("Enter")
    page.locator("#files").set_input_files(files=[{"name": "a.txt", "mimeType": "text/plain", "buffer": b"A zebra."}])
    page.locator(".job", has_text="1 document added").wait_for(timeout=120_000)
    page.get_by_role("tab", name=TEXTS["library.tab.documents"]).click()
    page.locator(".document .button").click()
    page.get_by_role("dialog").get_by_role("button", name=TEXTS["documents.remove_short"]).click()
    page.get_by_text(TEXTS["documents.none"]).wait_for()
    page.get_by_role("button", name=TEXTS["library.delete"]).click()
    page.get_by_role("dialog").get_by_role("button", name=TEXTS["library.delete"]).click()
    page.wait_for_url("**/#/library")
    page.get_by_role("link", name="short").wait_for(state="detached")


def test_an_archive_is_added_and_what_could_not_be_read_of_it_is_listed(shipped: Any, page: Any) -> None:
    """Each document has its status; the list is cleared by keyboard, and with it the mark of the document."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("set/zebras.md", "# On zebras\n\nZebras have stripes.")
        archive.writestr("set/scan.pdf", corpus_files.pdf("A page with text.", "", title="Partly scanned"))
        archive.writestr("set/odd.bin", b"\0\1")
    site = Site(shipped.url)
    site.create("zoo")
    page.goto(f"{shipped.url}/#/library/zoo")
    page.locator("#files").set_input_files(
        files=[{"name": "all.zip", "mimeType": "application/zip", "buffer": packed.getvalue()}]
    )
    ended = page.locator(".job", has_text="2 documents added")
    ended.wait_for(timeout=120_000)
    assert "all.zip/set/odd.bin: " in ended.inner_text()
    page.get_by_role("tab", name=TEXTS["library.tab.documents"]).click()
    partly = page.locator(".document", has_text="Partly scanned")
    partly.wait_for()
    partly.get_by_text(TEXTS["documents.unread.one"].format(n=1)).wait_for()
    assert TEXTS["documents.unread.one"].format(n=1) in partly.inner_text()
    assert TEXTS["documents.ready"] in page.locator(".document", has_text="On zebras").inner_text()

    summary = page.locator(".unread summary")
    assert summary.inner_text() == TEXTS["unread.title.many"].format(n=2)
    summary.press("Enter")
    assert "page 2: no text" in page.locator(".unread li", has_text="all.zip/set/scan.pdf").inner_text()
    page.get_by_role("button", name=TEXTS["unread.forget"]).press("Enter")
    page.locator(".unread").wait_for(state="detached")
    partly.get_by_text(TEXTS["documents.ready"]).wait_for()
    assert page.seen.complaints == []
    site.call("DELETE", "/v1/namespaces/zoo")


def test_a_collection_gets_another_title_and_screens_show_it(shipped: Any, page: Any) -> None:
    """By keyboard; the list of articles' places and the status have titles, too."""
    site = Site(shipped.url)
    site.create("plain")
    site.add("plain", {"id": "a", "title": "On zebras", "text": "Zebras have stripes."})
    page.goto(f"{shipped.url}/#/library/plain")
    page.get_by_role("button", name=TEXTS["library.rename"]).press("Enter")
    page.locator("#ns-name").fill("Полосатые")
    page.locator("#ns-name").press("Enter")
    page.get_by_role("heading", name="Полосатые").wait_for()
    assert page.evaluate("document.activeElement.textContent") == TEXTS["library.rename"]
    page.locator(".document-title").click()
    page.locator(".reader-head a", has_text="Полосатые").wait_for()
    page.goto(f"{shipped.url}/#/articles")
    page.locator("#a-place option", has_text="Полосатые").wait_for(state="attached")
    page.goto(f"{shipped.url}/#/status")
    page.get_by_role("link", name="Полосатые").wait_for()
    assert page.seen.complaints == []
    site.call("DELETE", "/v1/namespaces/plain")


def test_the_sample_is_removed_and_brought_back(shipped: Any, page: Any) -> None:
    page.goto(f"{shipped.url}/#/library/notes")
    page.get_by_role("button", name=TEXTS["library.delete"], exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name=TEXTS["library.delete"]).click()
    page.get_by_role("button", name=TEXTS["library.sample.restore"]).press("Enter")
    page.get_by_role("heading", name=TEXTS["library.sample"]).wait_for()
    assert page.get_by_role("button", name=TEXTS["library.sample.restore"]).count() == 0

"""The chat: examples, live steps, citations, transcript, stop, retry, edit, follow-up, history, export."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import page_screens
import pytest
import server_process

TEXTS = json.loads((server_process.ROOT / "server/web/static/en.json").read_text(encoding="utf-8"))
EXAMPLES = sorted(
    (key.split(".")[1], text) for key, text in TEXTS.items() if re.fullmatch(r"example\.[\w-]+\.\d+", key)
)
ANSWERED = TEXTS["outcome.answered"]


def open_chat(page: Any, url: str, method: str = "") -> None:
    page.goto(url)
    page.wait_for_selector(".empty")
    if method:
        page_screens.choose(page, method)


def ask(page: Any, question: str) -> Any:
    """The turn of a question, when its answer has ended."""
    turn = page.locator(".turn").nth(page.locator(".turn").count())
    page.locator("#question").fill(question)
    page.locator("#question").press("Enter")
    turn.locator(".answer[aria-busy=false] .tools").wait_for()
    return turn


@pytest.mark.parametrize(("method", "question"), EXAMPLES)
def test_each_example_is_answered_from_what_ships(shipped: Any, page: Any, method: str, question: str) -> None:
    """With sources, a grounding that found nothing made up, nothing sent elsewhere and no complaint of the browser."""
    page.set_default_timeout(120_000)  # the first review encodes the articles that ship
    open_chat(page, shipped.url, method)
    page.get_by_role("button", name=question, exact=True).click()
    turn = page.locator(".turn").last
    turn.locator(".answer[aria-busy=false] .tools").wait_for()

    assert turn.locator("h2").inner_text() == question
    assert turn.locator(".fact.good", has_text=ANSWERED).count() == 1, turn.inner_text()
    assert turn.locator(".reference").count() >= 1
    assert turn.get_by_text(TEXTS["left.nothing"]).count() == 1
    assert page.seen.hosts() == {shipped.url.removeprefix("http://")}
    assert page.seen.complaints == []


def test_the_steps_tell_the_calls_with_address_and_reply(shipped: Any, page: Any) -> None:
    """Who answered them and how long it took, too."""
    open_chat(page, shipped.url, "genegpt")
    turn = ask(page, "What is the official gene symbol of LMP10?")
    turn.locator(".steps summary").click()
    steps = turn.locator(".step").all_inner_texts()

    assert "2 calls" in turn.locator(".steps summary").inner_text()
    assert "esearch gene: LMP10" in steps[0] and "3 ids" in steps[0] and TEXTS["where.here"] in steps[0]
    assert "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esearch.fcgi?db=gene" in steps[0]
    assert re.search(r"\d ms|\d s", steps[1])


def test_a_citation_opens_the_passage_with_the_sentence_marked(shipped: Any, page: Any) -> None:
    """The focus goes there, and back with Escape."""
    open_chat(page, shipped.url, "medrag")
    turn = ask(page, "Which drug reverses heparin?")
    turn.locator(".cite").first.click()

    panel = page.get_by_role("complementary", name=TEXTS["source.panel"], exact=True)
    assert panel.locator("mark").all_inner_texts() == ["Protamine reverses heparin."]
    assert "Heparin activates antithrombin" in panel.locator(".passage").inner_text()
    page.keyboard.press("Escape")
    assert panel.is_hidden()
    assert page.evaluate("document.activeElement.className") == "cite"


def test_a_citation_of_a_review_opens_the_article_with_the_quote_marked(shipped: Any, page: Any) -> None:
    """The sentence that the answer quotes, in the text of the article."""
    open_chat(page, shipped.url, "clinfo")
    turn = ask(page, TEXTS["example.clinfo.2"])
    turn.locator(".cite").first.click()
    marked = page.locator(".panel .passage mark").first.inner_text()

    assert marked in " ".join(turn.locator(".content").inner_text().split())
    assert len(page.locator(".panel .passage").inner_text()) > len(marked)
    assert page.get_by_text(TEXTS["source.marked"]).count() == 1


def test_the_sentence_that_the_server_names_is_marked_however_it_is_written(scripted: Any, page: Any) -> None:
    """Line breaks, signs of patterns and brackets that were made parentheses; a text that stands nowhere is not."""
    source = "It rose.\nBleeding [3] fell by 20 %\n(p < 0.01; a|b*). It ended."
    quote = "Bleeding (3) fell by 20 % (p < 0.01; a|b*)."
    citations = [{"number": 1, "quote": quote, "text": "It bled less."}, {"number": 1, "quote": "", "text": "No."}]
    turn = {"trace": {"details": {"citations": citations}}}
    page.goto(scripted.url)
    page.wait_for_selector(".empty")
    code = "async ([turn, text]) => (await import('/web/evidence.js')).sentencesOf(turn, { number: 1, text })"
    places = page.evaluate(code, [turn, source])

    assert [source[one["start"] : one["end"]] for one in places] == ["Bleeding [3] fell by 20 %\n(p < 0.01; a|b*)."]


def test_a_record_is_shown_with_the_answer_marked(shipped: Any, page: Any) -> None:
    """GeneGPT's source is the record that a call brought."""
    open_chat(page, shipped.url, "genegpt")
    ask(page, "What is the official gene symbol of LMP10?").locator(".reference").click()

    assert page.locator(".panel mark").all_inner_texts() == ["PSMB10"]
    assert "esummary.fcgi" in page.locator(".panel code").inner_text()
    assert page.locator(".panel a").get_attribute("href") == "https://www.ncbi.nlm.nih.gov/gene/5699"
    assert page.locator(".panel a").get_attribute("rel") == "noopener noreferrer nofollow"


def test_the_transcript_tells_written_and_inserted_text_apart(shipped: Any, page: Any) -> None:
    """In words, not by colour alone."""
    open_chat(page, shipped.url, "genegpt")
    ask(page, "What is the official gene symbol of LMP10?")
    page.get_by_role("button", name=TEXTS["turn.details"]).click()
    spans = page.locator(".span").all_inner_texts()

    assert [text.split("\n")[0] for text in spans[:2]] == [TEXTS["span.sampled"], TEXTS["span.injected"]]
    assert spans[0].rstrip().endswith("]->")
    assert "3 ids" in spans[1]


def test_the_graph_is_drawn_and_listed(shipped: Any, page: Any) -> None:
    """Its table has each statement of the picture."""
    open_chat(page, shipped.url, "kg-rag")
    ask(page, "Which genes are associated with Parkinson disease?")
    page.get_by_role("button", name=TEXTS["turn.details"]).click()
    page.get_by_role("tab", name=TEXTS["details.graph"]).click()

    assert page.locator(".graph-picture .edge").count() == page.locator(".graph tbody tr").count() == 8
    assert page.locator(".node.mentioned .node-name").all_text_contents() == ["Parkinson's disease"]
    assert "SNCA" in page.locator(".graph-picture").text_content()


def test_a_follow_up_knows_what_was_said(shipped: Any, page: Any) -> None:
    """The earlier turns go with it."""
    open_chat(page, shipped.url, "genegpt")
    ask(page, "What is the official gene symbol of LMP10?")
    turn = ask(page, "Is it protein-coding?")

    assert "understood as" in turn.locator(".steps").text_content()


def test_an_edited_question_replaces_its_turn(shipped: Any, page: Any) -> None:
    """And all that came after it."""
    open_chat(page, shipped.url, "medrag")
    ask(page, "Which drug reverses heparin?")
    ask(page, "Which drug reverses warfarin?")
    page.get_by_role("button", name=TEXTS["turn.edit"]).first.click()
    page.wait_for_selector(".empty")
    assert page.locator("#question").input_value() == "Which drug reverses heparin?"
    ask(page, "What does protamine reverse?")

    assert page.locator(".turn h2").all_inner_texts() == ["What does protamine reverse?"]


def test_an_answer_can_be_stopped_and_asked_again(scripted: Any, page: Any) -> None:
    """The call that is pending is seen; after the stop the field is free."""
    open_chat(page, scripted.url, "genegpt")
    page.locator("#question").fill("dead")
    page.keyboard.press("Enter")
    page.locator(".step", has_text="esearch gene: DEAD").wait_for(state="attached")
    page.get_by_role("button", name=TEXTS["ask.stop"], exact=True).click()
    page.get_by_text(TEXTS["turn.stopped"], exact=True).wait_for()

    assert page.get_by_role("button", name=TEXTS["ask.send"], exact=True).is_visible()
    page.get_by_role("button", name=TEXTS["turn.retry"]).click()
    # The question is written down before it is asked again, and the steps of the first time still stand there.
    page.get_by_role("button", name=TEXTS["ask.stop"], exact=True).wait_for()
    page.locator(".step", has_text="esearch gene: DEAD").wait_for(state="attached")
    page.locator("#question").focus()
    page.keyboard.press("Escape")
    page.get_by_text(TEXTS["turn.stopped"], exact=True).wait_for()
    assert page.locator(".turn").count() == 1


def test_a_server_that_dies_is_said_to_be_gone_and_found_again(
    scripted_environment: dict[str, str], page: Any, tmp_path: Path
) -> None:
    """In mid-answer; what was asked stays, and asking again works when it is back."""
    # The server of the other tests uses the folder of the environment.
    environment = scripted_environment | {"ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path)}
    with server_process.serve(environment) as server:
        port = int(server.url.rsplit(":", 1)[1])
        open_chat(page, server.url, "genegpt")
        page.locator("#question").fill("dead")
        page.keyboard.press("Enter")
        page.locator(".step", has_text="esearch gene: DEAD").wait_for(state="attached")
        server.process.kill()
        page.get_by_text(TEXTS["remedy.offline"]).wait_for()
    with server_process.serve(environment, port=port):
        page.get_by_text(TEXTS["away.back"]).wait_for()
        turn = ask(page, "record")
        assert "BAD1" in turn.locator(".content").inner_text()
    assert page.locator(".turn h2").all_inner_texts() == ["dead", "record"]


def test_chats_stay_in_the_browser_until_they_are_forgotten(scripted: Any, page: Any) -> None:
    """After a reload they are there; after forgetting, the browser's store is empty."""
    open_chat(page, scripted.url, "direct")
    ask(page, "one")
    page.reload()
    page.locator(".turn h2", has_text="one").wait_for()
    assert page.locator(".history-list a").all_inner_texts() == ["one"]
    page.get_by_role("button", name=TEXTS["history.forget_all"]).click()
    page.get_by_role("dialog").get_by_role("button", name=TEXTS["history.forget_all"]).click()
    page.wait_for_selector(".empty")

    count = """() => new Promise((resolve) => { const open = indexedDB.open("arrowhead", 1); open.onsuccess = () => {
      const asked = open.result.transaction("turns").objectStore("turns").count();
      asked.onsuccess = () => resolve(asked.result); }; })"""
    assert page.evaluate(count) == 0
    assert page.locator(".history-list a").count() == 0


def test_a_chat_is_exported(shipped: Any, page: Any, tmp_path: Path) -> None:
    """Markdown with the sources, RIS with the records, JSON with all."""
    open_chat(page, shipped.url, "genegpt")
    turn = ask(page, "What is the official gene symbol of LMP10?")
    saved = {}
    for name in ("markdown", "ris", "json"):
        turn.locator(".menu summary", has_text=TEXTS["export.menu"]).click()
        with page.expect_download() as download:
            turn.get_by_role("button", name=TEXTS[f"export.{name}"]).click()
        download.value.save_as(tmp_path / name)
        saved[name] = (tmp_path / name).read_bytes().decode()

    assert saved["markdown"].startswith("## What is the official gene symbol of LMP10?\n\nPSMB10 [1]\n")
    assert "<https://www.ncbi.nlm.nih.gov/gene/5699>" in saved["markdown"]
    assert saved["ris"].startswith("TY  - ELEC\r\nTI  - PSMB10, proteasome") and saved["ris"].endswith("ER  - \r\n")
    assert json.loads(saved["json"])[0]["told"]["outcome"] == "answered"


def test_references_of_a_review_are_exported_with_what_is_known_of_the_articles(
    shipped: Any, page: Any, tmp_path: Path
) -> None:
    """Journal and year in fields of their own, and not in the title."""
    open_chat(page, shipped.url, "clinfo")
    turn = ask(page, TEXTS["example.clinfo.2"])
    turn.locator(".menu summary", has_text=TEXTS["export.menu"]).click()
    with page.expect_download() as download:
        turn.get_by_role("button", name=TEXTS["export.ris"]).click()
    download.value.save_as(tmp_path / "ris")
    record = (tmp_path / "ris").read_text(encoding="utf-8").split("ER  - ")[0]

    fields = dict(line.split("  - ", 1) for line in record.splitlines() if "  - " in line)
    assert fields["TY"] == "JOUR" and fields["AN"].isdigit()
    assert re.fullmatch(r"(19|20)\d\d", fields["PY"]) and fields["JO"] not in fields["TI"]
    assert not fields["TI"].endswith(")")


def test_authors_and_dates_of_a_review_go_into_the_export(scripted: Any, page: Any) -> None:
    """From the items that the record of the answer has; other sources keep what their citation tells."""
    item = {
        "type": "article-journal",
        "title": "On heparin",
        "author": [{"family": "Doe", "given": "J A"}, {"literal": "HEP Group"}],
        "container-title": "Heart",
        "issued": {"date-parts": [[2020, 5]]},
        "volume": "7",
        "page": "1-9",
        "DOI": "10.1000/1",
        "PMID": "34000001",
    }
    url = "https://pubmed.ncbi.nlm.nih.gov/34000001/"
    turn = {
        "references": [
            {"number": 1, "title": "On heparin (Heart, 2020)", "url": url},
            {"number": 2, "title": "A note", "url": "https://example.org/2"},
        ],
        "trace": {"details": {"evidence_table": [{"number": 1, "item": item}], "citations": []}},
    }
    page.goto(scripted.url)
    page.wait_for_selector(".empty")
    text = page.evaluate("async (turn) => (await import('/web/export.js')).asRis([turn])", turn)

    first, second, _ = text.replace("\r\n", "\n").split("ER  - \n")
    assert first.splitlines() == [
        *("TY  - JOUR", "TI  - On heparin", "AU  - Doe, J A", "AU  - HEP Group", "JO  - Heart", "PY  - 2020"),
        *("DA  - 2020/05/", "VL  - 7", "SP  - 1-9", "DO  - 10.1000/1", "AN  - 34000001", f"UR  - {url}"),
    ]
    assert second.splitlines() == ["TY  - ELEC", "TI  - A note", "UR  - https://example.org/2"]


def test_markdown_is_rendered(scripted: Any, page: Any) -> None:
    """Lists, tables, emphasis; a table scrolls inside its own frame."""
    open_chat(page, scripted.url, "direct")
    content = ask(page, "markdown").locator(".content")
    content.locator("table").wait_for()

    assert content.locator("strong").inner_text() == "Bold"
    assert content.locator("li").all_inner_texts() == ["one", "two"]
    wide = ask(page, "table").locator(".content")
    wide.locator("table").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert wide.locator(".scroll").evaluate("(node) => node.scrollWidth > node.clientWidth")

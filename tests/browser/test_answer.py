"""What the page says of each sentence of an answer: its line, what was read for it, and the same in a file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import labelled_turn
import page_server
import pytest
import server_process

TEXTS = json.loads((server_process.ROOT / "server/web/static/en.json").read_text(encoding="utf-8"))
RULES = "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa']})"
HOSTILE = f"{page_server.ATTACK} {page_server.BIDI} </title></style></head><meta http-equiv=refresh content=0>"


@pytest.fixture
def answered(scripted: Any, page: Any) -> Any:
    """A chat with the labelled answer."""
    labelled_turn.show(page, scripted.url, labelled_turn.labelled_turn())
    return page


@pytest.fixture
def shared(scripted: Any, page: Any, browser: Any, tmp_path: Path) -> Callable[[dict[str, Any]], Any]:
    """What saves an answer as a file and opens it in a browser without the server; ``seen`` has what it asked for."""

    def save_and_open(turn: dict[str, Any]) -> Any:
        labelled_turn.show(page, scripted.url, turn)
        page.locator(".tools summary", has_text=TEXTS["export.menu"]).click()
        with page.expect_download() as saved:
            page.get_by_role("button", name=TEXTS["export.page"]).click()
        assert page.seen.complaints == []
        saved.value.save_as(tmp_path / saved.value.suggested_filename)
        alone = browser.new_context(offline=True).new_page()
        alone.seen = []
        alone.on("request", lambda one: alone.seen.append(one.url))
        alone.file = tmp_path / saved.value.suggested_filename
        alone.goto(alone.file.as_uri())
        return alone

    return save_and_open


def test_each_sentence_has_the_line_of_its_label(answered: Any) -> None:
    """Also behind a character that counts twice, in bold, and in lists; what was not compared has none."""
    read = "(all) => all.map((one) => [one.className.replace('said ', ''), one.textContent.trim()])"

    assert answered.locator(".content .said").evaluate_all(read) == [
        ["supported", "𝛃-blockers such as"],
        ["supported", "metoprolol"],
        ["supported", "lower the heart rate"],
        ["partly", "The usual dose is 50 mg twice a day"],
        ["not", "It was approved in 1971 by all agencies"],
        ["contrary", "It is safe in acute asthma"],
        ["supported", "“Protamine reverses heparin.”"],
    ]
    styles = "(all) => all.map((one) => getComputedStyle(one).textDecorationStyle)"
    shapes = answered.locator(".legend .said").evaluate_all(styles)
    assert shapes == ["solid", "dashed", "wavy", "double"]
    kinds = ("supported", "partly", "not", "contrary")
    named = [f"{TEXTS['legend.sample']}\n{TEXTS[f'verdict.{kind}']}" for kind in kinds]
    assert answered.locator(".legend li").all_inner_texts() == named
    assert answered.locator(".content .cite").all_inner_texts() == ["1", "1", "2", "2", "3"]


def test_a_label_whose_sentence_is_not_found_draws_no_line(scripted: Any, page: Any) -> None:
    """A line in the wrong place would say something that nobody checked."""
    turn = labelled_turn.labelled_turn()
    turn["content"] = turn["content"].replace("It is safe in acute asthma", "&lt;It&gt; &amp; others are fine")
    labelled_turn.show(page, scripted.url, turn)

    assert page.locator(".content .said.contrary").count() == 0
    assert page.locator(".content .said.not").inner_text() == "It was approved in 1971 by all agencies"


def test_a_press_on_a_sentence_shows_what_was_read_for_it(answered: Any) -> None:
    """The passage with the nearest sentence marked, and the page of its PDF; a contrary one is called so."""
    answered.locator(".content .said.partly").click()
    panel = answered.locator(".panel")
    assert panel.locator("mark").all_inner_texts() == ["The dose is 50 mg twice a day."]
    link = panel.get_by_role("link", name=TEXTS["source.open_page"].replace("{n}", "2"))
    assert link.get_attribute("href") == "#/reader/drugs/D1?page=2&mark=The+dose+is+50+mg+twice+a+day."

    answered.locator(".content .said.contrary").click()
    assert panel.locator("mark").all_inner_texts() == ["It is not safe in acute asthma."]
    assert TEXTS["verdict.contrary.about"] in panel.inner_text()
    panel.get_by_role("button", name=TEXTS["sentence.previous"]).click()
    assert "1971 stands in none of the sources" in panel.inner_text() and panel.locator("mark").count() == 0


def test_the_keyboard_opens_what_was_read(answered: Any) -> None:
    """A sign behind each labelled sentence says its label, and is in sight when it is focused."""
    name = TEXTS["sentence.open"].replace("{verdict}", TEXTS["verdict.partly"])
    sign = answered.get_by_role("button", name=name)
    assert sign.bounding_box()["width"] <= 1
    sign.focus()
    answered.keyboard.press("Shift+Tab")
    answered.keyboard.press("Tab")
    assert sign.bounding_box()["width"] >= 24
    answered.keyboard.press("Enter")
    answered.locator(".panel mark", has_text="The dose is 50 mg").wait_for()
    answered.keyboard.press("Escape")
    assert answered.evaluate("document.activeElement.className") == "sign partly"


def test_the_answer_stands_beside_what_was_read(answered: Any) -> None:
    answered.get_by_role("button", name=TEXTS["side.open"]).click()
    rows = answered.locator("li.side")

    assert rows.count() == len(labelled_turn.SENTENCES)
    assert (
        rows.nth(0).locator(".side-said p").first.inner_text() == "𝛃-blockers such as metoprolol lower the heart rate."
    )
    assert rows.locator(".side-read mark").all_inner_texts() == [
        "Metoprolol lowers heart rate",
        "The dose is 50 mg twice a day.",
        "It is not safe in acute asthma.",
        "Protamine reverses heparin.",
    ]
    assert TEXTS["verdict.contrary.about"] in rows.nth(3).inner_text()
    assert TEXTS["sentence.uncited"] in rows.nth(5).inner_text()


def test_an_answer_is_copied_with_numbered_references(context: Any, answered: Any) -> None:
    """As text and as Markdown; without them where that was chosen."""
    context.grant_permissions(["clipboard-read", "clipboard-write"])

    def copied(name: str) -> str:
        answered.locator(".tools summary", has_text=TEXTS["copy.title"]).click()
        answered.get_by_role("button", name=TEXTS[name], exact=True).click()
        answered.locator(".toast.good").last.wait_for()
        return str(answered.evaluate("navigator.clipboard.readText()"))

    text, with_references, markdown = map(copied, ("copy.text", "copy.references", "copy.markdown"))
    assert text.endswith("Ask a physician.")
    references = with_references.removeprefix(text).strip().splitlines()
    assert (
        references[0] == "3 sources"
        and references[3] == "[2] Safety of beta blockers <https://pubmed.ncbi.nlm.nih.gov/1/>"
    )
    assert "## Is metoprolol safe?" in markdown and "\n- [3] Heparin <http" in markdown


def test_a_shared_answer_opens_without_the_server(shared: Any, scripted: Any, page: Any) -> None:
    """Question, answer with its lines, sources with the sentences that were read, date, model, and what left."""
    turn = labelled_turn.labelled_turn()
    turn["references"][2]["url"] = f"{scripted.url}/v1/passages/notes/3"
    turn["told"]["answered_by"] = "kg-rag"
    file = shared(turn)
    text = file.locator("main").inner_text()

    assert file.seen == [file.url] and file.title() == "Is metoprolol safe?"
    assert file.locator("h1").inner_text() == "Is metoprolol safe?"
    assert (
        "14 Nov 2023" in text
        and "KG-RAG, m · " in text
        and TEXTS["outcome.partial"] in text
        and TEXTS["left.nothing"] in text
    )
    assert file.locator(".answer .said.contrary").inner_text() == "It is safe in acute asthma"
    assert file.locator(".answer .said.not").evaluate("(one) => getComputedStyle(one).textDecorationStyle") == "wavy"
    assert file.locator(".sources blockquote").all_inner_texts() == [
        "Metoprolol lowers heart rate",
        "The dose is 50 mg twice a day.",
        "It is not safe in acute asthma.",
        "Protamine reverses heparin.",
    ]
    assert file.locator(".remark").nth(1).locator("blockquote").inner_text() == "It is not safe in acute asthma. [2]"
    file.locator(".answer .cite").nth(2).click()
    assert file.url.endswith("#source-2") and "Safety of beta blockers" in file.locator(":target").inner_text()
    # Nothing in it leads to the server that it came from.
    assert re.findall(r"127\.0\.0\.1|/v1/", file.file.read_text(encoding="utf-8")) == []
    assert page.seen.complaints == []


def test_a_shared_answer_full_of_attacks_is_text(shared: Any) -> None:
    """In the question, the answer, the sources, their quotes and places, and what does not correspond."""
    turn = labelled_turn.labelled_turn(question=HOSTILE, model=HOSTILE, content=f"Protamine. {HOSTILE} [1]")
    source = {"number": 1, "title": HOSTILE, "url": "javascript:window.hacked=1", "text": f"It. {HOSTILE}"}
    mismatch = {"kind": "number", "text": HOSTILE, "detail": HOSTILE}
    label = {"start": 0, "end": 2000, "verdict": "unsupported", "citations": [1], "quote": HOSTILE, "checked": 1}
    turn["references"] = turn["trace"]["references"] = [source]
    cited = {"number": 1, "title": HOSTILE, "section": HOSTILE, "file": HOSTILE, "page": 1}
    turn["trace"]["details"]["citations"] = [cited]
    turn["told"] = {"outcome": "partial", "egress": f"left this machine: {HOSTILE}"}
    turn["told"]["support"] = {"sentences": [label | {"probability": None, "mismatches": [mismatch]}]}
    file = shared(turn)
    file.wait_for_timeout(200)

    assert file.evaluate("window.hacked") is None and file.seen == [file.url]
    forbidden = (
        "script, iframe, img, svg, object, embed, form, link, base, [onerror], [onload], [style], [http-equiv=refresh]"
    )
    assert file.locator(forbidden).count() == 0 and file.locator("style").count() == 1
    assert all(
        href.startswith("#source-")
        for href in file.locator("a").evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
    )
    text = file.locator("main").inner_text()
    assert text.count("<script>window.hacked=1</script>") >= 7 and "\u202e" not in text
    policy = file.locator("meta[http-equiv]").get_attribute("content")
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_paper_has_the_answer_with_its_sources_and_no_buttons(answered: Any) -> None:
    answered.emulate_media(media="print")
    shown = "(all) => all.filter((one) => one.checkVisibility()).map((one) => one.className)"

    buttons = answered.locator("button, summary, input, textarea, select").evaluate_all(shown)
    assert {name.split()[0] for name in buttons} == {"cite", "reference", "sign"}
    assert answered.locator(".reference-address").all_inner_texts() == ["https://pubmed.ncbi.nlm.nih.gov/1/"]
    assert answered.locator(".content").is_visible() and answered.locator(".legend li").first.is_visible()
    assert (
        answered.evaluate("document.scrollingElement.scrollHeight > 0 && getComputedStyle(document.body).overflow")
        == "visible"
    )


def test_nothing_moves_where_that_is_not_wanted(scripted: Any, page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.goto(scripted.url)
    page.wait_for_selector(".empty")
    made = "const one = document.createElement('i'); one.className = 'spinner'; document.body.append(one);"

    assert page.evaluate(f"() => {{ {made} return getComputedStyle(one).animationName; }}") == "none"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_a_labelled_answer(scripted: Any, browser: Any, axe: str, scheme: str) -> None:
    """With its panel, beside what was read, and in the languages of the page."""
    found = []
    for locale in ("en-GB", "de-DE", "fr-FR", "es-ES"):
        context = browser.new_context(bypass_csp=True, color_scheme=scheme, reduced_motion="reduce", locale=locale)
        page = context.new_page()
        labelled_turn.show(page, scripted.url, labelled_turn.labelled_turn())
        page.evaluate(axe)
        for opened in (".content .said.not", ".legend .button"):
            page.locator(opened).click()
            page.wait_for_timeout(200)
            bad = [one for one in page.evaluate(RULES)["violations"] if one["impact"] in ("serious", "critical")]
            found += [(locale, opened, one["id"], one["nodes"][0]["html"]) for one in bad]
        context.close()

    assert found == []


def test_axe_finds_nothing_serious_in_a_shared_answer(shared: Any, axe: str) -> None:
    file = shared(labelled_turn.labelled_turn())
    file.evaluate(axe)

    assert [one["id"] for one in file.evaluate(RULES)["violations"]] == []

"""The screens of the page, filled: how to come to each, for pictures and for tests of all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import server_process
from http_calls import Site

from retrieval.corpus.ingest.sample import NOTES_FILE, read_notes

TEXTS: Final = json.loads((server_process.ROOT / "server/web/static/en.json").read_text(encoding="utf-8"))
NAME: Final = "pharmacology"
# Of axe-core.
RULES: Final = "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa']})"
# Frames whose content goes beyond their side: but for tables, pictures of graphs, lists of tabs and the like, which
# scroll by themselves, and for lines that end in dots or are out of sight on purpose.
BEYOND: Final = """[...document.querySelectorAll("body, body *")].filter((node) => {
  const { overflowX, textOverflow } = getComputedStyle(node);
  const free = ".scroll, .tab-list, .sources, .nav, .names, .graph-picture, .word, input, textarea";
  return node.clientWidth > 1 && node.scrollWidth > node.clientWidth + 1 && overflowX !== "visible" &&
    textOverflow !== "ellipsis" && !node.matches(free);
}).map((node) => `${node.tagName} ${node.className}`)"""
# Keeps a chat "long" of as many turns as are asked for.
LONG_CHAT: Final = """async (number) => {
  const open = indexedDB.open("arrowhead", 1);
  const db = await new Promise((resolve) => { open.onsuccess = () => resolve(open.result); });
  const transaction = db.transaction(["chats", "turns"], "readwrite");
  transaction.objectStore("chats").put({ id: "long", title: "long", created: 1, updated: 2, model: "scripted" });
  for (let place = 0; place < number; place += 1) {
    transaction.objectStore("turns").put({ chat: "long", place, question: `Question ${place}`, model: "scripted",
      method: "direct", options: {}, created: 1, state: "done", content: `**Answer** ${place}`.repeat(20), thinking: "",
      steps: [], references: [], told: null, trace: null, error: null, seconds: 1 });
  }
  await new Promise((resolve) => { transaction.oncomplete = resolve; });
}"""

# A browser prints it on one page.
PRINTED: Final = (
    "<title>Notes on diuretics</title><style>body { font: 15px/1.5 serif } h2 { font-family: sans-serif }</style>"
    "<h2>Loop diuretics</h2><p>Furosemide and other loop diuretics inhibit the Na-K-2Cl cotransporter (NKCC2) in the "
    "thick ascending limb of the loop of Henle. They can cause hypokalaemia, loss of calcium and magnesium in the "
    "urine, and, in high doses, damage to hearing.</p><h2>Thiazide diuretics</h2><p>Thiazides such as "
    "hydrochlorothiazide inhibit the Na-Cl cotransporter of the distal convoluted tubule. Unlike loop diuretics they "
    "lower the excretion of calcium. Adverse effects are hyponatraemia, hypokalaemia, raised uric acid and raised "
    "glucose.</p>"
)
MARKED: Final = "They can cause hypokalaemia, loss of calcium and magnesium in the urine"
# Words without a blank, and a title of many lines, are what breaks a layout.
WIDE: Final = {
    "id": "PMID:34000009",
    "title": "Poly(adenosine-diphosphate-ribose)polymerase-1-dependent-hypokalaemia-and-diuretics-" * 2 + "in adults",
    "text": "Hypokalaemia of diuretics. " + "methionylthreonylthreonylglutaminylarginyl" * 4 + " is a protein.",
    "date": "2021",
    "types": ["review"],
    "authors": ["Doe J", "Roe R", "Poe E", "Coe K"],
    "journal": "Journal of Kidneys",
}


def fill(url: str, browser: Any) -> None:
    """Make a namespace with the notes that ship, a PDF and an article with long words."""
    context = browser.new_context()
    page = context.new_page()
    page.set_content(PRINTED)
    printed = page.pdf()
    context.close()
    site = Site(url)
    site.create(NAME)
    site.done(site.upload(NAME, "diuretics.pdf", printed))
    site.add(NAME, WIDE)
    site.upload(NAME, "cut off in the middle.pdf", printed[:2000], wait=60)
    notes = [*read_notes(NOTES_FILE.read_text(encoding="utf-8"))]
    site.add(NAME, *({"id": f"note-{n}", "title": one.document.title, "text": one.text} for n, one in enumerate(notes)))
    query = {"keywords": ["migraine"], "limit": 5}
    site.done(site.call("POST", f"/v1/namespaces/{NAME}/queries?wait=60", query))


def _answered(page: Any) -> None:
    page.locator(".turn .answer[aria-busy=false] .tools").last.wait_for()


def choose(page: Any, method: str) -> None:
    """Choose a method by its name, among the advanced options."""
    page.get_by_role("button", name=TEXTS["options.title"]).click()
    page.locator("#method").select_option(label=TEXTS[f"method.{method}"])
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")


def _ask(page: Any, url: str, method: str, question: str) -> None:
    page.goto(f"{url}/#/chat")
    choose(page, method)
    page.locator("#question").fill(question)
    page.locator("#question").press("Enter")
    _answered(page)


def chat(page: Any, url: str) -> None:
    page.goto(f"{url}/#/chat")
    page.wait_for_selector(".empty")


def answer(page: Any, url: str) -> None:
    _ask(page, url, "genegpt", TEXTS["example.genegpt.1"])
    page.locator(".steps summary").click()
    if page.viewport_size["width"] > 600:  # else it lies over the answer
        page.locator(".reference").first.click()


def graph(page: Any, url: str) -> None:
    _ask(page, url, "kg-rag", TEXTS["example.kg-rag.1"])
    page.get_by_role("button", name=TEXTS["turn.details"]).click()
    page.get_by_role("tab", name=TEXTS["details.graph"]).click()
    page.locator(".graph-picture .node").first.wait_for()


def keywords(page: Any, url: str) -> None:
    _ask(page, url, "weiseeule", "#Which *diuretics* cause **hypokalaemia**?")
    page.get_by_role("button", name=TEXTS["turn.details"]).click()
    page.get_by_role("tab", name=TEXTS["details.keywords"]).click()
    page.locator("[role=dialog] table, dialog table").first.wait_for()


def review(page: Any, url: str) -> None:
    page.goto(f"{url}/#/literature")
    page.locator("#l-question").fill(TEXTS["literature.placeholder"])
    page.locator("#l-question").press("Enter")
    _answered(page)
    page.locator(".evidence tbody tr").first.wait_for()
    page.locator(".flow").evaluate("(node) => node.scrollIntoView()")


def evidence(page: Any, url: str) -> None:
    review(page, url)
    page.locator(".evidence").evaluate("(node) => node.scrollIntoView({ block: 'center' })")


def source(page: Any, url: str) -> None:
    review(page, url)
    page.locator(".cite").first.click()
    page.locator(".panel .passage").wait_for()


def articles(page: Any, url: str) -> None:
    page.goto(f"{url}/#/articles")
    page.locator("#a-text").fill("Is lasmiditan effective for the acute treatment of migraine?")
    page.get_by_text(TEXTS["articles.more"]).click()
    page.locator("#a-place").select_option(NAME)
    page.get_by_role("button", name=TEXTS["articles.go"]).click()
    page.locator(".article input:enabled").first.check()
    page.get_by_role("button", name=TEXTS["articles.summarise"]).click()
    _answered(page)
    page.locator(".turn .cite").first.click()
    page.locator(".articles").evaluate("(node) => node.scrollIntoView()")


def documents(page: Any, url: str) -> None:
    page.goto(f"{url}/#/library/{NAME}")
    page.locator(".document").nth(3).wait_for()


def unread(page: Any, url: str) -> None:
    documents(page, url)
    page.locator(".unread summary").click()


def add(page: Any, url: str) -> None:
    documents(page, url)
    page.get_by_role("tab", name=TEXTS["library.tab.add"]).click()
    page.locator(".card", has_text=TEXTS["fetch.kept"]).wait_for()


def search(page: Any, url: str) -> None:
    documents(page, url)
    page.get_by_role("tab", name=TEXTS["library.tab.search"]).click()
    field = page.get_by_label(TEXTS["search.placeholder"])
    field.fill("Which diuretics cause hypokalaemia?")
    field.press("Enter")
    page.locator("table").wait_for()
    page.locator(".chip", has_text="hypokalaemia").click()
    page.locator("th svg").wait_for()


def counts(page: Any, url: str) -> None:
    search(page, url)
    page.locator("table").evaluate("(node) => node.scrollIntoView()")


def reader(page: Any, url: str) -> None:
    found = Site(url).call("GET", f"/v1/namespaces/{NAME}/documents?query=diuretics.pdf")[1]["data"]
    page.goto(f"{url}/#/reader/{NAME}/{found[0]['id']}?page=1&mark={MARKED}")
    page.locator(".word.marked").first.wait_for()


def article(page: Any, url: str) -> None:
    page.goto(f"{url}/#/reader/{NAME}/{WIDE['id']}")
    page.locator(".sheet p").first.wait_for()
    page.evaluate("document.getSelection().selectAllChildren(document.querySelector('.sheet p'))")
    page.locator(".selection-menu button").first.wait_for()


def status(page: Any, url: str) -> None:
    page.goto(f"{url}/#/status")
    page.locator(".status-card").nth(4).wait_for()


def corpora(page: Any, url: str) -> None:
    page.goto(f"{url}/#/corpora")
    page.locator(".status-card").nth(5).wait_for()


def admin(page: Any, url: str) -> None:
    page.goto(f"{url}/#/admin")
    page.locator(".cards .card").nth(3).wait_for()


SCREENS: Final[Mapping[str, Callable[[Any, str], None]]] = {
    one.__name__: one
    for one in (
        *(chat, answer, graph, keywords, review, evidence, source, articles, documents, add, search, counts, reader),
        *(article, status, admin, unread, corpora),
    )
}

"""A turn of a chat as the page keeps it, whose answer has a sentence of each kind that the server labels."""

from __future__ import annotations

import json
from typing import Any, Final

# An astral character: the server counts it as one, the browser as two.
SENTENCES: Final[tuple[tuple[str, str, list[int], str], ...]] = (
    ("supported", "𝛃-blockers such as **metoprolol** lower the heart rate [1].", [1], "Metoprolol lowers heart rate"),
    ("unchecked", "The usual dose is 50 mg twice a day [1].", [1], "The dose is 50 mg twice a day."),
    ("unsupported", "It was approved in 1971 by all agencies [2].", [2], ""),
    ("contradicted", "It is safe in acute asthma [2].", [2], "It is not safe in acute asthma."),
    ("unchecked", "“Protamine reverses heparin.” [3]", [], ""),
    ("unchecked", "Ask a physician.", [], ""),
)
METOPROLOL: Final = (
    "Metoprolol lowers heart rate and blood pressure.\nThe dose is 50 mg twice a day. It was made in 1969."
)
SAFETY: Final = "Caution with metoprolol. It is not safe in acute asthma. Check the pulse."
_CHECKED: Final = {1: 1, 2: 1}
_MISMATCHES: Final = {2: [{"kind": "number", "text": "1971", "detail": "1971 stands in none of the sources"}]}


def labelled_turn(chat: str = "labelled", **changed: Any) -> dict[str, Any]:
    """Return the turn; ``changed`` are other values of its fields."""
    references = [
        {"number": 1, "title": "Metoprolol (tablets.pdf)", "url": "/v1/passages/drugs/1", "text": METOPROLOL},
        {"number": 2, "title": "Safety of beta blockers", "url": "https://pubmed.ncbi.nlm.nih.gov/1/", "text": SAFETY},
        {
            "number": 3,
            "title": "Heparin",
            "url": "/v1/passages/notes/3",
            "text": "Protamine reverses heparin. It is quick.",
        },
    ]
    place = {"namespace": "drugs", "passage_id": "1", "document_id": "D1", "file": "tablets.pdf", "page": 2}
    trace = {
        "calls": [],
        "searches": [],
        "spans": [{"kind": "sampled", "text": "…"}],
        "egress": "no data left this machine",
        "details": {"citations": [place | {"number": 1, "title": "Metoprolol", "section": "Dosage"}]},
        "references": references,
    }
    turn = {
        "chat": chat,
        "place": 0,
        "question": "Is metoprolol safe?",
        "model": "m",
        "method": "medrag",
        "options": {},
        "created": 1_700_000_000_000,
        "state": "done",
        "content": content(),
        "thinking": "",
        "steps": [],
        "references": references,
        "told": {"outcome": "partial", "egress": trace["egress"], "support": support()},
        "trace": trace,
        "error": None,
        "seconds": 1,
        "id": "a1",
    }
    return turn | changed


def content() -> str:
    """Return the answer's text: a paragraph, a list, a line and the references."""
    first, second, third, fourth, fifth, last = (one[1] for one in SENTENCES)
    answer = f"{first} {second}\n\n- {third}\n- {fourth}\n\n{fifth} {last}"
    return f"{answer}\n\nReferences:\n[1] Metoprolol\n[2] Safety\n[3] Heparin"


def support() -> dict[str, Any]:
    """Return the labels as the server sends them, with places in characters."""
    text, labels = content(), []
    for number, (verdict, sentence, citations, quote) in enumerate(SENTENCES):
        label: dict[str, Any] = {"verdict": verdict, "probability": None, "citations": citations, "quote": quote}
        start = text.index(sentence)
        label |= {"start": start, "end": start + len(sentence), "checked": _CHECKED.get(number, 0)}
        labels.append(label | {"mismatches": _MISMATCHES.get(number, [])})
    return {"sentences": labels, "supported": 1, "unchecked": 3, "unsupported": 2}


# Puts turns of one chat where the page keeps them.
KEEP: Final = """async (turns) => {
  const open = indexedDB.open("arrowhead", 1);
  const db = await new Promise((resolve) => { open.onsuccess = () => resolve(open.result); });
  const transaction = db.transaction(["chats", "turns"], "readwrite");
  const [{ chat, question: title, model }] = turns;
  transaction.objectStore("chats").put({ id: chat, title, created: 1, updated: 2, model });
  for (const turn of turns) transaction.objectStore("turns").put(turn);
  await new Promise((resolve) => { transaction.oncomplete = resolve; });
}"""


def show(page: Any, url: str, *turns: dict[str, Any]) -> None:
    """Open the chat of these turns."""
    page.goto(url)
    page.wait_for_selector(".empty")
    page.evaluate(KEEP, json.loads(json.dumps(turns)))
    page.evaluate(f"location.hash = '#/chat/{turns[0]['chat']}'")
    page.locator(".turn .answer[aria-busy=false] .tools").last.wait_for()
    page.locator(".turn .content:not(.plain)").last.wait_for()

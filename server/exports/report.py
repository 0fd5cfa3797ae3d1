"""Read a trace as what its exports show: answers, references as items, and the review where there is one. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from retrieval.references.csl import Item, item_of_link
from server.methods.shared.evidence_table import EvidenceRow, Review, review_of

_WEB: Final = ("http://", "https://")
_PMID: Final = re.compile(r"PMID:([0-9]+)")


@dataclass(frozen=True, slots=True)
class Source:
    """Hold one reference or evidence row.

    ``number`` is its ``[n]`` in the answer, 0 where it is not cited; ``passage`` the text that was read, "" where the
    trace has none. ``row`` is None for answers without an evidence table.
    """

    number: int
    item: Item
    passage: str = ""
    row: EvidenceRow | None = None


@dataclass(frozen=True, slots=True)
class ExportedAnswer:
    """Hold one answer: its text without the reference list, and its sources, those that it cites first, by number."""

    text: str
    outcome: str
    sources: tuple[Source, ...]
    review: Review | None


@dataclass(frozen=True, slots=True)
class Report:
    """Hold what the exports of one trace show; ``created`` is Unix time."""

    trace_id: str
    model: str
    created: int
    question: str
    egress: str
    answers: tuple[ExportedAnswer, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        """Return the items of all answers, each work once."""
        found = {str(source.item.get("id")): source.item for answer in self.answers for source in answer.sources}
        return tuple(found.values())

    @property
    def style(self) -> str:
        """Return the style that the answer's own references have, "" where it has none."""
        return next((answer.review.style for answer in self.answers if answer.review), "")


def report_of(trace: str) -> Report:
    """Return the report of a trace, given as the JSON text of ``GET /v1/traces/{id}``."""
    told = json.loads(trace)
    choices = told.get("choices") or []
    return Report(
        trace_id=str(told.get("id", "")),
        model=str(told.get("model", "")),
        created=int(told.get("created", 0)),
        question=str(choices[0].get("question", "")) if choices else "",
        egress=str(choices[0].get("egress") or "") if choices else "",
        answers=tuple(map(_answer, choices)),
    )


def _answer(choice: Mapping[str, Any]) -> ExportedAnswer:
    details = choice.get("details") or {}
    review = review_of(details)
    rows = {row.number: row for row in review.rows if row.number} if review else {}
    known = {int(one.get("number") or 0): one for one in details.get("citations") or () if isinstance(one, Mapping)}
    references = choice.get("references") or []
    cited = [_cited(one, rows, known) for one in references]
    listed = {source.row.uid for source in cited if source.row}
    others = [row for row in review.rows if row.uid not in listed] if review else []
    sources = [*cited, *(Source(row.number, _item(row), row=row) for row in others)]
    # What is cited comes first, in the order of the answer; what was read beside it keeps its order.
    sources.sort(key=lambda source: (source.number == 0, source.number))
    text = _without_list(str(choice.get("content") or choice.get("answer") or ""), references)
    return ExportedAnswer(text, str(choice.get("outcome") or ""), tuple(_once(sources)), review)


def _cited(
    reference: Mapping[str, Any], rows: Mapping[int, EvidenceRow], known: Mapping[int, Mapping[str, Any]]
) -> Source:
    """Return a reference with the item of its row, else with what the trace's citation record tells of its document."""
    number = int(reference.get("number") or 0)
    passage = str(reference.get("text") or "")
    if row := rows.get(number):
        return Source(number, _item(row), passage, row)
    record = known.get(number, {})
    title = str(record.get("title") or reference.get("title") or "")
    return Source(number, _linked(title, str(reference.get("url") or ""), record), passage)


def _item(row: EvidenceRow) -> Item:
    item = dict(row.item) or _linked(row.title, row.url, {})
    notices = "; ".join(notice.capitalize() for notice in row.notices)
    return item if not notices or item.get("note") else {**item, "note": notices}


def _linked(title: str, url: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the item of a link; an address on this server means nothing elsewhere and becomes a note."""
    is_web = url.startswith(_WEB)
    item = item_of_link(title, url if is_web else "")
    if not is_web and url:
        item |= {"id": url, "note": f"passage of this server: {url}"}
    if (found := _PMID.fullmatch(str(record.get("document_id", "")))) and "PMID" not in item:
        item |= {"id": f"pmid:{found[1]}", "type": "article-journal", "PMID": found[1]}
    if record.get("retracted"):
        item["note"] = "; ".join(filter(None, ("Retracted", str(item.get("note", "")))))
    return item


def _once(sources: Iterable[Source]) -> Iterator[Source]:
    """Yield each work once, under its lowest number; a passage of a second reference to it is kept."""
    by_id: dict[str, Source] = {}
    for source in sources:
        identity = str(source.item.get("id"))
        if (first := by_id.get(identity)) is None:
            by_id[identity] = source
        elif source.passage and source.passage not in first.passage:
            by_id[identity] = replace(first, passage="\n\n".join(filter(None, (first.passage, source.passage))))
    yield from by_id.values()


def _without_list(content: str, references: list[Mapping[str, Any]]) -> str:
    """Return the shown answer up to its reference list, whose markers are where the references say."""
    starts = [int(one.get("start") or 0) for one in references]
    cut = min((start for start in starts if start > 0), default=len(content))
    text, after = content[:cut].rstrip(), content[cut:]
    if not after.startswith("["):
        return content.strip()
    head, _, last = text.rpartition("\n")
    return (head if last.endswith(":") else text).strip()

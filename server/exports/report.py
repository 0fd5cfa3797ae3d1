"""Read a trace as what its exports show, and write that as Markdown or CSV in which nothing is active. Pure.

A report has the answers, their references as items, and the review where there is one. Whatever stands in the articles,
the Markdown loads nothing and holds no HTML; no cell of the CSV is a formula.
"""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from retrieval.references.csl import Item, address_of, item_of_link, reference_line, year_of
from server.methods.shared.evidence_table import EvidenceRow, Finding, Review, headings_of, review_of
from server.methods.shared.sentences import quotation

_WEB: Final = ("http://", "https://")
_PMID: Final = re.compile(r"PMID:([0-9]+)")
_ACTIVE: Final = re.compile(r"([\\`*_{}\[\]<>|#])")
_LINE_START: Final = re.compile(r"^(\s*)([-+=]|\d+[.)])(?=\s|$)")
_ADDRESS: Final = re.compile(r"https?://[^\s<>()\[\]]+")
# Spreadsheets read a cell as a formula that begins so; the last ones are how Japanese input writes them.
_FORMULA: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "﹦", "﹢", "﹣", "﹫")
# A spreadsheet whose separator is another one than ours begins a cell behind these, also within our quotes.
_SEPARATORS: Final = re.compile(r"([;\t\r\n])")
# Letters that show nothing: fillers of Hangul and Khmer, the blank of Braille.
_BLANK_LETTERS: Final = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
# Excel takes a file without it for the machine's own code page.
_BYTE_ORDER_MARK: Final = "\ufeff"
_HEAD: Final = (
    "answer", "number", "pmid", "doi", "title", "authors", "source", "year", "address", "kind", "score", "notices",
)  # fmt: skip
_MAX_CELL: Final = 32_000  # Excel cuts at 32,767


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


def report_of(trace: str) -> Report:
    """Return the report of a trace, given as the JSON text of ``GET /v1/traces/{id}``."""
    fields = json.loads(trace)
    choices = fields.get("choices") or []
    return Report(
        trace_id=str(fields.get("id", "")),
        model=str(fields.get("model", "")),
        created=int(fields.get("created", 0)),
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
    others = [row for row in review.rows if row.uid not in listed and not row.excluded] if review else []
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
        return Source(number, _item(row), passage, None if row.excluded else row)
    record = known.get(number, {})
    title = str(record.get("title") or reference.get("title") or "")
    return Source(number, _linked(title, str(reference.get("url") or ""), record), passage)


def _item(row: EvidenceRow) -> Item:
    item = dict(row.item) or _linked(row.title, row.url, {})
    notices = [str(item["note"])] if item.get("note") else [notice.capitalize() for notice in row.notices]
    notices += [f"Excluded by hand: {row.excluded}"] if row.excluded else []
    return {**item, "note": "; ".join(notices)} if notices else item


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


def markdown(report: Report) -> str:
    """Return question, answers, evidence, references and what was searched."""
    lines = [f"# {escaped(report.question)}", "", escaped(provenance(report)), ""]
    for at, answer in enumerate(report.answers, 1):
        if len(report.answers) > 1:
            lines += [f"## Answer {at}", ""]
        lines += [_inert(answer.text), "", *_outcome(answer)]
        lines += [*_references(answer.sources)]
        if answer.review:
            lines += [*_evidence(answer.sources), *_search(answer.review)]
    return "\n".join(lines).rstrip() + "\n"


def provenance(report: Report) -> str:
    """Return the sentence that tells model, time and record of an answer."""
    made = datetime.fromtimestamp(report.created, UTC).strftime("%Y-%m-%d %H:%M UTC")
    left = f" What left the machine: {report.egress}." if report.egress else ""
    return f"Answered by {report.model} on {made}; record {report.trace_id}.{left}"


def outcome_line(answer: ExportedAnswer) -> str:
    """Return the line on an outcome other than an answer, "" for an answer."""
    return "" if answer.outcome in ("", "answered") else f"Outcome: {answer.outcome.replace('_', ' ')}"


def flow_line(review: Review) -> str:
    """Return the counts of the review in the order of its steps."""
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in review.counts.items())


def escaped(text: str) -> str:
    """Return text on one line in which nothing is Markdown or HTML."""
    plain = _ACTIVE.sub(r"\\\1", " ".join(text.split()))
    return _LINE_START.sub(r"\1\\\2", plain).replace("&", "&amp;")


def _inert(text: str) -> str:
    """Return a model's Markdown without images and HTML; emphasis, lists and numbers stay."""
    return text.replace("![", "! [").replace("<", "&lt;")


def _outcome(answer: ExportedAnswer) -> Iterator[str]:
    if line := outcome_line(answer):
        yield from (f"*{escaped(line)}*", "")


def _references(sources: Sequence[Source]) -> Iterator[str]:
    if not sources:
        return
    for heading, group in (("References", _numbered(sources)), ("Read, not cited", _unnumbered(sources))):
        if group:
            yield from (f"## {heading}", "")
            yield from map(_reference, group)
            yield ""


def _numbered(sources: Sequence[Source]) -> list[Source]:
    return [source for source in sources if source.number]


def _unnumbered(sources: Sequence[Source]) -> list[Source]:
    return [source for source in sources if not source.number]


def _reference(source: Source) -> str:
    note = source.item.get("note")
    remark = f" **{escaped(str(note))}**" if note else ""
    return f"- {_mark(source.number)}{escaped(reference_line(source.item))}{remark}{_link(address_of(source.item))}"


def _mark(number: int) -> str:
    return f"\\[{number}\\] " if number else ""


def _link(address: str) -> str:
    return f" <{address}>" if _ADDRESS.fullmatch(address) else ""


def _evidence(sources: Sequence[Source]) -> Iterator[str]:
    rows = [(source.number, source.row) for source in sources if source.row]
    if not rows:
        return
    yield from ("## Evidence", "")
    headings = headings_of(row for _, row in rows)
    yield "| " + " | ".join(["n", "Article", "Kind", *map(escaped, headings.values())]) + " |"
    yield "|" + " --- |" * (3 + len(headings))
    for number, row in rows:
        cells = [str(number or ""), escaped(row.title), escaped(row.level)]
        cells += [escaped(finding.value) for finding in row.findings.values()]
        yield "| " + " | ".join(cells) + " |"
    yield ""
    quotes = [
        f"- {_mark(number)}{escaped(heading)}: {escaped(quotation(row.findings[name].quote))}"
        for number, row in rows
        for name, heading in headings.items()
        if row.findings[name].quote
    ]
    yield from (("### Quotes", "", *quotes, "") if quotes else ())


def _search(review: Review) -> Iterator[str]:
    yield from ("## Search", "")
    if flow := flow_line(review):
        yield from (f"Articles: {escaped(flow)}.", "")
    for query in review.queries:
        hits = "" if query.hits is None else f", {query.hits} hits"
        fault = f" (not used: {escaped(query.fault)})" if query.fault else ""
        yield f"- {escaped(query.source)}: {escaped(query.text)}{hits}{fault}"
    yield ""
    if review.excluded:
        yield from ("### Excluded", "")
        yield from (
            f"- {escaped(one.uid)} {escaped(one.title)}: {escaped(one.stage)}, {escaped(one.reason)}"
            for one in review.excluded
        )


def spreadsheet(report: Report) -> str:
    """Return one line for each source of each answer, with a column for each finding and its quote."""
    out = io.StringIO()
    rows = [source.row for answer in report.answers for source in answer.sources if source.row]
    cells = [f"{_column(name)}{end}" for name in headings_of(rows) for end in ("", "_quote")]
    columns = [*_HEAD, *map(_inert_cell, cells), "reference", "passage"]
    writer = csv.DictWriter(out, columns, restval="")
    writer.writeheader()
    for at, answer in enumerate(report.answers, 1):
        for source in answer.sources:
            found = {"answer": at, **_cells(source), "reference": reference_line(source.item)}
            writer.writerow({_inert_cell(name): _inert_cell(value) for name, value in found.items()})
    return _BYTE_ORDER_MARK + out.getvalue()


def _cells(source: Source) -> dict[str, Any]:
    item = source.item
    cells = {
        "number": source.number or "",
        "pmid": item.get("PMID", ""),
        "doi": item.get("DOI", ""),
        "title": item.get("title", ""),
        "authors": "; ".join(_names(item)),
        "source": item.get("container-title", ""),
        "year": year_of(item),
        "address": address_of(item),
        "notices": item.get("note", ""),
        "passage": source.passage,
    }
    return cells | (_finding_cells(source.row) if source.row else {})


def _finding_cells(row: EvidenceRow) -> dict[str, Any]:
    findings: Mapping[str, Finding] = row.findings
    quoted = {f"{_column(name)}_quote": finding.quote for name, finding in findings.items()}
    values = {_column(name): finding.value for name, finding in findings.items()}
    return {"kind": row.level, "score": "" if row.score is None else row.score, **values, **quoted}


def _column(name: str) -> str:
    """Return the head of a cell's column; one that a reader has named may have the name of another column."""
    return f"{name} (column)" if name in _HEAD else name


def _names(item: Item) -> Iterator[str]:
    for name in item.get("author", ()):
        yield name.get("literal") or " ".join(filter(None, (name.get("family"), name.get("given"), name.get("suffix"))))


def _inert_cell(value: Any) -> Any:
    """Return a cell that a spreadsheet shows as it is; numbers of ours stay numbers."""
    if not isinstance(value, str):
        return value
    text = value if len(value) <= _MAX_CELL else f"{value[:_MAX_CELL]}…"
    parts = _SEPARATORS.split(text.replace("\x00", ""))
    inert = "".join(f"'{part}" if _shown(part).startswith(_FORMULA) else part for part in parts)
    return f"'{inert}" if inert.startswith(("\t", "\r", "\n")) else inert


def _shown(text: str) -> str:
    """Return a text without the spaces, quotes and invisible characters before its first sign."""
    for place, sign in enumerate(text):
        is_blank = sign in _BLANK_LETTERS or unicodedata.category(sign)[0] in "CZ" or unicodedata.category(sign) == "Mn"
        if not is_blank and sign not in "\"'":
            return text[place:]
    return ""

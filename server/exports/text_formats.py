"""Write a report as Markdown or CSV in which nothing is active, whatever stands in the articles. Pure.

The Markdown loads nothing and holds no HTML; no cell of the CSV is a formula.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from retrieval.references.csl import Item, ReferenceStyles, Style, address_of, year_of
from server.exports.report import ExportedAnswer, Report, Source
from server.methods.shared.evidence_table import FINDINGS, EvidenceRow, Finding, Review

_ACTIVE: Final = re.compile(r"([\\`*_{}\[\]<>|#])")
_LINE_START: Final = re.compile(r"^(\s*)([-+=]|\d+[.)])(?=\s|$)")
_ADDRESS: Final = re.compile(r"https?://[^\s<>()\[\]]+")


# Spreadsheets read a cell as a formula that begins so; the last ones are how Japanese input writes them.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
# Excel takes a file without it for the machine's own code page.
_BYTE_ORDER_MARK: Final = "\ufeff"
_HEAD: Final = (
    "answer", "number", "pmid", "doi", "title", "authors", "source", "year", "address", "kind", "score", "notices",
)  # fmt: skip
_MAX_CELL: Final = 32_000  # Excel cuts at 32,767


def markdown(report: Report, styles: ReferenceStyles, style: Style) -> str:
    """Return question, answers, evidence, references and what was searched."""
    lines = [f"# {escaped(report.question)}", "", escaped(provenance(report)), ""]
    for at, answer in enumerate(report.answers, 1):
        if len(report.answers) > 1:
            lines += [f"## Answer {at}", ""]
        lines += [_inert(answer.text), "", *_outcome(answer)]
        lines += [*_references(answer.sources, styles, style)]
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


def _references(sources: Sequence[Source], styles: ReferenceStyles, style: Style) -> Iterator[str]:
    if not sources:
        return
    for heading, group in (("References", _numbered(sources)), ("Read, not cited", _unnumbered(sources))):
        if group:
            yield from (f"## {heading}", "")
            yield from (_reference(source, styles.text(source.item, style)) for source in group)
            yield ""


def _numbered(sources: Sequence[Source]) -> list[Source]:
    return [source for source in sources if source.number]


def _unnumbered(sources: Sequence[Source]) -> list[Source]:
    return [source for source in sources if not source.number]


def _reference(source: Source, text: str) -> str:
    note = source.item.get("note")
    told = f" **{escaped(str(note))}**" if note else ""
    return f"- {_mark(source.number)}{escaped(text)}{told}{_link(address_of(source.item))}"


def _mark(number: int) -> str:
    return f"\\[{number}\\] " if number else ""


def _link(address: str) -> str:
    return f" <{address}>" if _ADDRESS.fullmatch(address) else ""


def _evidence(sources: Sequence[Source]) -> Iterator[str]:
    rows = [(source.number, source.row) for source in sources if source.row]
    if not rows:
        return
    yield from ("## Evidence", "")
    yield "| " + " | ".join(["n", "Article", "Kind", *FINDINGS.values()]) + " |"
    yield "|" + " --- |" * (3 + len(FINDINGS))
    for number, row in rows:
        cells = [str(number or ""), escaped(row.title), escaped(row.level)]
        cells += [escaped(finding.value) for finding in row.findings.values()]
        yield "| " + " | ".join(cells) + " |"
    yield ""
    quotes = [
        f"- {_mark(number)}{heading}: “{escaped(row.findings[name].quote)}”"
        for number, row in rows
        for name, heading in FINDINGS.items()
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


def spreadsheet(report: Report, styles: ReferenceStyles, style: Style) -> str:
    """Return one line for each source of each answer, with a column for each finding and its quote."""
    out = io.StringIO()
    columns = [*_HEAD, *(f"{name}{end}" for name in FINDINGS for end in ("", "_quote")), "reference", "passage"]
    writer = csv.DictWriter(out, columns, restval="")
    writer.writeheader()
    for at, answer in enumerate(report.answers, 1):
        for source in answer.sources:
            cells = {"answer": at, **_cells(source), "reference": styles.text(source.item, style)}
            writer.writerow({name: _inert_cell(value) for name, value in cells.items()})
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
    quoted = {f"{name}_quote": finding.quote for name, finding in findings.items()}
    values = {name: finding.value for name, finding in findings.items()}
    return {"kind": row.level, "score": "" if row.score is None else row.score, **values, **quoted}


def _names(item: Item) -> Iterator[str]:
    for name in item.get("author", ()):
        yield name.get("literal") or " ".join(filter(None, (name.get("family"), name.get("given"), name.get("suffix"))))


def _inert_cell(value: Any) -> Any:
    """Return a cell that a spreadsheet shows as it is; numbers of ours stay numbers."""
    if not isinstance(value, str):
        return value
    text = value if len(value) <= _MAX_CELL else f"{value[:_MAX_CELL]}…"
    text = text.replace("\x00", "")
    return f"'{text}" if text.lstrip(" \u00a0\ufeff").startswith(_FORMULA) or text.startswith(_FORMULA) else text

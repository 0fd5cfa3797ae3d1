"""Write a report as a Word document with python-docx."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from retrieval.references.csl import ReferenceStyles, Style, address_of
from server.exports.report import ExportedAnswer, Report, Source
from server.exports.text_formats import flow_line, outcome_line, provenance
from server.methods.shared.evidence_table import FINDINGS, Review

# What XML 1.0 cannot hold; python-docx refuses it.
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# A table of more rows takes seconds to build, and nobody reads it on paper.
_MAX_ROWS: Final = 200
_HEADING: Final = re.compile(r"(#{1,6})\s+(.*)")
_ITEM: Final = re.compile(r"[-*]\s+(.*)")
_EMPHASIS: Final = re.compile(r"\*\*(.+?)\*\*")


def word(report: Report, styles: ReferenceStyles, style: Style) -> bytes:
    """Return the file of a document with question, answers, evidence, references and what was searched."""
    from docx import Document

    document = Document()
    _properties(document, report)
    document.add_heading(_clean(report.question) or "Answer", level=0)
    document.add_paragraph(_clean(provenance(report)))
    for at, answer in enumerate(report.answers, 1):
        if len(report.answers) > 1:
            document.add_heading(f"Answer {at}", level=1)
        _text(document, answer)
        _references(document, answer.sources, styles, style)
        if answer.review:
            _evidence(document, [source for source in answer.sources if source.row])
            _search(document, answer.review)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def _properties(document: Any, report: Report) -> None:
    about = document.core_properties
    about.author, about.comments = report.model[:255], f"record {report.trace_id}"[:255]
    about.title = _clean(report.question)[:255]
    about.created = about.modified = datetime.fromtimestamp(report.created, UTC).replace(tzinfo=None)


def _text(document: Any, answer: ExportedAnswer) -> None:
    """Add the answer's paragraphs, with the headings, lists and strong words of its Markdown."""
    for line in _clean(answer.text).splitlines():
        if not line.strip():
            continue
        heading, listed = _HEADING.match(line), _ITEM.match(line.strip())
        if heading:
            document.add_heading(heading[2], level=min(4, len(heading[1]) + 1))
        else:
            style = "List Bullet" if listed else None
            _runs(document.add_paragraph(style=style), listed[1] if listed else line)
    if line := outcome_line(answer):
        document.add_paragraph().add_run(line).italic = True


def _runs(paragraph: Any, line: str) -> None:
    for at, part in enumerate(_EMPHASIS.split(line)):
        paragraph.add_run(part).bold = bool(at % 2)


def _references(document: Any, sources: Sequence[Source], styles: ReferenceStyles, style: Style) -> None:
    for heading, cited in (("References", True), ("Read, not cited", False)):
        group = [source for source in sources if bool(source.number) == cited]
        if group:
            document.add_heading(heading, level=1)
        for source in group:
            paragraph = document.add_paragraph()
            paragraph.add_run(_clean(f"{_mark(source)}{styles.text(source.item, style)}"))
            if note := source.item.get("note"):
                paragraph.add_run(f" {_clean(str(note))}").bold = True
            if address := address_of(source.item):
                paragraph.add_run(f" {_clean(address)}")


def _evidence(document: Any, sources: Sequence[Source]) -> None:
    if not sources:
        return
    document.add_heading("Evidence", level=1)
    shown = sources[:_MAX_ROWS]
    heads = ["n", "Article", "Kind", *FINDINGS.values()]
    table = document.add_table(rows=len(shown) + 1, cols=len(heads))
    table.style = "Table Grid"
    # Reading cells by row is linear; table.cell() walks the whole table each time.
    for row, cells in zip(table.rows, [heads, *map(_cells, shown)], strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = _clean(text)
    if len(sources) > len(shown):
        document.add_paragraph(f"{len(sources) - len(shown)} more rows are in the export as CSV.")
    for line in _quotes(shown):
        document.add_paragraph(_clean(line), style="List Bullet")


def _cells(source: Source) -> list[str]:
    row = source.row
    if row is None:
        return []
    values = [finding.value for finding in row.findings.values()]
    return [str(source.number or ""), row.title, row.level, *values]


def _quotes(sources: Sequence[Source]) -> Iterator[str]:
    for source in sources:
        for name, heading in FINDINGS.items() if source.row else ():
            if source.row and (quote := source.row.findings[name].quote):
                yield f"{_mark(source)}{heading}: “{quote}”"


def _mark(source: Source) -> str:
    return f"[{source.number}] " if source.number else ""


def _search(document: Any, review: Review) -> None:
    document.add_heading("Search", level=1)
    if flow := flow_line(review):
        document.add_paragraph(_clean(f"Articles: {flow}."))
    for query in review.queries:
        hits = "" if query.hits is None else f", {query.hits} hits"
        fault = f" (not used: {query.fault})" if query.fault else ""
        document.add_paragraph(_clean(f"{query.source}: {query.text}{hits}{fault}"), style="List Bullet")
    if review.excluded:
        document.add_heading("Excluded", level=2)
    for one in review.excluded[:_MAX_ROWS]:
        document.add_paragraph(_clean(f"{one.uid} {one.title}: {one.stage}, {one.reason}"), style="List Bullet")
    if (more := len(review.excluded) - _MAX_ROWS) > 0:
        document.add_paragraph(f"{more} more are in the record.")


def _clean(text: str) -> str:
    return _NOT_XML.sub("", text)

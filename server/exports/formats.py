"""Name the formats that a trace can be exported in, and write each; a Word document with python-docx."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

from retrieval.references.csl import address_of, bibtex, csl_json, reference_line, ris
from server.errors import FORMAT_UNKNOWN, NO_REFERENCES, RequestError
from server.exports.report import (
    ExportedAnswer,
    Report,
    Source,
    flow_line,
    markdown,
    outcome_line,
    provenance,
    report_of,
    spreadsheet,
)
from server.methods.shared.evidence_table import Review, headings_of
from server.methods.shared.sentences import quotation

Format = Literal["ris", "bibtex", "csl-json", "csv", "docx", "markdown"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
# Of each format: media type and the end of a file's name.
_KINDS: Final[Mapping[Format, tuple[str, str]]] = {
    "ris": ("application/x-research-info-systems; charset=utf-8", "ris"),
    "bibtex": ("application/x-bibtex; charset=utf-8", "bib"),
    "csl-json": ("application/vnd.citationstyles.csl+json", "json"),
    "csv": ("text/csv; charset=utf-8", "csv"),
    "docx": ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    "markdown": ("text/markdown; charset=utf-8", "md"),
}
_OF_REFERENCES: Final = ("ris", "bibtex", "csl-json", "csv")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
# What XML 1.0 cannot hold; python-docx refuses it.
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# A table of more rows takes seconds to build, and nobody reads it on paper.
_MAX_ROWS: Final = 200
_HEADING: Final = re.compile(r"(#{1,6})\s+(.*)")
_ITEM: Final = re.compile(r"[-*]\s+(.*)")
_EMPHASIS: Final = re.compile(r"\*\*(.+?)\*\*")


@dataclass(frozen=True, slots=True)
class ExportFile:
    """Hold one export: the bytes, their media type, and a name for the file."""

    data: bytes
    media_type: str
    name: str


def check_export(form: str | None) -> Format:
    """Return the format of a request.

    Raises:
        RequestError: there is no such format; the message names the choices.
    """
    if form not in FORMATS:
        missing = "format is missing" if form is None else f"there is no format {form[:40]!r}"
        raise RequestError(f"{missing}; choose one of {', '.join(FORMATS)}", FORMAT_UNKNOWN, param="format")
    return form


def export(trace: str, form: Format) -> ExportFile:
    """Return a trace in this format; a large one takes a second, so call it in a thread.

    Raises:
        RequestError: the format is one of references, and the answer has none.
    """
    report = report_of(trace)
    if form in _OF_REFERENCES and not report.items:
        raise RequestError(f"this answer names no source, so there is nothing to write as {form}", NO_REFERENCES)
    data = _written(report, form)
    media_type, end = _KINDS[form]
    name = _NOT_IN_NAMES.sub("-", report.trace_id)[:80] or "trace"
    return ExportFile(data, media_type, f"arrowhead-{name}.{end}")


def _written(report: Report, form: Format) -> bytes:
    match form:
        case "ris":
            return ris(report.items).encode()
        case "bibtex":
            return bibtex(report.items).encode()
        case "csl-json":
            return csl_json(report.items).encode()
        case "csv":
            return spreadsheet(report).encode("utf-8", "replace")
        case "docx":
            return word(report)
        case "markdown":
            return markdown(report).encode("utf-8", "replace")


def word(report: Report) -> bytes:
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
        _references(document, answer.sources)
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


def _references(document: Any, sources: Sequence[Source]) -> None:
    for heading, cited in (("References", True), ("Read, not cited", False)):
        group = [source for source in sources if bool(source.number) == cited]
        if group:
            document.add_heading(heading, level=1)
        for source in group:
            paragraph = document.add_paragraph()
            paragraph.add_run(_clean(f"{_mark(source)}{reference_line(source.item)}"))
            if note := source.item.get("note"):
                paragraph.add_run(f" {_clean(str(note))}").bold = True
            if address := address_of(source.item):
                paragraph.add_run(f" {_clean(address)}")


def _evidence(document: Any, sources: Sequence[Source]) -> None:
    if not sources:
        return
    document.add_heading("Evidence", level=1)
    shown = sources[:_MAX_ROWS]
    headings = headings_of(source.row for source in shown if source.row)
    heads = ["n", "Article", "Kind", *headings.values()]
    table = document.add_table(rows=len(shown) + 1, cols=len(heads))
    table.style = "Table Grid"
    # Reading cells by row is linear; table.cell() walks the whole table each time.
    for row, cells in zip(table.rows, [heads, *map(_cells, shown)], strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = _clean(text)
    if len(sources) > len(shown):
        document.add_paragraph(f"{len(sources) - len(shown)} more rows are in the export as CSV.")
    for line in _quotes(shown, headings):
        document.add_paragraph(_clean(line), style="List Bullet")


def _cells(source: Source) -> list[str]:
    row = source.row
    if row is None:
        return []
    values = [finding.value for finding in row.findings.values()]
    return [str(source.number or ""), row.title, row.level, *values]


def _quotes(sources: Sequence[Source], headings: Mapping[str, str]) -> Iterator[str]:
    for source in sources:
        for name, heading in headings.items() if source.row else ():
            if source.row and (quote := source.row.findings[name].quote):
                yield f"{_mark(source)}{heading}: {quotation(quote)}"


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

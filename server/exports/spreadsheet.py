"""Write evidence and references as CSV in which no cell is a formula. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any, Final

from retrieval.references.csl import Item, address_of, year_of
from retrieval.references.styles import ReferenceStyles, Style
from server.exports.report import Report, Source
from server.methods.shared.evidence_table import FINDINGS, EvidenceRow, Finding

# Spreadsheets read a cell as a formula that begins so; the last ones are how Japanese input writes them.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
# Excel takes a file without it for the machine's own code page.
_BYTE_ORDER_MARK: Final = "\ufeff"
_HEAD: Final = (
    "answer", "number", "pmid", "doi", "title", "authors", "source", "year", "address", "kind", "score", "notices",
)  # fmt: skip
_MAX_CELL: Final = 32_000  # Excel cuts at 32,767


def spreadsheet(report: Report, styles: ReferenceStyles, style: Style) -> str:
    """Return one line for each source of each answer, with a column for each finding and its quote."""
    out = io.StringIO()
    columns = [*_HEAD, *(f"{name}{end}" for name in FINDINGS for end in ("", "_quote")), "reference", "passage"]
    writer = csv.DictWriter(out, columns, restval="")
    writer.writeheader()
    for at, answer in enumerate(report.answers, 1):
        for source in answer.sources:
            cells = {"answer": at, **_cells(source), "reference": styles.text(source.item, style)}
            writer.writerow({name: _inert(value) for name, value in cells.items()})
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


def _inert(value: Any) -> Any:
    """Return a cell that a spreadsheet shows as it is; numbers of ours stay numbers."""
    if not isinstance(value, str):
        return value
    text = value if len(value) <= _MAX_CELL else f"{value[:_MAX_CELL]}…"
    text = text.replace("\x00", "")
    return f"'{text}" if text.lstrip(" \u00a0\ufeff").startswith(_FORMULA) or text.startswith(_FORMULA) else text

"""Name the formats that a trace can be exported in, and write each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from retrieval.references.csl import STYLES, ReferenceStyles, Style, bibtex, csl_json, ris
from server.errors import ExportInvalid, NothingToExport
from server.exports.report import Report, report_of
from server.exports.text_formats import markdown, spreadsheet
from server.exports.word import word

Format = Literal["ris", "bibtex", "csl-json", "csv", "docx", "markdown"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
DEFAULT_STYLE: Final[Style] = "nlm"
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


@dataclass(frozen=True, slots=True)
class ExportFile:
    """Hold one export: the bytes, their media type, and a name for the file."""

    data: bytes
    media_type: str
    name: str


def check_export(form: str | None, style: str | None) -> tuple[Format, Style | None]:
    """Return format and style of a request; a style of None is the answer's own.

    Raises:
        ExportInvalid: there is no such format or style; the message names the choices.
    """
    if form not in FORMATS:
        missing = "format is missing" if form is None else f"there is no format {form[:40]!r}"
        raise ExportInvalid(f"{missing}; choose one of {', '.join(FORMATS)}", param="format")
    if style is not None and style not in STYLES:
        raise ExportInvalid(f"there is no style {style[:40]!r}; choose one of {', '.join(STYLES)}", param="style")
    return form, style


def export(trace: str, form: Format, style: Style | None, styles: ReferenceStyles) -> ExportFile:
    """Return a trace in this format; a large one takes a second, so call it in a thread.

    Raises:
        NothingToExport: the format is one of references, and the answer has none.
    """
    report = report_of(trace)
    if form in _OF_REFERENCES and not report.items:
        raise NothingToExport(f"this answer names no source, so there is nothing to write as {form}")
    own = report.style if report.style in STYLES else DEFAULT_STYLE
    data = _written(report, form, styles, style or own)
    media_type, end = _KINDS[form]
    name = _NOT_IN_NAMES.sub("-", report.trace_id)[:80] or "trace"
    return ExportFile(data, media_type, f"arrowhead-{name}.{end}")


def _written(report: Report, form: Format, styles: ReferenceStyles, style: Style) -> bytes:
    match form:
        case "ris":
            return ris(report.items).encode()
        case "bibtex":
            return bibtex(report.items).encode()
        case "csl-json":
            return csl_json(report.items).encode()
        case "csv":
            return spreadsheet(report, styles, style).encode("utf-8", "replace")
        case "docx":
            return word(report, styles, style)
        case "markdown":
            return markdown(report, styles, style).encode("utf-8", "replace")

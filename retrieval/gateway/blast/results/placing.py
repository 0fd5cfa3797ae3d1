"""Name whole records in BLAST+'s reports of a search in segments of them.

The sample's database has its segments under names of its own (s41). In a report each gets the accession and the length
of its record, and positions count on the record. Pure functions, no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from retrieval.formats.records import SequenceSegment

# The formats that BLAST+ writes, before the reply wraps them.
Report = Literal["text", "tabular", "xml", "xml2_s", "json2_s"]
Segments = Mapping[str, SequenceSegment]

# A member of a hit, in the old and the new XML and in JSON: one a line.
_MEMBER: Final = re.compile(
    r'^(?P<head> *(?:<(?:Hit_|Hsp_)?|")(?P<name>id|accession|len|hit[-_]from|hit[-_]to)(?:>|": "?))(?P<value>\w+)',
    re.MULTILINE,
)
_TEXT: Final = re.compile(
    r"^Query= (?P<query>.*)$"
    r"|^(?P<row>s\d+) (?P<title>.*?)(?P<pad> +)(?P<scores>[\d.e+-]+ +[\d.e+-]+ *)$"
    r"|^>(?P<hit>s\d+)"
    r"|^Length=(?P<length>\d+)$"
    r"|^Query  (?P<at>\d+)(?P<gap> +)(?P<upper>\S+  \d+)\n(?P<middle>.*)\n"
    r"Sbjct  (?P<first>\d+) +(?P<lower>\S+)  (?P<last>\d+)$",
    re.MULTILINE,
)


def placed(report: str, form: Report, segments: Segments) -> str:
    """Return a report with the records of the segments; ``segments`` by their names in the database."""
    if form == "text":
        return _Text(segments).placed(report)
    if form == "tabular":
        return "".join(_row(line, segments) for line in report.splitlines(keepends=True))
    return _Members(segments).placed(report)


def _row(line: str, segments: Segments) -> str:
    cells = line.split("\t")
    if len(cells) < 12:
        return line
    segment = segments[cells[1]]
    places = [str(int(cell) + segment.start - 1) for cell in cells[8:10]]
    return "\t".join([cells[0], segment.accession, *cells[2:8], *places, *cells[10:]])


class _Members:
    """Place the hits of XML and JSON, of which each names its segment first."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._hit: SequenceSegment | None = None

    def placed(self, report: str) -> str:
        return _MEMBER.sub(self._member, report)

    def _member(self, found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        if name == "id":
            self._hit = self._segments[value]
        hit = self._hit
        if hit is None:
            return found[0]
        if name == "id":
            text = f"{'ref' if '_' in hit.accession else 'gb'}|{hit.accession}|"
        elif name == "accession":
            text = hit.accession.partition(".")[0]
        else:
            text = str(hit.record_length if name == "len" else int(value) + hit.start - 1)
        return f"{found['head']}{text}"


class _Text:
    """Place the hits of the Text form, with the columns of its lists and alignments in line."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._hit: SequenceSegment | None = None

    def placed(self, report: str) -> str:
        return _TEXT.sub(self._part, report)

    def _part(self, found: re.Match[str]) -> str:
        if found["query"] is not None:
            self._hit = None
        elif found["row"] in self._segments:
            return _listed(found, self._segments[found["row"]].accession)
        elif found["hit"] in self._segments:
            self._hit = self._segments[found["hit"]]
            return f">{self._hit.accession}"
        elif self._hit is not None and found["length"]:
            return f"Length={self._hit.record_length}"
        elif self._hit is not None and found["first"]:
            return _aligned(found, self._hit.start - 1)
        return found[0]


def _listed(found: re.Match[str], accession: str) -> str:
    width = len(found["row"]) + 1 + len(found["title"]) + len(found["pad"]) - 2
    title = f"{accession} {found['title']}"
    if len(title) > width:
        title = f"{title[: width - 3].rstrip('.')}..."
    return f"{title:<{width}}  {found['scores']}"


def _aligned(found: re.Match[str], offset: int) -> str:
    first, last = (str(int(found[name]) + offset) for name in ("first", "last"))
    width = max(len(found["at"]), len(first)) + 2
    middle = found["middle"][len("Query  ") + len(found["at"]) + len(found["gap"]) :]
    upper = f"Query  {found['at']:<{width}}{found['upper']}"
    return f"{upper}\n{'':{len('Query  ') + width}}{middle}\nSbjct  {first:<{width}}{found['lower']}  {last}"

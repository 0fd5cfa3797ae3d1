"""Parse BLAST's XML output, and map positions on segments to positions on whole records.

Pure functions, no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

from retrieval.formats.records import SequenceSegment
from retrieval.formats.untrusted_input import refuse_declared

NO_TITLE: Final = "No definition line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hsp:
    """Hold one local alignment (high-scoring segment pair).

    Positions are 1-based on the query and on the whole subject record; ``subject_from > subject_to`` on the minus
    strand. ``evalue`` and ``bits`` are as BLAST wrote them.
    """

    bits: str
    score: int
    evalue: str
    query_from: int
    query_to: int
    subject_from: int
    subject_to: int
    identities: int
    gaps: int
    length: int
    query_line: str
    subject_line: str
    midline: str


@dataclass(frozen=True, slots=True)
class Hit:
    """Hold the alignments with one record."""

    accession: str
    title: str
    record_length: int
    hsps: tuple[Hsp, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlastResult:
    """Hold the result of one query.

    ``statistics``: BLAST's Statistics_* values by their bare names (db-num, db-len, kappa …). ``query_title`` is ""
    where the query had none.
    """

    program: str
    version: str
    query_title: str
    query_length: int
    hits: tuple[Hit, ...]
    parameters: tuple[tuple[str, str], ...]
    statistics: Mapping[str, str]


def read_results(xml: bytes, segments: Mapping[str, SequenceSegment]) -> tuple[BlastResult, ...]:
    """Parse the output into one result for each query.

    ``segments``: by the name each one has in the BLAST database.

    Raises:
        ValueError: the output is not BLAST XML.
        KeyError: the output names an unknown sequence.
    """
    refuse_declared(xml)
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError as error:
        raise ValueError(f"blast wrote no XML: {error}") from error
    parameters = tuple((e.tag, e.text or "") for e in root.iterfind("BlastOutput_param/Parameters/*"))
    return tuple(_result(root, iteration, parameters, segments) for iteration in root.iter("Iteration"))


def _result(
    root: ElementTree.Element,
    iteration: ElementTree.Element,
    parameters: tuple[tuple[str, str], ...],
    segments: Mapping[str, SequenceSegment],
) -> BlastResult:
    title = iteration.findtext("Iteration_query-def", "")
    return BlastResult(
        program=root.findtext("BlastOutput_program", ""),
        version=root.findtext("BlastOutput_version", ""),
        query_title="" if title == NO_TITLE else title,
        query_length=int(iteration.findtext("Iteration_query-len", "0")),
        hits=_merged([_hit(element, segments) for element in iteration.iter("Hit")]),
        parameters=parameters,
        statistics={e.tag.removeprefix("Statistics_"): e.text or "" for e in iteration.iter() if _is_statistic(e)},
    )


def _is_statistic(element: ElementTree.Element) -> bool:
    return element.tag.startswith("Statistics_")


def _hit(element: ElementTree.Element, segments: Mapping[str, SequenceSegment]) -> Hit:
    segment = segments[element.findtext("Hit_accession", "")]
    hsps = tuple(_hsp(hsp, segment.start - 1) for hsp in element.iter("Hsp"))
    return Hit(segment.accession, segment.title, segment.record_length, hsps)


def _merged(hits: list[Hit]) -> tuple[Hit, ...]:
    """Merge the segments of one record into one hit, as in the real database; best alignment first."""
    by_accession: dict[str, Hit] = {}
    for hit in hits:
        seen = by_accession.get(hit.accession)
        together = (*(seen.hsps if seen else ()), *hit.hsps)
        by_accession[hit.accession] = Hit(hit.accession, hit.title, hit.record_length, together)
    ordered = (
        Hit(h.accession, h.title, h.record_length, tuple(sorted(h.hsps, key=lambda hsp: -float(hsp.bits))))
        for h in by_accession.values()
    )
    return tuple(sorted(ordered, key=lambda hit: -float(hit.hsps[0].bits)))


def _hsp(element: ElementTree.Element, offset: int) -> Hsp:
    def text(name: str) -> str:
        return element.findtext(f"Hsp_{name}", "")

    return Hsp(
        bits=text("bit-score"),
        score=int(text("score")),
        evalue=text("evalue"),
        query_from=int(text("query-from")),
        query_to=int(text("query-to")),
        subject_from=int(text("hit-from")) + offset,
        subject_to=int(text("hit-to")) + offset,
        identities=int(text("identity")),
        gaps=int(text("gaps") or 0),
        length=int(text("align-len")),
        query_line=text("qseq"),
        subject_line=text("hseq"),
        midline=text("midline"),
    )

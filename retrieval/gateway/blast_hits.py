"""BLAST's own XML as records, with the stretch's coordinates put back on its whole record. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from retrieval.gateway.records import SequenceSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class Hsp:
    """One local alignment; positions are 1-based on the query and on the whole subject record.

    ``subject_from > subject_to`` on the minus strand. ``evalue`` and ``bits`` are as BLAST wrote them.
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
    accession: str
    title: str
    record_length: int
    hsps: tuple[Hsp, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlastResult:
    """``statistics``: BLAST's Statistics_* values by their bare names (db-num, db-len, kappa …)."""

    program: str
    version: str
    query_length: int
    hits: tuple[Hit, ...]
    parameters: tuple[tuple[str, str], ...]
    statistics: Mapping[str, str]


def read_result(xml: bytes, segments: Mapping[str, SequenceSegment]) -> BlastResult:
    """``segments``: by the name each one has in the BLAST database. ValueError where the output is no BLAST XML."""
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError as error:
        raise ValueError(f"blast wrote no XML: {error}") from error
    hits = [_hit(element, segments) for element in root.iter("Hit")]
    return BlastResult(
        program=root.findtext("BlastOutput_program", ""),
        version=root.findtext("BlastOutput_version", ""),
        query_length=int(root.findtext("BlastOutput_query-len", "0")),
        hits=_merged(hits),
        parameters=tuple((e.tag, e.text or "") for e in root.iterfind("BlastOutput_param/Parameters/*")),
        statistics={e.tag.removeprefix("Statistics_"): e.text or "" for e in root.iterfind(".//Statistics/*")},
    )


def _hit(element: ElementTree.Element, segments: Mapping[str, SequenceSegment]) -> Hit:
    segment = segments[element.findtext("Hit_def", "").split()[0]]
    hsps = tuple(_hsp(hsp, segment.start - 1) for hsp in element.iter("Hsp"))
    return Hit(segment.accession, segment.title, segment.record_length, hsps)


def _merged(hits: list[Hit]) -> tuple[Hit, ...]:
    """Stretches of one record become one hit, as they are in the real database; best alignment first."""
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

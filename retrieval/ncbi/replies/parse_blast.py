"""Parse BLAST results, in the Text and XML forms of the URL API, into hits.

Pure. Biopython parses XML but no longer the text form, whose table and alignments are parsed here.
"""

from __future__ import annotations

import io
import re

from Bio import Blast

from retrieval.errors import BlastFailed, NcbiMalformed
from retrieval.formats.untrusted_input import DeclaredXml, refuse_declared
from retrieval.ncbi.replies.records import BlastHit, BlastResult

_STATUS = re.compile(r"Status=(\w+)")
_LENGTH = re.compile(r"^Length=(\d+)", re.MULTILINE)
_SCORE = re.compile(r"Score =\s*([\d.e+]+) bits.*?Expect(?:\(\d+\))? =\s*([\d.e+-]+)", re.DOTALL)
_IDENTITIES = re.compile(r"Identities = (\d+)/(\d+)")
_SUBJECT = re.compile(r"^Sbjct\s+(\d+)\s+\S+\s+(\d+)", re.MULTILINE)


def parse_blast(body: str) -> BlastResult:
    """Parse one result.

    Raises:
        BlastFailed: the search has no result.
        NcbiMalformed: the body is not a result.
    """
    if body.lstrip().startswith("<?xml"):
        return _from_xml(body)
    if "Sequences producing significant alignments" in body or "No significant similarity found" in body:
        return _from_text(body)
    if re.search(r"^BLAST[NPX]", body, re.MULTILINE):
        return _from_text(body)
    if status := _STATUS.search(body[:20_000]):
        raise BlastFailed(f"the search is {status[1]}")
    raise NcbiMalformed("BLAST sent neither a result nor a status")


def _from_text(body: str) -> BlastResult:
    head, _, rest = body.partition("\n>")
    length = _LENGTH.search(head)
    blocks = rest.split("\n>") if rest else []
    # A block whose alignment was cut off before its score line is no whole hit.
    hits = [hit for block in blocks if (hit := _hit_from_text(block))]
    return BlastResult(int(length[1]) if length else 0, tuple(hits))


def _hit_from_text(block: str) -> BlastHit | None:
    title_text, found, _ = block.partition("\nLength=")
    score = _SCORE.search(block)
    if not found or not score:
        return None
    first = re.split(r"\n (?=\S+\.\d+ )", title_text)[0]  # further ids of an identical sequence follow on own lines
    accession, _, title = " ".join(first.split()).partition(" ")
    best = block[score.start() :]
    following = _SCORE.search(best, score.end() - score.start())
    best = best[: following.start()] if following else best
    identities = _IDENTITIES.search(best)
    places = _SUBJECT.findall(best)
    return BlastHit(
        accession=accession,
        title=title,
        bits=float(score[1]),
        expect=_expect(score[2]),
        identities=int(identities[1]) if identities else 0,
        align_length=int(identities[2]) if identities else 0,
        subject_start=int(places[0][0]) if places else 0,
        subject_stop=int(places[-1][1]) if places else 0,
    )


def _expect(text: str) -> float:
    return float("1" + text if text.startswith("e") else text.rstrip("."))


def _from_xml(body: str) -> BlastResult:
    try:
        refuse_declared(body)
    except DeclaredXml as error:
        raise NcbiMalformed("the BLAST reply declares entities, which it never does") from error
    try:
        records = list(Blast.parse(io.BytesIO(body.encode())))
    except Exception as error:  # Biopython raises expat, value and corrupted-file errors alike
        return _salvage_xml(body, error)
    hits = [_hit_from_xml(hit) for record in records for hit in record if len(hit)]
    query = re.search(r"<BlastOutput_query-len>(\d+)<", body)
    return BlastResult(int(query[1]) if query else 0, tuple(hits))


def _salvage_xml(body: str, error: Exception) -> BlastResult:
    """Parse the complete ``<Hit>`` elements of a truncated reply, after closing its open elements."""
    end = body.rfind("</Hit>")
    if end < 0:
        raise NcbiMalformed("the BLAST reply ends before its first hit does") from error
    tail = "</Hit></Iteration_hits></Iteration></BlastOutput_iterations></BlastOutput>"
    closed = body[:end] + tail
    try:
        refuse_declared(body)
    except DeclaredXml as error:
        raise NcbiMalformed("the BLAST reply declares entities, which it never does") from error
    try:
        records = list(Blast.parse(io.BytesIO(closed.encode())))
    except Exception as again:
        raise NcbiMalformed("the BLAST reply is no valid XML") from again
    hits = [_hit_from_xml(hit) for record in records for hit in record if len(hit)]
    query = re.search(r"<BlastOutput_query-len>(\d+)<", body)
    return BlastResult(int(query[1]) if query else 0, tuple(hits))


def _hit_from_xml(hit: Blast.Hit) -> BlastHit:
    hsp = hit[0]
    target = hit.target
    coordinates = hsp.coordinates[0]
    start, stop = int(min(coordinates)), int(max(coordinates))
    return BlastHit(
        accession=str(target.name or target.id),
        title=str(target.description),
        bits=float(hsp.annotations["bit score"]),
        expect=float(hsp.annotations["evalue"]),
        identities=int(hsp.annotations.get("identity", 0)),
        align_length=int(hsp.shape[1]),
        subject_start=start + 1,
        subject_stop=stop,
    )

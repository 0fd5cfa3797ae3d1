"""Parse BLAST results, in the Text, XML, XML2 and JSON2 forms of the URL API, into hits.

Pure. The forms differ in how they write one thing; ``BlastHit`` says what is the same in all. In XML and JSON, the
translated searches (tblastn, tblastx) give a subject's low position first and the strand as a negative frame, where
Text gives the positions in the order of the alignment. The accession there has no version, which the id has.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from retrieval.errors import BLAST_FAILED, NCBI_MALFORMED, NcbiError
from retrieval.formats.untrusted_input import DeclaredXml, is_json_too_deep, refuse_declared
from retrieval.ncbi.replies.records import BlastHit, BlastResult

_STATUS = re.compile(r"Status=(\w+)")
_LENGTH = re.compile(r"^Length=(\d+)", re.MULTILINE)
_SCORE = re.compile(r"Score =\s*([\d.e+]+) bits.*?Expect(?:\(\d+\))? =\s*([\d.e+-]+)", re.DOTALL)
_IDENTITIES = re.compile(r"Identities = (\d+)/(\d+)")
_SUBJECT = re.compile(r"^Sbjct\s+(\d+)\s+\S+\s+(\d+)", re.MULTILINE)
# Further records of an identical sequence: on lines of their own in Text, behind this sign in XML.
_FURTHER_LINE: Final = re.compile(r"\n (?=\S)")
_FURTHER_TITLE: Final = re.compile(r" >(?=\S)")
_GI: Final = re.compile(r"^gi\|\d+\|")
_UNNAMED: Final = "gnl|BL_ORD_ID|"
# The programs that translate the query.
_TRANSLATES: Final = re.compile(r"(?:^|[>\"])T?BLASTX(?=[<\" ])", re.IGNORECASE | re.MULTILINE)
_PROGRAM_CHARS: Final = 2000
Titled = tuple[str, str]  # accession with version, title


def parse_blast(body: str) -> BlastResult:
    """Parse one result.

    Raises:
        BLAST_FAILED: the search has no result.
        NCBI_MALFORMED: the body is not a result.
    """
    result = _parsed(body)
    if _TRANSLATES.search(body[:_PROGRAM_CHARS]):
        return replace(result, query_length=result.query_length // 3)
    return result


def _parsed(body: str) -> BlastResult:
    start = body.lstrip()[:16]
    if start.startswith(("<?xml", "<BlastOutput", "<BlastXML2")):
        return _from_xml(body)
    if start.startswith("{"):
        return _from_json(body)
    if "Sequences producing significant alignments" in body or "No significant similarity found" in body:
        return _from_text(body)
    if re.search(r"^T?BLAST[NPX]", body, re.MULTILINE):
        return _from_text(body)
    if status := _STATUS.search(body[:20_000]):
        raise NcbiError(f"the search is {status[1]}", BLAST_FAILED)
    raise NcbiError("BLAST sent neither a result nor a status", NCBI_MALFORMED)


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
    titles = [_titled(*" ".join(part.split()).partition(" ")[::2]) for part in _FURTHER_LINE.split(title_text)]
    best = block[score.start() :]
    following = _SCORE.search(best, score.end() - score.start())
    best = best[: following.start()] if following else best
    identities = _IDENTITIES.search(best)
    places = _SUBJECT.findall(best)
    return BlastHit(
        accession=titles[0][0],
        title=titles[0][1],
        bits=float(score[1]),
        expect=_expect(score[2]),
        identities=int(identities[1]) if identities else 0,
        align_length=int(identities[2]) if identities else 0,
        subject_start=int(places[0][0]) if places else 0,
        subject_stop=int(places[-1][1]) if places else 0,
        other_titles=tuple(title for _, title in titles[1:]),
    )


def _expect(text: str) -> float:
    return float("1" + text if text.startswith("e") else text.rstrip("."))


def _titled(identifier: str, title: str) -> Titled:
    """Return the accession of an identifier ("gi|57|ref|NC_000015.10|", "pdb|4HHB|A", "NC_000015.10") with its title.

    A sequence that the database has no identifier for has it, if any, as the first word of its title.
    """
    if identifier.startswith(_UNNAMED):
        accession, _, title = title.partition(" ")
        return accession, title.strip()
    kind, *values = _GI.sub("", identifier).split("|")
    named = [value for value in values if value]
    if not named:
        return kind, title.strip()
    if kind == "pdb":
        return "_".join(named), title.strip()
    return ":".join(named) if kind == "gnl" else named[0], title.strip()


# XML and JSON


def _from_xml(body: str) -> BlastResult:
    """Parse the hits that are whole; of a truncated reply, those before the cut."""
    try:
        refuse_declared(body)
    except DeclaredXml as error:
        raise NcbiError("the BLAST reply declares entities, which it never does", NCBI_MALFORMED) from error
    hits, length, root = list[BlastHit](), 0, ""
    broken: ElementTree.ParseError | None = None
    try:
        for event, element in ElementTree.iterparse(io.StringIO(body.lstrip()), ("start", "end")):
            name = _name(element)
            root = root or name
            if event == "end" and name == "hit":
                hits += _hit_from_xml(element)
            elif event == "end" and name in ("blastoutput_query_len", "query_len"):
                length = length or int(element.text or 0)
    except ElementTree.ParseError as error:
        broken = error
    if not root.startswith(("blastoutput", "blastxml2")):
        raise NcbiError("the BLAST reply is no BLAST result", NCBI_MALFORMED)
    if broken is not None and not hits:
        raise NcbiError("the BLAST reply ends before its first hit does", NCBI_MALFORMED) from broken
    return BlastResult(length, tuple(hits))


def _name(element: Element) -> str:
    """Return the name that JSON has for an element: without namespace, in small letters, with underscores."""
    return element.tag.rpartition("}")[2].lower().replace("-", "_")


def _hit_from_xml(element: Element) -> Iterator[BlastHit]:
    fields = {_name(child): child for child in element}
    if "description" in fields:
        described = [_texts(one) for one in fields["description"]]
        titles = [_titled(one.get("id", ""), one.get("title", "")) for one in described]
    else:
        first, *others = _FURTHER_TITLE.split(fields["hit_def"].text or "") if "hit_def" in fields else [""]
        titles = [_titled(fields["hit_id"].text or "" if "hit_id" in fields else "", first)]
        titles += [_titled(*other.partition(" ")[::2]) for other in others]
    aligned = fields.get("hsps", fields.get("hit_hsps"))
    if aligned is not None and len(aligned):
        yield _hit(titles, _texts(aligned[0]))


def _texts(element: Element) -> dict[str, str]:
    return {_name(child).removeprefix("hsp_"): (child.text or "").strip() for child in element}


def _from_json(body: str) -> BlastResult:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NcbiError("the BLAST reply is no whole JSON", NCBI_MALFORMED) from error
    if is_json_too_deep(document) or "BlastOutput2" not in document:
        raise NcbiError("the BLAST reply is no BLAST result", NCBI_MALFORMED)
    searches = list(_searches(document))
    hits = [
        _hit([_titled(one["id"], one.get("title", "")) for one in hit["description"]], hit["hsps"][0])
        for search in searches
        for hit in search["hits"]
        if hit.get("hsps")
    ]
    return BlastResult(int(searches[0].get("query_len", 0)) if searches else 0, tuple(hits))


def _searches(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the searches of a report: one, or one for each iteration or subject."""
    if isinstance(value, list):
        for part in value:
            yield from _searches(part)
    elif isinstance(value, dict):
        if "hits" in value:
            yield value
        else:
            yield from _searches(list(value.values()))


def _hit(titles: Sequence[Titled], hsp: Mapping[str, Any]) -> BlastHit:
    ends = sorted((int(hsp.get("hit_from", 0)), int(hsp.get("hit_to", 0))))
    is_minus = ends[0] != int(hsp.get("hit_from", 0)) or int(hsp.get("hit_frame", 0) or 0) < 0
    start, stop = reversed(ends) if is_minus else ends
    return BlastHit(
        accession=titles[0][0],
        title=titles[0][1],
        bits=float(hsp.get("bit_score", 0)),
        expect=float(hsp.get("evalue", 0)),
        identities=int(hsp.get("identity", 0)),
        align_length=int(hsp.get("align_len", 0)),
        subject_start=start,
        subject_stop=stop,
        other_titles=tuple(title for _, title in titles[1:]),
    )

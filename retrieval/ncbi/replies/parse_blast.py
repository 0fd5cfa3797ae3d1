"""Parse BLAST results into hits, in the Text form of the URL API, in which every result is fetched. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from retrieval.errors import BlastFailed, NcbiMalformed
from retrieval.ncbi.replies.records import BlastHit, BlastResult

_STATUS = re.compile(r"Status=(\w+)")
_LENGTH = re.compile(r"^Length=(\d+)", re.MULTILINE)
_SCORE = re.compile(r"Score =\s*([\d.e+]+) bits.*?Expect(?:\(\d+\))? =\s*([\d.e+-]+)", re.DOTALL)
_IDENTITIES = re.compile(r"Identities = (\d+)/(\d+)")
_SUBJECT = re.compile(r"^Sbjct\s+(\d+)\s+\S+\s+(\d+)", re.MULTILINE)
# Further records of an identical sequence are on lines of their own.
_FURTHER_LINE: Final = re.compile(r"\n (?=\S)")
_GI: Final = re.compile(r"^gi\|\d+\|")
_UNNAMED: Final = "gnl|BL_ORD_ID|"
# The programs that translate the query.
_TRANSLATES: Final = re.compile(r"^T?BLASTX ", re.MULTILINE)
_PROGRAM_CHARS: Final = 2000
Titled = tuple[str, str]  # accession with version, title


def parse_blast(body: str) -> BlastResult:
    """Parse one result.

    Raises:
        BlastFailed: the search has no result.
        NcbiMalformed: the body is not a result.
    """
    result = _parsed(body)
    if _TRANSLATES.search(body[:_PROGRAM_CHARS]):
        return replace(result, query_length=result.query_length // 3)
    return result


def _parsed(body: str) -> BlastResult:
    if "Sequences producing significant alignments" in body or "No significant similarity found" in body:
        return _from_text(body)
    if re.search(r"^T?BLAST[NPX]", body, re.MULTILINE):
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

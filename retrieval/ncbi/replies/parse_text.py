"""Parse the plain-text forms of efetch and esummary.

Pure. What is in none of them is NCBI's own error text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from retrieval.errors import NCBI_MALFORMED, NCBI_REPLY_ERROR, NcbiError
from retrieval.ncbi.calls.parameter_classes import common_name
from retrieval.ncbi.replies.articles import articles_from_abstracts, articles_from_medline, articles_from_summaries
from retrieval.ncbi.replies.gene_types import noted
from retrieval.ncbi.replies.records import FailedRecord, GeneRecord, IdList, ParsedReply, Record, RecordList
from retrieval.ncbi.replies.sequences import fasta_records, sequences_from_genbank
from retrieval.ncbi.replies.summaries import doc_from_mapping, split

_DOCSUM = re.compile(r"^[ \t]*(\d{1,6})\. ", re.MULTILINE)
_OFFICIAL = re.compile(r"Official Symbol: (\S+) and Name: (.*)")
_BRACKETED = re.compile(r"\[([^\[\]]*?)(?: \(([^()]*)\))?\]\s*$")
_FAILED: Final = re.compile(r"Error occurred: (?P<reason>.*?)(?P<uid>\d*)\s*$")
_ASN1: Final = re.compile(r"\A\s*[A-Z][\w-]* ::= ")
_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,60}")
_MEDLINE: Final = re.compile(r"\A\s*(?:\d+:\s*)?PMID- *\d", re.MULTILINE)
_SUMMARY: Final = re.compile(r"\A\s*\d{1,6}: ")
_GENBANK: Final = re.compile(r"\A\s*LOCUS\s")


def parse_text(db: str, body: str) -> ParsedReply:
    """Parse one body.

    Raises:
        NCBI_REPLY_ERROR: it is an error text.
        NCBI_MALFORMED: it is in a form that is not read, or cut off before its first record.
    """
    text = body.lstrip()
    if text.startswith(">"):
        return RecordList(db, tuple(fasta_records(body)))
    if _GENBANK.match(body):
        records, cut = sequences_from_genbank(text)
        return RecordList(db, tuple(records), cut=cut)
    if db in ("gene", "omim") and (docs := docs_from_text(db, body)):
        return RecordList(db, tuple(docs))
    if db == "pubmed" and (articles := _articles(body)):
        return RecordList(db, tuple(articles))
    if _ASN1.match(body):
        raise NcbiError("NCBI sent ASN.1, which is not read; ask for rettype=fasta or use esummary", NCBI_MALFORMED)
    if ids := _id_lines(body):
        return IdList(len(ids), ids)
    raise NcbiError(excerpt(body), NCBI_REPLY_ERROR)


def excerpt(text: str) -> str:
    return " ".join(text.split())[:160]


def _id_lines(body: str) -> tuple[str, ...]:
    """Return the ids of a list with one a line, () for any other text: each of them has a digit."""
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    are_ids = all(_ID.fullmatch(line) and any(char.isdigit() for char in line) for line in lines)
    return tuple(lines) if are_ids else ()


def _articles(body: str) -> list[Record]:
    if _MEDLINE.match(body):
        return articles_from_medline(body.lstrip())
    return articles_from_summaries(body) if _SUMMARY.match(body) else articles_from_abstracts(body)


def docs_from_text(db: str, body: str) -> list[Record]:
    """Parse numbered plain-text summaries, [] if the body has none.

    An efetch of gene without a format returns them, as the gateway does for omim.
    """
    starts = [m.start() for m in _DOCSUM.finditer(body)]
    ends = [*starts[1:], len(body)]
    return [_doc_from_text(db, body[a:b].strip()) for a, b in zip(starts, ends, strict=False)]


def _doc_from_text(db: str, block: str) -> Record:
    values = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
    uid = values.get("ID", "").split()[0] if values.get("ID") else ""
    if not uid:
        failed = _FAILED.search(" ".join(block.split()))
        return (
            FailedRecord(failed["uid"], failed["reason"].strip()) if failed else FailedRecord("", excerpt(block)[:120])
        )
    return _omim_from_text(uid, block, values) if db == "omim" else _gene_from_text(uid, block, values)


def _omim_from_text(uid: str, block: str, values: Mapping[str, str]) -> Record:
    heading, _, rest = _DOCSUM.sub("", block, count=1).partition("\n")
    oid, _, title = heading.partition(" ")
    alternative = "" if rest.startswith(("Locus: ", "ID: ")) else rest.partition("\n")[0]
    mapping = {"oid": oid, "title": title, "alttitles": alternative, "locus": values.get("Locus", "")}
    return doc_from_mapping("omim", uid, mapping)


def _gene_from_text(uid: str, block: str, values: Mapping[str, str]) -> Record:
    lines = block.split("\n")
    symbol = lines[0].split(". ", 1)[-1].strip()
    official = _OFFICIAL.search(block)
    described = official[2] if official else next((line for line in lines[1:] if _BRACKETED.search(line)), "")
    bracket = _BRACKETED.search(described)
    name = _BRACKETED.sub("", described).strip()
    chromosome, _, rest = values.get("Chromosome", "").partition(";")
    others = values.get("Other Designations", "")
    told = noted(values.get("Note", ""), name, others)
    replaced = re.search(r"replaced with GeneID: (\d+)", block)
    return GeneRecord(
        uid=uid,
        symbol=official[1] if official else symbol,
        name=name,
        organism=common_name(bracket[1], bracket[2] or "") if bracket else "",
        scientific_name=bracket[1] if bracket else "",
        chromosome=chromosome.strip(),
        location=rest.replace("Location:", "").strip(),
        aliases=split(values.get("Other Aliases", "")),
        other_names=split(others, ";"),
        gene_type=told.gene_type,
        locus=told.locus,
        has_names_only=told.has_names_only,
        replaced_by=replaced[1] if replaced else "",
    )

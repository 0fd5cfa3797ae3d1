"""Render results of the built-in sample as JSON2 and XML2, which share one structure, and as tables.

Element and member names are those of NCBI's NCBI_BlastOutput2 schema. Pure functions, no I/O.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from retrieval.gateway.blast.results.hits import BlastResult, Hit, Hsp
from retrieval.gateway.blast.results.pages import REFERENCE, SAMPLE_NAME, sequence_id
from retrieval.gateway.http_reply import text_of

XML2_HEAD: Final = (
    '<?xml version="1.0"?>\n<BlastXML2\n    xmlns="http://www.ncbi.nlm.nih.gov"\n'
    '    xmlns:xs="http://www.w3.org/2001/XMLSchema-instance"\n    xs:schemaLocation="http://www.ncbi.nlm.nih.gov '
    'http://www.ncbi.nlm.nih.gov/data_specs/schema_alt/NCBI_BlastOutput2.xsd"\n>\n'
)
_FIELDS: Final = (
    "query acc.ver, subject acc.ver, % identity, alignment length, mismatches, gap opens, q. start, q. end, "
    "s. start, s. end, evalue, bit score"
)
# The element that XML2 nests inside, or writes for each member of a list.
_CLASSES: Final = {
    "report": "Report", "search_target": "Target", "params": "Parameters", "results": "Results", "search": "Search",
    "hits": "Hit", "description": "HitDescr", "hsps": "Hsp", "stat": "Statistics",
}  # fmt: skip
_GAPS: Final = re.compile("-+")


def json2_report(results: Sequence[BlastResult]) -> str:
    """Render the results as blast+ writes -outfmt 15."""
    reports = [{"report": _report(number, result)} for number, result in enumerate(results, 1)]
    return json.dumps({"BlastOutput2": reports}, indent=2) + "\n"


def xml2_report(results: Sequence[BlastResult]) -> str:
    """Render the results as blast+ writes -outfmt 16."""
    reports = (_report(number, result) for number, result in enumerate(results, 1))
    parts = (f"<BlastOutput2>\n{_element('report', report, 1)}</BlastOutput2>\n" for report in reports)
    return f"{XML2_HEAD}{''.join(parts)}</BlastXML2>\n"


def tabular_report(results: Sequence[BlastResult]) -> str:
    """Render the results as blast+ writes -outfmt 7."""
    parts: list[str] = []
    for number, result in enumerate(results, 1):
        rows = ["\t".join(row) for row in _rows(number, result)]
        head = f"# {result.version}\n# Query: {result.query_title}\n# Database: {SAMPLE_NAME}\n"
        fields = f"# Fields: {_FIELDS}\n" if rows else ""
        parts.append(f"{head}{fields}# {len(rows)} hits found\n" + "".join(f"{row}\n" for row in rows))
    return "".join(parts) + f"# BLAST processed {len(results)} queries\n"


def csv_report(results: Sequence[BlastResult]) -> str:
    """Render the results as blast+ writes -outfmt 10."""
    rows = (row for number, result in enumerate(results, 1) for row in _rows(number, result))
    return "".join(f"{','.join(row)}\n" for row in rows)


def _report(number: int, result: BlastResult) -> dict[str, Any]:
    search: dict[str, Any] = {"query_id": f"Query_{number}"}
    if result.query_title:
        search["query_title"] = result.query_title
    search["query_len"] = result.query_length
    search["hits"] = [_hit(index, hit) for index, hit in enumerate(result.hits, 1)]
    search["stat"] = {name.replace("-", "_"): _number(value) for name, value in result.statistics.items()}
    if not result.hits:
        search["message"] = "No hits found"
    return {
        "program": result.program,
        "version": result.version,
        "reference": REFERENCE,
        "search_target": {"db": SAMPLE_NAME},
        "params": {tag.removeprefix("Parameters_").replace("-", "_"): _number(v) for tag, v in result.parameters},
        "results": {"search": search},
    }


def _hit(number: int, hit: Hit) -> dict[str, Any]:
    names = {"id": sequence_id(hit), "accession": hit.accession.split(".")[0], "title": hit.title}
    hsps = [_hsp(index, hsp) for index, hsp in enumerate(hit.hsps, 1)]
    return {"num": number, "description": [names], "len": hit.record_length, "hsps": hsps}


def _hsp(number: int, hsp: Hsp) -> dict[str, Any]:
    return {
        "num": number,
        "bit_score": float(hsp.bits),
        "score": hsp.score,
        "evalue": float(hsp.evalue),
        "identity": hsp.identities,
        "query_from": hsp.query_from,
        "query_to": hsp.query_to,
        "query_strand": "Plus",
        "hit_from": hsp.subject_from,
        "hit_to": hsp.subject_to,
        "hit_strand": "Plus" if hsp.subject_from <= hsp.subject_to else "Minus",
        "align_len": hsp.length,
        "gaps": hsp.gaps,
        "qseq": hsp.query_line,
        "hseq": hsp.subject_line,
        "midline": hsp.midline,
    }


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _element(name: str, value: Any, depth: int) -> str:
    tag, pad = name.replace("_", "-"), "  " * depth
    if isinstance(value, list):
        members = "".join(_wrapped(_CLASSES[name], member, depth + 1) for member in value)
        return f"{pad}<{tag}>\n{members}{pad}</{tag}>\n"
    if isinstance(value, Mapping):
        return f"{pad}<{tag}>\n{_wrapped(_CLASSES[name], value, depth + 1)}{pad}</{tag}>\n"
    return f"{pad}<{tag}>{text_of(value)}</{tag}>\n"


def _wrapped(tag: str, members: Mapping[str, Any], depth: int) -> str:
    pad = "  " * depth
    return f"{pad}<{tag}>\n{''.join(_element(*item, depth + 1) for item in members.items())}{pad}</{tag}>\n"


def _rows(number: int, result: BlastResult) -> Iterator[tuple[str, ...]]:
    query = result.query_title.split(" ")[0] or f"Query_{number}"
    for hit in result.hits:
        for hsp in hit.hsps:
            openings = sum(len(_GAPS.findall(line)) for line in (hsp.query_line, hsp.subject_line))
            yield (
                query,
                hit.accession,
                f"{100 * hsp.identities / hsp.length:.3f}",
                str(hsp.length),
                str(hsp.length - hsp.identities - hsp.gaps),
                str(openings),
                *map(str, (hsp.query_from, hsp.query_to, hsp.subject_from, hsp.subject_to)),
                f"{float(hsp.evalue):.2e}",
                f"{float(hsp.bits):.0f}",
            )

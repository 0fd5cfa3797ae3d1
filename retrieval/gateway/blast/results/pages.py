"""Render status pages of NCBI's BLAST URL API, and the sample's results in all report formats.

The formats: Text, XML, JSON2 and XML2, which share one structure, and tables. Element and member names of JSON2 and
XML2 are those of NCBI's NCBI_BlastOutput2 schema. Pure functions, no I/O.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from retrieval.gateway.blast.results.hits import NO_TITLE, BlastResult, Hit, Hsp
from retrieval.gateway.http_reply import text_of

NO_SIMILARITY: Final = "<b>No significant similarity found.</b>"  # NCBI's words and markup, in Text too
SAMPLE_NAME: Final = "sample"
DATABASE_TITLE: Final = "Arrowhead sample of nucleotide records"
REFERENCE: Final = (
    'Zheng Zhang, Scott Schwartz, Lukas Wagner, and Webb Miller (2000), "A greedy algorithm for aligning DNA '
    'sequences", J Comput Biol 2000; 7(1-2):203-14.'
)
_LINE: Final = 60
_TITLE_WIDTH: Final = 65  # of the hit table's first column
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


def put_page(rid: str, rtoe_s: int) -> str:
    return _html(f"<!--QBlastInfoBegin\n    RID = {rid}\n    RTOE = {rtoe_s}\nQBlastInfoEnd\n-->")


def error_page(message: str) -> str:
    """Render the reply to a Put request that cannot be run: an error and an empty RID."""
    error = f'<ul id="msg" class="msg"><li class="error"><p class="error">{text_of(message)}</p></li></ul>'
    return _html(f"{error}\n<!--QBlastInfoBegin\n    RID = \n    RTOE = \nQBlastInfoEnd\n-->")


def status_page(status: str, message: str = "", hits: bool | None = None) -> str:
    """Render the page of a status (WAITING, READY, UNKNOWN, FAILED or ERROR) with a message for the user."""
    error = f'<ul id="msg" class="msg"><li class="error"><p class="error">{text_of(message)}</p></li></ul>\n'
    more = (
        "" if hits is None else f"<!--\nQBlastInfoBegin\n\tThereAreHits={'yes' if hits else 'no'}\nQBlastInfoEnd\n-->"
    )
    return _html(
        f"{error if message else ''}<p><!--\nQBlastInfoBegin\n\tStatus={status}\nQBlastInfoEnd\n--><p>\n{more}"
    )


def html_page(text: str) -> str:
    """Render a page for a browser around ``text``, a report in the Text form."""
    escaped = text_of(text).replace(text_of(NO_SIMILARITY), NO_SIMILARITY)
    return _html(f"<p><!--\nQBlastInfoBegin\n\tStatus=READY\nQBlastInfoEnd\n--><p>\n<pre>{escaped}</pre>")


def _html(inner: str) -> str:
    return f"<!DOCTYPE html>\n<html>\n<head><title>NCBI Blast</title></head>\n<body>\n{inner}\n</body>\n</html>\n"


def with_status_header(text: str) -> str:
    """Prepend the markup that NCBI puts before a result in Text and Tabular."""
    return f"<p><!--\nQBlastInfoBegin\n\tStatus=READY\nQBlastInfoEnd\n--><p>\n<PRE>\n{text}"


def text_report(rid: str, results: Sequence[BlastResult], descriptions: int, alignments: int) -> str:
    """Render the Text form.

    ``results``: at least one; ``descriptions`` and ``alignments``: hits to list and to show.
    """
    parts = [_preamble(rid, results[0])]
    for result in results:
        parts.append(f"Query= {result.query_title}\nLength={result.query_length}\n\n")
        if result.hits:
            sections = map(_alignments, result.hits[:alignments])
            parts += [_table(result.hits[:descriptions]), "\nALIGNMENTS\n", *sections]
        else:
            parts.append(f"\n\n{NO_SIMILARITY}\n\n")
        parts.append(_trailer(result))
    return "".join(parts)


def _preamble(rid: str, result: BlastResult) -> str:
    reference = textwrap.fill(f"Reference: {REFERENCE}", 58)
    numbers = f"{_number(result, 'db-num')} sequences; {_number(result, 'db-len')} total letters"
    return f"{result.version}\n{reference}\n\n\nRID: {rid}\n\n\nDatabase: {DATABASE_TITLE}\n           {numbers}\n"


def _number(result: BlastResult, name: str) -> str:
    return f"{int(result.statistics.get(name, '0') or 0):,}"


def _table(hits: Sequence[Hit]) -> str:
    head = f"\n{'':67}Score     E     Max\n{'Sequences producing significant alignments:':66}(Bits)  Value  Ident\n\n"
    return head + "".join(map(_row, hits))


def _row(hit: Hit) -> str:
    title = f"{hit.accession} {hit.title}"
    if len(title) > _TITLE_WIDTH:
        title = f"{title[: _TITLE_WIDTH - 3]}..."
    best = hit.hsps[0]
    identity = max(round(100 * hsp.identities / hsp.length) for hsp in hit.hsps)
    return f"{title:<{_TITLE_WIDTH}}  {short_bits(best.bits):<8}{short_evalue(best.evalue):<7}{f'{identity}%':<10}\n"


def short_bits(bits: str) -> str:
    """Format a bit score as BLAST prints it: exponent form above 9999, whole above 99.9, else one decimal."""
    value = float(bits)
    return f"{value:.3e}" if value > 9999 else str(int(value)) if value > 99.9 else f"{value:.1f}"


def short_evalue(evalue: str) -> str:
    """Format an E value as BLAST prints it: exponent form when small, else decimals."""
    value = float(evalue)
    if value < 1e-180:
        return "0.0"
    if value < 0.0009:
        mantissa, _, exponent = f"{value:.0e}".partition("e")
        return f"{mantissa}e{exponent}"
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}" if value < 1 else f"{value:.1f}"


def _alignments(hit: Hit) -> str:
    title = "\n".join(textwrap.wrap(f">{hit.accession} {hit.title}", 80, break_on_hyphens=False))
    return f"{title}\nLength={hit.record_length}\n\n" + "".join(map(_alignment, hit.hsps)) + "\n"


def _alignment(hsp: Hsp) -> str:
    identity, gaps = (round(100 * count / hsp.length) for count in (hsp.identities, hsp.gaps))
    strand = "Plus" if hsp.subject_from <= hsp.subject_to else "Minus"
    head = (
        f" Score = {short_bits(hsp.bits)} bits ({hsp.score}),  Expect = {short_evalue(hsp.evalue)}\n"
        f" Identities = {hsp.identities}/{hsp.length} ({identity}%), Gaps = {hsp.gaps}/{hsp.length} ({gaps}%)\n"
        f" Strand=Plus/{strand}\n\n"
    )
    return head + "".join(_blocks(hsp)) + "\n"


def _blocks(hsp: Hsp) -> Iterator[str]:
    """Yield the alignment in blocks of 60 columns, numbered by the first and last letter of each line."""
    step = 1 if hsp.subject_from <= hsp.subject_to else -1
    query, subject = hsp.query_from, hsp.subject_from
    width = max(len(str(n)) for n in (hsp.query_to, hsp.subject_from, hsp.subject_to)) + 2
    for at in range(0, hsp.length, _LINE):
        upper, lower = hsp.query_line[at : at + _LINE], hsp.subject_line[at : at + _LINE]
        next_query = query + len(upper.replace("-", ""))
        next_subject = subject + step * len(lower.replace("-", ""))
        yield f"Query  {query:<{width}}{upper}  {max(query, next_query - 1)}\n"
        yield f"{'':{7 + width}}{hsp.midline[at : at + _LINE]}\n"
        yield f"Sbjct  {subject:<{width}}{lower}  {next_subject - step if next_subject != subject else subject}\n\n"
        query, subject = next_query, next_subject


def _trailer(result: BlastResult) -> str:
    statistics = result.statistics
    return (
        f"\n  Database: {DATABASE_TITLE}\n"
        f"  Number of letters in database: {_number(result, 'db-len')}\n"
        f"  Number of sequences in database:  {_number(result, 'db-num')}\n\n"
        "Lambda      K        H\n"
        f"    {statistics.get('lambda', '')}    {statistics.get('kappa', '')}    {statistics.get('entropy', '')}\n"
        f"Length of query: {result.query_length}\n\n\n"
    )


def xml_report(results: Sequence[BlastResult]) -> str:
    """Render the XML form; ``results``: at least one."""
    first = results[0]
    parameters = "".join(f"      <{tag}>{text_of(value)}</{tag}>\n" for tag, value in first.parameters)
    return (
        '<?xml version="1.0"?>\n<!DOCTYPE BlastOutput PUBLIC "-//NCBI//NCBI BlastOutput/EN" '
        '"http://www.ncbi.nlm.nih.gov/dtd/NCBI_BlastOutput.dtd">\n<BlastOutput>\n'
        f"  <BlastOutput_program>{first.program}</BlastOutput_program>\n"
        f"  <BlastOutput_version>{text_of(first.version)}</BlastOutput_version>\n"
        f"  <BlastOutput_reference>{text_of(REFERENCE)}</BlastOutput_reference>\n"
        f"  <BlastOutput_db>{SAMPLE_NAME}</BlastOutput_db>\n  {_query_markup('BlastOutput', 1, first)}\n"
        f"  <BlastOutput_param>\n    <Parameters>\n{parameters}    </Parameters>\n  </BlastOutput_param>\n"
        f"<BlastOutput_iterations>\n{''.join(_iteration(n, r) for n, r in enumerate(results, 1))}"
        "</BlastOutput_iterations>\n</BlastOutput>\n\n"
    )


def _iteration(number: int, result: BlastResult) -> str:
    statistics = "".join(
        f"      <Statistics_{name}>{text_of(value)}</Statistics_{name}>\n" for name, value in result.statistics.items()
    )
    hits = "".join(_hit_markup(index, hit) for index, hit in enumerate(result.hits, 1))
    message = "" if hits else "  <Iteration_message>No hits found</Iteration_message>\n"
    return (
        f"<Iteration>\n  <Iteration_iter-num>{number}</Iteration_iter-num>\n"
        f"  {_query_markup('Iteration', number, result)}\n<Iteration_hits>\n{hits}</Iteration_hits>\n"
        f"  <Iteration_stat>\n    <Statistics>\n{statistics}    </Statistics>\n  </Iteration_stat>\n"
        f"{message}</Iteration>\n"
    )


def _query_markup(prefix: str, number: int, result: BlastResult) -> str:
    title = text_of(result.query_title or NO_TITLE)
    values = (("ID", f"Query_{number}"), ("def", title), ("len", str(result.query_length)))
    return "\n  ".join(f"<{prefix}_query-{name}>{value}</{prefix}_query-{name}>" for name, value in values)


def _hit_markup(number: int, hit: Hit) -> str:
    hsps = "".join(_hsp_markup(index, hsp) for index, hsp in enumerate(hit.hsps, 1))
    return (
        f"<Hit>\n  <Hit_num>{number}</Hit_num>\n  <Hit_id>{sequence_id(hit)}</Hit_id>\n"
        f"  <Hit_def>{text_of(hit.title)}</Hit_def>\n  <Hit_accession>{hit.accession.split('.')[0]}</Hit_accession>\n"
        f"  <Hit_len>{hit.record_length}</Hit_len>\n  <Hit_hsps>\n{hsps}  </Hit_hsps>\n</Hit>\n"
    )


def sequence_id(hit: Hit) -> str:
    return f"{'ref' if '_' in hit.accession else 'gb'}|{hit.accession}|"


def _hsp_markup(number: int, hsp: Hsp) -> str:
    values = (
        ("num", number),
        ("bit-score", hsp.bits),
        ("score", hsp.score),
        ("evalue", hsp.evalue),
        ("query-from", hsp.query_from),
        ("query-to", hsp.query_to),
        ("hit-from", hsp.subject_from),
        ("hit-to", hsp.subject_to),
        ("query-frame", 1),
        ("hit-frame", 1 if hsp.subject_from <= hsp.subject_to else -1),
        ("identity", hsp.identities),
        ("positive", hsp.identities),
        ("gaps", hsp.gaps),
        ("align-len", hsp.length),
        ("qseq", hsp.query_line),
        ("hseq", hsp.subject_line),
        ("midline", hsp.midline),
    )
    lines = "".join(f"      <Hsp_{tag}>{text_of(value)}</Hsp_{tag}>\n" for tag, value in values)
    return f"    <Hsp>\n{lines}    </Hsp>\n"


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
    search["stat"] = {name.replace("-", "_"): _as_number(value) for name, value in result.statistics.items()}
    if not result.hits:
        search["message"] = "No hits found"
    return {
        "program": result.program,
        "version": result.version,
        "reference": REFERENCE,
        "search_target": {"db": SAMPLE_NAME},
        "params": {tag.removeprefix("Parameters_").replace("-", "_"): _as_number(v) for tag, v in result.parameters},
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


def _as_number(text: str) -> int | float | str:
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

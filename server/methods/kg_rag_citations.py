"""Find the statements that an answer rests on, and the web page of each. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from retrieval.graph.context import Context
from retrieval.graph.naming import NamesIn
from retrieval.graph.types import Node, Statement
from server.methods.kg_rag_prompts import Asked
from server.methods.references import MAX_REFERENCES

_PUBMED: Final = "https://pubmed.ncbi.nlm.nih.gov/{}"
_PMID: Final = re.compile(r"(?:PMID:?\s*)?([0-9]{1,9})$", re.IGNORECASE)
_P_VALUES: Final = ("gwas_pvalue", "pvalue", "p_value", "pValue", "fisher")
_MAX_CITED: Final = 40
# The DISEASES database's form of evidence from DistiLD.
_DISTILD: Final = re.compile(r"p-value = (\S+)$")
_YES_OR_NO: Final = re.compile(r"\W*(?:yes|no)\b", re.IGNORECASE)
_NUMBER_IN: Final = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)", re.IGNORECASE)
# Identifiers whose form alone determines their source, and the web pages of these sources.
_PAGES: Final = (
    (
        re.compile(r"(?:DOID|UBERON|GO|CHEBI|HP|MONDO|CL|NCBITaxon|inchikey|EFO|ORPHANET|HGNC):\S+$", re.I),
        "identifiers.org/{}",
    ),
    (re.compile(r"DB\d{5}$"), "go.drugbank.com/drugs/{}"),
    (re.compile(r"CHEMBL\d+$"), "identifiers.org/chembl.compound:{}"),
    (re.compile(r"rs\d+$"), "www.ncbi.nlm.nih.gov/snp/{}"),
    (re.compile(r"[CD]\d{6,9}$"), "id.nlm.nih.gov/mesh/{}"),
    (re.compile(r"R-HSA-\d+$"), "reactome.org/content/detail/{}"),
    (re.compile(r"WP\d+$"), "www.wikipathways.org/instance/{}"),
)
# PrimeKG puts the source before identifiers that have a form of their own, and drops leading zeros.
_SOURCE_BEFORE: Final = re.compile(r"^(?:DrugBank|REACTOME):", re.IGNORECASE)
_UNPADDED: Final = re.compile(r"(MONDO|UBERON|GO|HPO?|CL):(\d{1,7})$")
_GENE_ID: Final = re.compile(r"(?:ncbigene:|ncbi:|entrez:|geneid:)?(\d+)$", re.IGNORECASE)
_UNIPROT: Final = re.compile(r"[OPQ]\d[A-Z0-9]{3}\d$|[A-NR-Z]\d(?:[A-Z][A-Z0-9]{2}\d){1,2}$")


def node_url(node: Node) -> str:
    """Return the web page of a node's identifier, "" where none is known."""
    identifier = _UNPADDED.sub(_padded, _SOURCE_BEFORE.sub("", node.identifier.strip(), count=1))
    kind = node.kind.casefold()
    gene = _GENE_ID.match(identifier) if kind.startswith("gene") else None
    if gene is not None:
        return f"https://www.ncbi.nlm.nih.gov/gene/{gene[1]}"
    if kind == "protein" and _UNIPROT.match(identifier):
        return f"https://www.uniprot.org/uniprotkb/{identifier}"
    page = next((page for form, page in _PAGES if form.match(identifier)), "")
    return "https://" + page.format(quote(identifier, safe=":")) if page else ""


def _padded(found: re.Match[str]) -> str:
    return f"{'HP' if found[1] == 'HPO' else found[1]}:{found[2]:0>7}"


def p_value(statement: Statement) -> float | None:
    """Return the smallest p-value of the statement's evidence, None where it has none."""
    return min(_p_values(statement.edge.evidence), default=None)


def cited(context: Context, asked: Asked, answer: str) -> tuple[Statement, ...]:
    """Return the statements whose other end the answer names, in the order of the context.

    True-or-false answers, "Yes" and "No" name nothing: they rest on the statements that the question names. So does an
    answer that is one of their p-values.
    """
    in_question = context.statements[: min(context.named, _MAX_CITED)]
    if asked.form == "true_false":
        return in_question
    names = NamesIn(answer, ())
    ids = {entity.node_id for entity in context.entities}
    found = [s for s in context.statements if any(names.has(end) for end in _others(s, ids))]
    if found:
        return tuple(found[:_MAX_CITED])
    if _YES_OR_NO.match(answer):
        return in_question
    said = {float(number) for number in _NUMBER_IN.findall(answer)}
    return tuple(s for s in in_question if said.intersection(_p_values(s.edge.evidence)))


def references_of(statements: Sequence[Statement], entities: Sequence[Node]) -> list[tuple[str, str]]:
    """Return (title, address) of the statements, then of the entities.

    A statement's address is its first article, else the page of one of its ends.
    """
    ids = {entity.node_id for entity in entities}
    found: dict[str, str] = {}
    for statement in statements:
        url = _url(statement, ids)
        if url:
            found.setdefault(url, _plain(f"{statement.text} ({_source(statement)})"))
    for entity in entities if statements else ():
        url = node_url(entity)
        if url:
            found.setdefault(url, _plain(f"{entity.kind} {entity.name}, {entity.identifier}"))
    return [(title, url) for url, title in list(found.items())[:MAX_REFERENCES]]


def citation_records(statements: Iterable[Statement]) -> list[dict[str, Any]]:
    """Return JSON-able records for the trace, with all that is needed to find each statement again."""
    return [
        {
            "edge": statement.edge.edge_id,
            "text": statement.text,
            "sources": list(statement.edge.provenance),
            "pmids": list(statement.edge.pmids),
            "pmid_urls": [url for url in map(_article_url, statement.edge.pmids) if url],
            "p_value": p_value(statement),
            "node_urls": [node_url(statement.source), node_url(statement.target)],
            "licence": statement.edge.licence,
        }
        for statement in statements
    ]


def _others(statement: Statement, entities: set[str]) -> list[Node]:
    ends = [statement.source, statement.target]
    return [end for end in ends if end.node_id not in entities] or ends


def _url(statement: Statement, entities: set[str]) -> str:
    pages = [_article_url(pmid) for pmid in statement.edge.pmids[:1]]
    pages += [node_url(end) for end in (*_others(statement, entities), statement.source, statement.target)]
    pages += [source for source in statement.edge.provenance if source.startswith("https://") and ")" not in source]
    return next((page for page in pages if page), "")


def _article_url(pmid: str) -> str:
    number = _PMID.match(pmid)
    return _PUBMED.format(number[1]) if number else ""


def _source(statement: Statement) -> str:
    sources = "; ".join(statement.edge.provenance) or ("PubMed" if statement.edge.pmids else "source not named")
    value = p_value(statement)
    return sources if value is None else f"{sources}, p = {value:g}"


def _p_values(evidence: Mapping[str, Any]) -> Iterator[float]:
    """Yield the p-values of an edge's evidence.

    In edges merged from several, a value that differs is a list, and ``items`` may be one.
    """
    for key in _P_VALUES:
        values = evidence.get(key)
        for value in values if isinstance(values, list | tuple) else (values,):
            if (number := _number(value)) is not None:
                yield number
    told = _DISTILD.match(str(evidence.get("evidence", "")))
    if told and (number := _number(told[1])) is not None:
        yield number
    items = evidence.get("items")
    for item in items if isinstance(items, list | tuple) else ():
        for one in item if isinstance(item, list | tuple) else (item,):
            if isinstance(one, Mapping):
                yield from _p_values({key: value for key, value in one.items() if key != "items"})


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _plain(title: str) -> str:
    """Return a title without brackets, which could end the text of a Markdown link."""
    return " ".join(title.split()).replace("[", "(").replace("]", ")")

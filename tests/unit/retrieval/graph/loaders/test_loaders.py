"""Each published form is read; a bad record is named and passed over, a bad file is refused."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from graph_files import (
    HETIONET,
    KGX_EDGES,
    KGX_NODES,
    OPEN_EDGES,
    PRIMEKG_HEADER,
    PRIMEKG_ROWS,
    SPOKE,
    write_hetionet,
    write_kgx_archive,
    write_lines,
)

from retrieval.errors import GRAPH_INVALID, GraphError
from retrieval.graph.loaders.reading import Report
from retrieval.graph.store.catalog import KINDS
from retrieval.graph.types import Edge, Node

DATA = Path(os.environ.get("ARROWHEAD_EVAL_DATA", Path(__file__).parents[6] / "shared" / "data")) / "kg"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the evaluation data are not beside the checkout")


def _read(kind: str, *files: Path) -> tuple[dict[str, Node], list[Edge], Report]:
    report = Report()
    loader = KINDS[kind].open(files, report)
    nodes: dict[str, Node] = {}
    for node in loader.nodes():
        nodes.setdefault(node.node_id, node)
    return nodes, list(loader.edges()), report


@pytest.mark.parametrize("name", ["hetionet-v1.0.json", "hetionet-v1.0.json.bz2"])
def test_hetionet_is_read_plain_and_packed(tmp_path: Path, name: str) -> None:
    """Numbers as identifiers, both of source and sources, the licence of each edge."""
    nodes, edges, report = _read("hetionet", write_hetionet(tmp_path / name))
    assert report.passed == 0
    assert nodes["Gene::6622"].name == "SNCA"
    assert [edge.kind for edge in edges] == ["CtD", "DaG", "Gr>G"]
    assert edges[0].licence == "CC0 1.0"
    assert edges[1].provenance == ("DISEASES", "GWAS Catalog")
    assert edges[1].pmids == ("19915575", "22451204")
    assert edges[2].evidence == {"subtypes": ["knockdown"], "z_score": -4.1, "unbiased": True}


def test_a_bad_record_of_hetionet_is_named_with_its_line(tmp_path: Path) -> None:
    """The others are read."""
    bad = {"source_id": ["Gene"], "target_id": ["Gene", 1], "kind": "regulates"}
    graph: dict[str, Any] = {**HETIONET, "edges": [HETIONET["edges"][0], bad, HETIONET["edges"][1]]}
    path = write_hetionet(tmp_path / "h.json", graph)
    line = path.read_text(encoding="utf-8").split("\n").index('        "Gene"') + 1
    _, edges, report = _read("hetionet", path)
    assert len(edges) == 2
    [(place, reason)] = report.first
    assert place.startswith("h.json:")
    assert abs(int(place.removeprefix("h.json:")) - line) <= 3
    assert "pair of kind and identifier" in reason


@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_a_cut_file_is_refused(tmp_path: Path, kept: float) -> None:
    """Plain or packed, with the file's name."""
    for name in ("h.json", "h.json.bz2"):
        path = write_hetionet(tmp_path / name)
        path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
        with pytest.raises(GraphError, match=name, check=GRAPH_INVALID.is_of):
            _read("hetionet", path)


def test_primekgs_doubled_rows_are_one_edge(tmp_path: Path) -> None:
    """Both rows come out alike, in the direction in which the relation reads."""
    nodes, edges, report = _read("primekg", write_lines(tmp_path / "kg.csv", PRIMEKG_HEADER, *PRIMEKG_ROWS))
    assert report.passed == 0
    assert len(edges) == 6
    distinct = list(dict.fromkeys(edge.edge_id for edge in edges))
    assert distinct == [
        "drug::DrugBank:DB01235|indication|disease::MONDO:13924",
        "gene/protein::NCBI:120892|protein_protein|gene/protein::NCBI:6622",
        "disease::MONDO:13924|disease_protein|gene/protein::NCBI:6622",
    ]
    assert nodes["drug::DrugBank:DB01235"].name == "Levodopa, oral"


def test_a_bad_row_of_primekg_is_passed_over(tmp_path: Path) -> None:
    """A missing column and an open quote, each once though the file is read twice."""
    path = write_lines(tmp_path / "kg.csv", PRIMEKG_HEADER, PRIMEKG_ROWS[0], "a,b", 'x,"y' + "," * 10, PRIMEKG_ROWS[2])
    _, edges, report = _read("primekg", path)
    assert len(edges) == 2
    assert [place for place, _ in report.first] == ["kg.csv:3", "kg.csv:4"]


def test_another_csv_is_refused(tmp_path: Path) -> None:
    """The header tells."""
    with pytest.raises(GraphError, match="no column relation", check=GRAPH_INVALID.is_of):
        _read("primekg", write_lines(tmp_path / "kg.csv", "a,b", "1,2"))


def test_kgx_is_read_from_an_archive_and_from_files(tmp_path: Path) -> None:
    """The same either way; a negated edge keeps that it is one."""
    files = write_lines(tmp_path / "n.tsv.gz", *KGX_NODES), write_lines(tmp_path / "e.tsv", *KGX_EDGES)
    nodes, edges, report = _read("kgx", *files)
    assert _read("kgx", write_kgx_archive(tmp_path / "monarch-kg.tar.gz")) == (nodes, edges, report)
    assert nodes["Gene::HGNC:11138"].kind == "Gene"
    assert nodes["Disease::MONDO:0005180"].synonyms == ("paralysis agitans", "PD")
    assert [edge.kind for edge in edges] == ["has_phenotype", "causes", "NOT:has_phenotype"]
    assert edges[0].pmids == ("1",)
    assert edges[0].evidence["publications"] == ["DOI:2"]
    assert edges[0].provenance == ("hpo-annotations", "hpoa")


def _kgx_records(lines: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows of a table as KGX's JSON has them: lists, truth values, no empty members."""
    header, *rows = (line.split("\t") for line in lines)
    records = []
    for row in rows:
        record: dict[str, Any] = {name: cell for name, cell in zip(header, row, strict=True) if cell}
        several = ("category", "synonym", "publications")
        record |= {name: record[name].split("|") for name in several if name in record}
        records.append(record | ({"negated": record["negated"] == "True"} if "negated" in record else {}))
    return records


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "json in one line", "archive"])
def test_kgx_is_the_same_graph_in_each_of_its_forms(tmp_path: Path, form: str) -> None:
    """As Monarch, RTX-KG2 and ROBOKOP publish it."""
    tables = write_lines(tmp_path / "n.tsv", *KGX_NODES), write_lines(tmp_path / "e.tsv", *KGX_EDGES)
    nodes, edges, _ = _read("kgx", *tables)
    records = {"nodes": _kgx_records(KGX_NODES), "edges": _kgx_records(KGX_EDGES)}
    files = []
    for name, lines in (("nodes", KGX_NODES), ("edges", KGX_EDGES)):
        content = (
            "\n".join(",".join(f'"{cell}"' for cell in line.split("\t")) for line in lines)
            if form == "csv"
            else "".join(f"{json.dumps(record)}\n" for record in records[name])
        )
        files.append(write_lines(tmp_path / f"{name}.{form}", content))
    if form.startswith("json") and form != "jsonl":
        files = [write_lines(tmp_path / "g.json", json.dumps(records, indent=None if "line" in form else 2))]
    elif form == "archive":
        with tarfile.open(tmp_path / "g.tar.gz", "w:gz", format=tarfile.GNU_FORMAT) as archive:
            for file in files:
                archive.add(file, arcname=f"g/{file.stem}.jsonl")
        files = [tmp_path / "g.tar.gz"]
    found, found_edges, report = _read("kgx", *files)
    assert report.passed == 0
    assert found == nodes
    assert [(edge.kind, edge.source_id, edge.target_id, edge.pmids) for edge in found_edges] == [
        (edge.kind, edge.source_id, edge.target_id, edge.pmids) for edge in edges
    ]
    assert found_edges[0].evidence["publications"] == ["DOI:2"]


def test_cells_that_a_row_of_kgx_lacks_at_its_end_are_empty(tmp_path: Path) -> None:
    """As spreadsheets leave them out; more cells than there are columns stay a fault."""
    nodes = write_lines(
        tmp_path / "n.tsv", "id\tname\tcategory\ttaxon", "MONDO:1\tfever\tbiolink:Disease", "a\tb\tc\td\te"
    )
    edges = write_lines(
        tmp_path / "e.csv", "subject,predicate,object,publications", "MONDO:1,biolink:related_to,MONDO:1", "a,b,c,d,e"
    )
    found, found_edges, report = _read("kgx", nodes, edges)
    assert list(found) == ["Disease::MONDO:1"]
    assert [edge.kind for edge in found_edges] == ["related_to"]
    assert {place for place, _ in report.first} == {"n.tsv:3", "e.csv:3"}


def test_a_line_of_kgx_that_is_no_record_is_named(tmp_path: Path) -> None:
    """Once, though the file is read twice."""
    edges = write_lines(tmp_path / "e.jsonl", *(json.dumps(record) for record in _kgx_records(KGX_EDGES)), "{cut")
    _, found, report = _read("kgx", write_lines(tmp_path / "n.tsv", *KGX_NODES), edges)
    assert len(found) == 3
    assert [place for place, _ in report.first] == ["e.jsonl:4"]


def test_kgx_without_edges_is_refused(tmp_path: Path) -> None:
    """Half of a graph is none."""
    with pytest.raises(GraphError, match="edges", check=GRAPH_INVALID.is_of):
        _read("kgx", write_lines(tmp_path / "n.tsv", *KGX_NODES))


@pytest.mark.parametrize("form", ["array", "reply in a line", "items in lines", "indented"])
def test_spokes_replies_are_read_in_each_form(tmp_path: Path, form: str) -> None:
    """An edge may stand before its ends."""
    lines = {
        "array": [json.dumps(SPOKE)],
        "reply in a line": [json.dumps(SPOKE), json.dumps(SPOKE)],
        "items in lines": [json.dumps(item) for item in SPOKE],
        "indented": [json.dumps(SPOKE, indent=1)],
    }[form]
    nodes, edges, report = _read("spoke", write_lines(tmp_path / "s.json", *lines))
    assert report.passed == 0
    assert set(nodes) == {"Disease::DOID:14330", "Compound::inchikey:X", "Gene::6622", "Protein::P37840"}
    treats = next(edge for edge in edges if edge.kind == "TREATS_CtD")
    assert treats.provenance == ("ChEMBL", "DrugCentral")
    assert treats.evidence == {"phase": 4}


def test_articles_and_preprints_of_spoke_are_sources(tmp_path: Path) -> None:
    """An edge with only them cites them; one with a number as its source has it as text; one with none cites SPOKE."""
    _, edges, _ = _read("spoke", write_lines(tmp_path / "s.json", json.dumps(SPOKE)))
    by_kind = {edge.kind: edge for edge in edges}
    assert by_kind["MARKER_POS_GmpD"].pmids == ("12345", "67890")
    assert by_kind["MARKER_POS_GmpD"].provenance == ("10.1101/2020.01.01",)
    assert by_kind["ENCODES_GeP"].provenance == ("7",)
    assert by_kind["MARKER_NEG_GmnD"].provenance == ("SPOKE-KG",)


def test_open_edges_tell_treating_from_relieving(tmp_path: Path) -> None:
    """What PharmacotherapyDB lists as symptomatic is no treatment of the disease."""
    nodes, edges, report = _read("open-edges", write_lines(tmp_path / "o.jsonl", *map(json.dumps, OPEN_EDGES), "{cut"))
    assert [edge.kind for edge in edges] == ["ASSOCIATES_DaG", "PALLIATES_CpD"]
    assert edges[0].provenance == ("DISEASES", "GWAS")
    assert edges[0].pmids == ("20860503",)
    assert edges[1].source_id == "Compound::DB01001"
    assert nodes["Disease::DOID:2841"].name == "asthma"
    assert [place for place, _ in report.first] == ["o.jsonl:3"]


def test_own_tables_need_their_columns(tmp_path: Path) -> None:
    """A row with another number of cells, or evidence that is no JSON object, is passed over."""
    nodes = write_lines(
        tmp_path / "n.tsv", "# made by hand", "kind\tidentifier\tname", "Gene\t1\tA", "Gene\t2", "G\t\tx"
    )
    edges = write_lines(tmp_path / "e.tsv", "source\tkind\ttarget\tevidence", "1\tr\tGene::1\t{}", "1\tr\t1\t[1]")
    found, read, report = _read("tsv", nodes, edges)
    assert list(found) == ["Gene::1"]
    assert len(read) == 1
    assert [place for place, _ in report.first] == ["n.tsv:4", "n.tsv:5", "e.tsv:3"]
    with pytest.raises(GraphError, match="neither the columns", check=GRAPH_INVALID.is_of):
        _read("tsv", write_lines(tmp_path / "x.tsv", "a\tb", "1\t2"))


def test_names_from_outside_stay_on_one_line(tmp_path: Path) -> None:
    """A line break in a name would begin a new line of whatever it is put into."""
    node = {
        "id": 5,
        "neo4j_type": "Gene",
        "properties": {"identifier": 5, "name": "A\n\nB\ud800", "synonyms": ["\0 c"]},
    }
    nodes, _, report = _read("spoke", write_lines(tmp_path / "s.json", json.dumps([{"data": node}])))
    assert nodes["Gene::5"].name == "A B\ufffd"
    assert nodes["Gene::5"].synonyms == ("c",)
    assert report.passed == 0


@pytest.mark.shared_data
@needs_data
def test_a_recorded_reply_is_read_whole() -> None:
    """113 edges of Parkinson's disease; each that has two fields of sources keeps both."""
    nodes, edges, report = _read("spoke", DATA / "spoke_neighborhood_parkinsons.json.gz")
    assert (len(nodes), len(edges), report.passed) == (114, 113, 0)
    both = [edge for edge in edges if edge.kind == "TREATS_CtD" and len(edge.provenance) > 1]
    assert len([edge for edge in both if "DrugCentral" in edge.provenance]) == 19


@pytest.mark.shared_data
@needs_data
def test_all_open_edges_are_read() -> None:
    """13,097 of them, none without source and licence."""
    _, edges, report = _read("open-edges", DATA / "open_kg_sample.jsonl.gz")
    assert (len(edges), report.passed) == (13_097, 0)
    assert all(edge.provenance and edge.licence for edge in edges)


def test_quoted_cells_of_kgx_are_read_as_they_were_meant(tmp_path: Path) -> None:
    """Monarch's writer puts quotes around cells that hold one, and doubles those inside."""
    nodes = write_lines(tmp_path / "n.tsv", *KGX_NODES, 'CHEBI:1\tbiolink:Drug\t"5""-deoxy ""X"""\t"a""b|c"\tx')
    found = _read("kgx", nodes, write_lines(tmp_path / "e.tsv", *KGX_EDGES))[0]["Drug::CHEBI:1"]
    assert (found.name, found.synonyms) == ('5"-deoxy "X"', ('a"b', "c"))


@pytest.mark.parametrize("name", ['5"-X', '"a" and "b"', '"'])
def test_a_quote_within_a_kgx_cell_is_a_quote(tmp_path: Path, name: str) -> None:
    """A cell is unpacked only where all of it was packed."""
    nodes = write_lines(tmp_path / "n.tsv", *KGX_NODES, f"CHEBI:1\tbiolink:Drug\t{name}\t\tx")
    assert _read("kgx", nodes, write_lines(tmp_path / "e.tsv", *KGX_EDGES))[0]["Drug::CHEBI:1"].name == name


def test_a_quoted_header_of_primekg_is_read(tmp_path: Path) -> None:
    """As programs write it that quote every text."""
    header = ",".join(f'"{column}"' for column in PRIMEKG_HEADER.split(","))
    assert len(_read("primekg", write_lines(tmp_path / "kg.csv", header, *PRIMEKG_ROWS))[1]) == len(PRIMEKG_ROWS)


def _nested(levels: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return {"deep": value}


def test_attributes_nested_without_end_are_passed_over(tmp_path: Path) -> None:
    """Whoever tells or compares them later would run out of stack."""
    evidence = json.dumps(_nested(200))
    edges = ("source\tkind\ttarget\tevidence", f"A::1\tX\tA::2\t{evidence}", f"A::1\tY\tA::2\t{json.dumps(_nested(9))}")
    nodes = write_lines(tmp_path / "n.tsv", "kind\tidentifier\tname", "A\t1\tone", "A\t2\ttwo")
    _, found, report = _read("tsv", nodes, write_lines(tmp_path / "e.tsv", *edges))
    assert [edge.kind for edge in found] == ["Y"]
    assert report.first == [("e.tsv:2", "its attributes are nested too deep")]
    hetionet = json.loads(json.dumps(HETIONET))
    hetionet["edges"][0]["data"] |= _nested(200)
    assert _read("hetionet", write_hetionet(tmp_path / "h.json", hetionet))[2].passed == 1
    spoke = json.loads(json.dumps(SPOKE))
    spoke[1]["data"]["properties"] |= _nested(200)
    assert _read("spoke", write_lines(tmp_path / "s.json", json.dumps(spoke)))[2].passed == 1
    row = OPEN_EDGES[0] | {"evidence": _nested(200)}
    assert _read("open-edges", write_lines(tmp_path / "o.jsonl", json.dumps(row)))[2].passed == 1


@pytest.mark.parametrize("tail", ["", "\n{}"])
def test_brackets_without_end_are_refused(tmp_path: Path, tail: str) -> None:
    """Not by running out of stack."""
    with pytest.raises(GraphError, match="nested more than 500 deep", check=GRAPH_INVALID.is_of):
        _read("spoke", write_lines(tmp_path / "s.json", "[" * 100_000 + tail))


def test_lists_of_lists_without_end_name_nothing(tmp_path: Path) -> None:
    """Synonyms and sources come as lists; nobody's are four hundred deep."""
    deep: Any = "x"
    for _ in range(400):
        deep = [deep]
    spoke = json.loads(json.dumps(SPOKE))
    spoke[2]["data"]["properties"] |= {"synonyms": deep, "source": deep}
    nodes, _, _ = _read("spoke", write_lines(tmp_path / "s.json", json.dumps(spoke)))
    assert nodes["Compound::inchikey:X"].synonyms == ()

"""A graph is built whole or not at all, read with all its facts, and tells when a byte has changed."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from graph_child import NAME, CountingEncoder, order_of
from graph_files import HETIONET, PRIMEKG_HEADER, PRIMEKG_ROWS, write_hetionet, write_lines, write_tables

from models.encoders.base import PassageText
from models.encoders.hashing import HashingEncoder
from retrieval.errors import GRAPH_BUSY, GRAPH_DAMAGED, GRAPH_INVALID, GRAPH_NODE_UNKNOWN, GraphError
from retrieval.graph.store.catalog import ImportRequest, build_graph, graph_names, open_graph
from retrieval.graph.store.files import read_manifest, verify
from retrieval.graph.store.reader import LocalGraph
from retrieval.graph.types import GraphStore, Node
from retrieval.storage.files import build_lock

ROOT = Path(__file__).parents[5]
CHILD = Path(__file__).parents[4] / "data" / "graph_child.py"
ENCODER = HashingEncoder(dim=32)


def _built(tmp_path: Path, *lines: str, name: str = "own") -> LocalGraph:
    """Of the tables' edges between two diseases and two genes."""
    header = "kind\tidentifier\tname\tsynonyms"
    rows = ("Disease\tD:1\tParkinson's disease\tPD|paralysis agitans", "Disease\tD:2\tAsthma\t", "Gene\t1\tSNCA\tPARK1")
    nodes = write_lines(tmp_path / "nodes.tsv", header, *rows, "Gene\t2\tLRRK2\t")
    columns = "source\tkind\ttarget\tprovenance\tpmids\tevidence\tlicence"
    edges = write_lines(tmp_path / "edges.tsv", columns, *(lines or ("D:1\tASSOCIATES_DaG\t1\tX\t7\t{}\tCC0",)))
    build_graph(tmp_path / "graphs", ImportRequest(kind="tsv", files=(nodes, edges), name=name), ENCODER)
    return open_graph(tmp_path / "graphs", name, ENCODER.fingerprint)


def test_a_graph_gives_back_what_was_imported(tmp_path: Path) -> None:
    """Both directions of an edge, its facts, and its vector as the encoder makes it."""
    graph = _built(
        tmp_path,
        'Disease::D:1\tASSOCIATES_DaG\tGene::1\tGWAS Catalog|DISEASES\t1|2\t{"gwas_pvalue":6e-65}\tCC BY 4.0',
        "2\tregulates\t1\t\t\t\t",
    )
    store: GraphStore = graph
    assert graph.name == store.graph == "own"
    found = store.statements("Gene::1")
    assert [statement.text for statement in found] == [
        "Disease Parkinson's disease is associated with Gene SNCA",
        "Gene LRRK2 regulates Gene SNCA",
    ]
    edge = found[0].edge
    assert (edge.provenance, edge.pmids, edge.licence) == (("GWAS Catalog", "DISEASES"), ("1", "2"), "CC BY 4.0")
    assert edge.evidence == {"gwas_pvalue": 6e-65}
    assert found[0].source.synonyms == ("PD", "paralysis agitans")
    assert [s.edge.kind for s in store.statements("Gene::1", frozenset({"regulates"}))] == ["regulates"]
    assert store.statements("Gene::none") == ()
    vectors = store.vectors([found[1].row, found[0].row, found[1].row])
    wanted = ENCODER.encode_passages([PassageText("", found[n].text) for n in (1, 0, 1)])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, wanted, atol=1e-3)
    with pytest.raises(IndexError):
        store.vectors([2])


def test_rows_that_say_the_same_become_one_edge_with_all_sources(tmp_path: Path) -> None:
    """No source, article or attribute of the second one is lost."""
    graph = _built(
        tmp_path,
        'D:1\tr\t1\tChEMBL\t1\t{"phase":4,"a":1}\tCC0',
        'D:1\tr\t1\tDrugCentral|ChEMBL\t2\t{"phase":3,"a":1}\tCC BY 4.0',
    )
    [statement] = graph.statements("Disease::D:1")
    assert statement.edge.provenance == ("ChEMBL", "DrugCentral")
    assert statement.edge.pmids == ("1", "2")
    assert statement.edge.evidence == {"phase": [4, 3], "a": 1}
    assert statement.edge.licence == "CC0; CC BY 4.0"


def test_evidence_that_json_cannot_say_is_kept_as_far_as_it_can(tmp_path: Path) -> None:
    """A number beyond all numbers becomes null, half a character the replacement character."""
    graph = _built(tmp_path, 'D:1\tr\t1\t\t\t{"p":1e999,"q":[NaN,2],"t":"\\ud800"}\t')
    [statement] = graph.statements("Disease::D:1")
    assert statement.edge.evidence == {"p": None, "q": [None, 2], "t": "\ufffd"}


def test_primekgs_two_rows_are_kept_as_one_edge(tmp_path: Path) -> None:
    """Six rows, three edges."""
    path = write_lines(tmp_path / "kg.csv", PRIMEKG_HEADER, *PRIMEKG_ROWS)
    built = build_graph(tmp_path / "graphs", ImportRequest(kind="primekg", files=(path,), name="prime"), ENCODER)
    assert (built.manifest.nodes, built.manifest.edges) == (4, 3)


def test_names_come_with_synonyms_and_kinds(tmp_path: Path) -> None:
    """The graph's own name first."""
    graph = _built(tmp_path)
    names = list(graph.names())
    assert [(n.name, n.is_synonym) for n in names if n.kind == "Disease"] == [
        ("Parkinson's disease", False),
        ("PD", True),
        ("paralysis agitans", True),
        ("Asthma", False),
    ]
    assert len(names) == 7


def test_a_node_is_found_by_id_identifier_and_any_name(tmp_path: Path) -> None:
    """Letter case and blanks do not count."""
    graph = _built(tmp_path)
    for text in ("Disease::D:1", "D:1", "parkinson's  DISEASE", "pd"):
        assert [node.node_id for node in graph.find(text)] == ["Disease::D:1"]
    assert graph.find("nothing") == ()


async def test_a_renamed_node_is_found_by_its_name_and_an_unknown_one_says_so(tmp_path: Path) -> None:
    """An identifier of another release does not hide the node."""
    graph = _built(tmp_path)
    old = Node(node_id="Disease::OLD", kind="Disease", name="paralysis agitans", identifier="OLD")
    found = await graph.neighbourhood(old)
    assert (found.node.node_id, len(found.statements), found.complete) == ("Disease::D:1", 1, True)
    with pytest.raises(GraphError, match="no Disease 'x'", check=GRAPH_NODE_UNKNOWN.is_of):
        await graph.neighbourhood(Node(node_id="Disease::x", kind="Disease", name="x", identifier="x"))


def test_an_edge_without_its_node_is_reported_with_file_and_line(tmp_path: Path) -> None:
    """The others are kept."""
    rows = ("kind\tidentifier\tname", "Gene\t1\tA", "Protein\t1\tB", "Gene\t2\tC")
    nodes = write_lines(tmp_path / "n.tsv", *rows)
    edges = write_lines(tmp_path / "e.tsv", "source\tkind\ttarget", "Gene::1\tr\t2", "Gene::9\tr\t2", "1\tr\t2")
    built = build_graph(tmp_path / "graphs", ImportRequest(kind="tsv", files=(nodes, edges), name="own"), ENCODER)
    assert built.manifest.edges == 1
    assert [place for place, _ in built.report.first] == ["e.tsv:3", "e.tsv:4"]


def test_a_bad_file_changes_nothing(tmp_path: Path) -> None:
    """The graph that stands there stays, and no draft is left."""
    graph = _built(tmp_path)
    before = (graph.folder / "manifest.json").read_bytes()
    bad = write_hetionet(tmp_path / "h.json")
    bad.write_bytes(bad.read_bytes()[:-40])
    with pytest.raises(GraphError, check=GRAPH_INVALID.is_of):
        build_graph(tmp_path / "graphs", ImportRequest(kind="hetionet", files=(bad,), name="own"), ENCODER)
    empty = write_hetionet(tmp_path / "e.json", {**HETIONET, "edges": []})
    with pytest.raises(GraphError, match="no edge", check=GRAPH_INVALID.is_of):
        build_graph(tmp_path / "graphs", ImportRequest(kind="hetionet", files=(empty,), name="own"), ENCODER)
    assert (graph.folder / "manifest.json").read_bytes() == before
    assert [path.name for path in (tmp_path / "graphs").iterdir() if path.is_dir()] == ["own"]


def test_a_new_release_takes_the_place_and_old_readers_go_on(tmp_path: Path) -> None:
    """Whoever has the old one open reads it to the end."""
    old = _built(tmp_path)
    new = _built(tmp_path, "D:2\tr\t1\t\t\t\t", "D:2\tr\t2\t\t\t\t")
    assert [s.edge.source_id for s in old.statements("Gene::1")] == ["Disease::D:1"]
    assert old.vectors([0]).shape == (1, 32)
    assert len(new.statements("Disease::D:2")) == 2
    assert old.release != new.release
    assert graph_names(tmp_path / "graphs") == ("own",)


def test_the_same_files_are_not_built_twice(tmp_path: Path) -> None:
    """But they are for another encoder, which else would be taken for the first."""
    files = write_tables(tmp_path / "in", 500, nodes=50)
    order = ImportRequest(kind="tsv", files=files, name="own")
    counting = CountingEncoder()
    assert not build_graph(tmp_path, order, counting).already
    assert build_graph(tmp_path, order, counting).already
    assert counting.texts == 500
    with pytest.raises(GraphError, match="not of", check=GRAPH_DAMAGED.is_of):
        open_graph(tmp_path, "own", HashingEncoder(dim=64).fingerprint)
    assert not build_graph(tmp_path, order, HashingEncoder(dim=64)).already


@pytest.mark.parametrize("name", ["graph.sqlite", "vectors.npy", "offsets.npy", "rows.npy", "manifest.json"])
def test_a_flipped_byte_is_found(tmp_path: Path, name: str) -> None:
    """In any file."""
    graph = _built(tmp_path)
    graph.close()
    path = graph.folder / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    _, faults = verify(graph.folder)
    assert faults
    assert name in faults[0]


@pytest.mark.parametrize("name", ["graph.sqlite", "vectors.npy", "offsets.npy", "rows.npy"])
def test_a_cut_or_missing_file_is_not_opened(tmp_path: Path, name: str) -> None:
    """The file is named."""
    graph = _built(tmp_path)
    graph.close()
    path = graph.folder / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(GraphError, match=name, check=GRAPH_DAMAGED.is_of):
        open_graph(tmp_path / "graphs", "own")
    path.unlink()
    with pytest.raises(GraphError, match=name, check=GRAPH_DAMAGED.is_of):
        open_graph(tmp_path / "graphs", "own")


@pytest.mark.server
@pytest.mark.parametrize(
    ("step", "turn"),
    [("nodes", 1), ("edges", 2), ("merged", 1), ("encode", 1), ("encode", 40), ("lists", 1), ("digests", 1)],
)
def test_a_killed_build_leaves_the_old_graph_and_is_gone_on_with(tmp_path: Path, step: str, turn: int) -> None:
    """kill -9: the same import then makes what it would have made, and embeds nothing again that is on the disk."""
    files = tmp_path / "in"
    write_tables(files, 12_000, nodes=300)
    old = write_tables(tmp_path / "old", 10, nodes=10)
    build_graph(tmp_path / "graphs", ImportRequest(kind="tsv", files=old, name=NAME), CountingEncoder())
    path = os.pathsep.join((str(CHILD.parent), str(ROOT)))
    command = [sys.executable, str(CHILD), str(tmp_path / "graphs"), str(files), step, str(turn)]
    assert subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, timeout=60, check=False).returncode == -9
    assert read_manifest(tmp_path / "graphs" / NAME).edges == 10
    encoder = CountingEncoder()
    resumed = build_graph(tmp_path / "graphs", order_of(files), encoder)
    whole = build_graph(tmp_path / "whole", order_of(files), CountingEncoder())
    assert resumed.manifest.files == whole.manifest.files
    assert verify(tmp_path / "graphs" / NAME)[1] == ()
    embedded = {"lists": 0, "digests": 0}.get(step, 12_000 - 8192 if turn == 40 else 12_000)
    assert encoder.texts == embedded


def test_two_builds_at_once_end_with_one_graph(tmp_path: Path) -> None:
    """The second waits for the first and finds its work, or is told that it is busy."""
    files = write_tables(tmp_path / "in", 2000, nodes=50)
    patient = ImportRequest(kind="tsv", files=files, name="own", wait_s=60)
    with ThreadPoolExecutor(2) as pool:
        built = list(pool.map(lambda _: build_graph(tmp_path, patient, CountingEncoder()), range(2)))
    assert sorted(one.already for one in built) == [False, True]
    with build_lock(tmp_path / "own", 0), pytest.raises(GraphError, check=GRAPH_BUSY.is_of):
        build_graph(tmp_path, ImportRequest(kind="tsv", files=files, name="own"), CountingEncoder())


def test_a_graph_that_is_replaced_meanwhile_is_opened_of_one_piece(tmp_path: Path) -> None:
    """Vectors, lists and edges of one build, whichever it is."""
    orders = []
    for turn in (1, 2):
        files = write_tables(tmp_path / f"in{turn}", 40 * turn, nodes=20)
        orders.append(ImportRequest(kind="tsv", files=files, name="own"))
    build_graph(tmp_path, orders[0], ENCODER)

    def replace(_: int) -> None:
        for turn in range(20):
            build_graph(tmp_path, orders[(turn + 1) % 2], ENCODER)

    with ThreadPoolExecutor(1) as pool:
        building = pool.map(replace, [0])
        for _ in range(60):
            try:
                graph = open_graph(tmp_path, "own")
            except GraphError as error:
                assert GRAPH_BUSY.is_of(error)
                continue
            found = graph.statements("Disease::D3")
            assert len(found) == graph.manifest.edges // 20
            assert len(graph.vectors(range(graph.manifest.edges))) == graph.manifest.edges
            graph.close()
        list(building)


def test_a_large_graph_is_read_from_many_threads(tmp_path: Path) -> None:
    """50,000 edges: each node has its own, and the vectors fit."""
    files = write_tables(tmp_path / "in", 50_000)
    build_graph(tmp_path, ImportRequest(kind="tsv", files=files, name="own"), ENCODER)
    graph = open_graph(tmp_path, "own")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: graph.statements(f"Disease::D{n}"), range(0, 1000, 25)))
    assert {len(statements) for statements in found} == {50}
    statement = found[7][30]
    wanted = ENCODER.encode_passages([PassageText("", statement.text)])
    np.testing.assert_allclose(graph.vectors([statement.row]), wanted, atol=1e-3)
    assert verify(tmp_path / "own")[1] == ()
    graph.close()
    with pytest.raises(GraphError, check=GRAPH_DAMAGED.is_of):
        graph.statements("Disease::D1")


@pytest.mark.parametrize("name", ["", "../x", "A", "a b", ".hidden"])
def test_a_name_cannot_leave_the_folder(tmp_path: Path, name: str) -> None:
    """Neither to build nor to open."""
    with pytest.raises(GraphError, match="no name of a graph"):
        build_graph(tmp_path, ImportRequest(kind="tsv", files=(), name=name), ENCODER)
    with pytest.raises(GraphError, match="no name of a graph"):
        open_graph(tmp_path, name)

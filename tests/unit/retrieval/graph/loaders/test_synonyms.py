"""Files of synonyms, in the forms in which their makers publish them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from retrieval.errors import GRAPH_INVALID, GraphError
from retrieval.graph.loaders.reading import Report
from retrieval.graph.loaders.synonyms import SynonymLoader, read_synonyms
from retrieval.graph.loaders.tables import PlainLoader
from retrieval.graph.types import Node

OBO = """format-version: 1.2

[Term]
id: DOID:10763
name: hypertension
synonym: "high \\"blood\\" pressure" EXACT []
synonym: "vascular disease" BROAD []

[Term]
id: DOID:1
name: old
synonym: "older" EXACT []
is_obsolete: true
"""
MESH = """*NEWRECORD
RECTYPE = D
MH = Myocardial Infarction
ENTRY = Heart Attack|T047|EQV|UNK (19XX)
ENTRY = Infarction of the Wall|T047|NRW|UNK (19XX)
ENTRY = Cardiovascular Stroke
UI = D009203
"""
HGNC = "hgnc_id\tsymbol\tname\talias_symbol\tprev_symbol\tentrez_id\nHGNC:3430\tERBB2\treceptor\tHER2|NEU\tNGL\t2064\n"
DRUGBANK = (
    "DrugBank ID,Accession Numbers,Common name,CAS,UNII,Synonyms,Standard InChI Key\n"
    'DB00945,X,Acetylsalicylic acid,50-78-2,R,"Aspirin | 2-acetoxybenzoic acid",K\n'
)


def node(kind: str, identifier: str, name: str, *synonyms: str) -> Node:
    return Node(node_id=f"{kind}::{identifier}", kind=kind, name=name, identifier=identifier, synonyms=synonyms)


@pytest.mark.parametrize(
    ("content", "of", "names"),
    [
        (OBO, node("Disease", "DOID:10763", "hypertension"), ('high "blood" pressure',)),
        (OBO, node("Disease", "DOID:1", "old"), ()),
        (OBO, node("Gene", "1", "hypertension"), ()),
        (MESH, node("Disease", "MESH:D009203", "myocardial infarction"), ("Heart Attack", "Cardiovascular Stroke")),
        (HGNC, node("Gene", "2064", "ERBB2", "HER2"), ("NEU", "NGL", "receptor")),
        (HGNC, node("Compound", "2064", "some compound"), ()),
        (
            DRUGBANK,
            node("drug", "DrugBank:DB00945", "ASA"),
            ("Acetylsalicylic acid", "Aspirin", "2-acetoxybenzoic acid"),
        ),
        ("name\tsynonyms\nasthma\tbronchial asthma|wheeze\n", node("D", "1", "Asthma"), ("bronchial asthma", "wheeze")),
    ],
)
def test_equal_names_are_added_by_identifier_or_name(
    tmp_path: Path, content: str, of: Node, names: tuple[str, ...]
) -> None:
    """Broader, narrower and obsolete ones are not, nor those of another kind of node."""
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(content.encode()))
    found = read_synonyms([path], Report()).of(of)
    assert tuple(name for name in found if name.casefold() != of.name.casefold()) == names


def test_a_name_of_two_records_is_no_key(tmp_path: Path) -> None:
    """A wrong synonym is worse than none."""
    path = tmp_path / "own.tsv"
    path.write_text("identifier\tname\tsynonyms\n1\tlead\tPb\n2\tlead\tleader\n")
    table = read_synonyms([path], Report())
    assert table.of(node("Compound", "9", "lead")) == ()
    assert table.of(node("Compound", "1", "lead")) == ("Pb",)


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    """The message says what is expected."""
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(GraphError, match="no file of synonyms", check=GRAPH_INVALID.is_of):
        read_synonyms([path], Report())


def test_nodes_of_any_loader_get_them(tmp_path: Path) -> None:
    """Edges are the loader's own."""
    (tmp_path / "nodes.tsv").write_text("kind\tidentifier\tname\nGene\t2064\tERBB2\n")
    (tmp_path / "hgnc.tsv").write_text(HGNC)
    loader = SynonymLoader(
        PlainLoader([tmp_path / "nodes.tsv"], Report()), read_synonyms([tmp_path / "hgnc.tsv"], Report())
    )
    assert [one.synonyms for one in loader.nodes()] == [("HER2", "NEU", "NGL", "receptor")]
    assert list(loader.edges()) == []

"""Names in the gateway's store: whole, with their kinds and in their stored spelling."""

from __future__ import annotations

import pytest

from retrieval.formats.records import Article, Concept
from retrieval.gateway.query.names import StoreNames, names_of
from retrieval.gateway.store.open import open_store
from retrieval.types import NAME_KINDS, KnownName


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> StoreNames:
    return StoreNames(open_store(tmp_path_factory.mktemp("gateway")))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("psmb10", KnownName("PSMB10", "symbol")),
        ("LMP10", KnownName("LMP10", "alias")),
        ("N-Acetyltransferase 2", KnownName("N-acetyltransferase 2", "gene_name")),
        ("achondroplasia", KnownName("ACHONDROPLASIA", "disease")),
        ("tay-sachs disease", KnownName("TAY-SACHS DISEASE", "disease")),
        ("adenylate kinase 1", KnownName("ADENYLATE KINASE 1", "gene_name")),
        (
            "SCID due to ADA deficiency, delayed onset",
            KnownName("SCID DUE TO ADA DEFICIENCY, DELAYED ONSET", "disease"),
        ),
        ("homo sapiens", KnownName("Homo sapiens", "organism")),
        ("C. elegans", KnownName("C. elegans", "organism")),
        ("thale cress", KnownName("thale cress", "organism")),
    ],
)
def test_a_whole_name_is_found(names: StoreNames, name: str, known: KnownName) -> None:
    """In any letter case; parts of an OMIM title are names of their own."""
    assert known in tuple(names.find(name, NAME_KINDS))
    assert known not in tuple(names.find(name, set(NAME_KINDS) - {known.kind}))


@pytest.mark.parametrize(
    "name",
    ["PSMB", "PSMB10 x", "PSMB-10", "PSMB10.", "tay sachs disease", "disease", "kinase 1", "| |", "~", "", "…",
     "x" * 500, 'PSMB10" OR "x', "PSMB10*", "sym : PSMB10", "John Smith", "elegans", "C elegans."],
)  # fmt: skip
def test_parts_and_other_spellings_are_not(names: StoreNames, name: str) -> None:
    """Nor the syntax of the index."""
    assert tuple(names.find(name, NAME_KINDS)) == ()


def test_only_controlled_names_of_a_record_count() -> None:
    """An article's headings without their qualifiers; neither its title nor its authors and keywords."""
    article = Article(
        pmid=1, xml="", title="My patient coughs", abstract="", journal=("J",), date="2020", authors=("Smith J",),
        types=("Review",), mesh=("Breast Neoplasms/genetics",), mesh_major=("Lung",), keywords=("cough",), languages=(),
    )  # fmt: skip
    concept = Concept(uid=1, cui="C0000001", name="Marfan syndrome", definition="long", synonyms=("MFS",))

    assert list(names_of(article)) == [KnownName("Breast Neoplasms", "heading"), KnownName("Lung", "heading")]
    assert list(names_of(concept)) == [KnownName("Marfan syndrome", "disease"), KnownName("MFS", "disease")]

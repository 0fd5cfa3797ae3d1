"""gene_info, gene2pubmed and mim2gene_medgen."""

from __future__ import annotations

from pathlib import Path

import pytest
from ncbi_files import GENE_INFO_HEADER, entries, gene_row, items, reasons, saved

from retrieval.errors import ImportFileError
from retrieval.formats.items import Bad, Good, ReadOptions
from retrieval.formats.records import Gene, Link, OmimEntry, Organism
from scripts.samples import genes
from scripts.samples.world import World


def _genes(tmp_path: Path, *rows: str, options: ReadOptions | None = None) -> list[Gene]:
    found = entries("gene_info", saved(tmp_path / "gene_info", GENE_INFO_HEADER + "".join(rows)), options)
    return [entry for entry in found if isinstance(entry, Gene)]


def test_genes_come_back_as_they_were_written(tmp_path: Path) -> None:
    """Every field of gene_info that a gene record has; placeholders are no genes."""
    world = World(genes=600)
    genes.write_gene_info(tmp_path / "gene_info.gz", world)
    found = [one for one in entries("gene_info", tmp_path / "gene_info.gz") if isinstance(one, Gene)]
    facts = list(genes.genes(world))
    assert len(found) == 600
    for gene, fact in zip(found, facts, strict=True):
        assert (gene.gene_id, gene.symbol, gene.organism.tax_id) == (fact.gene_id, fact.symbol, fact.tax_id)
        assert gene.name == fact.full_name or fact.description
        assert gene.aliases == (*((fact.locus_tag,) if fact.locus_tag else ()), *fact.synonyms)
        assert gene.mim == tuple(r.removeprefix("MIM:") for r in fact.references if r.startswith("MIM:"))
        assert gene.ensembl == next((r[8:] for r in fact.references if r.startswith("Ensembl:")), "")
        assert gene.chromosome.replace(", ", "|") == fact.chromosome
        assert (gene.map_location, gene.gene_type, gene.designations) == (fact.location, fact.kind, fact.designations)
        assert gene.nomenclature == {"O": "Official", "I": "Interim", "": ""}[fact.status]
        assert gene.official_symbol == (fact.official if fact.official != fact.symbol else "")


def test_a_gene_has_an_entry_of_omim(tmp_path: Path) -> None:
    """Titled by the gene's record, as OMIM's own titles need a licence."""
    row = gene_row("2200", "FBN1", dbXrefs="MIM:134797|HGNC:HGNC:3603", description="fibrillin 1", map_location="15q21")
    gene, entry = entries("gene_info", saved(tmp_path / "file", GENE_INFO_HEADER + row))
    assert isinstance(gene, Gene)
    assert entry == OmimEntry(134797, "*", "fibrillin 1; FBN1", "", "15q21", is_of_gene=True)


def test_the_line_of_a_gene_is_its_line_in_the_file(tmp_path: Path) -> None:
    """Also behind comments, blank lines and passed rows."""
    text = GENE_INFO_HEADER + "\n# a remark\n" + gene_row("1", "NEWENTRY") + gene_row("2")
    (item,) = items("gene_info", saved(tmp_path / "file", text))
    assert isinstance(item, Good)
    assert item.line == 5


def test_the_full_name_comes_before_the_description(tmp_path: Path) -> None:
    """A description that differs stays among the designations."""
    (gene,) = _genes(
        tmp_path,
        gene_row(description="old words", Full_name_from_nomenclature_authority="new words", Other_designations="x|y"),
    )
    assert gene.name == "new words"
    assert gene.designations == ("old words", "x", "y")


def test_the_usual_organisms_have_names_without_a_taxonomy(tmp_path: Path) -> None:
    """Any other is called by its number."""
    human, mouse, other = _genes(tmp_path, gene_row(), gene_row(tax_id="10090"), gene_row(tax_id="424242"))
    assert human.organism == Organism(9606, "Homo sapiens", "human")
    assert mouse.organism.common_name == "house mouse"
    assert other.organism.scientific_name == "taxid 424242"


def test_an_imported_taxonomy_names_the_organisms(tmp_path: Path) -> None:
    """It comes before the built-in names."""
    known = Organism(9606, "Homo fictus", "person", ("man",))
    (gene,) = _genes(tmp_path, gene_row(), options=ReadOptions(organisms={9606: known}))
    assert gene.organism == known


def test_other_organisms_can_be_left_out(tmp_path: Path) -> None:
    """Even their malformed rows are of no concern."""
    rows = gene_row("1"), gene_row("2", tax_id="10090"), gene_row("x", tax_id="10090"), gene_row("3")
    assert [g.gene_id for g in _genes(tmp_path, *rows, options=ReadOptions(tax_ids=frozenset({9606})))] == [1, 3]


def test_a_gene_on_two_chromosomes_shows_both(tmp_path: Path) -> None:
    """As NCBI's own summary prints them."""
    (gene,) = _genes(tmp_path, gene_row(chromosome="X|Y"))
    assert gene.chromosome == "X, Y"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("9606\t7\tABC1\n", "3 columns, 16 expected"),
        (gene_row("seven"), "GeneID: a number was expected, not 'seven'"),
        (gene_row("-7"), "GeneID"),
        (gene_row("٧"), "GeneID"),
        (gene_row("9" * 30), "GeneID"),
        (gene_row(tax_id="human"), "tax_id"),
        (gene_row(Nomenclature_status="Q"), "Nomenclature_status: O, I or - was expected, not 'Q'"),
        (gene_row().replace("\n", "\tmore\n"), "17 columns"),
    ],
)
def test_a_malformed_row_is_told_and_the_next_one_read(tmp_path: Path, row: str, reason: str) -> None:
    """The reason names the column and what was expected."""
    found = items("gene_info", saved(tmp_path / "file", GENE_INFO_HEADER + row + gene_row("8")))
    assert isinstance(found[0], Bad)
    assert found[0].line == 2
    assert reason in found[0].reason
    assert isinstance(found[1], Good)


def test_a_row_in_latin1_is_malformed(tmp_path: Path) -> None:
    """It does not stop the import."""
    data = GENE_INFO_HEADER.encode() + gene_row(description="Müller").encode("latin-1") + gene_row("8").encode()
    first, second = items("gene_info", saved(tmp_path / "file", data))
    assert first == Bad(2, "the line is not valid UTF-8")
    assert isinstance(second, Good)


def test_windows_line_ends_and_a_missing_last_one_do_no_harm(tmp_path: Path) -> None:
    """Files are opened and saved by hand."""
    text = (GENE_INFO_HEADER + gene_row("1") + gene_row("2")).replace("\n", "\r\n").removesuffix("\r\n")
    assert len(entries("gene_info", saved(tmp_path / "file", text))) == 2


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    """Older files have no Feature_type, and a header of another form."""
    names = GENE_INFO_HEADER.strip("#\n").split("\t")[:15]
    text = f"#Format: {' '.join(names)} (tab is used as a separator, pound sign - start of a comment)\n"
    (gene,) = entries("gene_info", saved(tmp_path / "file", text + gene_row().removesuffix("\t-\n") + "\n"))
    assert isinstance(gene, Gene)
    assert gene.gene_id == 7


def test_a_file_without_its_header_is_refused(tmp_path: Path) -> None:
    """Columns are not guessed."""
    with pytest.raises(ImportFileError, match="line 1: this is no gene_info: no header with the columns tax_id GeneID"):
        items("gene_info", saved(tmp_path / "file", gene_row()))


def test_links_of_genes_and_articles_come_back(tmp_path: Path) -> None:
    """Filtered by organism where that is asked for."""
    text = "#tax_id\tGeneID\tPubMed_ID\n9606\t7\t100\n10090\t8\t101\n9606\tx\t1\n9606\t7\n"
    path = saved(tmp_path / "gene2pubmed.gz", text)
    first, second, third, fourth = items("gene2pubmed", path)
    assert first == Good(2, Link("gene", "7", "pubmed", "100"))
    assert second == Good(3, Link("gene", "8", "pubmed", "101"))
    assert isinstance(third, Bad)
    assert isinstance(fourth, Bad)
    human = items("gene2pubmed", path, options=ReadOptions(tax_ids=frozenset({9606})))
    assert [item.line for item in human] == [2, 4, 5]


def test_an_omim_number_is_linked_to_its_gene_and_its_concept(tmp_path: Path) -> None:
    """A dash is nothing; a concept has the number made of its CUI."""
    text = (
        "#MIM number\tGeneID\ttype\tSource\tMedGenCUI\tComment\n100050\t-\tphenotype\t-\tC3149220\t-\n"
        "100100\t1131\tphenotype\t GeneMap\tC0033770\tnondisease\n100640\t216\tgene\t-\t-\t-\n1\t-\tgene\t-\t-\t-\n"
    )
    assert entries("mim2gene_medgen", saved(tmp_path / "file", text)) == [
        Link("omim", "100050", "medgen", "1003149220"),
        Link("omim", "100100", "gene", "1131"),
        Link("omim", "100100", "medgen", "1000033770"),
        Link("omim", "100640", "gene", "216"),
    ]


def test_a_malformed_cui_is_told(tmp_path: Path) -> None:
    """One item for the row, whatever else it says."""
    text = "#MIM number\tGeneID\ttype\tSource\tMedGenCUI\tComment\n100050\t5\tphenotype\t-\tD123\t-\n"
    assert reasons("mim2gene_medgen", saved(tmp_path / "file", text)) == [
        (2, "CUI: C or CN and digits were expected, not 'D123'")
    ]

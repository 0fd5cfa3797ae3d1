"""ClinVar's variant_summary."""

from __future__ import annotations

from pathlib import Path

import pytest
from ncbi_files import entries, items, reasons, saved

from retrieval.errors import ImportFileError
from retrieval.formats.items import Bad
from retrieval.formats.records import Link, Variation
from scripts.samples import variations
from scripts.samples.world import World

_USUAL = {
    "#AlleleID": "15041", "Type": "Indel", "Name": "NM_014855.3(AP5Z1):c.80_83delinsTG", "GeneID": "9907",
    "GeneSymbol": "AP5Z1", "ClinicalSignificance": "Pathogenic", "LastEvaluated": "Dec 17, 2024",
    "RS# (dbSNP)": "397704705", "RCVaccession": "RCV000000012|RCV005255549", "Assembly": "GRCh38", "Chromosome": "7",
    "PhenotypeIDS": "MONDO:MONDO:0013342,MedGen:C3150901,OMIM:613647,Orphanet:306511||MedGen:C3661900",
    "PhenotypeList": "Hereditary spastic paraplegia 48||not provided", "Origin": "germline;unknown", "Start": "4781213",
    "Cytogenetic": "7p22.1", "ReviewStatus": "criteria provided, single submitter", "VariationID": "2",
    "PositionVCF": "4781212",
}  # fmt: skip
_COLUMNS = variations.HEADER.strip("\n").split("\t")


def _row(**cells: str) -> str:
    given = _USUAL | {
        {"RS": "RS# (dbSNP)", "AlleleID": "#AlleleID"}.get(name, name): cell for name, cell in cells.items()
    }
    return "\t".join(given.get(name, "-") for name in _COLUMNS) + "\n"


def _file(tmp_path: Path, *rows: str) -> Path:
    return saved(tmp_path / "variant_summary.txt.gz", variations.HEADER + "".join(rows))


def _variation(tmp_path: Path, *rows: str) -> Variation:
    (found,) = (entry for entry in entries("clinvar", _file(tmp_path, *rows)) if isinstance(entry, Variation))
    return found


def test_a_row_of_clinvar_becomes_a_variation_and_its_links(tmp_path: Path) -> None:
    """Identifiers of conditions are links where their database is imported."""
    assert entries("clinvar", _file(tmp_path, _row())) == [
        Variation(
            variation_id=2,
            allele_id=15041,
            name="NM_014855.3(AP5Z1):c.80_83delinsTG",
            kind="Indel",
            genes=(("AP5Z1", "9907"),),
            significance="Pathogenic",
            last_evaluated="2024-12-17",
            review_status="criteria provided, single submitter",
            rs="397704705",
            phenotypes=("Hereditary spastic paraplegia 48", "not provided"),
            phenotype_ids=(
                "MONDO:MONDO:0013342", "MedGen:C3150901", "OMIM:613647", "Orphanet:306511", "MedGen:C3661900",
            ),
            assembly="GRCh38",
            chromosome="7",
            position="4781213",
            cytogenetic="7p22.1",
            origin="germline;unknown",
            accessions=("RCV000000012", "RCV005255549"),
        ),
        Link("clinvar", "2", "gene", "9907"),
        Link("clinvar", "2", "snp", "397704705"),
        Link("clinvar", "2", "medgen", "1003150901"),
        Link("clinvar", "2", "omim", "613647"),
        Link("clinvar", "2", "medgen", "1003661900"),
    ]  # fmt: skip


def test_of_two_assemblies_the_newer_one_counts(tmp_path: Path) -> None:
    """In whichever order the rows stand."""
    older = _row(Assembly="GRCh37", Start="4820844")
    assert _variation(tmp_path, older, _row()).position == "4781213"
    assert _variation(tmp_path, _row(), older, _row(Assembly="NCBI36", Start="1")).assembly == "GRCh38"
    assert _variation(tmp_path, _row(Assembly="NCBI36", Start="1"), older).assembly == "GRCh37"


def test_as_many_variations_come_back_as_were_written(tmp_path: Path) -> None:
    """Most of them have two rows."""
    variations.write_variant_summary(tmp_path / "variant_summary.txt.gz", World(genes=400, snps=400))
    found = [e for e in entries("clinvar", tmp_path / "variant_summary.txt.gz") if isinstance(e, Variation)]
    assert [v.variation_id for v in found] == [variations.variation_id(at) for at in range(400)]
    assert {v.assembly for v in found} == {"GRCh38", "GRCh37", ""}


def test_what_is_absent_is_empty(tmp_path: Path) -> None:
    """-1, na and dashes stand for nothing; no links come of them."""
    row = _row(
        GeneID="-1", GeneSymbol="-", RS="-1", Start="-1", PositionVCF="-1", Assembly="na", Chromosome="na",
        LastEvaluated="-", PhenotypeIDS="-", PhenotypeList="-", RCVaccession="-", Cytogenetic="-",
    )  # fmt: skip
    (found,) = entries("clinvar", _file(tmp_path, row))
    assert isinstance(found, Variation)
    assert (found.genes, found.rs, found.position, found.assembly, found.chromosome) == ((), "", "", "", "")
    assert (found.last_evaluated, found.phenotypes, found.phenotype_ids, found.accessions) == ("", (), (), ())


def test_a_variation_over_several_genes_names_them_without_ids(tmp_path: Path) -> None:
    """A phrase about many genes names none."""
    assert _variation(tmp_path, _row(GeneID="-1", GeneSymbol="A;B")).genes == (("A", ""), ("B", ""))
    assert _variation(tmp_path, _row(GeneID="-1", GeneSymbol="subset of 44 genes: NRXN1")).genes == ()


def test_a_somatic_classification_stands_in_for_a_missing_germline_one(tmp_path: Path) -> None:
    """Since 2024 the three are apart."""
    assert _variation(tmp_path, _row(ClinicalSignificance="-", Oncogenicity="Oncogenic")).significance == "Oncogenic"


def test_an_older_file_has_fewer_columns(tmp_path: Path) -> None:
    """Columns are found by name."""
    keep = [name for name in _COLUMNS[:31] if name not in ("OriginSimple", "ChromosomeAccession")]
    row = "\t".join(_USUAL.get(name, "-") for name in keep)
    (found, *_) = entries("clinvar", saved(tmp_path / "file", "\t".join(keep) + "\n" + row + "\n"))
    assert isinstance(found, Variation)
    assert (found.variation_id, found.position) == (2, "4781213")


def test_a_file_without_a_needed_column_is_refused(tmp_path: Path) -> None:
    """The error shows what was looked for."""
    header = variations.HEADER.replace("\tVariationID\t", "\tOther\t")
    with pytest.raises(ImportFileError, match="this is no variant_summary"):
        items("clinvar", saved(tmp_path / "file", header + _row()))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (_row(VariationID="x"), "VariationID: a number was expected"),
        (_row(AlleleID="-"), "AlleleID"),
        (_row(GeneID="9907.5"), "GeneID"),
        (_row(RS="rs5"), "RS# (dbSNP): a number was expected, not 'rs5'"),
        (_row(Start="4,781,213"), "Start"),
        ("1\t2\n", "2 columns, 43 expected"),
    ],
)
def test_a_malformed_row_is_told_and_the_next_one_read(tmp_path: Path, row: str, reason: str) -> None:
    """One item, without links."""
    path = _file(tmp_path, _row(VariationID="1"), row, _row(VariationID="3"))
    ((line, text),) = reasons("clinvar", path)
    assert line == 3
    assert reason in text
    assert sum(isinstance(item, Bad) for item in items("clinvar", path)) == 1

"""Write ClinVar's variant_summary: most variations have a row on GRCh37 and one on GRCh38."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scripts.samples.packing import write_text
from scripts.samples.world import CHROMOSOMES, World, cui, disease, mim

HEADER: Final = (
    "#AlleleID\tType\tName\tGeneID\tGeneSymbol\tHGNC_ID\tClinicalSignificance\tClinSigSimple\tLastEvaluated\t"
    "RS# (dbSNP)\tnsv/esv (dbVar)\tRCVaccession\tPhenotypeIDS\tPhenotypeList\tOrigin\tOriginSimple\tAssembly\t"
    "ChromosomeAccession\tChromosome\tStart\tStop\tReferenceAllele\tAlternateAllele\tCytogenetic\tReviewStatus\t"
    "NumberSubmitters\tGuidelines\tTestedInGTR\tOtherIDs\tSubmitterCategories\tVariationID\tPositionVCF\t"
    "ReferenceAlleleVCF\tAlternateAlleleVCF\tSomaticClinicalImpact\tSomaticClinicalImpactLastEvaluated\t"
    "ReviewStatusClinicalImpact\tOncogenicity\tOncogenicityLastEvaluated\tReviewStatusOncogenicity\t"
    "SCVsForAggregateGermlineClassification\tSCVsForAggregateSomaticClinicalImpact\t"
    "SCVsForAggregateOncogenicityClassification\n"
)
_SIGNIFICANCES: Final = ("Pathogenic", "Uncertain significance", "Likely benign", "Benign", "Likely pathogenic",
                         "Pathogenic/Likely pathogenic", "Conflicting classifications of pathogenicity",
                         "drug response", "not provided", "-")  # fmt: skip
_REVIEWS: Final = ("criteria provided, single submitter", "criteria provided, multiple submitters, no conflicts",
                   "no assertion criteria provided", "reviewed by expert panel", "practice guideline")  # fmt: skip


def write_variant_summary(path: Path, world: World) -> int:
    """As many variations as genes; returns the number of rows."""
    return write_text(path, _lines(world)) - 1


def variation_id(index: int) -> int:
    return 9_000_001 + index


def _lines(world: World) -> Iterator[str]:
    yield HEADER
    for index in range(world.genes):
        if index % 13 == 12:
            yield _row(world, index, "na", -1)
            continue
        yield _row(world, index, "GRCh37", 20_000 + index * 9)
        if index % 17:
            yield _row(world, index, "GRCh38", 30_000 + index * 9)


def _row(world: World, index: int, assembly: str, start: int) -> str:
    symbol, gene, hgnc = _gene(world, index)
    conditions = [index, index + 1][: 1 + (index % 3 == 0)]
    placed = assembly != "na"
    chromosome = CHROMOSOMES[index % 24] if placed else "na"
    somatic = "Oncogenic" if index % 10 == 9 else "-"
    cells = (
        9_100_001 + index, "single nucleotide variant" if index % 5 else "Deletion",
        f"NM_9{index:08}.2({symbol}):c.{index % 3000 + 1}A&gt;G (p.Lys{index % 900 + 1}Glu)".replace("&gt;", ">"),
        gene, symbol, hgnc, _SIGNIFICANCES[index % 10], 1 if index % 10 == 0 else 0,
        f"Jan {index % 28 + 1:02}, {2005 + index % 20}" if index % 4 else "-",
        world.rs(index) if index % 6 else -1, "-",
        "|".join(f"RCV9{condition:08}" for condition in conditions),
        "|".join(f"MONDO:MONDO:9{at:06},MedGen:{cui(at)},OMIM:{mim(at)}" for at in conditions) if index % 8 else "-",
        "|".join(map(disease, conditions)) if index % 8 else "not provided",
        "germline" if index % 7 else "germline;unknown", "germline", assembly,
        f"NC_{index % 24 + 1:06}.11" if placed else "na", chromosome, start, start, "na", "na",
        f"{chromosome}p{index % 30 + 1}" if placed else "-", _REVIEWS[index % 5], index % 5 + 1, "-", "N", "-",
        index % 4, variation_id(index), start, "A" if placed else "na", "G" if placed else "na", "-", "-", "-", somatic,
        "-", "-",
        f"SCV9{index:08}", "-", "-",
    )  # fmt: skip
    return "\t".join(map(str, cells)) + "\n"


def _gene(world: World, index: int) -> tuple[str, str, str]:
    """(symbols, GeneID, HGNC_ID); a variation over several genes has -1, as in ClinVar's own file."""
    symbol = world.symbol(index)
    if index % 19 == 18:
        return f"{symbol};{world.symbol(index + 1)}", "-1", "-"
    if index % 23 == 22:
        return "covers 12 genes, none of which curated to show dosage sensitivity", "-1", "-"
    return symbol, str(world.gene_id(index)), f"HGNC:{900_000 + index}"

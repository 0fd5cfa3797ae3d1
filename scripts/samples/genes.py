"""Write NCBI Gene's tables: gene_info, gene2pubmed, mim2gene_medgen."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.samples.packing import write_text
from scripts.samples.world import CHROMOSOMES, World, cui, mim, pick, term

GENE_INFO_HEADER: Final = (
    "#tax_id\tGeneID\tSymbol\tLocusTag\tSynonyms\tdbXrefs\tchromosome\tmap_location\tdescription\ttype_of_gene\t"
    "Symbol_from_nomenclature_authority\tFull_name_from_nomenclature_authority\tNomenclature_status\t"
    "Other_designations\tModification_date\tFeature_type\n"
)
_TYPES: Final = ("protein-coding", "protein-coding", "protein-coding", "ncRNA", "pseudo", "tRNA", "biological-region")


@dataclass(frozen=True, slots=True)
class GeneFacts:
    """One row of gene_info before it is written; an empty field becomes a dash."""

    tax_id: int
    gene_id: int
    symbol: str
    locus_tag: str
    synonyms: tuple[str, ...]
    references: tuple[str, ...]
    chromosome: str
    location: str
    description: str
    kind: str
    official: str
    full_name: str
    status: str
    designations: tuple[str, ...]
    feature: str

    def row(self) -> str:
        cells = (
            str(self.tax_id), str(self.gene_id), self.symbol, self.locus_tag, "|".join(self.synonyms),
            "|".join(self.references), self.chromosome, self.location, self.description, self.kind, self.official,
            self.full_name, self.status, "|".join(self.designations), "20260102", self.feature,
        )  # fmt: skip
        return "\t".join([cell or "-" for cell in cells]) + "\n"


def genes(world: World) -> Iterator[GeneFacts]:
    rng = world.rng("gene_info")
    for index in range(world.genes):
        yield _gene(world, rng, index)


def write_gene_info(path: Path, world: World) -> int:
    """Rows of the genes, with a NEWENTRY placeholder after every 500th, as the whole file has for each organism."""
    return write_text(path, _gene_info_lines(world)) - 1


def write_gene2pubmed(path: Path, world: World) -> int:
    return write_text(path, _gene2pubmed_lines(world)) - 1


def write_mim2gene_medgen(path: Path, world: World) -> int:
    return write_text(path, _mim2gene_lines(world)) - 1


def _gene(world: World, rng: random.Random, index: int) -> GeneFacts:
    symbol, tax_id, draw = world.symbol(index), world.tax_id(index), rng.random()
    human = tax_id == 9606
    name = f"{term(rng)} {term(rng)} {index % 40 + 1}"
    chromosome = CHROMOSOMES[index % len(CHROMOSOMES)] if draw < 0.97 else "X|Y"
    references = []
    if human:
        references = [f"HGNC:HGNC:{900_000 + index}", f"Ensembl:ENSG{90_000_000_000 + index}",
                      f"AllianceGenome:HGNC:{900_000 + index}"]  # fmt: skip
        if draw < 0.6:
            references.insert(0, f"MIM:{mim(index)}")
    return GeneFacts(
        tax_id=tax_id,
        gene_id=world.gene_id(index),
        symbol=symbol,
        locus_tag="" if human else f"ORG_{index:07}",
        synonyms=tuple(f"{symbol}-{letter}" for letter in "ABCDE"[: int(draw * 6)]),
        references=tuple(references),
        chromosome=chromosome,
        location=f"{chromosome}{'pq'[index % 2]}{index % 30 + 1}.{index % 3 + 1}" if draw > 0.05 and human else "",
        description=name,
        kind=pick(rng, _TYPES),
        official="" if draw < 0.1 else symbol if draw < 0.95 else f"{symbol}L",
        full_name=name if draw >= 0.1 else "",
        status="" if draw < 0.1 else "O" if draw < 0.9 else "I",
        designations=tuple(f"{term(rng)}|{term(rng)} homolog".split("|")) if draw > 0.3 else (),
        feature="regulatory:enhancer" if draw > 0.99 else "",
    )


def _gene_info_lines(world: World) -> Iterator[str]:
    yield GENE_INFO_HEADER
    for index, gene in enumerate(genes(world)):
        yield gene.row()
        if index % 500 == 499:
            text = "Record to support submission of GeneRIFs for a gene not in Gene"
            cells = [
                str(gene.tax_id),
                str(910_000_001 + index),
                "NEWENTRY",
                *"-----",
                text,
                "other",
                *"----",
                "20260102",
            ]
            yield "\t".join([*cells, "-"]) + "\n"


def _gene2pubmed_lines(world: World) -> Iterator[str]:
    rng = world.rng("gene2pubmed")
    yield "#tax_id\tGeneID\tPubMed_ID\n"
    for index in range(world.genes):
        start = int(rng.random() * max(1, world.articles))
        for step in range(1 + int(rng.random() * 3)):
            yield f"{world.tax_id(index)}\t{world.gene_id(index)}\t{world.pmid(start + step)}\n"


def _mim2gene_lines(world: World) -> Iterator[str]:
    yield "#MIM number\tGeneID\ttype\tSource\tMedGenCUI\tComment\n"
    for index in range(min(world.genes, 30_000)):
        number, gene = mim(index), world.gene_id(index)
        if index % 3 == 0:
            yield f"{number}\t{gene}\tgene\t-\t-\t-\n"
        elif index % 3 == 1:
            yield f"{number}\t{gene}\tphenotype\tGeneMap\t{cui(index)}\t{'susceptibility' if index % 7 == 0 else '-'}\n"
        else:
            yield f"{number}\t-\tphenotype\t-\t{cui(index) if index % 11 else '-'}\t-\n"

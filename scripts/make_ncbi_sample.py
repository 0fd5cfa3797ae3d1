"""Write invented files in the formats of NCBI's downloads, to test an import without a network.

    python -m scripts.make_ncbi_sample OUT_DIR --genes 100000 --snps 100000 --articles 60000

The files are consistent with each other: links between genes, SNPs, articles, variations and phenotypes resolve. See
``scripts/samples/world.py`` for the ranges of the invented numbers.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from scripts.samples import genes, phenotypes, pmc, pubmed, sequences, snps, taxonomy, variations
from scripts.samples.world import World

_MAX_FULL_TEXTS = 500
_MAX_SEQUENCES = 5000


def write_sample(directory: Path, world: World, report: Callable[[str], None]) -> None:
    """Every kind of file once; PubMed in as many files as NCBI would cut it into, and one update file."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, write in _writers().items():
        started = time.perf_counter()
        count = write(directory / name, world)
        report(f"{name}: {count} rows, {time.perf_counter() - started:.1f} s")
    files = pubmed.write_baseline(directory, world)
    pubmed.write_update(directory / f"pubmed26n{len(files) + 1:04}.xml.gz", world)
    report(f"pubmed26n….xml.gz: {world.articles} records in {len(files)} files, and an update file")


def _writers() -> dict[str, Callable[[Path, World], int]]:
    return {
        "taxdump.tar.gz": taxonomy.write_taxdump,
        "gene_info.gz": genes.write_gene_info,
        "gene2pubmed.gz": genes.write_gene2pubmed,
        "mim2gene_medgen": genes.write_mim2gene_medgen,
        "NAMES.RRF.gz": phenotypes.write_names,
        "MedGenIDMappings.txt.gz": phenotypes.write_mappings,
        "MGDEF.RRF.gz": phenotypes.write_definitions,
        "mimTitles.txt": phenotypes.write_mim_titles,
        "genemap2.txt": phenotypes.write_gene_map,
        "GCF_000001405.40.gz": snps.write_dbsnp_vcf,
        "variant_summary.txt.gz": variations.write_variant_summary,
        "oa_comm_xml.PMC000xxxxxx.baseline.2026-01-02.tar.gz": lambda path, world: pmc.write_package(
            path, world, min(world.articles, _MAX_FULL_TEXTS)
        ),
        "sequences.fasta.gz": lambda path, world: sequences.write_fasta(path, world, min(world.genes, _MAX_SEQUENCES)),
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path, metavar="OUT_DIR")
    parser.add_argument("--genes", type=int, default=10_000, help="also the number of ClinVar variations")
    parser.add_argument("--snps", type=int, default=10_000)
    parser.add_argument("--articles", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    if min(given.genes, given.snps, given.articles) < 0:
        parser.error("counts cannot be negative")
    world = World(given.seed, given.genes, given.snps, given.articles)
    write_sample(given.directory, world, lambda line: print(line, flush=True))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

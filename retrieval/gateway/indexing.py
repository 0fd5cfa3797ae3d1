"""Which words of a record can be searched, and under which field. Knows nothing of SQL."""

from __future__ import annotations

from collections.abc import Iterator

from retrieval.gateway.records import Gene, OmimEntry, Organism, SequenceSegment, Snp

Fields = Iterator[tuple[str, str]]


def organism_names(organism: Organism) -> tuple[str, ...]:
    """Every name of the organism, its taxonomy id in Entrez form last."""
    scientific = organism.scientific_name
    species = " ".join(scientific.split()[:2])
    names = (scientific, species, organism.common_name, *organism.other_names, f"txid{organism.tax_id}")
    return tuple(dict.fromkeys(name for name in names if name))


def gene_fields(gene: Gene) -> Fields:
    yield "uid", str(gene.gene_id)
    yield "sym", gene.symbol
    yield "sym", gene.official_symbol
    yield from (("alias", alias) for alias in gene.aliases)
    yield from (("keyword", word) for word in gene.keywords)
    yield "name", gene.name
    yield from (("designation", text) for text in gene.designations)
    yield from (("mim", number) for number in gene.mim)
    yield "ens", gene.ensembl
    yield "chr", gene.chromosome
    yield "map", gene.map_location
    yield "accn", gene.accession
    yield "type", f"genetype {gene.gene_type.replace('-', ' ')}" if gene.gene_type else ""
    yield "alive", "alive" if gene.status == 0 else ""
    yield "text", gene.summary
    yield from (("orgn", name) for name in organism_names(gene.organism))


def snp_fields(snp: Snp) -> Fields:
    yield "uid", str(snp.snp_id)
    yield "rs", f"rs{snp.snp_id}"
    for symbol, gene_id in snp.genes:
        yield "gene", symbol
        yield "gene_id", gene_id
    yield "chr", snp.chromosome
    yield "pos", snp.position
    yield "accn", snp.accession
    yield "fxn", snp.function_class.replace("_", " ")
    yield "fxn", snp.function_class
    yield "clin", snp.clinical
    yield from (("orgn", name) for name in ("Homo sapiens", "human", "txid9606"))


def omim_fields(entry: OmimEntry) -> Fields:
    yield "uid", str(entry.mim_number)
    yield "title", entry.title
    yield "alt", entry.alternative_titles
    yield "map", entry.locus
    yield from (("orgn", name) for name in ("Homo sapiens", "human", "txid9606"))


def segment_fields(segment: SequenceSegment, organism: Organism) -> Fields:
    yield "uid", segment.accession
    yield "accn", segment.accession
    yield "accn", segment.accession.split(".")[0]
    yield "title", segment.title
    yield from (("orgn", name) for name in organism_names(organism))

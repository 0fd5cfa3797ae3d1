"""Hand-written files in NCBI's forms, sound and hostile, and the reading of any file to its end."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Final

from retrieval.formats.items import Bad, Good, Item, ReadOptions
from retrieval.formats.records import Entry
from retrieval.formats.sources import Source
from retrieval.gateway.importing.registry import KINDS

GENE_INFO_HEADER: Final = (
    "#tax_id\tGeneID\tSymbol\tLocusTag\tSynonyms\tdbXrefs\tchromosome\tmap_location\tdescription\ttype_of_gene\t"
    "Symbol_from_nomenclature_authority\tFull_name_from_nomenclature_authority\tNomenclature_status\t"
    "Other_designations\tModification_date\tFeature_type\n"
)
VCF_HEADER: Final = (
    "##fileformat=VCFv4.2\n##source=dbSNP\n##dbSNP_BUILD_ID=157\n##reference=GRCh38.p14\n"
    "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n"
)
BILLION_LAUGHS: Final = (
    '<?xml version="1.0"?>\n<!DOCTYPE PubmedArticleSet [\n<!ENTITY lol "lol">\n'
    + "".join(f'<!ENTITY lol{n} "{f"&lol{n - 1 or str()};" * 10}">\n' for n in range(1, 10))
    + "]>\n<PubmedArticleSet><PubmedArticle>&lol9;</PubmedArticle></PubmedArticleSet>\n"
)
EXTERNAL_ENTITY: Final = (
    '<?xml version="1.0"?>\n<!DOCTYPE PubmedArticleSet [<!ENTITY file SYSTEM "file:///etc/passwd">]>\n'
    "<PubmedArticleSet><PubmedArticle>&file;</PubmedArticle></PubmedArticleSet>\n"
)


def gene_row(gene_id: str = "7", symbol: str = "ZOBA7", **cells: str) -> str:
    """A row of gene_info with dashes but for what is given, by column name."""
    given = {"tax_id": "9606", "GeneID": gene_id, "Symbol": symbol, **cells}
    names = GENE_INFO_HEADER.strip("#\n").split("\t")
    return "\t".join(given.get(name, "-") for name in names) + "\n"


def pubmed_record(pmid: str = "7", inner: str = "", title: str = "A title.", data: str = "") -> str:
    """The smallest PubmedArticle; ``inner`` goes behind the title, ``data`` into PubmedData."""
    return (
        f'<PubmedArticle><MedlineCitation><PMID Version="1">{pmid}</PMID><Article><Journal><JournalIssue>'
        f"<PubDate><Year>2001</Year></PubDate></JournalIssue></Journal><ArticleTitle>{title}</ArticleTitle>{inner}"
        f"</Article></MedlineCitation><PubmedData>{data}</PubmedData></PubmedArticle>\n"
    )


def pubmed_set(*records: str) -> str:
    return "<PubmedArticleSet>\n" + "".join(records) + "</PubmedArticleSet>\n"


def saved(path: Path, content: str | bytes) -> Path:
    """Writes the file, as gzip where its name says so."""
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def items(
    kind: str, path: Path, *, skip: int = 0, chunk: int = 2**18, options: ReadOptions | None = None
) -> list[Item]:
    return list(KINDS[kind].reader(Source(path, chunk=chunk), options or ReadOptions(), skip))


def entries(kind: str, path: Path, options: ReadOptions | None = None) -> list[Entry]:
    """All entries of a file without a single malformed record."""
    found = items(kind, path, options=options)
    assert [item for item in found if isinstance(item, Bad)] == []
    return [item.entry for item in found if isinstance(item, Good)]


def reasons(kind: str, path: Path) -> list[tuple[int, str]]:
    return [(item.line, item.reason) for item in items(kind, path) if isinstance(item, Bad)]

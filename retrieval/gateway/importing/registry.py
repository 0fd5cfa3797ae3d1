"""Register the kinds of file that can be imported, by their names on the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final

from retrieval.errors import ImportFileError
from retrieval.formats import pmc_jats, pubmed_xml
from retrieval.formats.items import Reader
from retrieval.formats.records import Database
from retrieval.formats.sources import Source, is_tar, tar_members
from retrieval.gateway.importing import clinvar, dbsnp_vcf, diseases, genes, taxdump

_MAX_MEMBERS: Final = 10  # members of an archive
PUBLIC_DOMAIN: Final = "public domain (work of the US government)"
_MEDGEN: Final = "public domain; terms of UMLS sources under their own licences"
_OMIM: Final = "OMIM's licence agreement (Johns Hopkins University)"
_PUBMED: Final = "NLM's terms; abstracts may be under copyright"
_PMC: Final = "that of each article"
_FTP: Final = "https://ftp.ncbi.nlm.nih.gov/"


@dataclass(frozen=True, slots=True)
class FileKind:
    """Describe one kind of file that can be imported.

    ``file``: the publisher's name for it; ``address``: its URL; ``databases``: the databases that it fills or links.
    ``names``: a pattern for the file names, lower case, without .gz; ``head``: a pattern for the first lines of the
    content. ``licence``: the terms of its records. ``options``: the fields of ReadOptions that choose among them.
    """

    name: str
    what: str
    file: str
    address: str
    databases: tuple[Database, ...]
    reader: Reader
    names: str
    head: str
    licence: str = PUBLIC_DOMAIN
    options: tuple[str, ...] = ()


_KINDS: Final = (
    FileKind("gene_info", "genes of all organisms", "gene_info.gz, or Homo_sapiens.gene_info.gz and the like",
             _FTP + "gene/DATA/gene_info.gz", ("gene", "omim"), genes.read_gene_info,
             r".*gene_info(\.txt)?", r"#(Format: )?tax_id\sGeneID\sSymbol\s", options=("tax_ids",)),
    FileKind("gene2pubmed", "articles on genes", "gene2pubmed.gz",
             _FTP + "gene/DATA/gene2pubmed.gz", ("gene", "pubmed"), genes.read_gene2pubmed,
             r"gene2pubmed(\.txt)?", r"#(Format: )?tax_id\sGeneID\sPubMed_ID", options=("tax_ids",)),
    FileKind("mim2gene_medgen", "genes and MedGen concepts of OMIM numbers", "mim2gene_medgen",
             _FTP + "gene/DATA/mim2gene_medgen", ("omim", "gene", "medgen"), diseases.read_mim2gene,
             r"mim2gene_medgen(\.txt)?", r"#(Format: )?MIM number\sGeneID"),
    FileKind("medgen_names", "names of MedGen concepts", "NAMES.RRF.gz",
             _FTP + "pub/medgen/NAMES.RRF.gz", ("medgen",), diseases.read_medgen_names,
             r"names\.rrf", r"#CUI\|name\|source\|", _MEDGEN),
    FileKind("medgen_mappings", "identifiers of MedGen concepts, with names of OMIM entries", "MedGenIDMappings.txt.gz",
             _FTP + "pub/medgen/MedGenIDMappings.txt.gz", ("medgen", "omim"), diseases.read_medgen_mappings,
             r"medgenidmappings(\.txt)?", r"#CUI\w*\|pref_name\|source_id\|", _MEDGEN),
    FileKind("medgen_definitions", "definitions of MedGen concepts", "MGDEF.RRF.gz",
             _FTP + "pub/medgen/MGDEF.RRF.gz", ("medgen",), diseases.read_medgen_definitions,
             r"mgdef\.rrf", r"#CUI\|DEF\|source\|", _MEDGEN),
    FileKind("mim_titles", "OMIM's titles (licensed)", "mimTitles.txt",
             "https://omim.org/downloads", ("omim",), diseases.read_omim_titles,
             r"mimtitles(\.txt)?", r"(#.*\n)*# ?Prefix\tMIM Number\t", _OMIM),
    FileKind("genemap2", "cytogenetic places of OMIM entries (licensed)", "genemap2.txt",
             "https://omim.org/downloads", ("omim",), diseases.read_omim_gene_map,
             r"genemap2(\.txt)?", r"(#.*\n)*# ?Chromosome\tGenomic Position Start\t", _OMIM),
    FileKind("dbsnp_vcf", "dbSNP on GRCh38", "GCF_000001405.40.gz",
             _FTP + "snp/latest_release/VCF/GCF_000001405.40.gz", ("snp",), dbsnp_vcf.read,
             r"gcf_000001405\.\d+(\.vcf)?|.*dbsnp.*\.vcf", r"##fileformat=VCF(.*\n)*?##source=dbSNP",
             options=("only_in_genes",)),
    FileKind("clinvar", "ClinVar variations", "variant_summary.txt.gz",
             _FTP + "pub/clinvar/tab_delimited/variant_summary.txt.gz", ("clinvar", "gene", "snp", "omim", "medgen"),
             clinvar.read, r"variant_summary.*\.txt", r"#AlleleID\tType\tName\t"),
    FileKind("taxdump", "the taxonomy", "taxdump.tar.gz, taxdmp.zip, or a directory with names.dmp and nodes.dmp",
             _FTP + "pub/taxonomy/taxdump.tar.gz", ("taxonomy",), taxdump.read,
             r"(new_)?taxdu?mp.*\.(tar|tgz|zip)", r"(?!)"),
    FileKind("pubmed", "PubMed's baseline and update files", "pubmed26n0001.xml.gz and the like",
             _FTP + "pubmed/baseline/", ("pubmed",), pubmed_xml.read,
             r"pubmed\d+n\d+\.xml", r"(<[?!][^>]*>\s*)*<PubmedArticleSet", _PUBMED),
    FileKind("pmc", "full texts of PubMed Central", "oa_comm_xml.PMC000xxxxxx.baseline.DATE.tar.gz and the like",
             _FTP + "pub/pmc/oa_bulk/", ("pmc",), pmc_jats.read,
             r"(oa|author)_.*\.(tar|tgz)|pmc\d+\.n?xml", r"(<[?!][^>]*>\s*)*<(pmc-articleset|article)[\s>]", _PMC),
)  # fmt: skip
KINDS: Final[Mapping[str, FileKind]] = MappingProxyType({kind.name: kind for kind in _KINDS})


def guess_kind(path: Path) -> str | None:
    """Return the kind of a file by the start of its content, else by its name.

    Returns None if neither is conclusive, or if the file cannot be read.
    """
    if path.is_dir():
        return "taxdump" if (path / taxdump.NAMES).is_file() and (path / taxdump.NODES).is_file() else None
    try:
        source = Source(path)
        head = next(source.chunks(), b"")[:65536].decode("utf-8", "replace").removeprefix("\ufeff")
        inside = _kind_inside(source) if is_tar(source) else None
    except ImportFileError:
        return None
    if inside:
        return inside
    head = head.replace("\r\n", "\n").lstrip("\n")
    for kind in _KINDS:
        if re.match(kind.head, head):
            return kind.name
    name = path.name.lower().removesuffix(".gz").removesuffix(".bgz")
    return next((kind.name for kind in _KINDS if re.fullmatch(kind.names, name)), None)


def _kind_inside(source: Source) -> str | None:
    for member in islice(tar_members(source), _MAX_MEMBERS):
        if member.name.endswith(".dmp"):
            return "taxdump"
        if member.name.endswith((".xml", ".nxml")):
            return "pmc"
    return None

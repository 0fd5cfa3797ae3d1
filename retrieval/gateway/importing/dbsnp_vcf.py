"""Read dbSNP's VCF on GRCh38 (ftp.ncbi.nlm.nih.gov/snp/latest_release/VCF/GCF_000001405.40.gz)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from itertools import chain
from typing import Final

from retrieval.gateway.importing import dbsnp_fields as fields
from retrieval.gateway.importing.grch38 import ACCESSIONS, CHROMOSOMES, chromosome_of, is_other_sequence
from retrieval.gateway.importing.items import NO_OPTIONS, Good, Item, MalformedRecord, ReadOptions, bad, shown
from retrieval.gateway.importing.sources import Line, Source
from retrieval.gateway.importing.tables import NOT_UTF8, whole
from retrieval.gateway.records import Snp

_COLUMNS: Final = ["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO"]
_SEQUENCE: Final = re.compile(r"[ACGTUNRYKMSWBDHV]+", re.ASCII | re.IGNORECASE)
_MAX_HEADER: Final = 100_000
_MAX_ROWS: Final = 1000
_MITOCHONDRION_AND_CHROMOSOMES: Final = {accession.partition(".")[0]: accession for accession in CHROMOSOMES}


def read(source: Source, options: ReadOptions = NO_OPTIONS, skip: int = 0) -> Iterator[Item]:
    """Yield a Snp for each run of rows with one rs number on one chromosome.

    ``options.only_in_genes`` filters rows. Alternative loci, patches and unplaced scaffolds are skipped. An rs number
    can occur again on another chromosome (the regions that X and Y share): ``merge_snps`` joins the two and retains the
    first position.

    Insertions and deletions are placed as in the VCF (leftmost), and their SPDI omits the preceding base; NCBI's own
    SPDI spells out the whole repeat, which requires the genome. GRCh37 positions, submitters and dates are not in the
    file and stay empty.
    """
    rows, build = _open(source)
    group: list[tuple[int, str | None]] = []
    key: tuple[str, ...] = ()
    for number, text in chain(rows, [(0, None)]):
        if number and not _is_wanted(text, options):
            continue
        head = tuple(text.split("\t", 3)[:3:2]) if text is not None else ()
        if group and (head != key or head[-1:] in ((), (".",)) or len(group) >= _MAX_ROWS):
            if skip > 0:
                skip -= 1
            else:
                yield _item(group, build)
            group = []
        if number:
            group.append((number, text))
            key = head


def merge_snps(old: Snp, new: Snp) -> Snp:
    """Merge two rows of one file with the same rs number; position and class are those of ``old``."""
    if old.snp_id != new.snp_id:
        raise ValueError(f"rs{old.snp_id} and rs{new.snp_id} are not one")
    studies = {study for study, _ in old.mafs}
    return replace(
        old,
        genes=tuple(dict.fromkeys((*old.genes, *new.genes))),
        spdi=_joined(old.spdi, new.spdi),
        function_class=_joined(old.function_class, new.function_class),
        allele=old.allele if old.allele == new.allele else "N",
        mafs=(*old.mafs, *(maf for maf in new.mafs if maf[0] not in studies)),
        clinical=_joined(old.clinical, new.clinical),
        validated=_joined(old.validated, new.validated),
    )


def _open(source: Source) -> tuple[Iterator[Line], str]:
    """Return (rows after the header, dbSNP build of the file).

    Raises:
        ImportFileError: the file is not a dbSNP VCF on GRCh38.
    """
    rows = source.lines()
    meta: dict[str, str] = {}
    number, text = next(rows, (0, None))
    if number == 0:
        raise source.error("the file is empty; a VCF was expected")
    if text is None or not text.startswith("##fileformat=VCF"):
        raise source.error(f"this is no VCF: ##fileformat=VCF… was expected, not {shown(text or '')}", number)
    for number, text in rows:
        if text is None or number > _MAX_HEADER or not text.startswith("##"):
            break
        key, _, value = text.removeprefix("##").partition("=")
        meta.setdefault(key, value)
    if text is None or text.split("\t")[:8] != _COLUMNS:
        raise source.error("the header's last line, #CHROM to INFO, was expected", number)
    if "dbsnp" not in meta.get("source", "dbSNP").lower():
        raise source.error(f"a VCF of {shown(meta['source'])}, not of dbSNP", number)
    if meta.get("reference", "GRCh38").lower().startswith(("grch37", "hg19")):
        raise source.error(f"positions on {shown(meta['reference'])}; the file on GRCh38 is needed", number)
    build = meta.get("dbSNP_BUILD_ID", "")
    return _checked(source, rows), build if build.isascii() and build.isdigit() else ""


def _checked(source: Source, rows: Iterator[Line]) -> Iterator[Line]:
    """Return the rows after checking the first one.

    Raises:
        ImportFileError: the first row has an accession of another assembly.
    """
    first = next(rows, None)
    if first is None:
        return iter(())
    contig = (first[1] or "").partition("\t")[0]
    known = _MITOCHONDRION_AND_CHROMOSOMES.get(contig.partition(".")[0], contig)
    if known != contig:
        raise source.error(f"{contig} is not of GRCh38, which has {known}", first[0])
    return chain([first], rows)


def _is_wanted(text: str | None, options: ReadOptions) -> bool:
    if text is None:
        return True
    if not text or text[0] == "#":
        return False
    contig = text.partition("\t")[0]
    if contig not in CHROMOSOMES and is_other_sequence(contig):
        return False
    return not options.only_in_genes or "GENEINFO=" in text or "CLNSIG=" in text


def _item(group: list[tuple[int, str | None]], build: str) -> Item:
    """Merge the rows of a group into one record.

    A malformed row makes the whole record Bad, with the line of that row, because alleles would be missing.
    """
    rows: list[Snp] = []
    for number, text in group:
        try:
            rows.append(_snp(text, build))
        except MalformedRecord as error:
            return bad(number, error)
    return Good(group[0][0], reduce(merge_snps, rows))


def _snp(text: str | None, build: str) -> Snp:
    if text is None:
        raise MalformedRecord(NOT_UTF8)
    cells = text.split("\t")
    if len(cells) < 8:
        raise MalformedRecord(f"{len(cells)} columns, 8 expected")
    contig, pos, rs, ref, alt, _, _, info_cell = cells[:8]
    chromosome = chromosome_of(contig)
    if not chromosome:
        raise MalformedRecord(f"CHROM: {shown(contig)} is no chromosome of GRCh38")
    info = fields.info_of(info_cell)
    number = whole(rs.removeprefix("rs"), "ID") if rs.startswith("rs") else whole(info.get("RS", rs), "ID")
    alts = _alleles(ref, alt)
    start, short_ref, short_alts = fields.trimmed(ref, alts)
    accession, place = ACCESSIONS[chromosome], whole(pos, "POS") + start
    pairs, mafs = fields.genes(info), fields.frequencies(info, (short_ref, *short_alts))
    names = fields.hgvs(info, accession, place, (short_ref, *short_alts))
    return Snp(
        snp_id=number,
        genes=pairs,
        accession=accession,
        chromosome=chromosome,
        position=str(place),
        position_grch37="",
        spdi=",".join(f"{accession}:{place - 1}:{short_ref}:{allele}" for allele in short_alts),
        function_class=",".join(fields.functions(info)),
        snp_class=fields.snp_class(info),
        allele=fields.ambiguity((short_ref, *short_alts)),
        docsum=fields.docsum(names, short_ref, short_alts, pairs),
        mafs=mafs,
        clinical=",".join(fields.significance(info)),
        handles="",
        validated=_validation(mafs),
        ss="",
        orig_build=str(whole(info["dbSNPBuildID"], "INFO dbSNPBuildID")) if "dbSNPBuildID" in info else "",
        upd_build=build,
        created="",
        updated="",
    )


def _alleles(ref: str, alt: str) -> tuple[str, ...]:
    """Return the alleles of ALT, none for ".".

    Raises:
        MalformedRecord: REF or an allele of ALT has characters that are not base codes.
    """
    alts = () if alt == "." else tuple(alt.split(","))
    for column, allele in (("REF", ref), *(("ALT", allele) for allele in alts)):
        if not _SEQUENCE.fullmatch(allele):
            raise MalformedRecord(f"{column}: bases were expected, not {shown(allele)}")
    return alts


def _validation(mafs: tuple[tuple[str, str], ...]) -> str:
    if not mafs:
        return ""
    return "by-frequency,by-alfa" if any(study == "ALFA" for study, _ in mafs) else "by-frequency"


def _joined(old: str, new: str) -> str:
    return ",".join(dict.fromkeys(filter(None, (*old.split(","), *new.split(",")))))

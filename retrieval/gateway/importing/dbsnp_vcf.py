"""Read dbSNP's VCF on GRCh38 (ftp.ncbi.nlm.nih.gov/snp/latest_release/VCF/GCF_000001405.40.gz)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain
from typing import Final

from retrieval.formats.items import NO_OPTIONS, Good, Item, MalformedRecord, ReadOptions, bad, shown
from retrieval.formats.records import Snp
from retrieval.formats.sources import Line, Source
from retrieval.formats.tables import NOT_UTF8, is_number, whole
from retrieval.gateway.store.writer import merge_snps

_FUNCTIONS: Final = (
    ("DSS", ("splice_donor_variant",)),
    ("ASS", ("splice_acceptor_variant",)),
    ("NSN", ("stop_gained",)),
    ("NSF", ("frameshift_variant",)),
    ("NSM", ("missense_variant",)),
    ("SYN", ("synonymous_variant",)),
    ("U5", ("5_prime_UTR_variant",)),
    ("U3", ("3_prime_UTR_variant",)),
    ("INT", ("intron_variant",)),
    ("R5", ("2KB_upstream_variant", "upstream_transcript_variant")),
    ("R3", ("500B_downstream_variant", "downstream_transcript_variant")),
)
_CLASSES: Final = {"SNV": "snv", "DEL": "del", "INS": "ins", "INDEL": "delins", "MNV": "mnv"}
_SIGNIFICANCE: Final = {
    "0": "uncertain-significance",
    "1": "not-provided",
    "2": "benign",
    "3": "likely-benign",
    "4": "likely-pathogenic",
    "5": "pathogenic",
    "6": "drug-response",
    "7": "histocompatibility",
    "8": "confers-sensitivity",
    "9": "risk-factor",
    "10": "association",
    "11": "protective",
    "12": "conflicting-interpretations-of-pathogenicity",
    "13": "affects",
    "255": "other",
}
_ABSENT: Final = frozenset(("", "."))
# IUPAC's letter for each set of bases, bases in alphabetical order.
_AMBIGUITY: Final = {
    "A": "A", "C": "C", "G": "G", "T": "T", "AC": "M", "AG": "R", "AT": "W", "CG": "S", "CT": "Y", "GT": "K",
    "ACG": "V", "ACT": "H", "AGT": "D", "CGT": "B", "ACGT": "N",
}  # fmt: skip
_STUDIES: Final = {"dbGaP_PopFreq": "ALFA"}
Info = dict[str, str]


def info_of(cell: str) -> Info:
    """Parse INFO into a mapping; a flag has the value ""."""
    return {key: value for key, _, value in (part.partition("=") for part in cell.split(";"))}


def genes(info: Info) -> tuple[tuple[str, str], ...]:
    """Return (symbol, gene id) of the genes, then of the pseudogenes, from "SYM:ID|SYM:ID".

    Raises:
        MalformedRecord: an entry has another form.
    """
    pairs: list[tuple[str, str]] = []
    for key in ("GENEINFO", "PSEUDOGENEINFO"):
        for part in info[key].split("|") if info.get(key) else ():
            symbol, colon, gene_id = part.rpartition(":")
            if not (colon and is_number(gene_id)):
                raise MalformedRecord(f"INFO {key}: SYMBOL:ID was expected, not {shown(part)}")
            pairs.append((symbol, gene_id))
    return tuple(dict.fromkeys(pairs))


def functions(info: Info) -> tuple[str, ...]:
    return tuple(term for flag, terms in _FUNCTIONS if flag in info for term in terms)


def snp_class(info: Info) -> str:
    value = info.get("VC", "")
    if value not in _CLASSES:
        raise MalformedRecord(f"INFO VC: SNV, DEL, INS, INDEL or MNV was expected, not {shown(value)}")
    return _CLASSES[value]


def significance(info: Info) -> tuple[str, ...]:
    """Return the distinct clinical significances in CLNSIG as words.

    CLNSIG has a list for REF and each ALT; the codes of a list are separated by bars.
    """
    codes = info.get("CLNSIG", "").replace(",", "|").split("|")
    return tuple(dict.fromkeys(_SIGNIFICANCE.get(code, "other") for code in codes if code not in _ABSENT))


def frequencies(info: Info, alleles: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return (study, "T=0.0109") for the minor allele of each study, which is the second most frequent one.

    Raises:
        MalformedRecord: FREQ does not have one number for each allele.
    """
    found: list[tuple[str, str]] = []
    for part in info["FREQ"].split("|") if info.get("FREQ") else ():
        study, colon, values = part.rpartition(":")
        try:
            ranked = sorted(
                (-float(value), rank, value) for rank, value in enumerate(values.split(",")) if value not in _ABSENT
            )
        except ValueError:
            colon = ""
        if not colon or values.count(",") != len(alleles) - 1:
            raise MalformedRecord(f"INFO FREQ: STUDY:NUMBER,… for {len(alleles)} alleles expected, not {shown(part)}")
        if len(ranked) > 1:
            _, rank, value = ranked[1]
            found.append((_STUDIES.get(study, study), f"{alleles[rank] or '-'}={value}"))
    return tuple(found)


def trimmed(ref: str, alts: Sequence[str]) -> tuple[int, str, tuple[str, ...]]:
    """Return (length of the common prefix, REF and ALTs without it).

    VCF puts the preceding base before an insertion or deletion.
    """
    if not alts or (len(ref) == 1 and all(len(alt) == 1 for alt in alts)):
        return 0, ref, tuple(alts)
    start = 0
    for column in zip(ref, *alts, strict=False):
        if len(set(column)) > 1:
            break
        start += 1
    return start, ref[start:], tuple(alt[start:] for alt in alts)


def ambiguity(alleles: Iterable[str]) -> str:
    """Return the IUPAC letter for the alleles of a single-base substitution, and N otherwise, as dbSNP does."""
    return _AMBIGUITY.get("".join(sorted(set(alleles))), "N") if all(len(allele) == 1 for allele in alleles) else "N"


def hgvs(info: Info, accession: str, position: int, alleles: Sequence[str]) -> tuple[str, ...]:
    """Return genomic names: those that the row gives for clinical alleles, else those of single-base substitutions.

    HGVS shifts insertions and deletions along the sequence, which the row alone does not contain; they get none.
    """
    clinical_names = [
        name for name in info.get("CLNHGVS", "").split(",") if name not in _ABSENT and not name.endswith("=")
    ]
    if clinical_names:
        return tuple(clinical_names)
    kind = "m" if accession == "NC_012920.1" else "g"
    ref, *alts = alleles
    return tuple(
        f"{accession}:{kind}.{position}{ref}>{alt}"
        for alt in alts
        if len(ref) == len(alt) == 1 and "N" not in ref + alt
    )


def docsum(names: Sequence[str], ref: str, alts: Sequence[str], pairs: Sequence[tuple[str, str]]) -> str:
    alleles = "/".join(allele or "-" for allele in (ref, *alts))
    parts = [f"HGVS={','.join(names)}"] if names else []
    parts += [f"SEQ=[{alleles}]", f"LEN={len(ref) or max(map(len, alts), default=0)}"]
    if pairs:
        parts.append("GENE=" + ",".join(f"{symbol}:{gene_id}" for symbol, gene_id in pairs))
    return "|".join(parts)


_VERSIONS: Final = (
    ("1", 11), ("2", 12), ("3", 12), ("4", 12), ("5", 10), ("6", 12), ("7", 14), ("8", 11), ("9", 12), ("10", 11),
    ("11", 10), ("12", 12), ("13", 11), ("14", 9), ("15", 10), ("16", 10), ("17", 11), ("18", 10), ("19", 10),
    ("20", 11), ("21", 9), ("22", 11), ("X", 11), ("Y", 10),
)  # fmt: skip
ACCESSIONS: Final = {
    **{name: f"NC_{number:06}.{version}" for number, (name, version) in enumerate(_VERSIONS, 1)},
    "MT": "NC_012920.1",
}
CHROMOSOMES: Final = {accession: name for name, accession in ACCESSIONS.items()}


def chromosome_of(contig: str) -> str:
    """Return "1" to "22", "X", "Y" or "MT" for NC_000001.11, 1 or chr1 (M too), and "" for any other sequence."""
    if contig in CHROMOSOMES:
        return CHROMOSOMES[contig]
    name = contig.removeprefix("chr")
    name = "MT" if name == "M" else name
    return name if name in ACCESSIONS else ""


def is_other_sequence(contig: str) -> bool:
    """Return True for alternative loci, patches and unplaced scaffolds, as NCBI, UCSC and Ensembl name them."""
    return contig.startswith(("NT_", "NW_", "GL", "KI", "HLA-", "HSCHR", "HG")) or "_" in contig.removeprefix("NC_")


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
        if number and not _is_selected(text, options):
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
    return _checked(source, rows), build if is_number(build) else ""


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


def _is_selected(text: str | None, options: ReadOptions) -> bool:
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
    info = info_of(info_cell)
    number = whole(rs.removeprefix("rs"), "ID") if rs.startswith("rs") else whole(info.get("RS", rs), "ID")
    alts = _alleles(ref, alt)
    start, short_ref, short_alts = trimmed(ref, alts)
    accession, place = ACCESSIONS[chromosome], whole(pos, "POS") + start
    pairs, mafs = genes(info), frequencies(info, (short_ref, *short_alts))
    names = hgvs(info, accession, place, (short_ref, *short_alts))
    return Snp(
        snp_id=number,
        genes=pairs,
        accession=accession,
        chromosome=chromosome,
        position=str(place),
        position_grch37="",
        spdi=",".join(f"{accession}:{place - 1}:{short_ref}:{allele}" for allele in short_alts),
        function_class=",".join(functions(info)),
        snp_class=snp_class(info),
        allele=ambiguity((short_ref, *short_alts)),
        docsum=docsum(names, short_ref, short_alts, pairs),
        mafs=mafs,
        clinical=",".join(significance(info)),
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

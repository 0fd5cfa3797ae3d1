"""Translate the columns of one dbSNP VCF row into the terms of NCBI's document summaries, as pure functions.

Codes and flags follow the header of GCF_000001405.40.gz (dbSNP build 156 and later).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from retrieval.gateway.importing.items import MalformedRecord, shown
from retrieval.gateway.importing.tables import is_number

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
    given = [name for name in info.get("CLNHGVS", "").split(",") if name not in _ABSENT and not name.endswith("=")]
    if given:
        return tuple(given)
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

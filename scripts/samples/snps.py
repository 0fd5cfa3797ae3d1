"""Write dbSNP's VCF on GRCh38, bgzip-compressed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from retrieval.gateway.importing.dbsnp_vcf import ACCESSIONS
from scripts.samples.packing import write_bgzip, write_text
from scripts.samples.world import World, pick

_FLAGS: Final = ("NSF", "NSM", "NSN", "SYN", "U3", "U5", "ASS", "DSS", "INT", "R3", "R5", "PM", "GNO", "PUB", "COMMON")
_FUNCTIONS: Final = ("NSM", "SYN", "INT", "INT", "INT", "U3", "U5;R5", "R3", "R5", "NSN", "NSF", "ASS", "DSS", "NSM;R5")
_CODES: Final = ("0", "2", "3", "4", "5", "5|4", "2|3|2", "12", "255", "1|8")
_STUDIES: Final = ("1000Genomes", "GnomAD", "TOPMED", "Estonian", "dbGaP_PopFreq")
_BASES: Final = ("A", "C", "G", "T")
HEADER: Final = "".join([
    "##fileformat=VCFv4.2\n##fileDate=20260102\n##source=dbSNP\n##dbSNP_BUILD_ID=157\n##reference=GRCh38.p14\n",
    "##phasing=partial\n",
    '##INFO=<ID=RS,Number=1,Type=Integer,Description="dbSNP ID (i.e. rs number)">\n',
    '##INFO=<ID=GENEINFO,Number=1,Type=String,Description="Gene symbol:gene id pairs, separated by a vertical bar">\n',
    '##INFO=<ID=PSEUDOGENEINFO,Number=1,Type=String,Description="Pseudogene symbol:gene id pairs">\n',
    '##INFO=<ID=dbSNPBuildID,Number=1,Type=Integer,Description="First dbSNP build of the rs">\n',
    '##INFO=<ID=SSR,Number=1,Type=Integer,Description="Reason codes of suspicion">\n',
    '##INFO=<ID=VC,Number=1,Type=String,Description="Variation class">\n',
    *(f'##INFO=<ID={flag},Number=0,Type=Flag,Description="{flag}">\n' for flag in _FLAGS),
    '##INFO=<ID=FREQ,Number=.,Type=String,Description="Allele frequencies by study">\n',
    *(f'##INFO=<ID={key},Number=.,Type=String,Description="{key}">\n' for key in ("CLNORIGIN", "CLNSIG", "CLNHGVS")),
    *(f"##contig=<ID={accession}>\n" for accession in ACCESSIONS.values()),
    "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n",
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class SnpFacts:
    """One row before it is written. ``clinical``: CLNSIG codes of the last ALT, "" where there are none."""

    contig: str
    position: int
    rs: int
    ref: str
    alts: tuple[str, ...]
    kind: str
    genes: tuple[tuple[str, int], ...]
    functions: str
    clinical: str
    frequencies: tuple[tuple[str, tuple[str, ...]], ...]
    build: int

    def row(self) -> str:
        info = [f"RS={self.rs};dbSNPBuildID={self.build};SSR=0"]
        if self.genes:
            info.append("GENEINFO=" + "|".join(f"{symbol}:{gene}" for symbol, gene in self.genes))
        info.append(f"VC={self.kind}")
        if self.functions:
            info.append(self.functions)
        if self.frequencies:
            studies = (f"{study}:{','.join(values)}" for study, values in self.frequencies)
            info.append(f"GNO;FREQ={'|'.join(studies)};COMMON")
        if self.clinical:
            dots = ".," * len(self.alts)
            info.append(f"CLNORIGIN={dots}1;CLNSIG={dots}{self.clinical}")
        return (
            f"{self.contig}\t{self.position}\trs{self.rs}\t{self.ref}\t{','.join(self.alts)}\t.\t.\t{';'.join(info)}\n"
        )


def snps(world: World) -> Iterator[SnpFacts]:
    """One for each rs number, by chromosome and position."""
    rng = world.rng("snps")
    contigs = list(ACCESSIONS.values())[:-1]
    share = -(-world.snps // len(contigs))
    for index in range(world.snps):
        at = index % share
        yield _snp(world, rng, index, (contigs[index // share], 10_000 + at * max(1, 40_000_000 // share) + at % 7))


def write_dbsnp_vcf(path: Path, world: World) -> int:
    """bgzip where the name ends in .gz. Beside the rows of ``snps``: a second row for every 200th rs number with
    another ALT, and at the end rows of an alternative locus."""
    return (write_bgzip if path.suffix == ".gz" else write_text)(path, _lines(world))


def _lines(world: World) -> Iterator[str]:
    yield HEADER
    last = None
    for index, snp in enumerate(snps(world)):
        yield snp.row()
        if index % 200 == 199 and snp.kind == "SNV" and len(snp.alts) == 1:
            yield snp.row().replace(
                f"\t{','.join(snp.alts)}\t", f"\t{'C' if 'C' not in (snp.ref, *snp.alts) else 'T'}\t", 1
            )
        last = snp
    if last is not None:
        yield last.row().replace(last.contig, "NT_187361.1", 1)


def _snp(world: World, rng: random.Random, index: int, place: tuple[str, int]) -> SnpFacts:
    draw = rng.random()
    ref = pick(rng, _BASES)
    kind, ref, alts = _change(rng, ref, draw)
    in_gene = rng.random() < 0.6
    gene = int(rng.random() * max(1, world.genes))
    genes = (
        tuple((world.symbol(at), world.gene_id(at)) for at in (gene, gene + 1)[: 1 + (draw > 0.9)]) if in_gene else ()
    )
    return SnpFacts(
        contig=place[0],
        position=place[1],
        rs=world.rs(index),
        ref=ref,
        alts=alts,
        kind=kind,
        genes=genes if world.genes else (),
        functions=pick(rng, _FUNCTIONS) if in_gene else "",
        clinical=pick(rng, _CODES) if draw * 50 % 1 < 0.02 else "",
        frequencies=_frequencies(rng, len(alts)) if draw < 0.7 else (),
        build=100 + index % 58,
    )


def _change(rng: random.Random, ref: str, draw: float) -> tuple[str, str, tuple[str, ...]]:
    """(class, REF, ALTs): mostly substitutions, some with several ALTs."""
    others = tuple(base for base in _BASES if base != ref)
    if draw < 0.88:
        return "SNV", ref, others[: 1 + (draw > 0.80) + (draw > 0.86)]
    longer = ref + pick(rng, _BASES) + pick(rng, others)
    if draw < 0.92:
        return "DEL", longer, (ref,)
    if draw < 0.95:
        return "INS", ref, (longer,)
    if draw < 0.98:
        return "INDEL", longer, (ref, longer + "GT")
    return "MNV", "CA", ("TG",)


def _frequencies(rng: random.Random, alts: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found = []
    for study in _STUDIES[: 1 + int(rng.random() * 5)]:
        value = int(rng.random() * 4000) + 1
        rest = ("." if study == "Estonian" else "0",) * (alts - 1)
        found.append((study, (f"{1 - value / 1e4:.4f}", f"{value / 1e4:.4f}", *rest)))
    return tuple(found)

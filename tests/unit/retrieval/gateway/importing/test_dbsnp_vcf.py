"""dbSNP's VCF, in the words of NCBI's document summaries."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from ncbi_files import VCF_HEADER, entries, items, reasons, saved

from retrieval.errors import ImportFileError
from retrieval.formats.items import ReadOptions
from retrieval.formats.records import Snp
from retrieval.gateway.eutils.esummary import snp_document
from retrieval.gateway.store.open import load_corpus
from retrieval.gateway.store.writer import merge_snps
from scripts.samples import snps
from scripts.samples.world import World


def _row(
    info: str = "VC=SNV", *, chrom: str = "NC_000011.10", pos: str = "5227002", rs: str = "rs334", change: str = "T\tA"
) -> str:
    return f"{chrom}\t{pos}\t{rs}\t{change}\t.\t.\tRS={rs.removeprefix('rs')};{info}\n"


def _snps(tmp_path: Path, *rows: str, options: ReadOptions | None = None) -> list[Snp]:
    found = entries("dbsnp_vcf", saved(tmp_path / "file.vcf.gz", VCF_HEADER + "".join(rows)), options)
    return [entry for entry in found if isinstance(entry, Snp)]


def test_a_known_snp_reads_as_the_sample_has_it(tmp_path: Path) -> None:
    """rs334 of the built-in sample, from a row of NCBI's form."""
    (snp,) = _snps(tmp_path, _row("dbSNPBuildID=36;SSR=0;GENEINFO=HBB:3043;VC=SNV;NSM"))
    known = next(known for known in load_corpus().snps if known.snp_id == 334)
    for field in ("accession", "chromosome", "position", "spdi", "function_class", "snp_class", "allele", "docsum"):
        assert getattr(snp, field) == getattr(known, field)
    assert snp.genes == known.genes
    assert snp_document(snp)["chrpos"] == "11:5227002"
    assert (snp.orig_build, snp.upd_build) == ("36", "157")


def test_snps_come_back_as_they_were_written(tmp_path: Path) -> None:
    """bgzip, several alleles, insertions and deletions, frequencies, clinical codes."""
    world = World(genes=50, snps=800)
    snps.write_dbsnp_vcf(tmp_path / "GCF_000001405.40.gz", world)
    found = entries("dbsnp_vcf", tmp_path / "GCF_000001405.40.gz")
    facts = list(snps.snps(world))
    assert len(found) == 800
    for snp, fact in zip(found, facts, strict=True):
        assert isinstance(snp, Snp)
        shift = 0 if len(fact.ref) == len(fact.alts[0]) else 1
        assert (snp.snp_id, snp.accession, int(snp.position) - shift) == (fact.rs, fact.contig, fact.position)
        assert snp.genes == tuple((symbol, str(gene)) for symbol, gene in fact.genes)
        assert snp.snp_class == {"SNV": "snv", "DEL": "del", "INS": "ins", "INDEL": "delins", "MNV": "mnv"}[fact.kind]
        assert len(snp.mafs) == len(fact.frequencies)
        assert bool(snp.clinical) == bool(fact.clinical)
        assert bool(snp.function_class) == bool(fact.functions)
        assert snp.spdi.count(",") + 1 >= len(fact.alts)


@pytest.mark.parametrize(
    ("change", "kind", "position", "spdi", "sequence"),
    [
        ("CT\tC", "DEL", "101", "NC_000001.11:100:T:", "[T/-]"),
        ("C\tCTT", "INS", "101", "NC_000001.11:100::TT", "[-/TT]"),
        ("CTT\tC,CTTG", "INDEL", "101", "NC_000001.11:100:TT:,NC_000001.11:100:TT:TTG", "[TT/-/TTG]"),
        ("CA\tTG", "MNV", "100", "NC_000001.11:99:CA:TG", "[CA/TG]"),
        ("C\tA,T", "SNV", "100", "NC_000001.11:99:C:A,NC_000001.11:99:C:T", "[C/A/T]"),
    ],
)
def test_the_base_before_an_insertion_or_deletion_is_not_part_of_it(
    tmp_path: Path, change: str, kind: str, position: str, spdi: str, sequence: str
) -> None:
    """VCF writes it, NCBI's summaries do not."""
    (snp,) = _snps(tmp_path, _row(f"VC={kind}", chrom="NC_000001.11", pos="100", change=change))
    assert (snp.position, snp.spdi) == (position, spdi)
    assert sequence in snp.docsum
    assert ("HGVS=" in snp.docsum) == (kind == "SNV")


def test_the_minor_allele_is_the_second_most_frequent(tmp_path: Path) -> None:
    """A dot is no observation; dbGaP_PopFreq is what summaries call ALFA; a study of one allele has no minor one."""
    freq = "FREQ=1000Genomes:0.2,0.7,0.1|GnomAD:0.9891,0.0109,.|dbGaP_PopFreq:1,0,0|X:1,.,."
    (snp,) = _snps(tmp_path, _row(f"VC=SNV;{freq}", change="T\tA,C"))
    assert snp.mafs == (("1000Genomes", "T=0.2"), ("GnomAD", "A=0.0109"), ("ALFA", "A=0"))
    assert snp.validated == "by-frequency,by-alfa"


def test_clinical_codes_become_words(tmp_path: Path) -> None:
    """A list for each allele, the reference first; a code that is not known yet is "other"."""
    (snp,) = _snps(tmp_path, _row("VC=SNV;CLNSIG=.,5|4|5,.|99", change="T\tA,C"))
    assert snp.clinical == "pathogenic,likely-pathogenic,other"


def test_clinical_rows_bring_their_own_names(tmp_path: Path) -> None:
    """HGVS of insertions and deletions cannot be told from the row itself."""
    info = "VC=DEL;CLNHGVS=NC_000001.11:g.103=,NC_000001.11:g.103del"
    (snp,) = _snps(tmp_path, _row(info, chrom="NC_000001.11", pos="100", change="CT\tC"))
    assert snp.docsum == "HGVS=NC_000001.11:g.103del|SEQ=[T/-]|LEN=1"


def test_function_flags_become_terms(tmp_path: Path) -> None:
    """Several at once; genes and pseudogenes alike are listed."""
    (snp,) = _snps(tmp_path, _row("VC=SNV;GENEINFO=A:1|HLA-B:2;PSEUDOGENEINFO=P1:3;INT;R5"))
    assert snp.function_class == "intron_variant,2KB_upstream_variant,upstream_transcript_variant"
    assert snp.genes == (("A", "1"), ("HLA-B", "2"), ("P1", "3"))


def test_rows_of_one_rs_number_are_one_record(tmp_path: Path) -> None:
    """Two rows at one place; rows of another chromosome are a record of their own that the store merges."""
    (snp, other) = _snps(
        tmp_path,
        _row("VC=SNV;NSM;GENEINFO=A:1;CLNSIG=.,5"),
        _row("VC=SNV;SYN;GENEINFO=B:2", change="T\tC"),
        _row("VC=SNV", chrom="NC_000024.10"),
    )
    assert snp.spdi == "NC_000011.10:5227001:T:A,NC_000011.10:5227001:T:C"
    assert snp.genes == (("A", "1"), ("B", "2"))
    assert snp.function_class == "missense_variant,synonymous_variant"
    assert (snp.clinical, snp.allele, other.chromosome) == ("pathogenic", "N", "Y")
    assert merge_snps(snp, other).chromosome == "11"


def test_rows_without_an_id_are_not_one_record(tmp_path: Path) -> None:
    """Their rs number stands in INFO."""
    rows = [f"NC_000001.11\t{at}\t.\tT\tA\t.\t.\tRS={at};VC=SNV\n" for at in (5, 6)]
    assert [snp.snp_id for snp in _snps(tmp_path, *rows)] == [5, 6]


@pytest.mark.parametrize("chrom", ["11", "chr11", "NC_000011.10"])
def test_chromosomes_have_three_ways_to_be_named(tmp_path: Path, chrom: str) -> None:
    """Sites rename them for their own tools."""
    (snp,) = _snps(tmp_path, _row(chrom=chrom))
    assert (snp.chromosome, snp.accession) == ("11", "NC_000011.10")


def test_alternative_loci_are_passed_over(tmp_path: Path) -> None:
    """They repeat rs numbers of the chromosomes."""
    rows = (_row(chrom=name) for name in ("NT_187361.1", "NW_003315950.2", "chr1_KI270706v1_random"))
    assert _snps(tmp_path, _row(), *rows, _row(rs="rs335")) == _snps(tmp_path, _row(), _row(rs="rs335"))


def test_rows_outside_genes_can_be_left_out(tmp_path: Path) -> None:
    """A clinical significance keeps a row in."""
    rows = _row(rs="rs1"), _row("VC=SNV;GENEINFO=A:1", rs="rs2"), _row("VC=SNV;CLNSIG=.,5", rs="rs3")
    assert [snp.snp_id for snp in _snps(tmp_path, *rows, options=ReadOptions(only_in_genes=True))] == [2, 3]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (_row(pos="x"), "POS: a number was expected"),
        (_row(rs="334"), ""),
        (_row(rs="rsx"), "ID: a number was expected"),
        (_row("VC=XYZ"), "INFO VC"),
        (_row("SSR=0"), "INFO VC"),
        (_row(change="T\t<DEL>"), "ALT: bases were expected, not '<DEL>'"),
        (_row(change="\tA"), "REF: bases were expected"),
        (_row("VC=SNV;GENEINFO=HBB"), "INFO GENEINFO: SYMBOL:ID was expected, not 'HBB'"),
        (_row("VC=SNV;FREQ=1000Genomes:0.5"), "INFO FREQ"),
        (_row("VC=SNV;FREQ=1000Genomes:a,b"), "INFO FREQ"),
        (_row("VC=SNV;dbSNPBuildID=new"), "INFO dbSNPBuildID"),
        (_row(chrom="NC_000011.9"), "CHROM: 'NC_000011.9' is no chromosome of GRCh38"),
        (_row(chrom="plasmid"), "CHROM"),
        ("NC_000011.10\t5\trs3\n", "3 columns, 8 expected"),
    ],
)
def test_a_malformed_row_is_told_and_the_next_one_read(tmp_path: Path, row: str, reason: str) -> None:
    """The reason names the column. A bare number as ID is taken from INFO."""
    path = saved(tmp_path / "file.vcf", VCF_HEADER + _row(rs="rs1") + row + _row(rs="rs2"))
    assert len(items("dbsnp_vcf", path)) == 3
    told = reasons("dbsnp_vcf", path)
    assert [line for line, _ in told] == ([7] if reason else [])
    assert all(reason in text for _, text in told)


def test_a_record_with_a_malformed_row_is_told_as_a_whole(tmp_path: Path) -> None:
    """A record without one of its alleles would be wrong; the line is the malformed row's."""
    path = saved(tmp_path / "file.vcf", VCF_HEADER + _row() + _row(change="T\t?") + _row(rs="rs2"))
    assert reasons("dbsnp_vcf", path) == [(7, "ALT: bases were expected, not '?'")]
    assert len(items("dbsnp_vcf", path)) == 2


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("GRCh38.p14", "GRCh37.p13", "GRCh38 is needed"),
        ("source=dbSNP", "source=ClinVar", "not of dbSNP"),
        ("#CHROM\tPOS", "#POS\tCHROM", "#CHROM to INFO"),
        ("##fileformat=VCFv4.2\n", "", "this is no VCF"),
    ],
)
def test_another_vcf_is_refused(tmp_path: Path, old: str, new: str, reason: str) -> None:
    """Before a single row of it is read."""
    with pytest.raises(ImportFileError, match=reason):
        items("dbsnp_vcf", saved(tmp_path / "file.vcf", VCF_HEADER.replace(old, new) + _row()))


def test_a_file_of_the_older_assembly_is_refused_by_its_first_row(tmp_path: Path) -> None:
    """Where the header does not say it."""
    header = VCF_HEADER.replace("##reference=GRCh38.p14\n", "")
    with pytest.raises(ImportFileError, match=r"NC_000001\.10 is not of GRCh38, which has NC_000001\.11"):
        items("dbsnp_vcf", saved(tmp_path / "file.vcf", header + _row(chrom="NC_000001.10")))


def test_every_set_of_bases_has_its_letter(tmp_path: Path) -> None:
    """IUPAC's, as dbSNP shows alleles."""
    pairs = itertools.combinations("ACGT", 2)
    rows = [_row(rs=f"rs{at}", change="\t".join(pair)) for at, pair in enumerate(pairs, 1)]
    assert [snp.allele for snp in _snps(tmp_path, *rows)] == ["M", "R", "W", "S", "Y", "K"]

"""Generate questions about one gene or one SNP."""

from __future__ import annotations

from retrieval.ncbi.replies.condense import condense
from retrieval.ncbi.replies.records import RecordList, SnpRecord
from retrieval.types import Focus
from scripts.embedded.lookups import Lookups
from scripts.embedded.questions import phrase_question
from scripts.embedded.transcript import NOT_FOUND, Part, Transcript, summary_url
from scripts.embedded.values import OTHER_ORGANISMS, Values

_EFFECTS = ("intron_variant", "genic_upstream_transcript_variant", "missense_variant", "3_prime_UTR_variant",
            "coding_sequence_variant", "synonymous_variant", "genic_downstream_transcript_variant",
            "2KB_upstream_variant", "5_prime_UTR_variant", "non_coding_transcript_variant")  # fmt: skip


class GeneKinds:
    def __init__(self, values: Values) -> None:
        self.values = values
        self.draw = values.draw
        self.lookups = Lookups(values)

    def gene(self, kind: str) -> list[Part]:
        """``kind``: alias, conversion, location or coding."""
        v = self.values
        organism = "human" if self.draw.random() < 0.93 else self.draw.choice(OTHER_ORGANISMS[:7])
        name = {"alias": v.alias, "conversion": v.ensembl, "location": v.symbol, "coding": v.symbol}[kind]()
        if kind != "conversion" and self.draw.random() < 0.3:
            name = v.alias()
        transcript = Transcript(phrase_question(self.draw, kind, name, organism))
        gene = self.lookups.gene(transcript, name, Focus((name,), organism, "none", places=kind == "location"))
        if isinstance(gene, str):
            return transcript.answer(gene)
        place = f"chr{gene.chromosome}" if gene.chromosome else "no chromosome"
        coding = "Yes" if gene.gene_type == "protein-coding" else "No"
        return transcript.answer({"location": place, "coding": coding}.get(kind, gene.symbol))

    def snp_gene(self) -> list[Part]:
        transcript, snp = self._read_snp("snp_gene")
        if isinstance(snp, str):
            return transcript.answer(snp)
        return transcript.answer(snp.genes[0][0] if snp.genes else "no gene")

    def snp_location(self) -> list[Part]:
        transcript, snp = self._read_snp("snp_location")
        return transcript.answer(snp if isinstance(snp, str) else f"chr{snp.chromosome}")

    def snp_function(self) -> list[Part]:
        transcript, snp = self._read_snp("snp_function")
        if isinstance(snp, str):
            return transcript.answer(snp)
        if not snp.genes:
            return transcript.answer("no gene")
        symbol, uid = snp.genes[0]
        gene = self.values.gene(uid=uid, symbol=symbol)
        if not gene.summary and self.draw.random() < 0.5:
            gene = self.values.gene(uid=uid, symbol=symbol, gene_type="protein-coding", summary=self.values.summary())
        url = summary_url("gene", uid)
        if failed := self.lookups.failed(transcript, url):
            return transcript.answer(failed)
        reply = condense(RecordList("gene", (gene,)), Focus(summary="lead")).text
        transcript.call(url, reply)
        lead = reply.split("\n1. ", 1)[1].split(f"; {symbol} (", 1)[0]
        return transcript.answer(lead.removesuffix(", no summary"))

    def _read_snp(self, kind: str) -> tuple[Transcript, SnpRecord | str]:
        number = self.values.rs_number()
        transcript = Transcript(phrase_question(self.draw, kind, f"rs{number}"))
        url = summary_url("snp", number)
        if failed := self.lookups.failed(transcript, url):
            return transcript, failed
        if self.draw.random() < 0.03:
            transcript.call(url, "[0 records; cannot get document summary]")
            return transcript, NOT_FOUND
        snp = self._snp(number)
        transcript.call(url, condense(RecordList("snp", (snp,)), Focus()).text)
        return transcript, snp

    def _snp(self, number: str) -> SnpRecord:
        v, d = self.values, self.draw
        chromosome = v.chromosome()
        genes = tuple((v.symbol(), v.gene_id()) for _ in range(d.choices([0, 1, 2, 3], [5, 77, 14, 4])[0]))
        return SnpRecord(
            uid=number,
            chromosome=chromosome,
            position=f"{chromosome}:{v.number(5, 9)}",
            genes=genes,
            function=", ".join(d.sample(_EFFECTS, d.choice([0, 1, 1, 2, 3, 5]))),
            alleles="/".join(d.sample("ACGT", d.randint(2, 3))),
            clinical=d.choice(["", "", "", "", "benign", "pathogenic", "likely-benign", "uncertain-significance"]),
        )

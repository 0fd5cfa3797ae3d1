"""Generates the transcripts the embedded model learns from: question, calls, condensed replies, answer.

Replies are made by the real condensing code from random records, so the model sees in training exactly what it sees
in service. Only model-written parts (``written``) are learnt; what is injected or asked is context.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from retrieval.ncbi.condense import condense
from retrieval.ncbi.records import (
    BlastHit,
    BlastResult,
    FailedRecord,
    GeneRecord,
    IdList,
    OmimRecord,
    RecordList,
    SnpRecord,
)
from retrieval.types import Focus
from scripts.embedded.questions import COT, phrase_question
from scripts.embedded.tokenizer import BLAST_END, BLAST_PUT, EUTILS
from scripts.embedded.values import OTHER_ORGANISMS, Values

NOT_FOUND = "not found"
CALL_FAILED = "not available, the call failed"
OUT_OF_SCOPE = "this small model only looks up genes, SNPs, diseases and sequences"
_MAX_ASKED = 5  # gene records asked for at once; OMIM entries: 20


@dataclass(frozen=True, slots=True)
class Part:
    text: str
    written: bool


class Transcript:
    """Collects the parts of one answer."""

    def __init__(self, question: str) -> None:
        self.parts = [Part(f"Question: {question}\n", False)]

    def call(self, url: str, reply: str) -> None:
        self.parts += [Part(f"[{url}]->", True), Part(f"{reply}\n", False)]

    def answer(self, text: str) -> list[Part]:
        self.parts.append(Part(f"Answer: {text}\n\n", True))
        return self.parts


def search_url(db: str, term: str) -> str:
    many = 20 if db == "omim" else _MAX_ASKED
    return f"{EUTILS}esearch.fcgi?db={db}&retmax={many}&retmode=json&sort=relevance&term={term.replace(' ', '+')}"


def summary_url(db: str, ids: str) -> str:
    many = 20 if db == "omim" else _MAX_ASKED
    return f"{EUTILS}esummary.fcgi?db={db}&retmax={many}&retmode=json&id={ids}"


class Generator:
    """One seeded stream of transcripts. ``kind`` names a question type; see ``KINDS``."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.values = Values(self.draw)
        self.kinds: dict[str, tuple[float, Callable[[], list[Part]]]] = {
            "copy": (0.0, self.copy),
            "alias": (3.0, lambda: self._gene_question("alias")),
            "conversion": (1.5, lambda: self._gene_question("conversion")),
            "location": (2.0, lambda: self._gene_question("location")),
            "coding": (1.5, lambda: self._gene_question("coding")),
            "snp_gene": (1.2, self._snp_gene),
            "snp_location": (1.2, self._snp_location),
            "disease": (3.0, lambda: self._disease(locations=False)),
            "disease_location": (2.0, lambda: self._disease(locations=True)),
            "alignment": (1.5, lambda: self._blast("alignment")),
            "species": (1.5, lambda: self._blast("species")),
            "snp_function": (2.0, self._snp_function),
            "sequence_alias": (1.5, self._sequence_alias),
            "other": (0.2, self._other),
        }

    def draw_one(self, kind: str = "") -> list[Part]:
        names = list(self.kinds)
        kind = kind or self.draw.choices(names, [self.kinds[n][0] for n in names])[0]
        return self.kinds[kind][1]()

    def copy(self) -> list[Part]:
        """Warm-up: random identifiers, then the same again."""
        v = self.values
        makers: list[Callable[[], str]] = [
            v.symbol,
            v.alias,
            v.gene_id,
            v.dna,
            v.word,
            v.ensembl,
            lambda: v.phrase(2, 5),
            lambda: v.band("7"),
        ]
        text = ", ".join(self.draw.choice(makers)() for _ in range(self.draw.randint(1, 8)))
        return [Part(f"Question: {text}\n", False), Part(f"Answer: {text}\n\n", True)]

    # Genes

    def _gene_question(self, kind: str) -> list[Part]:
        v = self.values
        organism = "human" if self.draw.random() < 0.93 else self.draw.choice(OTHER_ORGANISMS[:7])
        name = {"alias": v.alias, "conversion": v.ensembl, "location": v.symbol, "coding": v.symbol}[kind]()
        if kind != "conversion" and self.draw.random() < 0.15:
            name = v.alias()
        transcript = Transcript(phrase_question(self.draw, kind, name, organism))
        gene = self._look_up_gene(transcript, name, organism, known_name=kind != "conversion")
        if isinstance(gene, str):
            return transcript.answer(gene)
        place = f"chr{gene.chromosome}" if gene.chromosome else "no chromosome"
        coding = "Yes" if gene.gene_type == "protein-coding" else "No"
        return transcript.answer({"location": place, "coding": coding}.get(kind, gene.symbol))

    def _look_up_gene(
        self, transcript: Transcript, name: str, organism: str = "human", *, known_name: bool = True
    ) -> GeneRecord | str:
        """Search, then read the summaries; the gene, or the answer that stands for none."""
        if failed := self._maybe_failed(transcript, search_url("gene", name)):
            return failed
        matching = self.draw.random() < (0.86 if known_name else 0.0)
        genes = self._gene_hits(name, organism, matching=matching, single=not known_name)
        if self.draw.random() < 0.04:
            genes = []
        self._search(transcript, "gene", name, [g.uid for g in genes])
        if not genes:
            return NOT_FOUND
        focus = Focus((name,), organism, summaries=self.draw.random() < 0.15)
        if found := self._read_genes(transcript, genes, focus):
            return found
        term = f"{name} AND {organism}[orgn]"
        retried = self._gene_hits(name, organism, matching=self.draw.random() < 0.6, single=False)
        retried = retried if self.draw.random() < 0.8 else []
        self._search(transcript, "gene", term, [g.uid for g in retried])
        if not retried:
            return NOT_FOUND
        return self._read_genes(transcript, retried, focus) or NOT_FOUND

    def _gene_hits(self, name: str, organism: str, *, matching: bool, single: bool) -> list[GeneRecord]:
        v, d = self.values, self.draw
        genes: list[GeneRecord] = []
        if matching:
            other = [v.alias() for _ in range(d.choice([0, 1, 2, 3]))]
            other.insert(d.randrange(len(other) + 1), name)
            named = {"aliases": tuple(other)} if d.random() < 0.6 else {"symbol": name}
            genes.append(v.gene(organism=organism, **named))
        if single:
            return [*genes, v.gene(organism=organism)][:1]
        for _ in range(d.choice([0, 0, 1, 2, 3, 4])):
            where = d.choice([organism, *OTHER_ORGANISMS])
            same = d.random() < 0.5 and where != organism
            fields: dict[str, object] = (
                {"symbol": name} if same and d.random() < 0.5 else {"aliases": (name,)} if same else {}
            )
            if d.random() < 0.1:
                fields |= {"replaced_by": v.gene_id(), "symbol": name, "chromosome": ""}
            genes.append(v.gene(organism=where, **fields))
        d.shuffle(genes)
        return genes or [v.gene(organism=d.choice(OTHER_ORGANISMS)), v.gene()]

    def _search(self, transcript: Transcript, db: str, term: str, ids: list[str]) -> None:
        asked = ids[: 20 if db == "omim" else _MAX_ASKED]
        count = len(asked) if self.draw.random() < 0.6 else len(asked) + self.draw.randint(0, 600) * bool(asked)
        transcript.call(search_url(db, term), condense(IdList(count, tuple(asked)), Focus()).text)

    def _read_genes(self, transcript: Transcript, genes: list[GeneRecord], focus: Focus) -> GeneRecord | str:
        """The first record, by the reply's own first line; "" when none of several is named as asked."""
        genes = genes[:_MAX_ASKED]
        url = summary_url("gene", ",".join(g.uid for g in genes))
        if failed := self._maybe_failed(transcript, url):
            return failed
        records: list[GeneRecord | FailedRecord] = list(genes)
        if len(genes) > 1 and self.draw.random() < 0.15:
            records[-1] = FailedRecord(genes[-1].uid, "cannot get document summary")
        reply = condense(RecordList("gene", tuple(records)), focus)
        transcript.call(url, reply.text)
        head = reply.text.split("\n", 1)[0]
        named = re.search(r", (\d+) ", head)
        if head.startswith("[1 ") or (named and int(named[1])):
            return next(g for g in genes if g.uid == reply.ids[0])
        return ""

    def _maybe_failed(self, transcript: Transcript, url: str) -> str:
        """Now and then a call fails; the answer then says so."""
        if self.draw.random() > 0.012:
            return ""
        causes = ["NCBI timed out after 30 s", "NCBI could not be reached", "NCBI is unavailable (503)", "rate limit"]
        transcript.call(url, f"[error: {self.draw.choice([*causes, self.values.phrase(2, 9)])}]")
        return CALL_FAILED

    # SNPs

    def _snp(self, number: str) -> SnpRecord:
        v, d = self.values, self.draw
        chromosome = v.chromosome()
        functions = ["intron_variant", "genic_upstream_transcript_variant", "missense_variant", "3_prime_UTR_variant"]
        genes = tuple((v.symbol(), v.gene_id()) for _ in range(d.choices([0, 1, 2, 3], [5, 80, 12, 3])[0]))
        return SnpRecord(
            uid=number,
            chromosome=chromosome,
            position=f"{chromosome}:{v.number(5, 9)}",
            genes=genes,
            function=", ".join(d.sample(functions, d.randint(0, 2))),
            alleles="/".join(d.sample("ACGT", d.randint(2, 3))),
        )

    def _read_snp(self, kind: str) -> tuple[Transcript, SnpRecord | str]:
        number = self.values.rs_number()
        transcript = Transcript(phrase_question(self.draw, kind, f"rs{number}"))
        url = summary_url("snp", number)
        if failed := self._maybe_failed(transcript, url):
            return transcript, failed
        if self.draw.random() < 0.02:
            transcript.call(url, "[0 records; cannot get document summary]")
            return transcript, NOT_FOUND
        snp = self._snp(number)
        transcript.call(url, condense(RecordList("snp", (snp,)), Focus()).text)
        return transcript, snp

    def _snp_gene(self) -> list[Part]:
        transcript, snp = self._read_snp("snp_gene")
        if isinstance(snp, str):
            return transcript.answer(snp)
        return transcript.answer(snp.genes[0][0] if snp.genes else "none")

    def _snp_location(self) -> list[Part]:
        transcript, snp = self._read_snp("snp_location")
        return transcript.answer(snp if isinstance(snp, str) else f"chr{snp.chromosome}")

    def _snp_function(self) -> list[Part]:
        transcript, snp = self._read_snp("snp_function")
        if isinstance(snp, str):
            return transcript.answer(snp)
        if not snp.genes:
            return transcript.answer("none")
        symbol, uid = snp.genes[0]
        gene = self.values.gene(uid=uid, symbol=symbol)
        if gene.gene_type == "protein-coding" and not gene.summary and self.draw.random() < 0.7:
            gene = self.values.gene(uid=uid, symbol=symbol, gene_type="protein-coding", summary=self.values.summary())
        url = summary_url("gene", uid)
        if failed := self._maybe_failed(transcript, url):
            return transcript.answer(failed)
        transcript.call(url, condense(RecordList("gene", (gene,)), Focus()).text)
        return transcript.answer(gene.summary or gene.gene_type)

    # Diseases

    def _disease(self, *, locations: bool) -> list[Part]:
        name = self.values.disease()
        transcript = Transcript(phrase_question(self.draw, "disease_location" if locations else "disease", name))
        if failed := self._maybe_failed(transcript, search_url("omim", name)):
            return transcript.answer(failed)
        entries = self._omim_hits(name) if self.draw.random() > 0.04 else []
        self._search(transcript, "omim", name, [e.uid for e in entries])
        if not entries:
            return transcript.answer(NOT_FOUND)
        url = summary_url("omim", ",".join(e.uid for e in entries))
        if failed := self._maybe_failed(transcript, url):
            return transcript.answer(failed)
        reply = condense(RecordList("omim", tuple(entries)), Focus((name,))).text
        transcript.call(url, reply)
        rows = re.findall(r"\n\d+\. (\S+) ([^;]+);", reply)
        found = [place if locations else symbol for symbol, place in rows]
        return transcript.answer(", ".join(dict.fromkeys(found)) or NOT_FOUND)

    def _omim_hits(self, disease: str) -> list[OmimRecord]:
        """Phenotypes on the topic with their genes, and others, as a search returns them."""
        v, d = self.values, self.draw
        entries: list[OmimRecord] = []
        for number in range(1, d.choice([0, 1, 1, 1, 1, 2, 2, 3, 4]) + 1):
            band = v.band(v.chromosome())
            title = disease.upper().replace(" SYNDROME", "") + (f" {number}" if number > 1 else "")
            entries.append(v.omim(prefix="#", title=title, loci=(band,)))
            if d.random() < 0.9:
                entries.append(v.omim(prefix="*", symbol=v.symbol(), loci=(band,)))
        entries += [v.omim() for _ in range(d.choice([0, 0, 1, 2, 3, 6, 12, 16]))]
        d.shuffle(entries)
        return entries[:20]

    # Sequences

    def _blast(self, kind: str) -> list[Part]:
        sequence = self.values.dna()
        transcript = Transcript(phrase_question(self.draw, kind, sequence))
        url = f"{BLAST_PUT}{sequence}{BLAST_END}"
        if failed := self._maybe_failed(transcript, url):
            return transcript.answer(failed)
        reply = self._hits(len(sequence), human=kind == "alignment")
        transcript.call(url, reply)
        found = re.match(r"\[\d+ blast hits?: (.+?) (chr\S+|no chromosome)", reply)
        if not found:
            return transcript.answer(NOT_FOUND)
        return transcript.answer(found[1] if kind == "species" else found[2].rstrip("]"))

    def _hits(self, length: int, *, human: bool, gene: str = "") -> str:
        v, d = self.values, self.draw
        if not gene and d.random() < 0.06:
            return condense(BlastResult(length, ()), Focus()).text
        species: tuple[str, ...] = (
            "Homo sapiens",
            "Mus musculus",
            "Rattus norvegicus",
            "Danio rerio",
            "Caenorhabditis elegans",
        )
        species += ("Saccharomyces cerevisiae S288C", "Gallus gallus", "Drosophila melanogaster", "Bos taurus")
        main = "Homo sapiens" if human or gene else d.choice([*species, v.word().capitalize() + " " + v.word()])
        bits = float(d.randint(90, 280))
        chromosome = v.chromosome()
        hits = []
        for place in range(d.choice([1, 2, 3, 4, 5, 5, 5])):
            start = d.randint(1, 200_000_000)
            title = self._title(main if d.random() < 0.85 else d.choice(species), chromosome, gene)
            accession = f"{v.chars('ABCDEFGHJKLMNPQRSTUVWXYZ', 2, 2)}{v.chars('0123456789', 6, 6)}.{d.randint(1, 9)}"
            if human and place == 0 and d.random() < 0.25:
                accession = d.choice(["NC_000001.11", "NC_000007.14", "NC_000015.10", "NC_000023.11", "NC_000019.10"])
            score = bits if d.random() < 0.6 else bits - d.randint(0, 40)
            hits.append(
                BlastHit(
                    accession=accession,
                    title=title,
                    bits=score,
                    expect=1e-40,
                    identities=length - d.randint(0, 5),
                    align_length=length,
                    subject_start=start,
                    subject_stop=start + length - 1,
                )
            )
        return condense(BlastResult(length, tuple(hits)), Focus()).text

    def _title(self, species: str, chromosome: str, gene: str) -> str:
        v, d = self.values, self.draw
        forms = [
            f"{species} chromosome {chromosome}, complete sequence",
            f"{species} BAC clone {v.alias()} from chromosome {chromosome}, complete sequence",
            f"{species} genome assembly, chromosome: {chromosome}",
            f"{species} isolate {v.alias()} chromosome {chromosome}",
            f"{species} {v.phrase(2, 5)}, mRNA",
            f"Eukaryotic synthetic construct chromosome {chromosome}",
        ]
        if gene or d.random() < 0.2:
            named = f"{species} {v.phrase(1, 5)} ({gene or v.symbol()})"
            forms = [
                f"{named}, transcript variant {d.randint(1, 9)}, mRNA",
                f"{named}, RefSeqGene on chromosome {chromosome}",
            ]
        return d.choice(forms)

    def _sequence_alias(self) -> list[Part]:
        sequence = self.values.dna()
        transcript = Transcript(phrase_question(self.draw, "sequence_alias", sequence))
        url = f"{BLAST_PUT}{sequence}{BLAST_END}"
        if failed := self._maybe_failed(transcript, url):
            return transcript.answer(failed)
        reply = self._hits(len(sequence), human=True, gene=self.values.symbol() if self.draw.random() < 0.9 else "")
        transcript.call(url, reply)
        symbol = re.match(r"\[\d+ blast hits?: [^\n]* gene ([^\s\]]+)", reply)
        if not symbol:
            return transcript.answer(NOT_FOUND)
        gene = self._look_up_gene(transcript, symbol[1])
        if isinstance(gene, str):
            return transcript.answer(gene)
        return transcript.answer(", ".join([gene.symbol, *gene.aliases]))

    def _other(self) -> list[Part]:
        words = self.values.phrase(2, 9)
        starts = ["What is", "How does", "Why is", "Tell me about", "Explain", "Which treatment helps in", "Hello,", ""]
        return Transcript(f"{self.draw.choice(starts)} {words}{self.draw.choice(['?', '.', ''])}".strip()).answer(
            OUT_OF_SCOPE
        )


__all__ = ["COT", "Generator", "Part"]

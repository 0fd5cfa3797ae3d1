"""Generate questions about a DNA sequence: BLAST, and from its hits to the gene."""

from __future__ import annotations

import re

from retrieval.ncbi.replies.condense import condense
from retrieval.ncbi.replies.records import BlastHit, BlastResult
from retrieval.types import Focus
from scripts.embedded.identifiers import DIGITS
from scripts.embedded.lookups import Lookups
from scripts.embedded.questions import phrase_question
from scripts.embedded.tokenizer import BLAST_END, BLAST_PUT
from scripts.embedded.transcript import NOT_FOUND, Part, Transcript
from scripts.embedded.values import Values

_SPECIES = ("Homo sapiens", "Mus musculus", "Rattus norvegicus", "Danio rerio", "Caenorhabditis elegans",
            "Saccharomyces cerevisiae S288C", "Gallus gallus", "Drosophila melanogaster", "Bos taurus")  # fmt: skip
_GENOME = ("NC_000001.11", "NC_000007.14", "NC_000015.10", "NC_000023.11", "NC_000019.10")
_PLACE = "(chr[^\\s\\]]+|no chromosome)"
_FIRST = {
    "alignment": re.compile(rf"\[\d+ blast hits?\n1\. {_PLACE}"),
    "species": re.compile(rf"\[\d+ blast hits?\n1\. ([^\n]+?) {_PLACE}"),
}
_FIRST_GENE = re.compile(r"\[\d+ blast hits?\n1\. [^\n]* gene ([^\s\]]+)")


class SequenceKinds:
    def __init__(self, values: Values) -> None:
        self.values = values
        self.draw = values.draw
        self.lookups = Lookups(values)

    def place(self, kind: str) -> list[Part]:
        """``kind``: alignment or species."""
        transcript, reply = self._blast(kind, human=kind == "alignment")
        found = _FIRST[kind].match(reply)
        if not found:
            return transcript.answer(reply if not reply.startswith("[") else NOT_FOUND)
        return transcript.answer(found[1])

    def aliases(self) -> list[Part]:
        symbol = self.values.symbol() if self.draw.random() < 0.9 else ""
        transcript, reply = self._blast("sequence_alias", human=True, gene=symbol)
        named = _FIRST_GENE.match(reply)
        if not named:
            return transcript.answer(reply if not reply.startswith("[") else NOT_FOUND)
        gene = self.lookups.gene(transcript, named[1], Focus((named[1],), summary="none"))
        if isinstance(gene, str):
            return transcript.answer(gene)
        return transcript.answer(", ".join([gene.symbol, *gene.aliases]))

    def _blast(self, kind: str, *, human: bool, gene: str = "") -> tuple[Transcript, str]:
        """The transcript so far and the condensed reply, or the answer that stands for a failed call."""
        sequence = self.values.dna()
        transcript = Transcript(phrase_question(self.draw, kind, sequence))
        url = f"{BLAST_PUT}{sequence}{BLAST_END}"
        if failed := self.lookups.failed(transcript, url):
            return transcript, failed
        reply = self._hits(len(sequence), Focus(places=kind == "alignment"), human=human, gene=gene)
        transcript.call(url, reply)
        return transcript, reply

    def _hits(self, length: int, focus: Focus, *, human: bool, gene: str = "") -> str:
        v, d = self.values, self.draw
        if d.random() < 0.06:
            return condense(BlastResult(length, ()), focus).text
        main = "Homo sapiens" if human else d.choice([*_SPECIES, v.word().capitalize() + " " + v.word()])
        bits, chromosome = float(d.randint(90, 280)), v.chromosome()
        hits = []
        for place in range(d.choice([1, 2, 3, 4, 5, 5, 5])):
            start = d.randint(1, 200_000_000)
            accession = f"{v.chars('ABCDEFGHJKLMNPQRSTUVWXYZ', 2, 2)}{v.chars(DIGITS, 6, 6)}.{d.randint(1, 9)}"
            if human and place == 0 and d.random() < 0.25:
                accession = d.choice(_GENOME)
            hit = BlastHit(
                accession=accession,
                title=self._title(main if d.random() < 0.85 else d.choice(_SPECIES), chromosome, gene),
                bits=bits if d.random() < 0.6 else bits - d.randint(0, 40),
                expect=1e-40,
                identities=length - d.randint(0, 5),
                align_length=length,
                subject_start=start,
                subject_stop=start + d.choice([-1, 1]) * (length - 1),
            )
            hits.append(hit)
        return condense(BlastResult(length, tuple(hits)), focus).text

    def _title(self, species: str, chromosome: str, gene: str) -> str:
        v, d = self.values, self.draw
        forms = [
            f"{species} chromosome {chromosome}, complete sequence",
            f"{species} BAC clone {v.alias()} from chromosome {chromosome}, complete sequence",
            f"{species} genome assembly, chromosome: {chromosome}",
            f"{species} isolate {v.alias()} chromosome {chromosome}",
            f"{species} strain {v.alias()} chromosome {chromosome}, whole genome shotgun sequence",
            f"{species} {v.phrase(2, 5)}, mRNA",
            f"Eukaryotic synthetic construct chromosome {chromosome}",
            f"Zebrafish DNA sequence from clone {v.alias()} in linkage group {chromosome}, complete sequence",
            f"Mouse DNA sequence from clone {v.alias()} on chromosome {chromosome}, complete sequence",
            f"Human DNA sequence from clone {v.alias()} on chromosome {chromosome}",
            f"PREDICTED: {species} {v.phrase(1, 4)} ({v.symbol()}), mRNA",
        ]
        if gene or d.random() < 0.2:
            named = f"{species} {v.phrase(1, 5)} ({gene or v.symbol()})"
            forms = [
                f"{named}, transcript variant {d.randint(1, 9)}, mRNA",
                f"{named}, RefSeqGene on chromosome {chromosome}",
            ]
        return d.choice(forms)

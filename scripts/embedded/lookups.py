"""Generate calls that several kinds of question make, with the replies of a search or a summary."""

from __future__ import annotations

import re
from dataclasses import replace

from retrieval.ncbi.replies.condense import condense
from retrieval.ncbi.replies.records import FailedRecord, GeneRecord, IdList, RecordList
from retrieval.types import Focus
from scripts.embedded.transcript import (
    CALL_FAILED,
    MAX_ASKED,
    NOT_FOUND,
    Transcript,
    most_asked,
    search_url,
    summary_url,
)
from scripts.embedded.values import OTHER_ORGANISMS, Values

_FAILED = 0.03  # share of calls that fail
_CAUSES = ("NCBI timed out after 30 s", "NCBI could not be reached", "NCBI is unavailable (503)", "rate limit")


class Lookups:
    def __init__(self, values: Values) -> None:
        self.values = values
        self.draw = values.draw

    def failed(self, transcript: Transcript, url: str) -> str:
        """Now and then a call fails; the answer then says so. "" when it does not fail."""
        if self.draw.random() > _FAILED:
            return ""
        transcript.call(url, f"[error: {self.draw.choice([*_CAUSES, self.values.phrase(2, 12)])}]")
        return CALL_FAILED

    def search(self, transcript: Transcript, db: str, term: str, ids: list[str]) -> None:
        asked = ids[: most_asked(db)]
        more = self.draw.choice([self.draw.randint(1, 9), self.draw.randint(1, 600)])
        count = len(asked) + (more if asked and self.draw.random() < 0.4 else 0)
        if not asked and self.draw.random() < 0.02:
            count = self.draw.randint(1, 9)
        transcript.call(search_url(db, term), condense(IdList(count, tuple(asked)), Focus()).text)

    def gene(self, transcript: Transcript, name: str, focus: Focus) -> GeneRecord | str:
        """Search, then read the summaries; the gene, or the answer that stands for none.

        An Ensembl identifier finds one record, which does not carry it; other names find records that do.
        """
        organism, known_name = focus.organism, not name.startswith("ENSG")
        if failed := self.failed(transcript, search_url("gene", name)):
            return failed
        matching = self.draw.random() < (0.86 if known_name else 0.0)
        genes = self._hits(name, organism, matching=matching, single=not known_name)
        if self.draw.random() < 0.04:
            genes = []
        self.search(transcript, "gene", name, [g.uid for g in genes])
        if not genes:
            return NOT_FOUND
        if found := self._read(transcript, genes, focus):
            return found
        term = f"{name} AND {organism}[orgn]"
        retried = self._hits(name, organism, matching=self.draw.random() < 0.6, single=False)
        retried = retried if self.draw.random() < 0.7 else []
        self.search(transcript, "gene", term, [g.uid for g in retried])
        if not retried:
            return NOT_FOUND
        return self._read(transcript, retried, focus) or NOT_FOUND

    def _hits(self, name: str, organism: str, *, matching: bool, single: bool) -> list[GeneRecord]:
        """Records as a search returns them: the gene, its former entries, its orthologs, its relatives, strangers."""
        v, d = self.values, self.draw
        if single:
            return [v.gene(organism=organism)]
        genes: list[GeneRecord] = []
        if matching:
            genes.append(self._named(name, organism))
        for _ in range(d.choice([0, 0, 1, 2, 3, 4])):
            genes.append(self._another(name, organism, genes[0] if genes else None))
        d.shuffle(genes)
        return genes or [v.gene(organism=d.choice(OTHER_ORGANISMS)), v.gene()]

    def _named(self, name: str, organism: str) -> GeneRecord:
        v, d = self.values, self.draw
        if d.random() < 0.4:
            return v.gene(organism=organism, symbol=name)
        symbol = v.relative(name) if d.random() < 0.3 else v.symbol()
        gene = v.gene(organism=organism, symbol=symbol)
        others = list(gene.aliases)
        others.insert(d.randrange(len(others) + 1), name)
        return replace(gene, aliases=tuple(others))

    def _another(self, name: str, organism: str, first: GeneRecord | None) -> GeneRecord:
        v, d = self.values, self.draw
        kind = d.random()
        if first and kind < 0.15:  # a former entry of the same gene
            now = d.choice([first.uid, v.gene_id()])
            names: dict[str, object] = d.choice([{"symbol": first.symbol}, {"symbol": name}, {"aliases": (name,)}])
            return v.gene(organism=organism, replaced_by=now, name=first.name, gene_type=first.gene_type, **names)
        elsewhere = d.choice([o for o in OTHER_ORGANISMS if o != organism] or ["mouse"])
        if first and kind < 0.45:  # an ortholog
            symbol = v.in_the_case_of(elsewhere, first.symbol)
            return v.gene(organism=elsewhere, symbol=symbol, name=first.name, gene_type=first.gene_type)
        if kind < 0.6:
            same: dict[str, object] = {"symbol": name} if d.random() < 0.5 else {"aliases": (name,)}
            return v.gene(organism=elsewhere, **same)
        if kind < 0.75:  # another member of the family, or a second gene of the name
            symbol = v.relative(first.symbol if first else name)
            return v.gene(organism=organism, symbol=symbol, aliases=(name,) if d.random() < 0.3 else (v.alias(),))
        where = d.choice([organism, elsewhere])
        retired: dict[str, object] = {"replaced_by": v.gene_id(), "chromosome": ""} if d.random() < 0.15 else {}
        return v.gene(organism=where, **retired)

    def _read(self, transcript: Transcript, genes: list[GeneRecord], focus: Focus) -> GeneRecord | str:
        """The first record of the condensed reply; "" when none of several is named as asked."""
        genes = genes[:MAX_ASKED]
        url = summary_url("gene", ",".join(g.uid for g in genes))
        if failed := self.failed(transcript, url):
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

"""Draw random records in the shapes of NCBI's. None of them is a fact."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval.ncbi.replies.records import GeneRecord, GeneType, OmimRecord
from scripts.embedded.prose import Prose

OTHER_ORGANISMS = (
    *("mouse", "rat", "zebrafish", "worm", "yeast", "chicken", "fruit fly", "cattle", "pig", "dog", "thale cress"),
    *("fission yeast", "chimpanzee", "rhesus monkey", "African clawed frog", "tropical clawed frog", "rabbit"),
)


@dataclass(frozen=True, slots=True)
class Values(Prose):
    """Draws everything from one seeded source."""

    def in_the_case_of(self, organism: str, symbol: str) -> str:
        """The symbol as the organism's nomenclature writes it."""
        if organism in ("mouse", "rat"):
            return symbol.capitalize()
        if organism in ("zebrafish", "worm", "tropical clawed frog", "African clawed frog"):
            return symbol.lower()
        return symbol

    def gene(self, **fixed: object) -> GeneRecord:
        """A gene record; ``fixed`` overrides any of its fields."""
        d = self.draw
        organism = str(fixed.get("organism") or "human")
        elsewhere = [str(d.randint(1, 30)), "X", "2R", "IV", "Un", "VIII", "4L", ""]
        chromosome = self.chromosome() if organism == "human" else d.choice(elsewhere)
        kinds: list[GeneType] = ["protein-coding", "pseudogene", "ncRNA"]
        kind = d.choices(kinds, [5, 2, 2])[0]
        symbol = str(fixed.get("symbol") or self.in_the_case_of(organism, self.symbol()))
        centimorgans = f"{chromosome} {d.randint(1, 90)}.{d.randint(1, 99)} cM" if chromosome else ""
        values: dict[str, object] = {
            "uid": self.gene_id(),
            "symbol": symbol,
            "name": self.gene_name(kind, symbol),
            "organism": organism if d.random() < 0.99 else f"{self.word().capitalize()} {self.word()} {self.symbol()}",
            "chromosome": chromosome,
            "location": self.band(chromosome) if organism == "human" else d.choice(["", centimorgans]),
            "aliases": self._aliases(symbol),
            "gene_type": kind,
            "summary": self.summary() if kind == "protein-coding" and d.random() < 0.55 else "",
        }
        return GeneRecord(**(values | fixed))  # type: ignore[arg-type]  # the keys are the record's own

    def _aliases(self, symbol: str) -> tuple[str, ...]:
        """In NCBI's order, by the letters; many look like the symbol."""
        d = self.draw
        number = d.choice([0, 1, 1, 2, 2, 3, 4, 6, 9])
        names = {self.relative(symbol) if d.random() < 0.35 else self.alias() for _ in range(number)} - {symbol}
        return tuple(sorted(names))

    def omim(self, **fixed: object) -> OmimRecord:
        chromosome = self.chromosome()
        gene = self.draw.random() < 0.45
        values: dict[str, object] = {
            "uid": self.number(6, 6),
            "prefix": self.draw.choice("****+") if gene else self.draw.choice("###%"),
            "title": self.phrase(1, 6).upper(),
            "symbol": self.symbol() if gene or self.draw.random() < 0.8 else "",
            "loci": (self.band(chromosome),) if self.draw.random() < 0.92 else (),
        }
        return OmimRecord(**(values | fixed))  # type: ignore[arg-type]  # the keys are the record's own

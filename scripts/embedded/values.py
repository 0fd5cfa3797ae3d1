"""Random identifiers, names and records in the shapes NCBI's have. Nothing here is a fact; all of it is drawn."""

from __future__ import annotations

import random
import string
from dataclasses import dataclass, field

from retrieval.ncbi.records import GeneRecord, GeneType, OmimRecord
from scripts.embedded.words import affixes, common_words

UPPER, LOWER, DIGITS = string.ascii_uppercase, string.ascii_lowercase, string.digits
OTHER_ORGANISMS = (
    *("mouse", "rat", "zebrafish", "worm", "yeast", "chicken", "fruit fly", "cattle", "pig", "dog", "thale cress"),
    *("fission yeast", "chimpanzee", "rhesus monkey", "African clawed frog", "tropical clawed frog", "rabbit"),
)


@dataclass(frozen=True, slots=True)
class Values:
    """Draws everything from one seeded source."""

    draw: random.Random
    _words: list[str] = field(default_factory=common_words)

    def chars(self, alphabet: str, low: int, high: int) -> str:
        return "".join(self.draw.choices(alphabet, k=self.draw.randint(low, high)))

    def number(self, low_digits: int, high_digits: int) -> str:
        first = self.draw.choice("123456789")
        return first + self.chars(DIGITS, low_digits - 1, high_digits - 1)

    def gene_id(self) -> str:
        return self.number(*self.draw.choice([(2, 4), (4, 6), (5, 6), (6, 9), (9, 9)]))

    def symbol(self) -> str:
        """An official-looking symbol, mostly human-style."""
        d = self.draw
        style = d.random()
        if style < 0.62:
            return self.chars(UPPER, 2, 6) + d.choice(["", "", self.number(1, 2), self.number(1, 3), self.number(1, 1)])
        if style < 0.70:
            return (
                self.chars(UPPER, 2, 4)
                + self.number(1, 2)
                + self.chars(UPPER, 1, 2)
                + d.choice(["", self.number(1, 2)])
            )
        if style < 0.75:
            return "LOC" + self.number(9, 9)
        if style < 0.79:
            return "LINC" + self.chars(DIGITS, 5, 5)
        if style < 0.83:
            return "MIR" + self.number(2, 4) + d.choice(["", "A", "B2", "HG"])
        if style < 0.87:
            return f"C{d.randint(1, 22)}orf{self.number(1, 3)}"
        if style < 0.91:
            return self.chars(UPPER, 2, 6) + d.choice(["-AS1", "-AS2", "-DT", "-IT1", "OS"])
        if style < 0.95:
            return f"{self.chars(UPPER, 3, 5)}{self.number(1, 2)}-{self.chars(UPPER, 3, 5)}{self.number(1, 2)}"
        return self.chars(UPPER, 2, 5) + self.number(1, 2) + "P" + self.number(1, 2)

    def alias(self) -> str:
        """A synonym: symbols, and the odder forms they come in."""
        d = self.draw
        style = d.random()
        if style < 0.5:
            return self.symbol()
        if style < 0.6:
            return self.chars(UPPER, 1, 4) + "-" + self.number(1, 3)
        if style < 0.68:
            return d.choice(LOWER) + self.chars(UPPER, 2, 4) + d.choice(["", self.number(1, 2)])
        if style < 0.74:
            return self.chars(LOWER, 2, 5) + self.number(1, 3)
        if style < 0.80:
            return (
                self.chars(UPPER, 1, 1)
                + self.chars(LOWER, 2, 4)
                + d.choice(["", "-"])
                + self.chars(UPPER + DIGITS, 1, 3)
            )
        if style < 0.86:
            library = d.choice(["RP11", "RP4", "CTD", "LA16c", "CTB"])
            return f"{library}-{self.number(2, 4)}{d.choice(UPPER)}{self.number(1, 2)}.{self.number(1, 2)}"
        if style < 0.90:
            return f"{d.choice(['AC', 'AL', 'AP'])}{self.chars(DIGITS, 6, 6)}.{self.number(1, 1)}"
        if style < 0.95:
            return self.number(1, 2) + "-" + self.chars(UPPER, 2, 4)
        return self.chars(UPPER, 1, 2) + self.number(1, 2) + "." + self.number(1, 3)

    def ensembl(self) -> str:
        return "ENSG" + self.chars(DIGITS, 11, 11)

    def rs_number(self) -> str:
        return self.number(*self.draw.choice([(5, 8), (9, 9), (10, 10), (10, 10)]))

    def chromosome(self) -> str:
        return self.draw.choice([*map(str, range(1, 23)), "X", "Y"])

    def band(self, chromosome: str) -> str:
        arm, tail = self.draw.choice("pq"), self.draw.choice(["", f".{self.number(1, 1)}", f".{self.number(2, 2)}"])
        return f"{chromosome}{arm}{self.draw.randint(11, 36)}{tail}"

    def word(self) -> str:
        d = self.draw
        if d.random() < 0.6:
            return d.choice(self._words)
        prefixes, stems, suffixes = affixes()
        return d.choice(["", d.choice(prefixes)]) + d.choice(stems) + d.choice(suffixes)

    def phrase(self, low: int, high: int) -> str:
        return " ".join(self.word() for _ in range(self.draw.randint(low, high)))

    def gene_name(self, kind: GeneType) -> str:
        base = self.phrase(1, 5) + self.draw.choice(["", f" {self.number(1, 2)}"])
        if kind == "pseudogene":
            return f"{base} pseudogene {self.number(1, 2)}"
        if kind == "ncRNA":
            endings = ["antisense RNA 1", "long intergenic non-protein coding RNA", "host gene", "divergent transcript"]
            return f"{base} {self.draw.choice(endings)}"
        return base

    def summary(self) -> str:
        """Sentences as the summaries of genes have them: clauses, brackets, capitals, a reference now and then."""
        sentences = []
        for _ in range(self.draw.choice([1, 1, 2, 2, 3, 4, 5])):
            words = self.phrase(4, 18).split()
            if self.draw.random() < 0.3:
                words.insert(self.draw.randrange(len(words)), self.symbol())
            if self.draw.random() < 0.15:
                words.insert(self.draw.randrange(len(words)), f"({self.phrase(1, 3)})")
            if self.draw.random() < 0.5:
                words[self.draw.randrange(len(words))] += self.draw.choice([",", ";", "-" + self.word()])
            if self.draw.random() < 0.06:
                words.append(
                    f"({self.word().capitalize()} et al., {self.draw.randint(1990, 2022)} [PubMed {self.number(7, 8)}])"
                )
            sentences.append(" ".join(words).capitalize() if self.draw.random() < 0.8 else " ".join(words))
        return ". ".join(s[:1].upper() + s[1:] for s in sentences) + "."

    def gene(self, **fixed: object) -> GeneRecord:
        """A gene record; ``fixed`` overrides any of its fields."""
        d = self.draw
        organism = str(fixed.get("organism") or "human")
        chromosome = (
            self.chromosome()
            if organism == "human"
            else d.choice([str(d.randint(1, 30)), "X", "2R", "IV", "Un", "VIII", ""])
        )
        kinds: list[GeneType] = ["protein-coding", "pseudogene", "ncRNA"]
        kind = d.choices(kinds, [6, 2, 2])[0]
        symbol = self.symbol()
        if organism in ("mouse", "rat"):
            symbol = symbol.capitalize()
        elif organism in ("zebrafish", "worm", "tropical clawed frog"):
            symbol = symbol.lower()
        values: dict[str, object] = {
            "uid": self.gene_id(),
            "symbol": symbol,
            "name": self.gene_name(kind),
            "organism": organism,
            "chromosome": chromosome,
            "location": self.band(chromosome)
            if organism == "human"
            else d.choice(["", f"{chromosome} {d.randint(1, 90)}.{d.randint(1, 99)} cM"]),
            "aliases": tuple(self.alias() for _ in range(d.choice([0, 1, 1, 2, 2, 3, 4, 6]))),
            "gene_type": kind,
            "summary": self.summary() if kind == "protein-coding" and d.random() < 0.55 else "",
        }
        return GeneRecord(**(values | fixed))  # type: ignore[arg-type]  # the keys are the record's own

    def disease(self) -> str:
        """A disease as a person writes it."""
        d = self.draw
        words = self.phrase(1, 6).split()
        if d.random() < 0.2:
            words.insert(d.randrange(len(words) + 1), d.choice(["type", "with", "due to", "X-linked", "and"]))
        if d.random() < 0.35:
            words.append(
                d.choice(
                    [
                        self.number(1, 2),
                        self.number(1, 1) + d.choice("ABC"),
                        d.choice(["I", "II", "III", "IV", "Ic", "IIb"]),
                        "syndrome",
                    ]
                )
            )
        if d.random() < 0.08:
            words[-1] += f"/{self.word()}"
        if d.random() < 0.1:
            words[0] += d.choice(["-", "'s "]) + self.word()
        text = " ".join(words)
        return text[:1].upper() + text[1:]

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

    def dna(self) -> str:
        """80 to 200 letters; now and then with the repeats real sequences have."""
        text = self.chars("ACGT", 70, 150)
        if self.draw.random() < 0.3:
            at, unit = self.draw.randrange(len(text)), self.chars("ACGT", 1, 3)
            text = text[:at] + unit * self.draw.randint(4, 16) + text[at:]
        return text

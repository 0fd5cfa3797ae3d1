"""Draw random identifiers in the shapes of NCBI's. None of them is a fact."""

from __future__ import annotations

import random
import re
import string
from dataclasses import dataclass

UPPER, LOWER, DIGITS = string.ascii_uppercase, string.ascii_lowercase, string.digits


@dataclass(frozen=True, slots=True)
class Identifiers:
    """Draws everything from one seeded source."""

    draw: random.Random

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
        upto = f"-{arm}{self.draw.randint(11, 36)}" if self.draw.random() < 0.08 else ""
        return f"{chromosome}{arm}{self.draw.randint(11, 36)}{tail}{upto}"

    def relative(self, symbol: str) -> str:
        """A name that shares most of its letters with ``symbol``: an older form, a family member, another spelling."""
        d = self.draw
        kind = d.random()
        digits = re.search(r"\d+", symbol)
        if kind < 0.25 and digits:
            return symbol[: digits.start()] + self.number(1, 2) + symbol[digits.end() :]
        if kind < 0.4 and digits and digits.start():
            return f"{symbol[: digits.start()]}-{symbol[digits.start() :]}"
        if kind < 0.55:
            return symbol + d.choice(["P", "A", "B", "L", "1", "2", "P1", "-1", ".1", "ps", "HG", "-AS1"])
        if kind < 0.65:
            return d.choice("hmcnpst") + symbol
        if kind < 0.75 and len(symbol) > 4:
            return symbol[:-1]
        if kind < 0.85 and len(symbol) > 4:
            at = d.randrange(1, len(symbol))
            return symbol[:at] + d.choice(UPPER) + symbol[at + d.randint(0, 1) :]
        if kind < 0.93:
            return d.choice([symbol.lower(), symbol.capitalize(), symbol.upper()])
        return d.choice(["", f"{self.symbol()}-"]) + symbol + d.choice(["", f"-{self.symbol()}"])

    def dna(self) -> str:
        """70 to 200 letters; now and then with the repeats real sequences have."""
        text = self.chars("ACGT", 70, 150)
        if self.draw.random() < 0.3:
            at, unit = self.draw.randrange(len(text)), self.chars("ACGT", 1, 3)
            text = text[:at] + unit * self.draw.randint(4, 16) + text[at:]
        return text

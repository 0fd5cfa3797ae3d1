"""Draw random names, titles and sentences. Any text works: the model learns to copy, not what words mean.

Half of it consists of words, half of pieces of words in any order, so that no sequence of tokens can be predicted from
its likelihood and copying is the only way to reproduce it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from retrieval.ncbi.replies.records import GeneType
from scripts.embedded.identifiers import LOWER, Identifiers
from scripts.embedded.words import affixes, common_words

# Short turns that come again and again in one summary: only what stands further back tells where a copy is.
_FREQUENT = (
    *("of", "the", "and", "in", "to", "a", "protein", "binding", "activity", "involved in", "gene", "of the"),
    *("in the", "to the", "and the", "by the", "is a", "member of the", "this gene", "the protein", "regulation of"),
    *("of this gene", "encoded by this gene", "has been", "and is", "that is", "of the protein", "as well as"),
)


@dataclass(frozen=True, slots=True)
class Prose(Identifiers):
    _words: list[str] = field(default_factory=common_words)

    def word(self) -> str:
        d = self.draw
        kind = d.random()
        if kind < 0.45:
            return d.choice(self._words)
        if kind < 0.65:
            prefixes, stems, suffixes = affixes()
            return d.choice(["", d.choice(prefixes)]) + d.choice(stems) + d.choice(suffixes)
        if kind < 0.93:
            return self.invented()
        return d.choice([self.invented().capitalize(), self.symbol(), self.number(1, 4), f"{self.invented()}'s"])

    def invented(self) -> str:
        """Syllables and letters that make no word."""
        d = self.draw
        text = ""
        for _ in range(d.randint(1, 4)):
            text += d.choice("bcdfghjklmnprstvwz") + d.choice("aeiouy") + d.choice(["", d.choice(LOWER)])
        return text

    def phrase(self, low: int, high: int) -> str:
        words = [self.word() for _ in range(self.draw.randint(low, high))]
        if self.draw.random() < 0.12:
            words[self.draw.randrange(len(words))] += f"-{self.word()}"
        return " ".join(words)

    def gene_name(self, kind: GeneType, symbol: str) -> str:
        d = self.draw
        base = self.phrase(1, 5) + d.choice(["", f" {self.number(1, 2)}", f" {symbol[-1]}", f", {self.phrase(1, 3)}"])
        if kind == "pseudogene":
            return d.choice([f"{base} pseudogene", f"{base} pseudogene {self.number(1, 2)}", f"{symbol} pseudogene 1"])
        if kind == "ncRNA":
            endings = ["antisense RNA 1", "long intergenic non-protein coding RNA", "host gene", "divergent transcript",
                       "long non-coding RNA", "transcript antisense RNA", "microRNA"]  # fmt: skip
            return f"{d.choice([base, symbol])} {d.choice(endings)}"
        return d.choice(
            [base, base, base, base, f"{symbol} readthrough", f"{base} (inactive)", f"uncharacterized {base}"]
        )

    def summary(self) -> str:
        """Sentences as the summaries of genes have them: clauses, brackets, capitals, a reference now and then."""
        sentences = [self._sentence() for _ in range(self.draw.choice([1, 1, 2, 3]))]
        return ". ".join(s[:1].upper() + s[1:] for s in sentences) + "."

    def _sentence(self) -> str:
        d = self.draw
        words = self.phrase(4, 30).split()
        for at in range(len(words)):
            kind = d.random()
            if kind < 0.35:
                words[at] = d.choice(_FREQUENT)
            elif kind < 0.5:  # prose repeats itself
                words[at] = words[d.randrange(len(words))]
        if d.random() < 0.3:
            words.insert(d.randrange(len(words)), self.symbol())
        if d.random() < 0.15:
            words.insert(d.randrange(len(words)), f"({d.choice([self.phrase(1, 3), self.symbol()])})")
        for _ in range(d.choice([0, 0, 1, 1, 2, 4])):
            words[d.randrange(len(words))] += d.choice([",", ",", ",", ";", "/" + self.word()])
        if d.random() < 0.06:
            cited = f"{self.word().capitalize()} et al., {d.randint(1990, 2022)} [PubMed {self.number(7, 8)}]"
            words.append(f"({cited})")
        starts = ["This gene encodes", "The protein encoded by this gene", "Predicted to enable", "Involved in",
                  "Located in", "Part of", "Implicated in", "Predicted to be involved in", "Enables"]  # fmt: skip
        return " ".join([d.choice(starts), *words] if d.random() < 0.4 else words)

    def disease(self) -> str:
        """A disease as a person writes it."""
        d = self.draw
        words = self.phrase(1, 6).split()
        if d.random() < 0.2:
            words.insert(d.randrange(len(words) + 1), d.choice(["type", "with", "due to", "X-linked", "and", "of"]))
        if d.random() < 0.35:
            numbered = [
                self.number(1, 2),
                self.number(1, 1) + d.choice("ABC"),
                d.choice(["I", "II", "IV", "Ic", "IIb"]),
            ]
            words.append(d.choice([*numbered, "syndrome", "deficiency", "disease"]))
        if d.random() < 0.08:
            words[-1] += f"/{self.word()}"
        if d.random() < 0.12:
            words[0] += d.choice(["-", "'s "]) + self.word()
        text = " ".join(words).replace("''", "'")
        return text[:1].upper() + text[1:]

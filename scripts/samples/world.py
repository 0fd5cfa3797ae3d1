"""Define what the sample files share: identifiers, symbols and words. Everything is invented.

Numbers are outside NCBI's own ranges, so that a sample never changes a real record in a store: GeneIDs from 900000001,
PMIDs from 90000001, rs numbers from 9000000001, MIM numbers from 700000, CUIs from C9000000, ClinVar variations from
9000001.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

_ONSETS: Final = "BCDFGHJKLMNPRSTVWXYZ"
_NUCLEI: Final = "AEIOU"
TAX_IDS: Final = (9606, 9606, 9606, 9606, 9606, 10090, 10090, 10116, 7955, 7227, 6239, 559292, 3702, 9913, 9000001)
CHROMOSOMES: Final = (*map(str, range(1, 23)), "X", "Y", "MT")
_SYLLABLES: Final = ("bra", "cor", "del", "fin", "gal", "hep", "iso", "kar", "lum", "mor", "nep", "osi", "per", "qua",
                     "ren", "sol", "tri", "ura", "ven", "xan", "zyl")  # fmt: skip
_ENDINGS: Final = ("ase", "in", "osis", "itis", "emia", "opathy", "oma", "gen", "plasia", "ate")
_SURNAMES: Final = ("Álvarez", "Brønsted", "Čapek", "Dùbhglas", "Eðvaldsson", "Ferreira", "Grünwald", "Hašek", "Ito",
                    "Jørgensen", "Kowalczyk", "Łukasik", "Müller", "Nguyễn", "O'Hara", "Pérez-Gómez", "Qureshi",
                    "Rossi", "Söderström", "Tanaka", "Ünal", "van der Berg", "Wójcik", "Xu", "Yılmaz", "Žižka", "李",
                    "Петров", "Παπαδόπουλος")  # fmt: skip
_FORENAMES: Final = ("Anna Maria", "Bjørn", "Chloé", "Dmitri I", "Émile", "Fatma", "George H W", "Hiroshi", "Ines",
                     "Jean-Pierre", "Kim", "Léa", "Mary Ann", "Noor", "Olga")  # fmt: skip
_WORDS: Final = (
    "activity", "affected", "analysis", "and", "assay", "between", "binding", "by", "cells", "clinical", "cohort",
    "compared", "control", "decreased", "dependent", "effect", "expression", "factor", "families", "followed", "for",
    "human", "identified", "in", "increased", "interaction", "levels", "loss", "model", "mutation", "of", "patients",
    "pathway", "protein", "rare", "reduced", "regulation", "response", "risk", "role", "screening", "serum", "severe",
    "study", "the", "therapy", "tissue", "treatment", "variant", "with", "β-catenin", "<i>in vivo</i>", "&lt;",
    "p&gt;0.05", "CO<sub>2</sub>",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class World:
    """``genes``, ``snps`` and ``articles`` say how many there are, so that files refer only to what others hold."""

    seed: int = 1
    genes: int = 1000
    snps: int = 1000
    articles: int = 1000

    def rng(self, purpose: str) -> random.Random:
        """A stream of its own for each file: one file's size does not change another."""
        return random.Random(f"{self.seed} {purpose}")

    def gene_id(self, index: int) -> int:
        return 900_000_001 + index % max(1, self.genes)

    def tax_id(self, index: int) -> int:
        """Of one gene in three at least human, whatever else."""
        return TAX_IDS[index * 7 % len(TAX_IDS)]

    def pmid(self, index: int) -> int:
        return 90_000_001 + index % max(1, self.articles)

    def rs(self, index: int) -> int:
        return 9_000_000_001 + index % max(1, self.snps)

    def symbol(self, index: int) -> str:
        """Distinct for each gene: ZOBA7, after the index."""
        rest, digit = divmod(index % max(1, self.genes), 9)
        letters = ""
        for place in range(4):
            alphabet = _NUCLEI if place % 2 else _ONSETS
            rest, at = divmod(rest, len(alphabet))
            letters += alphabet[at]
        return f"{letters}{_ONSETS[rest % 20] if rest else ''}{digit + 1}"


def mim(index: int) -> int:
    return 700_000 + index % 290_000


def cui(index: int) -> str:
    """Every fifth is one of NCBI's own."""
    return f"CN{900_000 + index % 99_999:06}" if index % 5 == 4 else f"C{9_000_000 + index % 999_999:07}"


def pick(rng: random.Random, options: tuple[str, ...]) -> str:
    return options[int(rng.random() * len(options))]


def term(rng: random.Random) -> str:
    """ "corlumase"."""
    return pick(rng, _SYLLABLES) + pick(rng, _SYLLABLES) + pick(rng, _ENDINGS)


def disease(index: int) -> str:
    """Distinct for each index below 441000: "Brafinosis, solate type 4"."""
    rest, digit = divmod(index, 10)
    rest, ending = divmod(rest, len(_ENDINGS))
    rest, second = divmod(rest, len(_SYLLABLES))
    kind, first = divmod(rest, len(_SYLLABLES))
    name = (_SYLLABLES[first] + _SYLLABLES[second] + _ENDINGS[ending]).capitalize()
    return f"{name}, {_SYLLABLES[kind % len(_SYLLABLES)]}ate type {digit + 1}"


def prose(rng: random.Random, words: int) -> str:
    """A sentence as XML text: it has entities and inline markup."""
    text = " ".join(term(rng) if rng.random() < 0.2 else pick(rng, _WORDS) for _ in range(words))
    return text[0].upper() + text[1:] + "."


def author(rng: random.Random) -> tuple[str, str]:
    """(surname, given names)."""
    return pick(rng, _SURNAMES), pick(rng, _FORENAMES)

"""Spell text as Entrez does: Greek letters by their names, one kind of hyphen."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

# Hyphens, dashes and minus signs that stand for "-" in names; not the long dashes between clauses, nor raised signs.
_HYPHENS: Final = frozenset("\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d")
_WORDS_OF_NAMES: Final = frozenset({"GREEK", "COPTIC", "SMALL", "CAPITAL", "LETTER", "FINAL", "LUNATE", "SYMBOL"})
# Name of a letter -> the letter.
GREEK_LETTERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ",
        "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "omicron": "ο", "pi": "π",
        "rho": "ρ", "sigma": "σ", "tau": "τ", "upsilon": "υ", "phi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω",
    }
)  # fmt: skip


def entrez_spelling(text: str) -> str:
    """Return the text with "beta" for β, "Delta" for Δ and "-" for typographic hyphens; all else stays.

    "TGF-β1" is TGF-beta1, "NF-κB" NF-kappaB.
    """
    return text if text.isascii() else "".join(map(_spelled, text))


@lru_cache(maxsize=1024)
def _spelled(char: str) -> str:
    if char.isascii():
        return char
    if char in _HYPHENS:
        return "-"
    if char == "\u00b5":  # the micro sign
        return "mu"
    name = unicodedata.name(char, "")
    if not name.startswith("GREEK "):
        return char
    letter = next((word for word in name.split() if word not in _WORDS_OF_NAMES), "")
    # Unicode writes one of them in another way.
    letter = "lambda" if letter == "LAMDA" else letter.lower()
    if letter not in GREEK_LETTERS:
        return char
    return letter.capitalize() if " CAPITAL " in name else letter

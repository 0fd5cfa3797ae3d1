"""Normalize letters, digits, hyphens and primes for the tokenizer, with offsets into the original text."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

GREEK: Final = {
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "ε": "epsilon",
    "ζ": "zeta",
    "η": "eta",
    "θ": "theta",
    "ι": "iota",
    "κ": "kappa",
    "λ": "lambda",
    "μ": "mu",
    "ν": "nu",
    "ξ": "xi",
    "ο": "omicron",
    "π": "pi",
    "ρ": "rho",
    "σ": "sigma",
    "τ": "tau",
    "υ": "upsilon",
    "φ": "phi",
    "χ": "chi",
    "ψ": "psi",
    "ω": "omega",
}
_ONE_FORM: Final = {
    **dict.fromkeys("‐‑‒–—―−⁻₋﹣－˗⁃", "-"),
    **dict.fromkeys("’‘ʼ′ʹ´`ʹ", "'"),
    **dict.fromkeys("⁺₊＋", "+"),
    "×": " ",
    "·": ".",
    "∙": ".",
    "⁄": "/",
    "→": ">",
}
_UNSEEN: Final = frozenset({"Mn", "Cf", "Cs"})
_CLUSTER: Final = re.compile(r"[^\u0300-\u036f][\u0300-\u036f]*|[\u0300-\u036f]+", re.DOTALL)


class Normalised(NamedTuple):
    """Hold a normalized text with its offsets.

    Character i of ``text`` stands for ``starts[i]``..``ends[i]`` of the original.
    """

    text: str
    starts: tuple[int, ...] | range
    ends: tuple[int, ...] | range


def normalise(text: str) -> Normalised:
    """Apply NFKC and case folding, drop accents, and unify hyphens, minus signs, primes and arrows.

    Invisible characters (zero width, soft hyphen) are dropped; a raised digit after a digit is separated by ``^``, so
    that 10⁶ is not 106.
    """
    if text.isascii():
        return Normalised(text.lower(), range(len(text)), range(1, len(text) + 1))
    out: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for cluster in _CLUSTER.finditer(text):
        plain = _plain(cluster[0])
        if plain[:1].isdecimal() and out and out[-1].isdecimal() and _begins_raised(text, cluster.start()):
            plain = "^" + plain
        out.extend(plain)
        starts.extend([cluster.start()] * len(plain))
        ends.extend([cluster.end()] * len(plain))
    return Normalised("".join(out), tuple(starts), tuple(ends))


def _plain(cluster: str) -> str:
    known = _ONE_FORM.get(cluster)
    if known is not None:
        return known
    folded = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", cluster).casefold())
    seen = (char for char in folded if unicodedata.category(char) not in _UNSEEN)
    return "".join(_ONE_FORM.get(char, char) for char in seen)


def _begins_raised(text: str, place: int) -> bool:
    return _raised(text[place]) and not _raised(text[place - 1])


def _raised(char: str) -> bool:
    return unicodedata.decomposition(char).startswith(("<super>", "<sub>"))

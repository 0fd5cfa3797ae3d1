"""Name the organisms of common questions, as in NCBI Taxonomy; any other keeps its scientific name."""

from __future__ import annotations

import re

_COMMON = {
    "homo sapiens": "human",
    "mus musculus": "mouse",
    "rattus norvegicus": "rat",
    "danio rerio": "zebrafish",
    "caenorhabditis elegans": "worm",
    "saccharomyces cerevisiae": "yeast",
    "gallus gallus": "chicken",
    "drosophila melanogaster": "fruit fly",
    "bos taurus": "cattle",
    "sus scrofa": "pig",
    "canis lupus": "dog",
    "pan troglodytes": "chimpanzee",
    "macaca mulatta": "rhesus monkey",
    "xenopus laevis": "African clawed frog",
    "xenopus tropicalis": "tropical clawed frog",
    "arabidopsis thaliana": "thale cress",
    "schizosaccharomyces pombe": "fission yeast",
    "oryctolagus cuniculus": "rabbit",
    "ovis aries": "sheep",
    "equus caballus": "horse",
    "felis catus": "cat",
}
# NCBI's common names that differ from the one word people use.
_SHORT = {"house mouse": "mouse", "norway rat": "rat", "brown rat": "rat", "baker's yeast": "yeast"}

_LEADING_COMMON = frozenset({"Human", "Mouse", "Rat", "Zebrafish", "Chicken", "Yeast"})
_NOT_A_SPECIES = frozenset({"synthetic", "clone", "sequence", "vector", "construct", "chromosome"})


def common_name(scientific: str, common: str = "") -> str:
    """Return the everyday name ("mouse"), else NCBI's common name, else the scientific name unchanged."""
    words = scientific.lower().split()
    known = _COMMON.get(" ".join(words[:2]))
    return known or _SHORT.get(common.lower(), common) or scientific


def is_organism(name: str) -> bool:
    """Return whether the whole text is one of the known names, scientific or common."""
    plain = " ".join(name.lower().split())
    return plain in _COMMON or plain in _SHORT or any(plain == common.lower() for common in _COMMON.values())


def species_of_title(title: str) -> str:
    """Return the common name of the species at the start of a nucleotide definition line, "" if there is none."""
    text = title
    for lead in ("PREDICTED:", "TPA:", "TPA_inf:", "TPA_asm:", "UNVERIFIED:", "UNVERIFIED_ORG:", "MAG:"):
        text = text.removeprefix(lead).strip()
    words = text.split()
    if words and words[0] in _LEADING_COMMON:
        return words[0].lower()
    if len(words) < 2 or not words[0][:1].isupper() or not words[1][:1].islower():
        return ""
    return "" if words[1] in _NOT_A_SPECIES else common_name(" ".join(words[:2]))


def organism_in(question: str) -> str:
    """Return the common name of the organism in a question ("… in mouse?", "of Danio rerio"), "" if there is none."""
    text = f" {' '.join(re.findall(r'[a-z]+', question.lower()))} "
    return next((name for names in _COMMON.items() for name in names[1:] if any(f" {n} " in text for n in names)), "")

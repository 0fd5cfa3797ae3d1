"""Know MeSH's subheadings: the codes by which searches name them, and the narrower ones that a search finds with each.

After the National Library of Medicine's list of 76 and its hierarchies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

_NAMES: Final[Mapping[str, str]] = MappingProxyType({
    "aa": "analogs & derivatives",
    "ab": "abnormalities",
    "ad": "administration & dosage",
    "ae": "adverse effects",
    "ag": "agonists",
    "ah": "anatomy & histology",
    "ai": "antagonists & inhibitors",
    "an": "analysis",
    "bi": "biosynthesis",
    "bl": "blood",
    "bs": "blood supply",
    "cf": "cerebrospinal fluid",
    "ch": "chemistry",
    "ci": "chemically induced",
    "cl": "classification",
    "cn": "congenital",
    "co": "complications",
    "cs": "chemical synthesis",
    "cy": "cytology",
    "de": "drug effects",
    "df": "deficiency",
    "dg": "diagnostic imaging",
    "dh": "diet therapy",
    "di": "diagnosis",
    "dt": "drug therapy",
    "ec": "economics",
    "ed": "education",
    "eh": "ethnology",
    "em": "embryology",
    "en": "enzymology",
    "ep": "epidemiology",
    "es": "ethics",
    "et": "etiology",
    "gd": "growth & development",
    "ge": "genetics",
    "hi": "history",
    "im": "immunology",
    "in": "injuries",
    "ip": "isolation & purification",
    "ir": "innervation",
    "is": "instrumentation",
    "lj": "legislation & jurisprudence",
    "me": "metabolism",
    "mi": "microbiology",
    "mo": "mortality",
    "mt": "methods",
    "nu": "nursing",
    "og": "organization & administration",
    "pa": "pathology",
    "pc": "prevention & control",
    "pd": "pharmacology",
    "ph": "physiology",
    "pk": "pharmacokinetics",
    "po": "poisoning",
    "pp": "physiopathology",
    "ps": "parasitology",
    "px": "psychology",
    "py": "pathogenicity",
    "re": "radiation effects",
    "rh": "rehabilitation",
    "rt": "radiotherapy",
    "sc": "secondary",
    "sd": "supply & distribution",
    "sn": "statistics & numerical data",
    "st": "standards",
    "su": "surgery",
    "td": "trends",
    "th": "therapy",
    "tm": "transmission",
    "to": "toxicity",
    "tr": "transplantation",
    "tu": "therapeutic use",
    "ul": "ultrastructure",
    "ur": "urine",
    "ve": "veterinary",
    "vi": "virology",
})  # fmt: skip
_NARROWER: Final[Mapping[str, str]] = MappingProxyType({
    "ae": "po to",
    "ah": "bs cy em ir pa",
    "an": "bl cf ip ur",
    "ch": "ag aa ai cs",
    "co": "sc",
    "cy": "ul",
    "di": "dg pa",
    "em": "ab",
    "ep": "eh mo",
    "et": "ci co cn em ge im mi ps tm",
    "me": "bi bl cf df en pk ur",
    "mi": "vi",
    "og": "ec lj st sd td",
    "pd": "ad ae ag ai pk",
    "ph": "ge gd im me pp",
    "sn": "ep sd",
    "su": "tr",
    "th": "dh dt nu pc rt rh su",
    "tu": "ad ae po",
})  # fmt: skip

_CODES: Final[Mapping[str, str]] = MappingProxyType({name: code for code, name in _NAMES.items()})


def subheadings_of(text: str, *, exploded: bool = True) -> tuple[str, ...]:
    """Return the names of a subheading, written as name or code, and of those below it; the text itself if unknown."""
    written = " ".join(text.lower().split()).replace(" and ", " & ")
    code = written if written in _NAMES else _CODES.get(written)
    if code is None:
        return (text,)
    return tuple(dict.fromkeys(_NAMES[one] for one in (_below(code) if exploded else [code])))


def _below(code: str) -> Iterator[str]:
    yield code
    for narrower in _NARROWER.get(code, "").split():
        yield from _below(narrower)

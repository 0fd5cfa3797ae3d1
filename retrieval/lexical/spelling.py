"""Give spellings of one word or biomedical name the same terms: British and American, Greek and Latin letters. Pure.

A word's key is no stem and need not be a word; it is the same for passages and queries, singular and plural. A rule
that changes a word it was not meant for therefore does no harm, unless two words of different meaning meet.

A name is written as the parts (texts, whether each is a number or a Greek letter's name) that ``tokens`` links, and is
found under further terms:

    PD-L1, PDL1             pdl1            all parts of a name of three or more, joined
    NF-κB, NFkB             nfkb            the Latin letter that stands for a Greek one
    TNF-α, TNFA             tnfa
    p.Val600Glu, V600E      v600e           one letter for an amino acid
    microRNA-21, miR-21     mir21
    Hb A1c, HbA1c           hba1c
    p53, TP53               queries alone ask for both
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

# Latin, Greek and old English plurals that no rule below describes.
_IRREGULAR: Final = MappingProxyType(
    {
        "mice": "mouse",
        "lice": "louse",
        "women": "woman",
        "men": "man",
        "children": "child",
        "feet": "foot",
        "teeth": "tooth",
        "oxen": "ox",
        "bacteria": "bacterium",
        "criteria": "criterion",
        "phenomena": "phenomenon",
        "mitochondria": "mitochondrion",
        "ganglia": "ganglion",
        "taxa": "taxon",
        "spectra": "spectrum",
        "symposia": "symposium",
        "ovaria": "ovarium",
        "nuclei": "nucleus",
        "nucleoli": "nucleolus",
        "fungi": "fungus",
        "loci": "locus",
        "foci": "focus",
        "stimuli": "stimulus",
        "thrombi": "thrombus",
        "emboli": "embolus",
        "bacilli": "bacillus",
        "alveoli": "alveolus",
        "bronchi": "bronchus",
        "calculi": "calculus",
        "glomeruli": "glomerulus",
        "villi": "villus",
        "uteri": "uterus",
        "humeri": "humerus",
        "genera": "genus",
        "sera": "serum",
        "septa": "septum",
        "atria": "atrium",
        "crania": "cranium",
        "epithelia": "epithelium",
        "endothelia": "endothelium",
        "media": "medium",
        "vertebrae": "vertebra",
        "larvae": "larva",
        "bursae": "bursa",
        "fistulae": "fistula",
        "papillae": "papilla",
        "petechiae": "petechia",
        "sequelae": "sequela",
        "indices": "index",
        "appendices": "appendix",
        "matrices": "matrix",
        "cortices": "cortex",
        "vertices": "vertex",
        "apices": "apex",
        "viscera": "viscus",
        "carcinomata": "carcinoma",
        "stigmata": "stigma",
        "stomata": "stoma",
        "crises": "crisis",
        "testes": "testis",
        "penes": "penis",
        "pancreas": "pancreas",
        "diabetes": "diabetes",
        "herpes": "herpes",
        "rabies": "rabies",
        "caries": "caries",
        "scabies": "scabies",
        "species": "species",
        "series": "series",
        "faeces": "feces",
        "ascites": "ascites",
        "chlamydiae": "chlamydia",
    }
)
# Words in -oses whose singular is -ose: sugars, doses and everyday words. The others are conditions in -osis.
_OSE: Final = re.compile(
    r"(?:.*(?:gluc|fruct|lact|malt|sucr|galact|mann|cellul|rib|xyl|trehal|amyl|agar|dextr)|.*(?:purp|prop|exp|supp|comp"
    r"|disp|imp|overd|dise)|d|r|l|n|h|p|cl|cho|whose|th|g|m)oses?"
)
_PLURALS: Final = (
    (re.compile(r"(.*[^aeiou])yses"), r"\1ysis"),
    (re.compile(r"(meta|homeo|hemo|haemo|chole|sta)stases"), r"\1stasis"),
    (re.compile(r"((?:.*hypo|.*syn|.*pros|paren|epen)th|.*diur|.*par|.*gen|.*kin)eses"), r"\1esis"),
)
_OSES: Final = re.compile(r"(.{3,})oses")
# British spellings by what stands around them: "ae" and "oe" alone are in "aerobic" and "does" as well.
_DIGRAPHS: Final = re.compile(
    r"haem|aemi|anaesth|paed|gynaec|caec|faec|aetio|aesth|naev|praem|taen|oedem|oesoph|oestr|foet|rrhoe|coeli|amoeb"
    r"|pnoe|oecolog|caesar|leukaem|glycaem"
)
_BRITISH: Final = (
    (re.compile(r"homoeo"), "homeo"),
    (re.compile(r"manoeuv"), "maneuv"),
    (re.compile(r"(tum|col|behavi|lab|fav|hum|od|vap|neighb|rum|vig|rig|harb|endeav)our"), r"\1or"),
    (re.compile(r"(.{3,})is(ation|ations|e|ed|es|er|ers|ing|able)$"), r"\1iz\2"),
    (re.compile(r"(anal|dial|paral|catal|hydrol|electrol)ys(e|ed|er|ers|ing)$"), r"\1yz\2"),
    (re.compile(r"^((?:milli|centi|kilo|nano|micro|deci)?(?:metr|litr)|fibr|centr|theatr|calibr)e$"), r"\1"),
    (re.compile(r"sulph"), "sulf"),
    (re.compile(r"(label|model|signal|travel|counsel|channel|cancel|tunnel)l(ed|ing|er)"), r"\1\2"),
    (re.compile(r"programme$"), "program"),
    (re.compile(r"^grey$"), "gray"),
    (re.compile(r"^leuc(?=ocyt|open|em)"), "leuk"),
    (re.compile(r"^ageing$"), "aging"),
)
_AMERICAN_ER: Final = re.compile(r"^((?:milli|centi|kilo|nano|micro|deci)?(?:met|lit)|fib|cent|theat|calib)er$")
_SHORTEST: Final = 5
_LONGEST: Final = 8
_LONGEST_WORD: Final = 5
# Letters that gene symbols use in place of Greek ones (TNF-α: TNFA, IFN-γ: IFNG, NF-κB: NFKB).
_LATIN: Final = MappingProxyType(
    {
        "alpha": "a",
        "beta": "b",
        "gamma": "g",
        "delta": "d",
        "epsilon": "e",
        "zeta": "z",
        "kappa": "k",
        "lambda": "l",
        "sigma": "s",
        "theta": "q",
        "omega": "o",
    }
)
_AMINO_ACIDS: Final = MappingProxyType(
    {
        "ala": "a",
        "arg": "r",
        "asn": "n",
        "asp": "d",
        "cys": "c",
        "gln": "q",
        "glu": "e",
        "gly": "g",
        "his": "h",
        "ile": "i",
        "leu": "l",
        "lys": "k",
        "met": "m",
        "phe": "f",
        "pro": "p",
        "ser": "s",
        "thr": "t",
        "trp": "w",
        "tyr": "y",
        "val": "v",
        "ter": "x",
    }
)
_MICRO_RNA: Final = frozenset(("mirna", "microrna", "mirnas", "micrornas"))
# Names of proteins that are commoner than the symbols of their genes (HGNC).
_SAME: Final = (
    ("p53", "tp53"),
    ("her2", "erbb2"),
    ("pdl1", "cd274"),
    ("pd1", "pdcd1"),
    ("p21", "cdkn1a"),
    ("p27", "cdkn1b"),
    ("oct4", "pou5f1"),
    ("cox2", "ptgs2"),
    ("trkb", "ntrk2"),
    ("cd20", "ms4a1"),
    ("bcma", "tnfrsf17"),
    ("rankl", "tnfsf11"),
    ("gcsf", "csf3"),
    ("mcp1", "ccl2"),
    ("sdf1", "cxcl12"),
    ("glut4", "slc2a4"),
    ("sglt2", "slc5a2"),
    ("nav1.7", "scn9a"),
)
ALIASES: Final = MappingProxyType({**dict(_SAME), **{other: one for one, other in _SAME}})


def word_key(word: str) -> str:
    """Return the key of a folded word in small letters.

    Words of less than five letters are left alone, apart from irregular plurals.
    """
    known = _IRREGULAR.get(word)
    if known is not None:
        return known
    if len(word) < _SHORTEST or not word.isascii():
        return _singular(word)
    return _american(_singular(word))


def _american(word: str) -> str:
    word = _DIGRAPHS.sub(lambda found: found[0].replace("ae", "e").replace("oe", "e"), word)
    for british, american in _BRITISH:
        word = british.sub(american, word)
    return _AMERICAN_ER.sub(r"\1r", word)


def _singular(word: str) -> str:
    if len(word) < _SHORTEST or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    for plural, singular in _PLURALS:
        if plural.fullmatch(word):
            return plural.sub(singular, word)
    if (found := _OSES.fullmatch(word)) and not _OSE.fullmatch(word):
        return f"{found[1]}osis"
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")) or (word.endswith("uses") and len(word) > 6):
        return word[:-2]
    return word[:-1]


class Part(NamedTuple):
    """Hold one part of a name."""

    text: str
    is_number: bool = False
    is_greek: bool = False


def joined(parts: Sequence[Part]) -> str:
    """Return one term for the parts; digits keep a dot between them, as 15:01 is not 1501."""
    out = parts[0].text if parts else ""
    for one, two in pairwise(parts):
        out += f".{two.text}" if one.is_number and two.is_number else two.text
    return out


def variants(name: Sequence[Part]) -> Iterator[tuple[int, str]]:
    """Yield (first part, term) for the other spellings of a name of linked parts.

    Names of letters alone, such as "state-of-the-art", have none: their joins would be many and of no use.
    """
    if not 2 <= len(name) <= _LONGEST or not any(part.is_number or part.is_greek for part in name):
        return
    for start in range(len(name)):
        for size in (2, 3):
            if len(some := name[start : start + size]) == size:
                if size == 3:
                    yield start, joined(some)
                yield from ((start, term) for term in _rewritten(some))
    if len(name) > 3:
        yield 0, joined(name)
        yield from ((0, term) for term in _latin(name))


def _rewritten(parts: Sequence[Part]) -> Iterator[str]:
    yield from _latin(parts)
    first, second = parts[0], parts[1]
    if len(parts) == 2 and first.text in _MICRO_RNA and second.is_number:
        yield f"mir{second.text}"
    if len(parts) == 3 and second.is_number:
        before, after = _AMINO_ACIDS.get(first.text), _AMINO_ACIDS.get(parts[2].text)
        if before and after:
            yield f"{before}{second.text}{after}"


def _latin(parts: Sequence[Part]) -> Iterator[str]:
    """Yield the symbol with Latin letters for the Greek ones behind its beginning."""
    if parts[0].is_greek or not any(part.text in _LATIN for part in parts if part.is_greek):
        return
    if all(part.is_greek or part.is_number or len(part.text) <= _LONGEST_WORD for part in parts):
        term = joined([Part(_LATIN.get(part.text, part.text) if part.is_greek else part.text) for part in parts])
        if len(term) > 2:
            yield term

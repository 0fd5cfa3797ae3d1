"""Fold the spellings of an English word to one key: British and American, singular and plural. Pure.

A key is no stem and need not be a word; it is the same for passages and queries. A rule that changes a word it was not
meant for therefore does no harm, unless two words of different meaning meet.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

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
